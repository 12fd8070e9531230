"""Borrowing partitions: how a node comes to hold what the ring gives to another.

A node sends what it has adopted (`frontier.node.delivery`), and ends deliveries, under
the lease of a partition that another node may hold. A node that needs the partition
asks the holder for it, then acquires it: lease, guard, delays and fencing are those of
any holder.

What always holds:

1.  A partition has one holder, by its lease. To lend one is to release it once what
    was started there is done, and to leave it alone for `GRACE` seconds.
2.  No holder waits for another node: what it finishes before it hands a partition over
    depends on no other partition, so two nodes that want each other's partitions both
    get them.
3.  A holder that needs a partition itself keeps it for `SLICE` seconds before it lends
    it; one that does not need it lends it at once. A borrowed partition is given back
    as soon as it is no longer needed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from frontier.node.node import Node

INTERVAL = 0.2
"""Seconds between looks at what others want, and at what is needed here."""
GRACE = 1.0
"""Seconds for which a partition that was lent is left to those who asked."""
SLICE = 3.0
"""Seconds for which a node that needs a partition keeps it before others get it."""
ASK = 1.0
"""Seconds between questions for a partition; each is heeded for twice as long."""
MAX_ASKED = 64
"""Partitions that a node asks for at once."""


class Borrow:
    """Decides which partitions a node holds beyond those of the ring, and which not."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._leases = node.leases
        self._ready = node.ready
        self._deliveries = node.deliveries
        self._clock = node.monotonic
        self.wanted: set[int] = set()
        """Partitions that others want, from hints since the last beat: this node has
        their leases, perhaps without knowing it."""
        self._asked: dict[int, float] = {}
        """Partitions that others want, and when they last said so."""
        self._lent: dict[int, float] = {}
        """Partitions that are left to others, and until when; see `chosen`."""
        self._since: dict[int, float] = {}
        """Since when each partition that is needed here is held."""
        self._needed: set[int] = set()
        self.moved: set[int] = set()
        """Partitions that were lent or borrowed."""
        self._loaded = 0.0
        self._turn = 0

    def chosen(self, owned: set[int]) -> set[int]:
        """The partitions that this node is to hold; the ring gives it those *owned*."""
        now = self._clock()
        for partition in list(self._lent):
            if partition in self._leases.held:  # what was started there is not done
                self._lent[partition] = now + GRACE
            elif self._lent[partition] <= now:
                del self._lent[partition]
        return (owned | self._wanted(owned)) - set(self._lent)

    def _wanted(self, owned: set[int]) -> set[int]:
        """Partitions of others that are needed here; of those not held, only some."""
        wanted = self._deliveries.partitions - owned
        held = wanted & set(self._leases.held)
        asked = sorted(wanted - held)
        if len(asked) > MAX_ASKED:
            self._turn = (self._turn + MAX_ASKED) % len(asked)
            asked = (asked[self._turn :] + asked[: self._turn])[:MAX_ASKED]
        self.moved |= wanted
        return held | set(asked)

    def ask(self, partitions: Iterable[int]) -> None:
        """Note that others want *partitions*, which are held here."""
        now = self._clock()
        self._asked |= dict.fromkeys(partitions, now)
        self._lend()

    async def run(self) -> None:
        """Look, until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL)
            await self.look()

    async def look(self) -> None:
        """End deliveries, lend what others want, and ask for what is needed."""
        self._deliveries.look()
        now, held = self._clock(), set(self._leases.held)
        needed = self._deliveries.partitions
        self._since = {p: self._since.get(p, now) for p in needed & held}
        self._asked = {p: at for p, at in self._asked.items() if now - at < 2 * ASK}
        self._lend()
        if needed - held - self._needed or self.wanted:
            self._node.heartbeat.hurry()
        self._needed = needed - held
        if self.moved and now - self._loaded >= ASK:
            self._loaded = now
            # Hints about borrowed partitions go to their owners, not to this node.
            owned = self._node.membership.ring.owned_by(self._node.config.node_id)
            await self._ready.load(held.difference(owned))

    def _lend(self) -> None:
        now = self._clock()
        for partition in self._asked.keys() & self._leases.held.keys():
            since = self._since.get(partition, now - SLICE)
            if partition not in self._lent and now - since >= SLICE:
                self._lent[partition] = now + GRACE
                self.moved.add(partition)
                self._node.heartbeat.hurry()
