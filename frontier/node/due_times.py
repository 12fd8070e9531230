"""Due times: what waits in this node's partitions is made ready when it is due.

What always holds:

1.  Only partitions whose lease is current are looked at. A look costs one call: it
    moves what is due, and says what is next. Until then the partition costs no call.
2.  A node learns that something is due earlier than it knew from its own pushes, from
    the hints of others, when it takes a partition, and from looks at all that it holds.
    The end of the crawl is not found while anything waits
    (`frontier.node.end_of_crawl`).
3.  What is due after `until` is not made ready, and does not keep the crawl open.
4.  The pause between two looks is measured on the monotonic clock, by what the server
    says of its own clock; as with each heartbeat.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from frontier.errors import KeyDamaged, LeaseLost
from frontier.node.context import happens
from frontier.queue.due import Moved, due_call, moved
from frontier.queue.priority import readable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frontier.model import Lease
    from frontier.node.node import Node
    from frontier.store.client import Call
from frontier.store.damage import is_number

logger = logging.getLogger(__name__)

AT_ONCE = 64
"""Partitions that are looked at in one round trip."""
PAUSE = 0.01
"""Seconds between two looks, in which more becomes due."""
NOT_RELIED_ON = 0.2
"""The same while leases that are held cannot be relied on."""


@dataclass(slots=True)
class _Next:
    """What is known of a partition in which something waits."""

    at: float = 0.0
    """When to look, on the monotonic clock; 0: now, as nothing is known."""
    bucket: bytes = b""
    queues: tuple[str, ...] = ()
    """The queues of what is due there next."""
    looked: float = 0.0
    """When it was last asked; 0: it is to be asked."""


class DueTimes:
    """Moves what is due to the ready lists of the partitions that this node holds."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._keys = node.keys
        self._leases = node.leases
        self.until = math.inf
        """In ms of the server's clock; what is due later stays where it is."""
        self._next: dict[int, _Next] = {}
        self._some = asyncio.Event()
        self.moved = 0
        """URLs that were made ready."""

    def note(self, partition: int) -> None:
        """Look at *partition*: something may be due earlier than is known."""
        if partition in self._leases.held:
            self._next[partition] = _Next()
            self._some.set()

    def note_waiting(self) -> None:
        """Look at partitions where something waits that were not looked at lately.

        A hint of something that is due earlier than is known may be lost.
        """
        old = time.monotonic() - self._node.config.lease_ttl
        for partition in self._leases.waiting:
            known = self._next.get(partition)
            if known is None or known.looked < old:
                self.note(partition)

    async def run(self) -> None:
        """Make ready what is due, until cancelled."""
        while True:
            first = min((known.at for known in self._next.values()), default=math.inf)
            pause = None if math.isinf(first) else max(0.0, first - time.monotonic())
            await happens(self._some, pause)
            self._some.clear()
            for partition in self._next.keys() - self._leases.held.keys():
                del self._next[partition]
            now = time.monotonic()
            due = [p for p, known in self._next.items() if known.at <= now]
            asked = [(p, lease) for p in due if (lease := self._leases.current(p))]
            for first_of in range(0, len(asked), AT_ONCE):
                await self._look(asked[first_of : first_of + AT_ONCE])
            await asyncio.sleep(PAUSE if len(asked) == len(due) else NOT_RELIED_ON)

    async def _look(self, asked: Sequence[tuple[int, Lease]]) -> None:
        """Move what is due in the partitions *asked*, and learn what is next."""
        calls = [self._call(partition, lease) for partition, lease in asked]
        asked_at = time.monotonic()
        replies = await self._node.run(calls)
        for (partition, lease), reply in zip(asked, replies, strict=True):
            known = self._next.get(partition)
            if known is None:
                continue
            try:
                found = moved(reply, lease)
            except LeaseLost:
                self._node.inbox.lose_all([lease])
                continue
            self._node.clock.note(found.now, asked_at)
            await self._learn(partition, known, found, asked_at)

    def _call(self, partition: int, lease: Lease) -> Call:
        known = self._next[partition]
        known.looked = time.monotonic()
        known.at = math.inf  # unless something is noted meanwhile
        keys = self._keys.partition(partition)
        return due_call(keys, lease, known.bucket.decode(), known.queues)

    async def _learn(
        self, partition: int, known: _Next, found: Moved, asked_at: float
    ) -> None:
        self.moved += found.moved
        if found.became_ready:
            queues = [queue.decode() for queue in found.became_ready]
            self._node.ready.note(partition, queues)
        if not found.bucket:
            self._next.pop(partition, None)
            self._leases.waiting.discard(partition)
            return
        keys = self._keys.partition(partition)
        if not is_number(found.bucket):
            raise KeyDamaged("", keys.due, f"{found.bucket[:100]!r} is not a time")
        if not all(map(readable, found.lacking)):
            name = keys.waiting(found.bucket.decode())
            raise KeyDamaged("", name, "an entry of it is not a queue and an item")
        known.bucket = found.bucket
        if found.lacking:  # else the next may be of the same queues
            known.queues = tuple(queue.decode() for queue in found.lacking)
        wait = max(0.0, found.due - found.now) / 1000
        if found.lacking:
            wait = 0.0
        elif found.due > self.until:
            wait = math.inf
        known.at = min(known.at, asked_at + wait)
