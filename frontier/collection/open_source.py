"""Open a source: from the disk or the network, checked as far as can be.

What always holds:

1.  Memory does not grow with the file: blocks and lines have a largest size.
2.  A compressed file may inflate to `frontier.files.MAX_RATIO` times its size; beyond,
    it is an error. So bombs cost little.
3.  A file is first read to its end, which checks its checksums (`Texts.verify`), and
    only then for its captures. A broken one gives nothing.
4.  Only http and https are fetched, also after a redirect. Of a file at a URL only the
    parts that are needed are fetched.
5.  An answer has a limit in bytes, and a limit in time without any. A request that
    failed is repeated `ATTEMPTS` times, with a pause.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from http.client import OK, PARTIAL_CONTENT
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self, TypeVar, cast
from urllib.parse import urljoin, urlsplit

import urllib3
from isal import igzip, isal_zlib
from typing_extensions import override

from frontier.cdx.lines import INDEXED, REVISIT, paired
from frontier.collection.foreign_indexes import MAX_LINE
from frontier.collection.sources import MAX_MANIFEST, Kind, Source, is_url
from frontier.dedupe.cdx_server import pool_for
from frontier.dedupe.digest import ALGORITHM, PayloadDigest, hashing, parse
from frontier.errors import BadWarc, SourceBroken
from frontier.files import open_input, read_input, require_ratio
from frontier.wacz.layout import CDX
from frontier.warc.reader import GZIP, payload_of, pulled_from
from frontier.warc.records import digits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frontier.cdx.lines import Asked
    from frontier.warc.reader import Found

TIMEOUT = 30.0
"""Seconds without any bytes."""
ATTEMPTS = 3
PAUSE = 1.0
"""Seconds before the second attempt; twice as many before the third."""
MAX_FILE = 1 << 40
"""Bytes of a file whose server cannot give parts of it; it is fetched whole."""
_RANGE = re.compile(r"bytes (\d{1,15})-(\d{1,15})/(\d{1,15})")
_REDIRECTS = 10
"""That are followed, from one URL."""
_FAILED = (OSError, urllib3.exceptions.HTTPError, ValueError)


class _Refused(Exception):
    """A server says that it is no use to ask again."""


def read_url(url: str, limit: int) -> bytes:
    """The whole answer to a GET of *url*, of at most *limit* bytes.

    Raises:
        SourceBroken: There is none, or it is longer.
    """
    with _Web() as web:

        def read() -> bytes:
            with web.get(url) as answer:
                return bytes(answer.read(limit + 1))

        data = _tried(url, read)
    if len(data) > limit:
        raise SourceBroken(url, f"it has more than {limit:,} bytes")
    return data


@contextmanager
def fetched(url: str) -> Iterator[tuple[IO[bytes], int]]:
    """The file at *url*, which can be read at any place, and its size.

    Raises:
        SourceBroken: There is none.
    """
    with _Web() as web:
        size = _size_of(web, url)
        if size is not None:
            with io.BufferedReader(_Parts(web, url, size), BLOCK) as file:
                yield file, size
            return
        with tempfile.TemporaryFile(prefix="frontier-") as copy:
            yield copy, _fetch_whole(web, url, copy)


class _Web:
    """Connections to the servers of a source, which are kept between requests."""

    def __init__(self) -> None:
        self._pools: dict[tuple[str, str], urllib3.PoolManager] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pool in self._pools.values():
            pool.clear()

    @contextmanager
    def get(self, url: str, wanted: str = "") -> Iterator[urllib3.BaseHTTPResponse]:
        """The answer to a GET of *url*, of the range *wanted* if there is one."""
        headers = {"User-Agent": "frontier", "Accept-Encoding": "identity"}
        if wanted:
            headers["Range"] = wanted
        for _ in range(_REDIRECTS + 1):
            answer = self._ask(url, headers)
            target = answer.get_redirect_location()
            if not target:
                break
            answer.close()
            url = urljoin(url, target)
        else:
            raise _Refused(f"it redirects more than {_REDIRECTS} times")
        try:
            if answer.status not in {OK, PARTIAL_CONTENT}:
                final = 400 <= answer.status < 500
                told = f"HTTP Error {answer.status}: {answer.reason}"
                raise _Refused(told) if final else OSError(told)
            yield answer
        finally:
            answer.close()  # where it was read to its end, its connection is kept

    def _ask(self, url: str, headers: dict[str, str]) -> urllib3.BaseHTTPResponse:
        parts = urlsplit(url)
        host = parts.hostname or ""
        if parts.scheme not in {"http", "https"} or not host:
            raise SourceBroken(url, "only http and https URLs are fetched")
        pool = self._pools.get((parts.scheme, host))
        if pool is None:
            pool = self._pools[parts.scheme, host] = pool_for(
                parts.scheme, host, TIMEOUT
            )
        return pool.request(
            "GET",
            url,
            headers=headers,
            redirect=False,
            preload_content=False,
            decode_content=False,
        )


class _Parts(io.RawIOBase):
    """A file of which each read is a request for a range of it."""

    def __init__(self, web: _Web, url: str, size: int) -> None:
        self._web = web
        self._url = url
        self._size = size
        self._at = 0

    @override
    def readable(self) -> bool:
        return True

    @override
    def seekable(self) -> bool:
        return True

    @override
    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}
        self._at = max(0, start[whence] + offset)
        return self._at

    @override
    def tell(self) -> int:
        return self._at

    @override
    def readinto(self, buffer: Any) -> int:
        count = min(len(buffer), self._size - self._at)
        if count <= 0:
            return 0
        data = self._read(self._at, count)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def _read(self, start: int, count: int) -> bytes:
        def read() -> bytes:
            wanted = f"bytes={start}-{start + count - 1}"
            with self._web.get(self._url, wanted) as answer:
                if answer.status != PARTIAL_CONTENT:
                    raise ValueError("the server gives no parts any more")
                data = bytes(answer.read(count))
            if len(data) < count:
                raise OSError("the answer is cut off")
            return data

        return _tried(self._url, read)


def _size_of(web: _Web, url: str) -> int | None:
    """The size of the file at *url*; ``None`` if its server gives no parts."""

    def ask() -> int | None:
        with web.get(url, "bytes=0-0") as answer:
            found = _RANGE.fullmatch(answer.headers.get("Content-Range") or "")
            partial = answer.status == PARTIAL_CONTENT
            if partial:
                answer.read(1)  # all of it, so that the connection is kept
        return int(found[3]) if found and partial else None

    return _tried(url, ask)


def _fetch_whole(web: _Web, url: str, copy: IO[bytes]) -> int:
    def fetch() -> int:
        copy.seek(0)
        copy.truncate()
        with web.get(url) as answer:
            told = int(answer.headers.get("Content-Length") or -1)
            if told > MAX_FILE:
                raise SourceBroken(url, f"it has {told:,} bytes")
            while block := answer.read(BLOCK):
                copy.write(block)
                if copy.tell() > MAX_FILE:  # of a server that says no length
                    raise SourceBroken(url, f"it has more than {MAX_FILE:,} bytes")
            if told >= 0 and copy.tell() != told:
                raise OSError("the answer is cut off")
        return copy.tell()

    size = _tried(url, fetch)
    copy.seek(0)
    return size


T = TypeVar("T")


def _tried(url: str, attempt: Callable[[], T]) -> T:
    """What *attempt* returns; it is made `ATTEMPTS` times, with a pause between two.

    Raises:
        SourceBroken: It has failed each time, or the server says that it always will.
    """
    for left in reversed(range(ATTEMPTS)):
        try:
            return attempt()
        except (*_FAILED, _Refused) as error:
            if not left or isinstance(error, _Refused):
                raise SourceBroken(url, f"it cannot be fetched: {error}") from None
            time.sleep(PAUSE * (ATTEMPTS - left))
    raise AssertionError


BLOCK = 1 << 18
"""Bytes that are read at once."""
MAX_INDEXES = 1_000
"""Index files of one WACZ; py-wacz and Browsertrix write one or two."""
_BROKEN: tuple[type[Exception], ...] = (
    EOFError,
    OSError,
    RuntimeError,  # zipfile: the file is encrypted
    NotImplementedError,  # zipfile: a method that Python does not have
    UnicodeError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
    cast("type[Exception]", isal_zlib.error),
)


@dataclass(slots=True)
class Texts:
    """Files of lines, one after the other, each compressed or not."""

    files: list[tuple[str, IO[bytes]]]
    """Names, for messages, and files that can be read again."""

    def verify(self) -> int:
        """Read everything to its end; return about how many lines there are.

        Raises:
            SourceBroken: Something is cut off, damaged, or a bomb.
        """
        count = 0
        for name, file in self.files:
            with _named(name):
                for block in _text(file):
                    count += block.count(b"\n")
        return count

    def blocks(self) -> Iterator[tuple[str, list[bytes | None]]]:
        """The name of a file and some of its lines; ``None`` for one too long.

        Raises:
            SourceBroken: Something is cut off, damaged, or a bomb.
        """
        for name, file in self.files:
            with _named(name):
                for lines in _split(file):
                    yield name, lines

    def close(self) -> None:
        """Close the files."""
        for _, file in self.files:
            file.close()


def indexes_of(wacz: IO[bytes], name: str) -> Texts:
    """The index files of the WACZ file *wacz*, copied out of it.

    Raises:
        SourceBroken: It is not a WACZ file, or has no index.
    """
    found = Texts([])
    try:
        with zipfile.ZipFile(wacz) as archive:
            members = [
                member
                for member in archive.infolist()
                if member.filename.startswith("indexes/")
                and member.filename.endswith(CDX)
            ]
            if len(members) > MAX_INDEXES:
                raise SourceBroken(name, f"it has {len(members):,} indexes")
            for member in members:
                require_ratio(member.file_size, member.compress_size)
                copy = tempfile.TemporaryFile(prefix="frontier-")  # noqa: SIM115
                found.files.append((f"{name}: {member.filename!r}", copy))
                with archive.open(member) as entry:
                    shutil.copyfileobj(entry, copy, BLOCK)
    except _BROKEN as error:
        found.close()
        raise SourceBroken(name, f"not a readable WACZ: {error}") from error
    if not found.files:
        raise SourceBroken(name, "there is no indexes/*.cdx, .cdxj or .cdx.gz in it")
    return found


def _split(file: IO[bytes]) -> Iterator[list[bytes | None]]:
    """Lines without their ends, some at a time; empty ones are left out."""
    rest, too_long = b"", False
    for block in _text(file):
        lines: list[bytes | None] = [*(rest + block).split(b"\n")]
        last = lines.pop() or b""
        if lines and too_long:
            lines[0], too_long = None, False
        if len(last) > MAX_LINE:
            last, too_long = b"", True
        rest = last
        yield [line.rstrip(b"\r") if line else line for line in lines if line != b""]
    if too_long:
        yield [None]
    elif rest:
        yield [rest.rstrip(b"\r")]


def _text(file: IO[bytes]) -> Iterator[bytes]:
    """What is in *file*, some at a time, inflated if it is compressed."""
    file.seek(0)
    compressed = file.read(2) == GZIP
    file.seek(0)
    text: Any = file
    if compressed:
        text = igzip.IGzipFile(fileobj=file, mode="rb")  # type: ignore[no-untyped-call]
    total = 0
    while block := text.read(BLOCK):
        total += len(block)
        if compressed:
            require_ratio(total, file.tell())
        yield block


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Say of what is broken which file it is."""
    try:
        yield
    except _BROKEN as error:
        raise SourceBroken(name, str(error) or type(error).__name__) from error


