"""The file of an exported seen-set.

::

    magic  8 bytes, version  2, length of header  4
    header  JSON, padded with blanks; CRC-32 of all so far  4
    block*  partition  4, members  4, length  4, CRC-32  4, payload
    end     a block of partition `END_MARK` without members or payload

Numbers are big-endian. A payload is the differences between members that are
sorted, 8 bytes each; all the first bytes, then all the second and so on, as
most of the first are zero; deflated. The CRC-32 is over the three numbers
before it and the payload. Members ascend within a partition, and so do
partitions, of which the number of URLs is in the header.
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
from typing import TYPE_CHECKING, Any, BinaryIO

from frontier.errors import ConfigurationError, SeenFileBroken, SeenFileMismatch
from frontier.seen.carry import END, LEAST

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from types import TracebackType
    from typing import Self

MAGIC = b"\x89SEEN\r\n\x1a"
VERSION = 1
RULES = "w3lib"
"""The canonicalization that URLs went through before they were hashed."""
HASH = "murmur3-128/62"
"""What made a member of a fingerprint; see `frontier.hashing.mark`."""
BLOCK_MEMBERS = 8192
END_MARK = 2**32 - 1
MAX_HEADER = 64 * 1024
_OPENING = struct.Struct(">8sHI")
_BLOCK = struct.Struct(">IIII")
_CRC = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class Header:
    """What a file says of itself."""

    fingerprinter: str
    crawl_id: str
    spider: str
    shape: dict[str, Any]
    """The settings that the crawl was created with."""
    urls: int = 0
    rules: str = RULES
    hash: str = HASH


class SeenFileWriter:
    """Writes a file that gets its name when it is complete."""

    def __init__(self, path: Path, header: Header) -> None:
        self._path, self._header = path, header
        self._part = path.with_name(path.name + ".part")
        self._length = len(json.dumps(asdict(header))) + 20
        self._pending: list[int] = []
        self._partition, self._last = 0, LEAST
        self.urls = 0

    def __enter__(self) -> Self:
        try:
            self._file = self._part.open("wb")
        except OSError as error:
            raise ConfigurationError(
                f"{self._part} cannot be written: {error.strerror}"
            ) from None
        self._file.write(self._opening(0))
        return self

    def add(self, partition: int, members: Sequence[int]) -> None:
        """Write *members*, sorted and above those written before of *partition*."""
        if partition != self._partition:
            self._flush(0)
            self._partition, self._last = partition, LEAST
        self._pending += members
        self._flush(BLOCK_MEMBERS)

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
                self._block(END_MARK, 0, b"")
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
            members = self._pending[:BLOCK_MEMBERS]
            del self._pending[:BLOCK_MEMBERS]
            payload = zlib.compress(_packed(members, self._last), 6)
            self._block(self._partition, len(members), payload)
            self._last = members[-1]
            self.urls += len(members)

    def _block(self, partition: int, count: int, payload: bytes) -> None:
        head = _BLOCK.pack(partition, count, len(payload), 0)[:12]
        self._file.write(head + _CRC.pack(zlib.crc32(head + payload)) + payload)


class SeenFile:
    """Reads a file; every error names it and the place of the block at fault."""

    def __init__(self, path: Path) -> None:
        try:
            self._file: BinaryIO = path.open("rb")
            self._file.read(0)
        except OSError as error:
            raise ConfigurationError(
                f"{path} cannot be read: {error.strerror}"
            ) from None
        self._path = path
        try:
            self.header = self._opening()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def verified(self) -> dict[int, int]:
        """The number of members of each partition, after reading the whole file.

        Raises:
            SeenFileBroken: It is not whole.
        """
        counts: dict[int, int] = {}
        for partition, members in self.blocks():
            counts[partition] = counts.get(partition, 0) + len(members)
        if sum(counts.values()) != self.header.urls:
            raise self._broken(self._file.tell(), "it has not the URLs of its header")
        return counts

    def blocks(self) -> Iterator[tuple[int, list[int]]]:
        """Each block: its partition, its members.

        Raises:
            SeenFileBroken: A block is not what it should be.
        """
        self._file.seek(self._start)
        last, before = LEAST, 0
        while True:
            at = self._file.tell()
            head = self._exactly(_BLOCK.size, at)
            partition, count, length, crc = _BLOCK.unpack(head)
            if count > BLOCK_MEMBERS or length > 16 * BLOCK_MEMBERS:
                raise self._broken(at, "there is no block")
            payload = self._exactly(length, at)
            if zlib.crc32(head[:12] + payload) != crc:
                raise self._broken(at, "it is damaged")
            if partition == END_MARK:
                break
            last = last if partition == before else LEAST
            members = self._members(payload, count, last, at)
            if partition < before:
                raise self._broken(at, "its partitions are in no order")
            yield partition, members
            last, before = members[-1], partition
        if self._file.read(1):
            raise self._broken(at, "there is more after the end")

    def _opening(self) -> Header:
        head = self._file.read(_OPENING.size)
        if len(head) < _OPENING.size or not head.startswith(MAGIC):
            raise self._broken(0, "it is no exported seen-set")
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
            return Header(**json.loads(rest[:length]))
        except (TypeError, ValueError, RecursionError):
            raise self._broken(0, "its header is another program's") from None

    def _exactly(self, size: int, at: int) -> bytes:
        found = self._file.read(size)
        if len(found) < size:
            raise self._broken(at, "it is cut off in the block that begins")
        return found

    def _members(self, payload: bytes, count: int, last: int, at: int) -> list[int]:
        inflate = zlib.decompressobj()
        try:
            plain = inflate.decompress(payload, 8 * count + 1)
        except zlib.error:
            plain = b""
        if len(plain) != 8 * count or not count:
            raise self._broken(at, "a block has other members than it says")
        members = _unpacked(plain, last)
        if members[-1] >= END or any(a >= b for a, b in pairwise(members)):
            raise self._broken(at, "a block has members that are none")
        return members

    def _broken(self, offset: int, reason: str) -> SeenFileBroken:
        return SeenFileBroken(str(self._path), offset, reason)


def _packed(members: Sequence[int], last: int) -> bytes:
    steps = array("Q")
    for member in members:
        steps.append(member - last)
        last = member
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
    members = []
    for step in steps:
        last += step
        members.append(last)
    return members
