"""The records of a file, however they are packed.

What always holds:

1.  How a file is packed follows from its first bytes and its first record, never from
    its name.
2.  A record that has a member of its own is found by the member's offset. Any other is
    found by the offset that it has in the unpacked file: that is read from its begin.
3.  No record is read twice: who wants more of it than is kept gets the rest as it
    comes (`frontier.warc.reader.Rest`).

ARC files, the format before WARC: its records, as the WARC records that they become.

Of that always holds:

1.  A record ends where its length says. The line end behind it may be there or not:
    Heritrix and others differ, and between versions too.
2.  Nothing is lost: the block is the bytes that it was, and the line in front of it is
    in the header `LINE`.
3.  The id of a record follows from the file's name, its place and its line: whoever
    reads the file again finds the same.

Version 1 has ``URL IP-address Archive-date Content-type Archive-length`` in front of
each block; version 2 has five more fields before the length. What a server has
answered with HTTP is a response, all else (``dns:``, FTP) a resource of the declared
type, and the record that describes the file is metadata.
"""

from __future__ import annotations

import ipaddress
import re
import uuid
from pathlib import PurePath
from typing import IO, TYPE_CHECKING, NamedTuple

from frontier.errors import BadWarc
from frontier.warc.reader import (
    GAP,
    GZIP,
    HEAD_LIMIT,
    LENIENT,
    WARC,
    Found,
    Head,
    Source,
    blocks_of,
    gzip_member,
    has_head,
    plain_records,
    records,
    records_in,
    unpacked,
)
from frontier.warc.records import NAMESPACE, escaped
from frontier.warc.zstd import frames_of, is_zstd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from frontier.warc.reader import Begin, Inflate, Rest


_WARC = b"WARC/"
_END = b"\r\n\r\n"
PLAIN = "plain"
GZIP_RECORDS = "gzip"
"""Each record is a gzip member."""
GZIP_WHOLE = "gzip-whole"
"""Members have several records, or parts of one."""
ZSTD_RECORDS = "zstd"
"""Each record is a zstd frame, or several."""
ZSTD_WHOLE = "zstd-whole"
"""Frames have several records, or parts of more than one."""
BY_OFFSET = frozenset({PLAIN, GZIP_RECORDS, ZSTD_RECORDS})
"""Those of which a record is read by its offset in the file."""


class Packing(NamedTuple):
    """What a file is."""

    container: str
    is_arc: bool


def packing_of(file: IO[bytes]) -> Packing:
    """How *file* is packed; its position is another then.

    Raises:
        OSError: It cannot be read.
    """
    file.seek(0)
    begin = file.read(len(BEGIN))
    if is_zstd(begin):
        return Packing(ZSTD_RECORDS if _has_own_frame(file) else ZSTD_WHOLE, False)
    if not begin.startswith(GZIP):
        return Packing(PLAIN, begin == BEGIN)
    is_arc, is_own = _of_first_member(file)
    return Packing(GZIP_RECORDS if is_own else GZIP_WHOLE, is_arc)


def _of_first_member(file: IO[bytes]) -> tuple[bool, bool]:
    """Whether *file* is ARC, and the first member has one record, or none to be read.

    It is unpacked up to where that record ends.
    """
    size = end = 0
    start = behind = b""
    form = LENIENT  # whoever reads the records tells what is wrong
    try:
        for part in unpacked("", blocks_of(file), gzip_member, is_one=True):
            size += len(part)
            if not end:
                start += part
                form = ARC if start.startswith(BEGIN) else LENIENT
                is_whole = b"\n" in start if form is ARC else has_head(start)
                if len(start) < HEAD_LIMIT and not is_whole:
                    continue
                found, top = form("", 0, start)
                end = top + int(found.headers.get("content-length"))
                part = start  # noqa: PLW2901 - all that there is so far
            if size > end:
                behind += part[max(0, len(part) - (size - end)) :]
            if len(behind) > GAP or behind.strip(b"\r\n"):
                return form is ARC, False
    except BadWarc:
        return form is ARC, True  # whoever reads the records tells why
    is_usual = form is ARC or len(behind) >= len(_END)
    return form is ARC, not end or (size >= end and (is_usual or _ends_at_first(file)))


def _ends_at_first(file: IO[bytes]) -> bool:
    """Whether the first record ends with its member, and not in the next one.

    Behind its block are fewer line ends than usual: these may be in the next one.
    """
    try:
        found = next(records("", blocks_of(file), form=LENIENT))
        second = unpacked("", blocks_of(file, found.length), gzip_member, is_one=True)
        return next(second, _WARC)[: len(_WARC)].upper() == _WARC
    except BadWarc:
        return True  # whoever reads the records tells why


def _has_own_frame(file: IO[bytes]) -> bool:
    """Whether the first record of *file* ends where a frame does.

    Raises:
        ConfigurationError: The package for zstd is not installed.
    """
    try:
        next(records_in(file, ""), None)
    except BadWarc:
        return False
    return True


