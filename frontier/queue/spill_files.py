"""Blocks of cold queue items, and the files that hold them.

A block is one byte (the version, 1), four bytes (how many items, big-endian), and
zlib's output over a msgpack list of the items. A ready list that has blocks has one
element that is not an item, `MARK`, where they belong. Blocks may be in files, in a
directory that every node of the crawl reaches.

What always holds:

1.  A script puts items into a block, or a block's items back, in one step; it
    changes nothing unless the store still has what the caller has read.
2.  A block keeps the order of its items, and the list of blocks their order.
3.  What a block says is not trusted: it is refused if it is larger than blocks
    are made, or does not have as many items as it says.
4.  A file has its name only after its last byte is on disk, and is not changed
    then. Its name is used once.
5.  What a store says is a file's name leads to no other directory, and what is in
    the file counts only if it is what was put there, by its SHA-256.
6.  A file is removed some minutes after its block was put back: a store that goes
    back in time, at a failover, refers to it again.
7.  The addresses in a list of blocks come one after the other: behind the `NEAR`
    blocks that are next, and before those that have not gone yet.
8.  An address takes the place of its block only when the file is on disk, and if
    the block is still there.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import secrets
import struct
import time
import zlib
from collections import deque
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import msgpack

from frontier.errors import CodecError, LeaseLost
from frontier.files import FILE_MODE, creating, make_directory, open_input
from frontier.model import Order
from frontier.queue.item import MAX_BYTES
from frontier.store.client import Argument, Call
from frontier.store.scripts import QUEUE_SHELVE, QUEUE_SPILL, QUEUE_UNSPILL

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from frontier.model import Lease
    from frontier.store.keys import CrawlKeys, PartitionKeys
    from frontier.store.outage_retry import OutageRetry


VERSION = 1
MARK = b"*"
"""What stands for all blocks in a ready list; an item begins with a digit."""
BLOCK = 500
"""Items of a block, so that no script works for long: more hardly save more, for
zlib looks back 32 kB."""
BLOCK_BYTES = 96 * 1024
"""Items are added to a block up to this size; the first is in it in any case."""
MARK_LIMIT = 4000
"""How far from its beginning the mark is looked for in a list."""

_BLOCK_HEAD = struct.Struct(">BI")
LARGEST = BLOCK_BYTES + MAX_BYTES + 8 * BLOCK + 1024
"""Bytes of a block, inflated or not, that none is above."""


def pack(items: Sequence[bytes]) -> bytes:
    """The block of *items*."""
    body: bytes = msgpack.packb(list(items))
    return _BLOCK_HEAD.pack(VERSION, len(items)) + zlib.compress(body, 6)


def count_of(block: bytes) -> int:
    """How many items *block* says it has; 0 if it says nothing that can be."""
    if len(block) < _BLOCK_HEAD.size or block[0] != VERSION:
        return 0
    count: int = _BLOCK_HEAD.unpack_from(block)[1]
    return count if count <= BLOCK else 0


def unpack(block: bytes) -> list[bytes]:
    """The items of *block*.

    Raises:
        CodecError: It is not what `pack` of this version makes.
    """
    count = count_of(block)
    if not count:
        raise CodecError("a block of another version, or not a block")
    inflate = zlib.decompressobj()
    try:
        body = inflate.decompress(block[_BLOCK_HEAD.size :], LARGEST)
    except zlib.error as error:
        raise CodecError(f"a block that cannot be inflated: {error}") from None
    if not inflate.eof:
        raise CodecError("a block that is cut, or larger than blocks are")
    try:
        items: Any = msgpack.unpackb(body, max_array_len=BLOCK)
    except Exception as error:  # noqa: BLE001 (msgpack raises many types)
        raise CodecError(f"a block that is not msgpack: {error}") from None
    if not isinstance(items, list) or len(items) != count:
        raise CodecError("a block with other items than it says")
    if not all(isinstance(item, bytes) and item[:1].isdigit() for item in items):
        raise CodecError("a block with something that is not an item")
    return items


@dataclass(frozen=True, slots=True)
class Shelved:
    """What is known of a block that is in a file."""

    block: bytes | CodecError
    """The block, or why it is none."""
    count: int
    """Items that its address says it has."""
    size: int
    """Bytes of the file, as the address says."""

    def items(self) -> list[bytes]:
        """The items of the block.

        Raises:
            CodecError: It cannot be read, or has not as many as was said.
        """
        if isinstance(self.block, CodecError):
            raise self.block
        if count_of(self.block) != self.count:
            raise CodecError("a block with other items than its address says")
        return unpack(self.block)


def fitting(items: Sequence[bytes]) -> list[bytes]:
    """The first of *items*, as many as make one block."""
    sizes = accumulate(map(len, items[1:BLOCK]), initial=0)
    room = BLOCK_BYTES - len(items[0]) if items else 0
    return [item for item, size in zip(items, sizes, strict=False) if size <= room] or (
        list(items[:1])
    )


def spill_call(
    keys: PartitionKeys, lease: Lease, queue: str, blocks: int, items: Sequence[bytes]
) -> Call:
    """The call that puts *items* of *queue* into a block, if there are *blocks*."""
    names = [keys.lease, keys.counts, keys.ready(queue), keys.spilled(queue)]
    args: list[Argument] = [lease.token, blocks, items[0], len(items)]
    args += (_sha1(b"".join(items)), pack(items))
    return Call.to(QUEUE_SPILL, names, args)


def unspill_call(
    keys: PartitionKeys,
    lease: Lease,
    order: Order,
    queue: str,
    blocks: int,
    block: bytes,
    shelved: Shelved | None = None,
) -> Call:
    """The call that puts the items of *block*, the next of *blocks*, back.

    *shelved* tells what is in its file, if *block* is only the address. One that
    cannot be read goes to the dead letter.
    """
    names = [keys.lease, keys.counts, keys.ready(queue), keys.spilled(queue), keys.dead]
    pop = "LPOP" if order is Order.BFS else "RPOP"
    found = shelved or Shelved(block, count_of(block), 0)
    try:
        items, unread = found.items(), ""
    except CodecError as error:
        items, unread = [], f"{error}\n{queue}\n"
    args: list[Argument] = [lease.token, pop, blocks, _sha1(block), found.count]
    return Call.to(QUEUE_UNSPILL, names, [*args, unread, found.size, *reversed(items)])


def shelve_call(
    keys: PartitionKeys,
    lease: Lease,
    queue: str,
    index: int,
    block: bytes,
    address: bytes,
) -> Call:
    """The call that puts *address* in the place *index* of *block*."""
    names = [keys.lease, keys.counts, keys.spilled(queue)]
    args: list[Argument] = [lease.token, index, _sha1(block), address]
    return Call.to(QUEUE_SHELVE, names, args)


def done(reply: int | None, lease: Lease) -> bool:
    """Whether a call has changed anything.

    Raises:
        LeaseLost: The token is stale.
    """
    if reply is None:
        raise LeaseLost(lease.partition, lease.token)
    return bool(reply)


def _sha1(data: bytes) -> str:
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()


KEPT = 300.0
"""Seconds for which a file is kept whose block was put back."""
NAME = re.compile(rb"[0-9]{1,5}-[0-9]{1,20}-[0-9a-f]{16}\.block")
UNFINISHED = ".open"

_HEAD = struct.Struct(">BIQ32s")
_VERSION = 2
"""Beside that of blocks, as both stand in one list."""


class SpillFiles:
    """The files of one crawl below *directory*; every method waits for the disk."""

    def __init__(self, directory: Path, mode: int = FILE_MODE) -> None:
        self.directory = directory
        self._mode = mode
        self._gone: deque[tuple[float, str]] = deque()

    def put(self, block: bytes, partition: int, token: int) -> bytes:
        """Write *block* to a file; return its address.

        Raises:
            OSError: The disk does not take it.
        """
        make_directory(self.directory, self._mode)
        name = f"{partition}-{token}-{secrets.token_hex(8)}.block"
        path = self.directory / name
        unfinished = path.with_name(name + UNFINISHED)
        try:
            with open(unfinished, "xb", opener=creating(self._mode)) as file:
                file.write(block)
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(path)
            _sync(self.directory)
        except OSError:
            for left in (unfinished, path):
                with contextlib.suppress(OSError):
                    left.unlink()
            raise
        digest = hashlib.sha256(block).digest()
        head = _HEAD.pack(_VERSION, count_of(block), len(block), digest)
        return head + name.encode()

    def get(self, address: bytes) -> bytes:
        """The block at *address*.

        Raises:
            OSError: Its file cannot be read.
            CodecError: The file is not what was put there.
        """
        _, _, size, digest, name = _parsed(address)
        with open_input(self.directory / name, follow=False) as file:
            block = file.read(size + 1)
        if hashlib.sha256(block).digest() != digest:
            raise CodecError(f"a block whose file {name} was changed")
        return block

    def forget(self, address: bytes) -> None:
        """Remove the file of *address*, later; and those whose time has come."""
        self._gone.append((time.monotonic(), _parsed(address)[4]))
        while self._gone and self._gone[0][0] < time.monotonic() - KEPT:
            with contextlib.suppress(OSError):
                (self.directory / self._gone.popleft()[1]).unlink()


def spill_files_of(
    directory: Path | None, keys: CrawlKeys, mode: int = FILE_MODE
) -> SpillFiles | None:
    """The spill files of a crawl in *directory*, if there is one."""
    if directory is None:
        return None
    return SpillFiles(directory / f"{keys.namespace}-{keys.crawl_id}", mode)


def is_address(element: bytes) -> bool:
    """Whether *element*, of a list of blocks, is the address of one."""
    return element[:1] == bytes([_VERSION])


def sizes_of(address: bytes) -> tuple[int, int]:
    """How many items the block at *address* has, and how many bytes.

    Raises:
        CodecError: It is no address.
    """
    return _parsed(address)[1:3]


def _parsed(address: bytes) -> tuple[int, int, int, bytes, str]:
    if len(address) <= _HEAD.size or not is_address(address):
        raise CodecError("an address of another version, or none")
    version, count, size, digest = _HEAD.unpack_from(address)
    name = address[_HEAD.size :]
    if not NAME.fullmatch(name) or size > LARGEST:
        raise CodecError("an address of no file of ours")
    return version, count, size, digest, name.decode("ascii")


def _sync(directory: Path) -> None:
    """Have the names in *directory* on disk, where that can be asked for."""
    with contextlib.suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


NEAR = 2
"""Blocks of a queue that come next, and stay in the store."""


class SpillFilesHolder:
    """Moves blocks of one node's partitions to files, and reads them."""

    def __init__(
        self,
        outage_retry: OutageRetry,
        keys: CrawlKeys,
        order: Order,
        spill_files: SpillFiles | None,
    ) -> None:
        self._outage_retry = outage_retry
        self._keys = keys
        self._order = order
        self.spill_files = spill_files

    async def fetch(self, element: bytes) -> Shelved | None:
        """What is in the file that *element* leads to; ``None`` if to none.

        Raises:
            OSError: It cannot be read.
        """
        if not is_address(element):
            return None
        try:
            count, size = sizes_of(element)
        except CodecError:
            return None  # no block either
        if self.spill_files is None:
            raise FileNotFoundError("FRONTIER_QUEUE_SPILL_DIR is not set here")
        try:
            block = await asyncio.to_thread(self.spill_files.get, element)
        except CodecError as error:
            return Shelved(error, count, size)
        return Shelved(block, count, size)

    async def forget(self, address: bytes) -> None:
        """Have the file of *address* removed later."""
        if self.spill_files is not None:
            await asyncio.to_thread(self.spill_files.forget, address)

    async def shelve(self, lease: Lease, queue: str) -> int:
        """Put the first block of *queue* that may go to a file into one.

        Returns the bytes that the store is spared; 0 if no block may go.

        Raises:
            LeaseLost: Another node has the partition.
            OSError: The file cannot be written.
        """
        keys = self._keys.partition(lease.partition)
        index, block = await self._first(keys.spilled(queue))
        if self.spill_files is None or not count_of(block):
            return 0
        put = self.spill_files.put
        address = await asyncio.to_thread(put, block, lease.partition, lease.token)
        call = shelve_call(keys, lease, queue, index, block, address)
        (reply,) = await self._outage_retry.retry([call])
        if not done(reply, lease):
            await self.forget(address)
            return 0
        return len(block) - len(address)

    async def _first(self, name: str) -> tuple[int, bytes]:
        """The place of the first block that may go to a file, and the block."""
        (blocks,) = await self._outage_retry.retry([Call.command("LLEN", name)])
        oldest = self._order is Order.BFS
        low, high = (NEAR, blocks) if oldest else (0, blocks - NEAR)
        block = b""
        while low < high:
            middle = (low + high) // 2
            read = Call.command("LINDEX", name, middle)
            (found,) = await self._outage_retry.retry([read])
            if is_address(found or b""):
                low = middle + 1
            else:
                high, block = middle, found or b""
        return low, block