Bar = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]
"""Shows how far something is, given what it is, its total, and what is done."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A source whose lines can be read."""

    texts: Texts
    size: int
    """In bytes."""
    sha256: str
    """Bare hex; empty if nobody has computed it."""


@contextmanager
def opened(
    source: Source,
    *,
    verify: bool,
    hashed: bool,
    digest: str = "",
    bar: Bar = lambda _, __: nullcontext(lambda _: None),
) -> Iterator[Opened]:
    """The lines of *source*, while this lasts.

    *digest* is the algorithm that those of a WARC file are to be of, if any; see
    `cdx_lines`. To read one takes long: *bar* shows how far it is.

    With *verify* the hash of a local file must be what its manifest says; with
    *hashed* it is computed in any case. One from the network is not read whole,
    so its hash is taken from the manifest.

    Raises:
        SourceBroken: It cannot be read, or is not what its manifest says.
    """
    with _file(source) as (file, size):
        if source.size is not None and source.size != size:
            raise SourceBroken(
                source.url, f"it has {size:,} bytes, its manifest says {source.size:,}"
            )
        sha256 = source.sha256()
        if not is_url(source.url) and (hashed or (verify and sha256)):
            computed = _sha256(file)
            if verify and sha256 and sha256 != computed:
                raise SourceBroken(
                    source.url, f"its SHA-256 is {computed}, its manifest's {sha256}"
                )
            sha256 = computed
        texts = _texts(source, file, size, digest, bar)
        try:
            yield Opened(texts, size, sha256)
        finally:
            texts.close()


