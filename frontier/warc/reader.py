"""The records of a WARC file, from a stream of its bytes, in bounded memory.

What always holds:

1.  Of a record no more than `HEAD_LIMIT` bytes are kept, of a request no more than
    `REQUEST_LIMIT`, however long it is and whatever it says of its own length.
2.  A file that is not made of whole gzip members with a WARC record each is
    refused, with the offset of what is wrong.

The records of a WARC file that is not compressed, in bounded memory.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from isal import isal_zlib

from frontier.errors import BadWarc

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


HEAD_LIMIT = 256 * 1024
"""Bytes kept of a record: its headers, HTTP headers and the begin of its body."""
REQUEST_LIMIT = 1 << 22
"""Bytes kept of a request: a form is filed by what was sent."""
BLOCK = 1 << 20
"""Bytes that are read, and inflated, at a time."""
PIECE = 1 << 14
"""Compressed bytes that are handed to zlib at a time."""
MAX_HEADERS = 10_000
"""Most header lines of a record or of its HTTP message."""

_KIND = re.compile(rb"WARC/[^\r\n]*\r\nWARC-Type: ([^\r\n]*)\r\n")
_REQUEST = re.compile(rb"WARC/[^\r\n]*\r\nWARC-Type: request\r\n")
_GZIP = 31  # zlib: expect gzip framing
_ZlibError = cast("type[Exception]", isal_zlib.error)


@functools.cache
def _needle(name: str) -> bytes:
    return b"\r\n%b:" % name.encode("ascii")


class Head:
    """Headers, looked for when they are asked for: most of them never are."""

    __slots__ = ("_lower", "_top")

    def __init__(self, top: bytes = b"") -> None:
        """Of *top*: a first line, and a header on each further one."""
        self._top = top
        self._lower = top.lower()

    def get(self, name: str, default: str = "") -> str:
        """The value of the first header with the lower-case *name*."""
        needle = _needle(name)
        at = self._lower.find(needle)
        if at < 0:
            return default
        at += len(needle)
        end = self._top.find(b"\r\n", at)
        value = self._top[at:] if end < 0 else self._top[at:end]
        return value.strip().decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Found:
    """One record, and where it is."""

    offset: int
    length: int
    """Of the gzip member, in bytes."""
    headers: Head
    """WARC headers."""
    block: bytes
    """The begin of the record's block."""

    @property
    def kind(self) -> str:
        """WARC-Type."""
        return self.headers.get("warc-type", "")


def records(
    name: str, blocks: Iterable[bytes], only: frozenset[str] | None = None
) -> Iterator[Found]:
    """Yield the records of the file *name*, given its bytes in order.

    With *only*, it ends where one of another kind begins, however large that is.

    Raises:
        BadWarc: It is cut off, is not gzip, or has a record without headers.
    """
    offset = size = 0
    inflate = isal_zlib.decompressobj(_GZIP)
    head = bytearray()
    total = 0
    for piece in _pieces(blocks):
        data, full = piece, False
        while data or full:
            try:
                out = inflate.decompress(data, BLOCK)
            except _ZlibError as error:
                raise BadWarc(name, offset, f"not a gzip member ({error})") from None
            total += len(out)
            full = len(out) == BLOCK and not inflate.eof  # more may be held back
            limit = REQUEST_LIMIT if _REQUEST.match(head or out) else HEAD_LIMIT
            if len(head) < limit:
                head += out[: limit - len(head)]
            kind = None if only is None else _KIND.match(head)
            if only is not None and kind and kind[1].decode("latin-1") not in only:
                return
            rest = inflate.unused_data if inflate.eof else inflate.unconsumed_tail
            size += len(data) - len(rest)
            data = rest
            if inflate.eof:
                yield _found(name, offset, size, bytes(head), total)
                offset, size, total = offset + size, 0, 0
                inflate = isal_zlib.decompressobj(_GZIP)
                head = bytearray()
    if size:
        raise BadWarc(name, offset, "the last record is cut off")


def _pieces(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Cut *blocks* up: at each member's end, zlib copies what it has not read."""
    for block in blocks:
        for start in range(0, len(block), PIECE):
            yield block[start : start + PIECE]


def _found(name: str, offset: int, length: int, head: bytes, total: int) -> Found:
    if not head.startswith(b"WARC/"):
        raise BadWarc(name, offset, "a gzip member that is not a WARC record")
    top, gap, block = head.partition(b"\r\n\r\n")
    if not gap or top.count(b"\n") > MAX_HEADERS:
        raise BadWarc(name, offset, "a record with endless headers")
    headers = Head(top)
    said = headers.get("content-length", "")
    if not (said.isascii() and said.isdigit() and len(said) < 16):
        raise BadWarc(name, offset, f"Content-Length {said[:40]!r}")
    if len(top) + 4 + int(said) + 4 != total:
        reason = f"a record that says {said} bytes, and has {total - len(top) - 8}"
        raise BadWarc(name, offset, reason)
    return Found(offset, length, headers, block[: int(said)])


def http(block: bytes) -> tuple[str, Head, bytes]:
    """Return status, headers and begin of the body of an HTTP response.

    The status is empty, and the headers are, if *block* is no whole head.
    """
    top, gap, body = block.partition(b"\r\n\r\n")
    words = top.split(b"\r\n", 1)[0].split(b" ", 2)
    if not gap or not top.startswith(b"HTTP/") or len(words) < 2:
        return "", Head(), b""
    status = words[1].decode("latin-1")
    return (status if status.isdigit() else ""), Head(top), body
