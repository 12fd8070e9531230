"""The records of a file, however they are packed.

What always holds:

1.  How a file is packed follows from its first bytes and its first record, never from
    its name.
2.  A record that has a member of its own is found by the member's offset. Any other is
    found by the offset that it has in the unpacked file: that is read from its begin.
3.  No record is read twice: who wants more of it than is kept gets the rest as it
    comes (`frontier.warc.reader.Rest`).
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, NamedTuple

from frontier.errors import BadWarc
from frontier.warc.arc import ARC, BEGIN, arc_records
from frontier.warc.reader import (
    GAP,
    GZIP,
    HEAD_LIMIT,
    WARC,
    blocks_of,
    gzip_member,
    plain_records,
    records,
    records_in,
    unpacked,
)
from frontier.warc.zstd import frames_of, is_zstd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from frontier.warc.reader import Found, Inflate, Rest

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
    form = WARC
    try:
        for part in unpacked("", blocks_of(file), gzip_member, is_one=True):
            size += len(part)
            if not end:
                start += part
                form = ARC if start.startswith(BEGIN) else WARC
                is_whole = (b"\n" if form is ARC else b"\r\n\r\n") in start
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
        found = next(records("", blocks_of(file)))
        second = unpacked("", blocks_of(file, found.length), gzip_member, is_one=True)
        return next(second, _WARC).startswith(_WARC)
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
) -> Iterator[Found]:
    """Yield the records of *file*, which is called *name*; see `records`.

    Those of an ARC file have headers as `frontier.warc.arc` makes them.

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
            form=ARC if is_arc else WARC,
            start=at,
        )
        return
    if container != PLAIN:
        blocks = unpacked(name, blocks, member)
        name = f"{name} (unpacked)"
    each = arc_records if is_arc else plain_records
    yield from each(name, blocks, rest, kept)