def read_manifest(url: str) -> bytes:
    """The content of the manifest at *url*, a path or a URL.

    Raises:
        SourceBroken: It cannot be read, or is too large.
    """
    if is_url(url):
        return read_url(url, MAX_MANIFEST)
    try:
        return read_input(Path(url), MAX_MANIFEST)
    except (OSError, ValueError) as error:
        raise SourceBroken(url, _reason(error)) from None


@contextmanager
def _file(source: Source) -> Iterator[tuple[IO[bytes], int]]:
    if is_url(source.url):
        with fetched(source.url) as found:
            yield found
        return
    path = Path(source.url)
    try:
        file = open_input(path)
        size = os.fstat(file.fileno()).st_size
    except (OSError, ValueError) as error:
        raise SourceBroken(source.url, _reason(error)) from None
    with file:
        yield file, size


def _texts(source: Source, file: IO[bytes], size: int, digest: str, bar: Bar) -> Texts:
    if source.kind is Kind.WACZ:
        return indexes_of(file, source.url)
    if source.kind is Kind.WARC:
        lines = tempfile.TemporaryFile(prefix="frontier-")  # noqa: SIM115
        try:
            with bar(f"{source.name}, its bytes", size) as progress:
                for line in cdx_lines(file, source.url, digest, progress):
                    lines.write(line)
        except BaseException:
            lines.close()
            raise
        return Texts([(source.url, lines)])
    return Texts([(source.url, file)])


