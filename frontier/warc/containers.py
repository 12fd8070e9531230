"""Reads the records of a file, however it is packed.

What always holds:

1.  How a file is packed follows from its first bytes and its first record, never from
    its name.
2.  A record that has a member of its own is found by the member's offset. Any other is
    found by its offset in the unpacked file, which is read from the start.
3.  The reader goes back once, to the first record, after it saw how that is packed.

Records of ARC, the format before WARC, are read as the WARC records that they become.

What always holds for those:

1.  A record ends where its length says. The line end after it may be missing: Heritrix
    and other tools differ, even between their versions.
2.  Nothing is lost: the block keeps its bytes, and the line before it is in the header
    `LINE`.
3.  The id of a record follows from the file's name, its offset and its line: whoever
    reads the file again gets the same.

Version 1 has ``URL IP-address Archive-date Content-type Archive-length`` before each
block; version 2 has five more fields before the length. An HTTP response becomes a
response, everything else (``dns:``, FTP) a resource of the declared type, and the
record that describes the file becomes metadata.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import IO, NamedTuple

from frontier.errors import BadWarc
from frontier.warc.reader import (
    LINE_END,
    Found,
    Head,
    Members,
    Source,
    blocks_of,
    by_length,
    lenient_head,
    members_of,
    of_members,
    warc_head,
)
from frontier.warc.records import OCTETS, dated, escaped, identify
from frontier.warc.zstd import is_zstd

_WARC = b"WARC/"
_END = b"\r\n\r\n"


class Packing(NamedTuple):
    """How a file is packed."""

    is_arc: bool
    shared: str = ""
    """What several records share, ``gzip member`` or ``zstd frame``, so that none can
    be read by its offset. Empty if each has its own, or the file is not compressed."""


def packing_of(file: IO[bytes]) -> Packing:
    """How *file* is packed; this moves its position.

    Raises:
        ConfigurationError: The package for zstd is not installed.
        OSError: It cannot be read.
    """
    file.seek(0)
    begin = file.read(len(BEGIN))
    is_arc, is_own = begin == BEGIN, True

    def first(source: Source) -> Head | None:
        nonlocal is_arc
        is_arc = source.peek(len(BEGIN)) == BEGIN
        return (arc_head if is_arc else lenient_head)(source)

    try:
        members = members_of(file, "")
        if members is None:
            return Packing(is_arc)
        if (found := next(of_members(members, first), None)) is not None:
            found.finish()
            # With fewer bytes than wanted, line ends are missing after its block: they
            # may be in the next member.
            is_own = found.fault is None and (
                is_arc
                or members.given >= members.wanted
                or not members.next()
                or members.peek(len(_WARC)).upper() == _WARC
            )
    except BadWarc:
        pass  # whoever reads the records reports what is wrong
    if is_own:
        return Packing(is_arc)
    return Packing(is_arc, "zstd frame" if is_zstd(begin) else "gzip member")


def every_record(
    file: IO[bytes],
    name: str,
    packing: Packing,
    wrong: Callable[[BadWarc], None] | None = None,
    *,
    is_lenient: bool = False,
) -> Iterator[Found]:
    """Yield the records of *file*, called *name*, with blocks still to be read.

    *packing* is that of *file*; *wrong*: see `of_members`. Records of an ARC file have
    the headers that `frontier.warc.containers` makes. With *is_lenient*, WARC heads are
    read as `lenient_head` does.

    Raises:
        BadWarc: It is cut off, or is no such file; records before that were yielded.
        OSError: It cannot be read.
    """
    is_arc, shared = packing
    form = arc_head if is_arc else lenient_head if is_lenient else warc_head
    members = members_of(file, name)
    if members is None:
        source = Source(name, blocks_of(file))
    elif not shared:
        return of_members(members, form, wrong)
    else:
        source = Source(f"{name} (unpacked)", _content(members))
    return by_length(source, form, is_strict=not is_arc)


def _content(members: Members) -> Iterator[bytes]:
    """The content of all *members*."""
    while members.next():
        yield from members.rest()


BEGIN = b"filedesc:"
"""What an ARC file begins with."""
LINE = "X-Frontier-Arc-Header"
"""The header that has the line that was before the block."""
_LINE_LIMIT = 1 << 15
_DATE = re.compile(rb"[0-9]{12,17}")
_TYPE = re.compile(r"[!-~]+/[!-~]+(?: *;[ -~]*)?")


def arc_head(source: Source) -> Head | None:
    """The head of the ARC record that begins there, as of a WARC record."""
    offset, name = source.offset, source.name
    line = source.take_until(LINE_END, _LINE_LIMIT)
    if not line:
        return None
    if not line.endswith(b"\n"):
        raise BadWarc(name, offset, "no line of an ARC record")
    line = line.rstrip(b"\r\n")
    fields = line.split(b" ")
    at = _date_at(fields)
    size = fields[-1]
    if not at or not (size.isdigit() and len(size) < 16):
        raise BadWarc(name, offset, f"no ARC record: {line[:60]!r}")
    version = 2 if at == len(fields) - 8 else 1
    url = b" ".join(fields[: at - 1])
    kind = _kind(url, source.peek(min(int(size), len(b"HTTP/"))))
    mime = b" ".join(fields[at + 1 : -6 if version == 2 else -1]).decode("latin-1")
    if kind == "response":
        mime = "application/http; msgtype=response"
    elif not _TYPE.fullmatch(mime):
        mime = OCTETS
    fact = b"arc %b %d %b" % (PurePath(name).name.encode(), offset, line)
    lines = [
        f"ARC/{version}",
        f"WARC-Type: {kind}",
        f"WARC-Record-ID: {identify(fact.decode('latin-1'))}",
        f"WARC-Target-URI: {escaped(url.decode('utf-8', 'replace'))}",
        f"WARC-Date: {_date(name, offset, fields[at])}",
        f"{LINE}: {line.decode('latin-1')}",
        f"Content-Type: {mime}",
        f"Content-Length: {int(size)}",
    ]
    if address := _address(fields[at - 1]):
        lines.insert(5, f"WARC-IP-Address: {address}")
    return Head("\r\n".join(lines).encode("latin-1", "replace"), int(size))


def _date_at(fields: list[bytes]) -> int:
    """The index of the date in *fields*; 0 if there is none. URLs may have spaces."""
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


def _date(name: str, offset: int, digits: bytes) -> str:
    """The WARC-Date of an Archive-date, without its fraction if it has one."""
    text = digits.decode("ascii")[:14].ljust(14, "0")
    month, day, hour, minute, second = (
        int(text[at : at + 2]) for at in range(4, 14, 2)
    )
    if not (0 < month < 13 and 0 < day < 32 and hour < 24 and minute < 60):
        raise BadWarc(name, offset, f"no ARC record: its date is {text}")
    return dated(f"{text[:12]}{min(second, 59):02}")


def _address(field: bytes) -> str:
    """The server's address; empty if there is none."""
    try:
        found = ipaddress.ip_address(field.decode("ascii"))
    except ValueError:
        return ""
    return "" if found.is_unspecified else str(found)
