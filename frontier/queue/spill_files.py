"""Blocks in files, in a directory that every node of the crawl reaches.

What always holds:

1.  A file has its name only after its last byte is on disk, and is not changed
    then. Its name is used once.
2.  What a store says is a file's name leads to no other directory, and what is in
    the file counts only if it is what was put there, by its SHA-256.
3.  A file is removed some minutes after its block was put back: a store that goes
    back in time, at a failover, refers to it again.

What the holder of a partition does with blocks that are in files.

What always holds:

1.  The addresses in a list of blocks come one after the other: behind the `NEAR`
    blocks that are next, and before those that have not gone yet.
2.  An address takes the place of its block only when the file is on disk, and if
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
from collections import deque
from typing import TYPE_CHECKING

from frontier.errors import CodecError
from frontier.files import FILE_MODE, creating, make_directory, open_input
from frontier.model import Order
from frontier.queue.spill_blocks import LARGEST, Shelved, count_of, done, shelve_call
from frontier.store.client import Call

if TYPE_CHECKING:
    from pathlib import Path

    from frontier.model import Lease
    from frontier.store.keys import CrawlKeys
    from frontier.store.outage_retry import OutageRetry


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
        (reply,) = await self._outage_retry.run([call])
        if not done(reply, lease):
            await self.forget(address)
            return 0
        return len(block) - len(address)

    async def _first(self, name: str) -> tuple[int, bytes]:
        """The place of the first block that may go to a file, and the block."""
        (blocks,) = await self._outage_retry.run([Call.command("LLEN", name)])
        oldest = self._order is Order.BFS
        low, high = (NEAR, blocks) if oldest else (0, blocks - NEAR)
        block = b""
        while low < high:
            middle = (low + high) // 2
            read = Call.command("LINDEX", name, middle)
            (found,) = await self._outage_retry.run([read])
            if is_address(found or b""):
                low = middle + 1
            else:
                high, block = middle, found or b""
        return low, block
