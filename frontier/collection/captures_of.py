"""The captures of a source, in the form of the index: WACZ, WARC, CDX and crawl.log.

What always holds:

1.  Memory does not grow with the file: blocks and lines have a maximum size.
2.  A compressed file may inflate to `frontier.files.MAX_RATIO` times its size; more is
    an error. So bombs cost little.
3.  Nothing is trusted. Lines that are not captures (comments, ``urn:`` records, fetches
    that failed) are skipped; lines that are wrong are reported and skipped.
4.  Of a file at a URL only the parts that are needed are fetched.
"""

from __future__ import annotations

import hashlib
import re
import zipfile
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, NamedTuple, cast

from isal import igzip, isal_zlib

from frontier.cdx.lines import (
    INDEXED,
    LINE_LIMIT,
    Capture,
    capture_of,
    paired,
    read_line,
)
from frontier.collection.sources import Kind, Source
from frontier.dedupe.digest import ALGORITHM, parse, spelled
from frontier.dedupe.digest_index import is_date
from frontier.errors import BadWarc, SourceBroken
from frontier.files import require_ratio
from frontier.postcrawl.payload import payload_in
from frontier.wacz.layout import CDX, UNSOUND, require_sound
from frontier.warc.reader import GZIP, Found, pulled_from
from frontier.warc.records import MAX_URL, digits, target_uri
from frontier.warc.remote_files import is_here, open_file, path_of, state_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Wrong = Callable[[str, bytes, Exception], None]

MAX_SIZE = 10**12
"""Bytes that no record can have: such a size is a lie. WARC files have a few GB, and
the counts of bytes saved are sums of these sizes."""
MAX_INDEXES = 1_000
"""The most index files of one WACZ; py-wacz and Browsertrix write one or two."""
_NOT_STORED = re.compile(r"(?:^|,)(?:warcRevisit:|Revisit:|duplicate(?![A-Za-z]))")
"""Notes in a crawl.log that mark revisits: Heritrix's own, and its DeDuplicator's,
which are ``Revisit:IdenticalPayloadDigest`` in 3.1 and, before that, ``duplicate``,
alone or with a colon and its origin."""
_UNWRITTEN = re.compile(r"(?:^|,)unwritten(?![A-Za-z])")
"""The note on a response that is in no WARC file."""
_IsalError = cast("type[Exception]", isal_zlib.error)
_BROKEN: tuple[type[Exception], ...] = (OSError, _IsalError, *UNSOUND)


class Known(NamedTuple):
    """A capture, in the form of the index."""

    digest: str
    """In the spelling of the index."""
    date: str
    """14, 17 or 20 digits."""
    url: str
    size: int
    """Compressed length of its record in bytes, if it is known."""
    revisit: bool


@contextmanager
def opened(source: Source, *, hashed: bool) -> Iterator[tuple[IO[bytes], int, str]]:
    """The file of *source*, its size, and its SHA-256 in hex, if that is known.

    The hash of a local file must match its manifest; with *hashed* it is computed even
    without one. A file from the network is not read whole, so its hash is taken from
    the manifest.

    Raises:
        SourceBroken: It cannot be read, or does not match its manifest.
    """
    with _named(source.url), open_file(path_of(source.url), ahead=True) as file:
        size, sha256 = state_of(file).size, source.sha256()
        if source.size is not None and source.size != size:
            reason = f"it has {size:,} bytes, its manifest says {source.size:,}"
            raise SourceBroken(source.url, reason)
        if is_here(file) and (hashed or sha256):
            computed = hashlib.file_digest(cast("Any", file), "sha256").hexdigest()
            if sha256 and sha256 != computed:
                reason = f"its SHA-256 is {computed}, its manifest's {sha256}"
                raise SourceBroken(source.url, reason)
            sha256 = computed
        yield file, size, sha256


def captures_of(
    source: Source,
    file: IO[bytes],
    wrong: Wrong,
    digest: str = "",
    progress: Callable[[int], None] = lambda _: None,
) -> Iterator[Known]:
    """The captures of *source*, open as *file*; *wrong* is called for wrong lines.

    The digest of a WARC record that has none is computed. With *digest*, an algorithm,
    it is also computed if the record has one of another algorithm. It is not for a
    revisit, which has no payload, nor if the payload was cut, which would change it.
    *progress* is called with the position in the file.

    Raises:
        SourceBroken: It is cut off, damaged, a bomb, or not what its name says.
    """
    with _named(source.url):
        file.seek(0)
        if source.kind is Kind.WARC:
            given = _of_warc(file, source.url, digest)
        elif source.kind is Kind.WACZ:
            given = _of_wacz(file, source.url)
        else:
            read = of_log if source.kind is Kind.CRAWL_LOG else of_cdx
            given = ((source.url, line, read) for line in _lines(file))
        for number, (name, said, read) in enumerate(given, 1):
            if number % 1_000 == 0:
                progress(file.tell())
            try:
                found = read(said)
            except (ValueError, RecursionError) as error:
                place, text = f"line {number:,}", said
                if isinstance(said, Capture):  # of a WARC, which has no lines
                    place, text = f"record at byte {said.offset:,}", said.url.encode()
                wrong(f"{name}, {place}", text[:80], error)
                continue
            if found is not None:
                yield found


def of_cdx(line: bytes) -> Known | None:
    """The capture of a line of CDXJ, or of CDX with 6, 7, 9 or 11 columns.

    Raises:
        ValueError: The line is wrong.
    """
    _require_whole(line)
    found = read_line(line)
    if found is None or (not found.digest and b" {" not in line):
        return None  # a line about the index; or of CDX, where some have no digest
    return _known(found)