def every_record(
    file: IO[bytes],
    name: str,
    rest: Rest | None = None,
    kept: int = 0,
    wrong: Callable[[BadWarc], None] | None = None,
    *,
    is_lenient: bool = False,
) -> Iterator[Found]:
    """Yield the records of *file*, which is called *name*; see `records`.

    Those of an ARC file have headers as `frontier.warc.containers` makes them. With
    *is_lenient*, WARC heads are read as `LENIENT` does.

    Raises:
        BadWarc: It is cut off, or is no such file; what is before that was given.
        OSError: It cannot be read.
    """
    container, is_arc = packing_of(file)
    member: Callable[[], Inflate] = gzip_member
    at = 0
    if container in {ZSTD_RECORDS, ZSTD_WHOLE}:
        frames = frames_of(file, name)
        member, at = frames.member, frames.start
    blocks = blocks_of(file, at)
    if container in {GZIP_RECORDS, ZSTD_RECORDS}:
        yield from records(
            name,
            blocks,
            rest=rest,
            kept=kept,
            wrong=wrong,
            member=member,
            form=ARC if is_arc else (LENIENT if is_lenient else WARC),
            start=at,
        )
        return
    if container != PLAIN:
        blocks = unpacked(name, blocks, member)
        name = f"{name} (unpacked)"
    if is_arc:
        yield from arc_records(name, blocks, rest, kept)
    else:
        yield from plain_records(name, blocks, rest, kept, is_lenient=is_lenient)


BEGIN = b"filedesc:"
"""What an ARC file begins with."""
LINE = "X-Frontier-Arc-Header"
"""The header that has the line which was in front of the block."""
_LINE_LIMIT = 1 << 15
_DATE = re.compile(rb"[0-9]{12,17}")
_TYPE = re.compile(r"[!-~]+/[!-~]+(?: *;[ -~]*)?")


def _begun(name: str, offset: int, start: bytes) -> tuple[Found, int]:
    end = start.find(b"\n", 0, _LINE_LIMIT)
    if end < 0:
        raise BadWarc(name, offset, "no line of an ARC record")
    line = start[:end].rstrip(b"\r")
    fields = line.split(b" ")
    at = _date_at(fields)
    size = fields[-1]
    if not at or not (size.isdigit() and len(size) < 16):
        raise BadWarc(name, offset, f"no ARC record: {line[:60]!r}")
    block = start[end + 1 : end + 1 + int(size)]
    version = 2 if at == len(fields) - 8 else 1
    url = b" ".join(fields[: at - 1])
    kind = _kind(url, block)
    mime = b" ".join(fields[at + 1 : -6 if version == 2 else -1])
    fact = b"arc %b %d %b" % (PurePath(name).name.encode(), offset, line)
    record_id = uuid.uuid5(NAMESPACE, fact.decode("latin-1")).urn
    lines = [
        f"ARC/{version}",
        f"WARC-Type: {kind}",
        f"WARC-Record-ID: <{record_id}>",
        f"WARC-Target-URI: {escaped(url.decode('utf-8', 'replace'))}",
        f"WARC-Date: {_date(name, offset, fields[at])}",
        f"{LINE}: {line.decode('latin-1')}",
        f"Content-Type: {_content_type(kind, mime.decode('latin-1'))}",
        f"Content-Length: {int(size)}",
    ]
    if address := _address(fields[at - 1]):
        lines.insert(5, f"WARC-IP-Address: {address}")
    top = "\r\n".join(lines).encode("latin-1", "replace")
    return Found(offset, 0, Head(top), block), end + 1


ARC: Begin = _begun


def arc_records(
    name: str, blocks: Iterable[bytes], rest: Rest | None = None, kept: int = 0
) -> Iterator[Found]:
    """Yield the records of the ARC file *name*, given its bytes without compression.

    For *rest* and *kept* see `frontier.warc.reader.records`. A length is that of line
    and block.

    Raises:
        BadWarc: It is cut off, or is no ARC file.
    """
    source = Source(name, blocks)
    while True:
        source.skip_any(b"\r\n")
        offset = source.offset
        line = source.take_until(b"\n", _LINE_LIMIT)
        if not line:
            return
        found, _ = _begun(name, offset, line)
        size = int(found.headers.get("content-length"))
        block = source.take(min(size, max(kept, HEAD_LIMIT)))
        found, _ = _begun(name, offset, line + block)  # its kind follows from both
        if left := size - len(block):
            source.skip(left, rest(found) if rest else lambda _: None)
        yield Found(offset, source.offset - offset, found.headers, block)


def _date_at(fields: list[bytes]) -> int:
    """Which of *fields* is the date; 0 if none is. A URL may have spaces in it."""
    count = len(fields)
    if count >= 10 and _DATE.fullmatch(fields[-8]) and fields[-3].isdigit():
        return count - 8
    for at in range(count - 3, 1, -1):
        if _DATE.fullmatch(fields[at]):
            return at
    return 0


def _kind(url: bytes, block: bytes) -> str:
    if url.startswith(BEGIN):
        return "metadata"
    is_web = url[:6].lower().startswith((b"http:/", b"https:"))
    return "response" if is_web and block.startswith(b"HTTP/") else "resource"


def _content_type(kind: str, declared: str) -> str:
    if kind == "response":
        return "application/http; msgtype=response"
    return declared if _TYPE.fullmatch(declared) else "application/octet-stream"


def _date(name: str, offset: int, digits: bytes) -> str:
    """WARC-Date of an Archive-date; of one with a fraction, too."""
    text = digits.decode("ascii")[:14].ljust(14, "0")
    year, rest = text[:4], [text[at : at + 2] for at in range(4, 14, 2)]
    month, day, hour, minute, second = map(int, rest)
    if not (0 < month < 13 and 0 < day < 32 and hour < 24 and minute < 60):
        raise BadWarc(name, offset, f"no ARC record: its date is {text}")
    return f"{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{min(second, 59):02}Z"


def _address(field: bytes) -> str:
    """The server's address; empty if there is none."""
    try:
        found = ipaddress.ip_address(field.decode("ascii"))
    except ValueError:
        return ""
    return "" if found.is_unspecified else str(found)
