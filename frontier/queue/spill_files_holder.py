"""What the holder of a partition does with blocks that are in files.

What always holds:

1.  The addresses in a list of blocks come one after the other: behind the `NEAR`
    blocks that are next, and before those that have not gone yet.
2.  An address takes the place of its block only when the file is on disk, and if
    the block is still there.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from frontier.errors import CodecError
from frontier.model import Order
from frontier.queue.spill_blocks import Shelved, count_of, done, shelve_call
from frontier.queue.spill_files import is_address, sizes_of
from frontier.store.client import Call

if TYPE_CHECKING:
    from frontier.model import Lease
    from frontier.queue.spill_files import Shelf
    from frontier.store.keys import CrawlKeys
    from frontier.store.outage_retry import Patience

NEAR = 2
"""Blocks of a queue that come next, and stay in the store."""


class Shelving:
    """Moves blocks of one node's partitions to files, and reads them."""

    def __init__(
        self, patience: Patience, keys: CrawlKeys, order: Order, shelf: Shelf | None
    ) -> None:
        self._patience = patience
        self._keys = keys
        self._order = order
        self.shelf = shelf

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
        if self.shelf is None:
            raise FileNotFoundError("FRONTIER_QUEUE_SPILL_DIR is not set here")
        try:
            block = await asyncio.to_thread(self.shelf.get, element)
        except CodecError as error:
            return Shelved(error, count, size)
        return Shelved(block, count, size)

    async def forget(self, address: bytes) -> None:
        """Have the file of *address* removed later."""
        if self.shelf is not None:
            await asyncio.to_thread(self.shelf.forget, address)

    async def shelve(self, lease: Lease, queue: str) -> int:
        """Put the first block of *queue* that may go to a file into one.

        Returns the bytes that the store is spared; 0 if no block may go.

        Raises:
            LeaseLost: Another node has the partition.
            OSError: The file cannot be written.
        """
        keys = self._keys.partition(lease.partition)
        index, block = await self._first(keys.spilled(queue))
        if self.shelf is None or not count_of(block):
            return 0
        put = self.shelf.put
        address = await asyncio.to_thread(put, block, lease.partition, lease.token)
        call = shelve_call(keys, lease, queue, index, block, address)
        (reply,) = await self._patience.run([call])
        if not done(reply, lease):
            await self.forget(address)
            return 0
        return len(block) - len(address)

    async def _first(self, name: str) -> tuple[int, bytes]:
        """The place of the first block that may go to a file, and the block."""
        (blocks,) = await self._patience.run([Call.command("LLEN", name)])
        oldest = self._order is Order.BFS
        low, high = (NEAR, blocks) if oldest else (0, blocks - NEAR)
        block = b""
        while low < high:
            middle = (low + high) // 2
            read = Call.command("LINDEX", name, middle)
            (found,) = await self._patience.run([read])
            if is_address(found or b""):
                low = middle + 1
            else:
                high, block = middle, found or b""
        return low, block