def of_log(line: bytes) -> Known | None:
    """The capture of a line of Heritrix's ``crawl.log``.

    Its size is the uncompressed size of the response: the log has no other.

    Raises:
        ValueError: The line is wrong.
    """
    _require_whole(line)
    # The last of the 12 columns is free text that may have spaces.
    fields = line.decode("utf-8", "replace").split(None, 11)
    if len(fields) < 10:
        raise ValueError("a line of a crawl.log has at least 10 columns")
    status, size, url, digest = fields[1], fields[2], fields[3], fields[9]
    if not re.fullmatch(r"-?[0-9]{1,6}", status):
        raise ValueError(f"{status[:20]!r} is not a status")
    # Negative: Heritrix's codes for what was not fetched. 1: a DNS look-up.
    if status.startswith("-") or len(status) < 3 or digest == "-":
        return None
    notes = fields[11] if len(fields) > 11 else ""
    if _UNWRITTEN.search(notes):
        return None
    started = fields[8].partition("+")[0]
    # Heritrix's WARC-Date has whole seconds, its log has more.
    date = (started if is_date(started) else digits(fields[0]))[:14]
    is_revisit = _NOT_STORED.search(notes) is not None
    return _indexed(digest, date, url, int(size.strip("-") or 0), revisit=is_revisit)


def _known(found: Capture) -> Known | None:
    """*found* in the form of the index; ``None`` if it does not belong there.

    A response to any request but a GET does not: nothing could refer to it, as replay
    tools do not find it under its URL.

    Raises:
        ValueError: It is wrong.
    """
    if found.url.startswith("urn:") or found.asked.method:
        return None
    if not found.digest:
        raise ValueError("it has no digest")
    is_revisit = found.kind == "revisit"
    date = digits(found.date)
    return _indexed(found.digest, date, found.url, found.length, revisit=is_revisit)


def _require_whole(line: bytes) -> None:
    if len(line) >= LINE_LIMIT:
        raise ValueError("it is too long")


def _indexed(digest: str, date: str, url: str, size: int, *, revisit: bool) -> Known:
    if not is_date(date):
        raise ValueError(f"{date[:20]!r} is not a date of 14 or 17 digits")
    if not (url.isascii() and url.isprintable()) or " " in url:
        url = target_uri(url)
    if not 0 < len(url) <= MAX_URL:
        raise ValueError(f"it has no URL, or one of more than {MAX_URL:,} characters")
    if size >= MAX_SIZE:
        raise ValueError(f"its length {size} is invalid")
    return Known(spelled(digest), date, url, size, revisit)


def _of_wacz(file: IO[bytes], name: str) -> Iterator[tuple[str, Any, Any]]:
    """The lines of the indexes in the WACZ *file*, with the function to read them."""
    with zipfile.ZipFile(file) as archive:
        members = [
            member
            for member in archive.infolist()
            if member.filename.startswith("indexes/") and member.filename.endswith(CDX)
        ]
        if not 0 < len(members) <= MAX_INDEXES:
            told = f"{len(members):,} of indexes/*.cdx, .cdxj or .cdx.gz"
            raise SourceBroken(name, f"not a readable WACZ: it has {told}")
        for member in members:
            require_sound(member)
            with archive.open(member) as entry:
                for line in _lines(entry):
                    yield f"{name}: {member.filename!r}", line, of_cdx


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    """The lines of *file*, inflated if it is compressed; of one too long, the start.

    The rest of it could be read as a line that somebody has forged.
    """
    is_packed = file.read(2) == GZIP
    file.seek(0)
    text: Any = file
    if is_packed:
        text = igzip.IGzipFile(fileobj=file, mode="rb")  # type: ignore[no-untyped-call]
    total, is_begun = 0, False
    while line := text.readline(LINE_LIMIT):
        total += len(line)
        if is_packed:
            require_ratio(total, file.tell())
        is_rest, is_begun = is_begun, not line.endswith(b"\n")
        if not is_rest and (line := line.rstrip(b"\r\n")):
            yield line


def _of_warc(file: IO[bytes], name: str, digest: str) -> Iterator[tuple[str, Any, Any]]:
    """The captures of the WARC *file*, in the form of `_of_wacz`."""
    found = None

    def read() -> Iterator[Found]:
        for each in pulled_from(file, name, check=require_ratio):
            if _is_to_be_computed(each, digest):
                each.digest = _computed(each, digest or ALGORITHM)
            each.require_whole()
            yield each

    try:
        for found, how in paired(read()):
            if found.kind in INDEXED:
                capture = capture_of(found, name, how)
                own = found.digest or capture.digest
                yield name, capture._replace(digest=own), _known
    except BadWarc as error:
        reason = f"{error.reason} at byte {error.offset:,}"
        raise SourceBroken(name, reason) from None
    if found is None:
        raise SourceBroken(name, "there is no WARC record in it")


def _is_to_be_computed(found: Found, wanted: str) -> bool:
    """Whether to compute the digest of *found*, instead of taking the one it has.

    Never for a revisit: it has no payload to compute it from.
    """
    given = found.headers.get("warc-payload-digest")
    if found.kind == "revisit" or found.kind not in INDEXED:
        return False
    if not wanted:
        return not given
    try:
        return parse(given).algorithm != wanted
    except ValueError:
        return True


def _computed(found: Found, algorithm: str) -> str:
    """The digest of the record's payload; empty if it is not known."""
    headers = found.headers
    if headers.get("warc-truncated") or headers.get("warc-segment-number"):
        return ""
    digest = payload_in(found, algorithm).digest
    return spelled(digest) if digest else ""


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Turn errors into `SourceBroken`, which names the file."""
    try:
        yield
    except _BROKEN as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise SourceBroken(name, reason) from error
