"""The digest of a payload that is in the block of a WARC record.

The payload of an HTTP response is its entity body (WARC 1.1, section 5.9): without
the transfer coding, which some tools leave in the block, with the content coding.
Memory does not grow with the block.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol

from frontier.dedupe.digest import digester

if TYPE_CHECKING:
    from collections.abc import Iterator

_BLOCK = 1 << 18
_HEAD_LIMIT = 1 << 20
_LINE_LIMIT = 1 << 14
_CHUNKED = re.compile(
    rb"^transfer-encoding[ \t]*:[^\r\n]*\bchunked\b", re.IGNORECASE | re.MULTILINE
)
_END_OF_HEAD = re.compile(rb"\r?\n\r?\n")
_SIZE = re.compile(rb"[ \t]*([0-9a-fA-F]{1,15})[ \t]*(?:;[^\n]*)?\r?\n")


class Readable(Protocol):
    """Where the block comes from."""

    def read(self, size: int = -1) -> bytes:
        """Return up to *size* bytes; none at the end."""


def payload_digest(block: Readable, algorithm: str, *, http: bool) -> str:
    """The digest of the payload in *block*, as an index spells it.

    With *http* the block is an HTTP response, else it is the payload.

    Raises:
        ImportError: The package that *algorithm* needs is not installed.
        ValueError: It is not an HTTP response, or its chunks are wrong.
    """
    computed = digester(algorithm)
    for part in body_of(block) if http else iter(lambda: block.read(_BLOCK), b""):
        computed.update(part)
    return computed.spelled()


def body_of(block: Readable) -> Iterator[bytes]:
    """The entity body of the HTTP response in *block*, without its transfer coding.

    Raises:
        ValueError: It is not an HTTP response, or its chunks are wrong.
    """
    source = _Source(block)
    head = source.head()
    if not _CHUNKED.search(head):
        while part := source.take(_BLOCK):
            yield part
        return
    if not _SIZE.match(source.peek(_LINE_LIMIT)):
        # De-chunked already, by a tool that left the header as it was.
        while part := source.take(_BLOCK):
            yield part
        return
    while size := source.chunk_size():
        while size:
            part = source.take(min(size, _BLOCK))
            if not part:
                raise ValueError("a chunk that is cut off")
            size -= len(part)
            yield part
        if source.take_line() != b"\r\n":
            raise ValueError("a chunk without an end")


class _Source:
    def __init__(self, block: Readable) -> None:
        self._block = block
        self._ahead = b""

    def head(self) -> bytes:
        """What comes up to the empty line, and not that."""
        if not self.peek(5).startswith(b"HTTP/"):
            raise ValueError("no HTTP response")
        at = None
        size = _LINE_LIMIT
        while at is None:
            at = _END_OF_HEAD.search(self.peek(size))
            if at is None and (size >= _HEAD_LIMIT or len(self._ahead) < size):
                raise ValueError("an HTTP head without an end")
            size *= 4
        head, self._ahead = self._ahead[: at.start()], self._ahead[at.end() :]
        return head

    def chunk_size(self) -> int:
        found = _SIZE.fullmatch(self.take_line())
        if not found:
            raise ValueError("a chunk without a size")
        return int(found[1], 16)

    def take_line(self) -> bytes:
        at = self.peek(_LINE_LIMIT).find(b"\n") + 1
        if not at:
            raise ValueError("chunks that are cut off, or no chunks")
        line, self._ahead = self._ahead[:at], self._ahead[at:]
        return line

    def peek(self, size: int) -> bytes:
        while len(self._ahead) < size:
            more = self._block.read(max(_BLOCK, size - len(self._ahead)))
            if not more:
                break
            self._ahead += more
        return self._ahead[:size]

    def take(self, size: int) -> bytes:
        taken = self._ahead[:size] or self._block.read(size)
        self._ahead = self._ahead[size:]
        return taken
