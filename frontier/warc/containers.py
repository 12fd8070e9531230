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

from typing import IO, TYPE_CHECKING

from frontier.errors import BadWarc
from frontier.warc.reader import (
    GZIP,
    HEAD_LIMIT,
    begun,
    blocks_of,
    gzip_member,
    plain_records,
    records,
    unpacked,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from frontier.warc.reader import Found, Rest

PLAIN = "plain"
GZIP_RECORDS = "gzip"
"""Each record is a gzip member."""
GZIP_WHOLE = "gzip-whole"
"""Members have several records, or parts of one."""
BY_OFFSET = frozenset({PLAIN, GZIP_RECORDS})
"""Those of which a record is read by its offset in the file."""


def container_of(file: IO[bytes]) -> str:
    """How *file* is packed; its position is another then.

    Raises:
        OSError: It cannot be read.
    """
    file.seek(0)
    if file.read(len(GZIP)) != GZIP:
        return PLAIN
    return GZIP_RECORDS if _fills_its_member(file) else GZIP_WHOLE


def _fills_its_member(file: IO[bytes]) -> bool:
    """Whether the first member of *file* has one record, or is none that can be read.

    It is unpacked up to where that record ends.
    """
    size, end, start = 0, 0, b""
    try:
        for part in unpacked("", blocks_of(file, 0), gzip_member, is_one=True):
            size += len(part)
            if not end:
                start += part
                if len(start) < HEAD_LIMIT and b"\r\n\r\n" not in start:
                    continue
                found = begun("", 0, start)
                said = int(found.headers.get("content-length"))
                end = len(found.headers.top) + 4 + said + 4
            if size > end:
                return False
    except BadWarc:
        return True  # whoever reads the records tells why
    return size == end or not end


def every_record(
    file: IO[bytes],
    name: str,
    rest: Rest | None = None,
    kept: int = 0,
    wrong: Callable[[BadWarc], None] | None = None,
) -> Iterator[Found]:
    """Yield the records of *file*, which is called *name*; see `records`.

    Raises:
        BadWarc: It is cut off, or is no WARC file; what is before that was given.
        OSError: It cannot be read.
    """
    container = container_of(file)
    blocks = blocks_of(file, 0)
    if container == GZIP_RECORDS:
        yield from records(name, blocks, rest=rest, kept=kept, wrong=wrong)
    elif container == GZIP_WHOLE:
        inside = unpacked(name, blocks, gzip_member)
        yield from plain_records(f"{name} (unpacked)", inside, rest, kept)
    else:
        yield from plain_records(name, blocks, rest, kept)
