"""The file of an exported seen-set.

::

    magic  8 bytes, version  2, length of header  4
    header  JSON, padded with blanks; CRC-32 of all so far  4
    block*  kind  1, partition  4, a  4, b  4, length  4, CRC-32  4, payload
    end     a block of the kind `END` without a payload

Numbers are big-endian, payloads are deflated, and the CRC-32 is over the five
numbers before it and the payload. Partitions ascend. A partition has

- `ENTRIES`, *a* of them: the differences between entries, which ascend, 8 bytes
  each; all the first bytes, then all the second and so on, as most are zero;
- a `LAYOUT`, if its Bloom tier is in the file: *a* generations, the last of which
  has *b* URLs;
- `BITS` of generation *a*: bytes from *b* on, at most `BLOCK_BYTES` of them.
"""

from __future__ import annotations

import json
import struct
import sys
import zlib
from array import array
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from frontier.errors import ConfigurationError, SeenFileBroken, SeenFileMismatch
from frontier.files import FILE_MODE, creating, open_input
from frontier.seen.intset import LEVELS, SHORT_BITS, Space
from frontier.urls.fingerprint import MARK_BITS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from types import TracebackType
    from typing import Self

MAGIC = b"\x89SEEN\r\n\x1a"
VERSION = 2
RULES = "w3lib"
"""The canonicalization that URLs went through before they were hashed."""
HASH = "murmur3-128/62"
"""What made a mark of a fingerprint; see `frontier.urls.fingerprint.seen_hash`."""
ENTRIES, LAYOUT, BITS, END = range(4)
BLOCK_ENTRIES = 8192
BLOCK_BYTES = 64 * 1024
MAX_GENERATIONS = 64
MAX_HEADER = 64 * 1024
_OPENING = struct.Struct(">8sHI")
_BLOCK = struct.Struct(">BIIIII")
_CRC = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class Header:
    """What a file says of itself."""

    fingerprinter: str
    crawl_id: str
    spider: str
    shape: dict[str, Any]
    """The settings that the crawl was created with."""
    bits: int = MARK_BITS
    groups: int = 1
    """With *bits*, the `Space` of the entries."""
    urls: int = 0
    """Entries."""
    rules: str = RULES
    hash: str = HASH

    @property
    def space(self) -> Space:
        """The space of the entries.

        Raises:
            ValueError: There is no such space.
        """
        is_whole = (self.bits, self.groups) == (MARK_BITS, 1)
        if not is_whole and not (
            self.bits == SHORT_BITS and 1 <= int(self.groups) <= 1 << LEVELS
        ):
            raise ValueError("no space")
        return Space(self.bits, self.groups)


class Block(NamedTuple):
    """A part of a partition; what *a* and *b* are depends on its kind."""

    kind: int
    partition: int
    a: int
    b: int
    entries: list[int]
    data: bytes


class SeenFileWriter:
    """Writes a file that gets its name when it is complete."""

    def __init__(self, path: Path, header: Header, mode: int = FILE_MODE) -> None:
        self._path, self._header = path, header
        self._mode = mode
        self._part = path.with_name(path.name + ".part")
        self._length = len(json.dumps(asdict(header))) + 20
        self._pending: list[int] = []
        self._partition, self._last = 0, 0
        self.urls = 0

    def __enter__(self) -> Self:
        try:
            self._file = open(self._part, "wb", opener=creating(self._mode))
        except OSError as error:
            raise ConfigurationError(
                f"{self._part} cannot be written: {error.strerror}"
            ) from None
        self._file.write(self._opening(0))
        return self

    def add(self, partition: int, entries: Sequence[int]) -> None:
        """Write *entries*, sorted and above those written before of *partition*."""
        if partition != self._partition:
            self._flush(0)
            self._partition, self._last = partition, 0
        self._pending += entries
        self._flush(BLOCK_ENTRIES)

    def add_layout(self, partition: int, blooms: int, last: int) -> None:
        """Write of how many generations the bits are that follow."""
        self._flush(0)
        self._partition, self._last = partition, 0
        self._block(LAYOUT, partition, blooms, last, b"")

    def add_bits(self, partition: int, generation: int, at: int, data: bytes) -> None:
        """Write bytes of a generation, from its byte *at* on."""
        self._block(BITS, partition, generation, at, zlib.compress(data, 1))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if isinstance(error, OSError):
                raise error
            if kind is None:
                self._flush(0)
                self._block(END, 0, 0, 0, b"")
                self._file.seek(0)
                self._file.write(self._opening(self.urls))
            self._file.close()
            if kind is None:
                self._part.replace(self._path)
        except OSError as fault:
            raise ConfigurationError(
                f"{self._path} cannot be written: {fault.strerror}"
            ) from None
        finally:
            with suppress(OSError):
                self._part.unlink(missing_ok=True)

    def _opening(self, urls: int) -> bytes:
        text = json.dumps({**asdict(self._header), "urls": urls})
        body = _OPENING.pack(MAGIC, VERSION, self._length)
        body += text.ljust(self._length).encode("ascii")
        return body + _CRC.pack(zlib.crc32(body))

    def _flush(self, least: int) -> None:
        while self._pending and len(self._pending) >= least:
            entries = self._pending[:BLOCK_ENTRIES]
            del self._pending[:BLOCK_ENTRIES]
            payload = zlib.compress(_packed(entries, self._last), 6)
            self._block(ENTRIES, self._partition, len(entries), 0, payload)
            self._last = entries[-1]
            self.urls += len(entries)

    def _block(self, kind: int, partition: int, a: int, b: int, payload: bytes) -> None:
        head = _BLOCK.pack(kind, partition, a, b, len(payload), 0)[: -_CRC.size]
        self._file.write(head + _CRC.pack(zlib.crc32(head + payload)) + payload)


