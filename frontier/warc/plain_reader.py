"""The records of a WARC file that is not compressed, in bounded memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frontier.errors import BadWarc
from frontier.warc.reader import HEAD_LIMIT, MAX_HEADERS, REQUEST_LIMIT, Found, Head

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_END = b"\r\n\r\n"


def plain_records(name: str, blocks: Iterable[bytes]) -> Iterator[Found]:
    """Yield the records of the file *name*, given its bytes in order.

    Their lengths are without the two line ends behind each, as other indexers have
    it of files that are not compressed.

    Raises:
        BadWarc: It is cut off, is not a WARC file, or is gzip.
    """
    source = _Source(name, blocks)
    while True:
        offset = source.offset
        begin = source.take_until(_END, HEAD_LIMIT)
        if not begin:
            return
        if begin.startswith(b"\x1f\x8b"):
            raise BadWarc(name, offset, "gzip, which a .warc is not,")
        if not begin.startswith(b"WARC/"):
            raise BadWarc(name, offset, "no WARC record")
        if not begin.endswith(_END) or begin.count(b"\n") > MAX_HEADERS:
            raise BadWarc(name, offset, "a record with endless headers")
        headers = Head(begin[: -len(_END)])
        said = headers.get("content-length")
        if not (said.isascii() and said.isdigit() and len(said) < 16):
            raise BadWarc(name, offset, f"Content-Length {said[:40]!r}")
        limit = REQUEST_LIMIT if headers.get("warc-type") == "request" else HEAD_LIMIT
        block = source.take(int(said), limit)
        length = source.offset - offset
        if source.take(len(_END), len(_END)) != _END:
            raise BadWarc(name, offset, "a record that is cut off, or has no end")
        yield Found(offset, length, headers, block)


class _Source:
    def __init__(self, name: str, blocks: Iterable[bytes]) -> None:
        self._name = name
        self._blocks = iter(blocks)
        self._ahead = b""
        self.offset = 0

    def take_until(self, end: bytes, limit: int) -> bytes:
        """What comes up to *end*, or *limit* bytes."""
        taken = self._ahead
        while end not in taken and len(taken) < limit:
            block = next(self._blocks, b"")
            if not block:
                break
            taken += block
        at = taken.find(end)
        size = at + len(end) if at >= 0 else min(len(taken), limit)
        self._ahead = taken[size:]
        self.offset += size
        return taken[:size]

    def take(self, size: int, kept: int) -> bytes:
        """The next *size* bytes, of which the first *kept* are returned."""
        taken = bytearray()
        while size:
            block = self._ahead or next(self._blocks, b"")
            if not block:
                raise BadWarc(self._name, self.offset, "the last record is cut off")
            part, self._ahead = block[:size], block[size:]
            taken += part[: kept - len(taken)]
            size -= len(part)
            self.offset += len(part)
        return bytes(taken)
