"""The captures in a WARC file, as the lines of an index."""

from __future__ import annotations

import json
import re
from array import array
from typing import IO, TYPE_CHECKING, Any

from fastwarc.warc import ArchiveIterator, WarcRecordType

from frontier.dedupe.digest import ALGORITHM, parse
from frontier.errors import SourceBroken
from frontier.files import require_ratio
from frontier.warc.reader import GZIP, members, payload_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_KINDS = WarcRecordType.response | WarcRecordType.revisit | WarcRecordType.resource
_GET = b"GET "
_MAGIC = b"WARC/"
"""Of all versions: 0.17 and 0.18 are Heritrix's before the standard."""
_END = b"\r\n\r\n"


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

    *progress* is called with the bytes that were read; the file is read twice.

    Raises:
        ImportError: *digest* needs a package that is not installed.
        SourceBroken: The file is cut off, damaged or a bomb, or a record says that it
            is longer than it is: what comes after it would be taken for its body.
    """
    begins = array("Q")
    try:
        end, most = _whole(file, name, progress, begins)
    except ValueError as error:
        raise SourceBroken(name, str(error)) from None
    begun, last = 0, -1
    pending: tuple[int, str, dict[str, str]] | None = None
    before, found = _Neighbour(), False
    try:
        for record in ArchiveIterator(file, parse_http=False):
            found = True
            progress(end + record.stream_pos)
            here = _Neighbour(record)
            begun = _passed(begins, begun, record.stream_pos)
            if begun < 0:
                raise SourceBroken(name, _lies(last))
            last = record.stream_pos
            left = end - last if not begins else most
            if begun == len(begins) and record.content_length > left:
                raise SourceBroken(name, _lies(last))
            if pending is not None:
                pending[2].update(here.method_of(before))
                yield _line(pending, record.stream_pos)
            pending = _facts(record, digest) if record.record_type & _KINDS else None
            if pending is not None:
                pending[2].update(before.method_of(here))
            before = here
    except (OSError, ValueError, RuntimeError, EOFError) as error:
        raise SourceBroken(name, f"not a readable WARC: {error}") from error
    if begun < len(begins):
        raise SourceBroken(name, _lies(last))
    if pending is not None:
        yield _line(pending, end)
    if not found:
        raise SourceBroken(name, "there is no WARC record in it")


class _Neighbour:
    """What a record has to do with the one before it, or after it."""

    def __init__(self, record: Any = None) -> None:
        headers = {} if record is None else record.headers
        self._url = headers.get("WARC-Target-URI")
        self._named = headers.get("WARC-Record-ID")
        self._names = headers.get("WARC-Concurrent-To")
        self._method = b""
        if record is not None and record.record_type == WarcRecordType.request:
            start = record.reader.read(16)
            if not start.startswith(_GET):
                self._method = start.partition(b" ")[0]

    def method_of(self, answer: _Neighbour) -> dict[str, str]:
        """The method that *answer* was asked with, if this is its request, no GET."""
        ours = self._names == answer._named or answer._names == self._named
        if self._method and ours and self._url == answer._url:
            return {"method": self._method.decode("latin-1")}
        return {}


def _passed(begins: array[int], begun: int, position: int) -> int:
    """How many of *begins* a record at *position* has reached; -1 if it skips one.

    Each gzip member begins with a record. fastwarc reads the body of one that says
    that it is longer than its member on into the next ones.
    """
    if begun < len(begins) and begins[begun] <= position:
        return begun + 1 if begins[begun] == position else -1
    return begun


def _lies(position: int) -> str:
    return f"the record at byte {position:,} says that it is longer than it is"


def _whole(
    file: IO[bytes], name: str, progress: Callable[[int], None], begins: array[int]
) -> tuple[int, int]:
    """The size of *file*; fastwarc says nothing where a file is cut off.

    And the bytes that its last gzip member inflates to; where its members begin is
    put into *begins*, which stays empty without any.
    """
    inflated = 0
    size = file.seek(0, 2)
    file.seek(0)
    start = file.read(2)
    if start == GZIP:
        file.seek(0)
        whole = 0
        found = members(file, _MAGIC, require_ratio)
        for end, size_of_it, _ in found:
            begins.append(whole)
            whole, inflated = end, size_of_it
            progress(whole)
        if whole != size:
            raise SourceBroken(name, f"cut off or damaged after byte {whole:,}")
    else:
        file.seek(max(0, size - len(_END)))
        if size and file.read() != _END:
            raise SourceBroken(name, "cut off: it does not end as a record does")
    file.seek(0)
    return size, inflated


def _facts(record: Any, digest: str) -> tuple[int, str, dict[str, str]]:
    headers = record.headers
    date = _digits(headers.get("WARC-Date") or "")
    facts = {
        "url": (headers.get("WARC-Target-URI") or "").strip("<>"),
        "digest": headers.get("WARC-Payload-Digest") or "",
    }
    if record.record_type == WarcRecordType.revisit:
        facts["mime"] = "warc/revisit"
    elif not _will_do(facts["digest"], digest):
        facts["digest"] = _computed(record, digest or ALGORITHM) or facts["digest"]
    return record.stream_pos, date, facts


def _digits(date: str) -> str:
    """The digits of a WARC-Date, as precise as it is where an index can have it so.

    An index has 14, 17 or 20 of them; a revisit is to name the date as it is.
    """
    whole, _, fraction = date.rstrip("Z").partition(".")
    return re.sub(r"[-T:]", "", whole) + (fraction if len(fraction) in {3, 6} else "")


def _will_do(given: str, wanted: str) -> bool:
    """Whether the digest that a record has is taken."""
    if not wanted:
        return bool(given)
    try:
        return parse(given).algorithm == wanted
    except ValueError:
        return False


def _computed(record: Any, algorithm: str) -> str:
    """The digest of the record's payload; empty if it has none that can be told."""
    headers = record.headers
    if headers.get("WARC-Truncated"):
        return ""
    kind = (headers.get("Content-Type") or "").partition(";")[0].strip().lower()
    try:
        return payload_digest(record.reader, algorithm, http=kind == "application/http")
    except ValueError:
        return ""


def _line(pending: tuple[int, str, dict[str, str]], end: int) -> bytes:
    start, date, facts = pending
    made = json.dumps({**facts, "length": end - start})
    return f"- {date} {made}\n".encode()