def _sha256(file: IO[bytes]) -> str:
    file.seek(0)
    computed = hashlib.sha256()
    while block := file.read(BLOCK):
        computed.update(block)
    file.seek(0)
    return computed.hexdigest()


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def cdx_lines(
    file: IO[bytes],
    name: str,
    digest: str = "",
    progress: Callable[[int], None] = lambda _: None,
) -> Iterator[bytes]:
    """A CDXJ line for each response, revisit and resource record of *file*.

    With what an index of payload digests needs: url, mime (that of revisits),
    digest, and length, the compressed length of the record. The key is ``-``. What
    was not asked with GET has a method, too; its request is a neighbour.

    The digest of a record that has none is computed, by `ALGORITHM`. With *digest*,
    an algorithm, so is that of a record that has one of another. A revisit has no
    payload to compute it from, and one that was cut would have another.

    *progress* is called with the bytes that were read.

    Raises:
        ImportError: *digest* needs a package that is not installed.
        SourceBroken: The file is cut off, damaged, a bomb, or has no records.
    """
    found = None
    computed: dict[int, str] = {}
    """By the offset of a record, until its line is made."""

    def read() -> Iterator[Found]:
        for each in pulled_from(file, name, check=require_ratio):
            if _is_to_be_computed(each, digest):
                computed[each.offset] = _computed(each, digest or ALGORITHM)
            each.require_whole()
            yield each

    try:
        for found, how in paired(read()):
            progress(found.offset + found.length)
            if found.kind in INDEXED:
                yield _line(found, how, computed.pop(found.offset, ""))
    except BadWarc as error:
        reason = f"{error.reason} at byte {error.offset:,}"
        raise SourceBroken(name, reason) from None
    except (OSError, ValueError) as error:
        raise SourceBroken(name, f"not a readable WARC: {error}") from error
    if found is None:
        raise SourceBroken(name, "there is no WARC record in it")


def _line(found: Found, how: Asked, computed: str) -> bytes:
    headers = found.headers
    facts: dict[str, str | int] = {
        "url": headers.get("warc-target-uri").strip("<>"),
        "digest": computed or headers.get("warc-payload-digest"),
    }
    if found.kind == "revisit":
        facts["mime"] = REVISIT
    if how.method:
        facts["method"] = how.method
    facts["length"] = found.length
    return f"- {digits(headers.get('warc-date'))} {json.dumps(facts)}\n".encode()


def _is_to_be_computed(found: Found, wanted: str) -> bool:
    """Whether the digest that *found* has, if it has one, is not taken.

    That of a revisit is: it has no payload to compute another one from.
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
    computed = hashing(algorithm)
    try:
        for part in payload_of(found):
            computed.update(part)
    except ValueError:
        return ""
    return PayloadDigest(algorithm, computed.digest()).spelled()