class SeenFile:
    """Reads a file; every error names it and the place of the block at fault."""

    def __init__(self, path: Path) -> None:
        try:
            self._file: BinaryIO = open_input(path)
            self._file.read(0)
        except OSError as error:
            raise ConfigurationError(
                f"{path} cannot be read: {error.strerror}"
            ) from None
        self._path = path
        self.layouts: dict[int, tuple[int, int]] = {}
        """Bloom generations of partitions, and URLs in the last; once verified."""
        try:
            self.header = self._opening()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def verified(self) -> dict[int, int]:
        """The number of entries of each partition, after reading the whole file.

        Raises:
            SeenFileBroken: It is not whole.
        """
        counts: dict[int, int] = {}
        for block in self.blocks():
            count = counts.get(block.partition, 0) + len(block.entries)
            counts[block.partition] = count
            if block.kind == LAYOUT:
                self.layouts[block.partition] = (block.a, block.b)
        if sum(counts.values()) != self.header.urls:
            raise self._broken(self._file.tell(), "it has not the URLs of its header")
        return counts

    def blocks(self) -> Iterator[Block]:
        """Each block.

        Raises:
            SeenFileBroken: A block is not what it should be.
        """
        self._file.seek(self._start)
        last, before = -1, 0
        while True:
            at = self._file.tell()
            head = self._exactly(_BLOCK.size, at)
            kind, partition, a, b, length, crc = _BLOCK.unpack(head)
            if kind > END or length > 2 * BLOCK_BYTES:
                raise self._broken(at, "there is no block")
            payload = self._exactly(length, at)
            if zlib.crc32(head[: -_CRC.size] + payload) != crc:
                raise self._broken(at, "it is damaged")
            if kind == END:
                break
            if partition < before:
                raise self._broken(at, "its partitions are in no order")
            last = last if partition == before else -1
            entries, data = list[int](), b""
            if kind == ENTRIES:
                entries = self._entries(payload, a, last, at)
                last = entries[-1]
            elif kind == LAYOUT and not 1 <= a <= MAX_GENERATIONS:
                raise self._broken(at, "it has invalid filters")
            elif kind == BITS:
                data = self._inflated(payload, BLOCK_BYTES, at)
            yield Block(kind, partition, a, b, entries, data)
            before = partition
        if self._file.read(1):
            raise self._broken(at, "there is more after the end")

    def _opening(self) -> Header:
        head = self._file.read(_OPENING.size)
        if len(head) < _OPENING.size or not head.startswith(MAGIC):
            raise self._broken(0, "it is not an exported seen-set")
        _, version, length = _OPENING.unpack(head)
        if version != VERSION:
            raise SeenFileMismatch(str(self._path), "version", version, VERSION)
        if length > MAX_HEADER:
            raise self._broken(0, "its header is damaged")
        rest = self._exactly(length + _CRC.size, 0)
        if _CRC.pack(zlib.crc32(head + rest[:length])) != rest[length:]:
            raise self._broken(0, "its header is damaged")
        self._start = self._file.tell()
        try:
            header = Header(**json.loads(rest[:length]))
            self._end = header.space.end
        except (TypeError, ValueError, RecursionError):
            raise self._broken(0, "its header is another program's") from None
        return header

    def _exactly(self, size: int, at: int) -> bytes:
        found = self._file.read(size)
        if len(found) < size:
            raise self._broken(at, "it is cut off in the block that begins")
        return found

    def _entries(self, payload: bytes, count: int, last: int, at: int) -> list[int]:
        if not 1 <= count <= BLOCK_ENTRIES:
            raise self._broken(at, "there is no block")
        plain = self._inflated(payload, 8 * count, at)
        if len(plain) != 8 * count:
            raise self._broken(at, "a block has other entries than it says")
        entries = _unpacked(plain, max(last, 0))
        rising = all(a < b for a, b in pairwise((last, *entries)))
        if entries[-1] >= self._end or not rising:
            raise self._broken(at, "a block has invalid entries")
        return entries

    def _inflated(self, payload: bytes, most: int, at: int) -> bytes:
        inflate = zlib.decompressobj()
        try:
            plain = inflate.decompress(payload, most + 1)
        except zlib.error:
            plain = b""
        if not 0 < len(plain) <= most:
            raise self._broken(at, "a block has another content than it says")
        return plain

    def _broken(self, offset: int, reason: str) -> SeenFileBroken:
        return SeenFileBroken(str(self._path), offset, reason)


def _packed(entries: Sequence[int], last: int) -> bytes:
    steps = array("Q")
    for entry in entries:
        steps.append(entry - last)
        last = entry
    if sys.byteorder == "little":
        steps.byteswap()
    plain = steps.tobytes()
    return b"".join(plain[i::8] for i in range(8))


def _unpacked(planes: bytes, last: int) -> list[int]:
    count = len(planes) // 8
    plain = bytearray(len(planes))
    for i in range(8):
        plain[i::8] = planes[i * count : (i + 1) * count]
    steps = array("Q", bytes(plain))
    if sys.byteorder == "little":
        steps.byteswap()
    entries = []
    for step in steps:
        last += step
        entries.append(last)
    return entries
