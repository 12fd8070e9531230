"""The memory limit of the queues: beyond it, long ready lists are compressed.

And if that is not enough, and there is a directory that all nodes reach, the blocks
go to files there, and the store keeps their addresses.

What always holds:

1.  Only the holder of a partition makes blocks of its lists, and puts them back,
    each with one script that its token fences. Killed at any point, nothing is
    lost and nothing is there twice: a block that was read or made, but not
    swapped, does not count.
2.  URLs leave a list in the order in which they would without blocks: what is
    put into a block, and what comes back, is next to the mark that stands for all
    blocks of the list. What is next to be fetched stays in the list.
3.  Blocks are in the store, or in a file that is on disk before its address takes
    the block's place. A new holder finds them by the mark. One that cannot read a
    file says so, and asks again until it can.
4.  Compressing, decompressing and files are left to a thread.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from frontier.errors import LeaseLost
from frontier.model import Order
from frontier.queue.priority import process_of
from frontier.queue.spill_files import (
    BLOCK,
    MARK,
    MARK_LIMIT,
    SpillFilesHolder,
    count_of,
    done,
    fitting,
    spill_call,
    unspill_call,
)
from frontier.store.client import Call

if TYPE_CHECKING:
    from collections.abc import Iterable

    from frontier.model import Lease
    from frontier.node.context import NodeContext
    from frontier.node.inbox import Inbox
    from frontier.queue.spill_files import SpillFiles

logger = logging.getLogger(__name__)

INTERVAL, LONGEST = 2.0, 64.0
"""Seconds between looks; the second where the last ones could do nothing."""
BATCH = 128
"""Partitions, or lists, per round trip."""
KEPT = BLOCK
"""URLs at the end of a list from which they are taken that are never compressed."""
LEAST = KEPT + 2 * BLOCK
"""URLs from which on a list is long."""
MAX_QUEUES = 1000
"""Queues of one partition that are looked at."""
SAMPLE = 8
"""Partitions, lists of each, and URLs of each list that are looked at to know what
a URL takes."""
OVERHEAD = 10
"""Bytes that a list takes for an item beside the item."""
RETRY = 2.0
"""Seconds after which a file that could not be read is asked for again."""
FREE = 0.1
"""Share of the limit that is free after URLs were compressed."""


@dataclass(slots=True)
class _Part:
    """A partition that this node holds, as of one look."""

    lease: Lease
    loose: int
    """URLs that are ready, and not in a block."""
    packed_bytes: int


class Spilling:
    """Compresses and restores the ready lists of one node's partitions."""

    def __init__(
        self,
        context: NodeContext,
        inbox: Inbox,
        *,
        max_bytes: int,
        spill_files: SpillFiles | None = None,
    ) -> None:
        self._outage_retry = context.outage_retry
        self._keys = context.keys
        self._leases = context.leases
        self._inbox = inbox
        inbox.on_short = self.short
        self._order = context.order
        self._partitions = context.partitions
        self._max_bytes = max_bytes
        self._shelving = SpillFilesHolder(
            context.outage_retry, context.keys, context.order, spill_files
        )
        self._short: dict[tuple[int, str], None] = {}
        self._woken = asyncio.Event()
        self._turn = asyncio.Lock()
        self._warned = False
        self._unreadable: set[tuple[int, str]] = set()
        self.spilled = 0
        """URLs that this node has put into blocks."""
        self.restored = 0
        """URLs that it has put back."""

    def short(self, partition: int, queue: str) -> None:
        """Note that the next URLs of *queue* are in a block; never waits."""
        self._short[partition, queue] = None
        self._woken.set()

    async def run(self) -> None:
        """Put blocks back where lists run short, until cancelled."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            while self._short:
                partition, queue = place = next(iter(self._short))
                del self._short[place]
                try:
                    await self.restore(partition, queue)
                except LeaseLost as error:
                    await self._lose(error)
                except OSError as error:
                    self._complain(place, error)
                    asyncio.get_running_loop().call_later(RETRY, self.short, *place)
                    continue
                self._unreadable.discard(place)
                self._inbox.note_ready(partition, [queue])

    async def watch(self) -> None:
        """Keep to the limit, until cancelled."""
        pause = INTERVAL
        while True:
            await asyncio.sleep(pause)
            # Where nothing can be done, to look at all lists is not worth its cost.
            pause = INTERVAL if await self.look() else min(2 * pause, LONGEST)

    async def look(self) -> bool:
        """Compress what is above this node's share of the limit.

        Returns whether it keeps to its share, or was able to free some of it.
        """
        parts = await self._parts()
        share = len(parts) / self._partitions
        limit = self._max_bytes * share
        loose = sum(part.loose for part in parts)
        packed = sum(part.packed_bytes for part in parts)
        if not loose and packed <= limit:
            return True
        parts.sort(key=lambda part: -part.loose)
        each = await self._bytes_of_one(parts[:SAMPLE])
        excess = loose * each + packed - limit
        if excess <= 0:
            return True
        excess = before = excess + limit * FREE
        for part in parts:
            if part.loose < LEAST or excess <= 0:
                break
            try:
                excess = await self._compress(part.lease, excess, each)
            except LeaseLost as error:
                await self._lose(error)
        if excess > 0 and self._shelving.spill_files is not None:
            excess = await self._shelve(await self._parts(), excess)
        if excess > limit * FREE:
            self._warn(limit)
        return excess < before

    async def restore(self, partition: int, queue: str) -> bool:
        """Put the next block of *queue* back; return whether there was one.

        Raises:
            LeaseLost: Another node has the partition.
            OSError: The block is in a file that cannot be read here.
        """
        async with self._turn:
            lease = self._leases.current(partition)
            if lease is None:
                return False
            keys = self._keys.partition(partition)
            place = 0 if self._order is Order.BFS else -1
            blocks, block = await self._outage_retry.retry(
                [
                    Call.command("LLEN", keys.spilled(queue)),
                    Call.command("LINDEX", keys.spilled(queue), place),
                ]
            )
            if block is None:
                return False
            shelved = await self._shelving.fetch(block)
            call = await asyncio.to_thread(
                unspill_call, keys, lease, self._order, queue, blocks, block, shelved
            )
            (reply,) = await self._outage_retry.retry([call])
            if not done(reply, lease):
                return False
            self.restored += shelved.count if shelved else count_of(block)
            if shelved:
                await self._shelving.forget(block)
            return True

    async def spill(self, lease: Lease, queue: str) -> tuple[int, int]:
        """Put some URLs of *queue* into a block.

        Returns how many, 0 if the list is not long enough, and the block's bytes.

        Raises:
            LeaseLost: Another node has the partition.
        """
        async with self._turn:
            keys = self._keys.partition(lease.partition)
            ready = keys.ready(queue)
            blocks, mark, length = await self._outage_retry.retry(
                [
                    Call.command("LLEN", keys.spilled(queue)),
                    Call.command("LPOS", ready, MARK, "MAXLEN", MARK_LIMIT),
                    Call.command("LLEN", ready),
                ]
            )
            kept = KEPT if self._order is Order.BFS else 0
            first = kept if mark is None else mark + 1
            behind = 1 if self._order is Order.BFS else KEPT
            if length - first < BLOCK + behind:
                return 0, 0
            read = Call.command("LRANGE", ready, first, first + BLOCK - 1)
            (found,) = await self._outage_retry.retry([read])
            items = fitting(found)
            if not items or MARK in items:
                return 0, 0
            call = await asyncio.to_thread(
                spill_call, keys, lease, queue, blocks, items
            )
            (reply,) = await self._outage_retry.retry([call])
            if not done(reply, lease):
                return 0, 0
            self.spilled += len(items)
            return len(items), len(call.parts[-1])  # type: ignore[arg-type]

    async def _parts(self) -> list[_Part]:
        held = [
            lease
            for partition, lease in self._leases.held.items()
            if partition not in self._inbox.handing_over
        ]
        found = []
        for first in range(0, len(held), BATCH):
            leases = held[first : first + BATCH]
            names = ("ready", "spilled", "spilled_bytes")
            calls = [
                Call.command("HMGET", self._keys.partition(p.partition).counts, *names)
                for p in leases
            ]
            for lease, reply in zip(
                leases, await self._outage_retry.retry(calls), strict=True
            ):
                ready, spilled, packed = (int(value or 0) for value in reply)
                found.append(_Part(lease, ready - spilled, packed))
        return found

    async def _bytes_of_one(self, parts: Iterable[_Part]) -> float:
        """What a URL in a list takes, by some URLs of some lists of *parts*."""
        keys = [self._keys.partition(part.lease.partition) for part in parts]
        names = await self._outage_retry.retry(
            [Call.command("ZRANGE", each.queues, 0, SAMPLE - 1) for each in keys]
        )
        lists = await self._outage_retry.retry(
            [
                Call.command("LRANGE", each.ready(queue.decode()), 0, SAMPLE - 1)
                for each, queues in zip(keys, names, strict=True)
                for queue in queues
            ]
        )
        sizes = [len(item) for items in lists for item in items if item != MARK]
        return sum(sizes) / max(1, len(sizes)) + OVERHEAD

    async def _compress(self, lease: Lease, excess: float, each: float) -> float:
        """Compress lists of one partition, the longest first; return what is left."""
        keys = self._keys.partition(lease.partition)
        queues = await self._queues(lease.partition)
        lengths = []
        for first in range(0, len(queues), BATCH):
            some = queues[first : first + BATCH]
            lengths += await self._outage_retry.retry(
                [Call.command("LLEN", keys.ready(queue)) for queue in some]
            )
        long = [(n, q) for n, q in zip(lengths, queues, strict=True) if n >= LEAST]
        for _, queue in sorted(long, reverse=True):
            while excess > 0:
                count, size = await self.spill(lease, queue)
                if not count:
                    break
                excess -= count * each - size
        return excess

    async def _shelve(self, parts: Iterable[_Part], excess: float) -> float:
        """Put blocks of *parts* into files; return what is left of *excess*."""
        for part in parts:
            if not part.packed_bytes or excess <= 0:
                continue
            partition = part.lease.partition
            try:
                for queue in await self._queues(partition):
                    saved = 1
                    while excess > 0 and saved:
                        async with self._turn:
                            saved = await self._shelving.shelve(part.lease, queue)
                        excess -= saved
            except LeaseLost as error:
                await self._lose(error)
            except OSError as error:
                self._complain((partition, ""), error)
                break
        return excess

    async def _queues(self, partition: int) -> list[str]:
        keys = self._keys.partition(partition)
        call = Call.command("ZRANGE", keys.queues, 0, MAX_QUEUES - 1)
        (found,) = await self._outage_retry.retry([call])
        names = [queue.decode() for queue in found]
        return [name for name in names if not process_of(name)]

    def _complain(self, place: tuple[int, str], error: OSError) -> None:
        if place not in self._unreadable:
            self._unreadable.add(place)
            logger.error(
                "blocks of the queue %s of partition %d cannot be %s: %s; it is tried "
                "again until they can",
                place[1] or "(any)",
                place[0],
                "read from their files" if place[1] else "written to files",
                error,
            )

    async def _lose(self, error: LeaseLost) -> None:
        lease = self._leases.held.get(error.partition)
        if lease is not None and lease.token == error.token:
            place = (lease.partition, lease.token)
            if place not in await self._leases.renew_refused([lease]):
                self._inbox.lose_all([lease])

    def _warn(self, limit: float) -> None:
        if not self._warned:
            self._warned = True
            logger.warning(
                "the queues of this node's partitions take more than its share, %d "
                "bytes, of FRONTIER_QUEUE_MAX_BYTES = %d, and no list is left that is "
                "long enough to be compressed",
                limit,
                self._max_bytes,
            )
