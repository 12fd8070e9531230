"""The memory limit of the set tier: beyond it, sets are dropped.

What always holds:

1.  A set is dropped by one script, after which the Bloom tier decides about its URLs;
    the keys of the old set are deleted later, and if this node dies, the next one that
    looks continues with that.
2.  The Bloom tier has all that a set has: each push writes both, from the start.
3.  Only the node that holds partition 0 looks. If two nodes think they do, the script
    lets one of them give up a set.
4.  The largest sets go first, until a tenth of the limit is free.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from typing_extensions import override

from frontier.node.context import Part
from frontier.seen.seen_set import (
    PartitionState,
    SeenState,
    crawl_state,
    in_bloom,
    partition_state,
    state_call,
)
from frontier.store.calls import batches
from frontier.store.client import Call

if TYPE_CHECKING:
    from frontier.node.node import Node
    from frontier.seen.config import SeenLayout

logger = logging.getLogger(__name__)

INTERVAL = 2.0
"""Seconds between looks."""
BATCH = 128
"""Partitions per round trip."""
FREE = 0.1
"""Share of the limit that is free after sets were dropped."""
MAX_KEYS = 200
"""Keys that are deleted with one call."""


class SeenMemoryLimit(Part):
    """Watches the memory of one crawl's sets."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._keys = node.keys
        self._tiers = node.seen
        self._max_bytes = node.config.seen_set_max_bytes
        self._warned = False
        self.state: SeenState | None = None
        """The state at the last look; ``None`` if this node has never looked."""

    @override
    async def run(self) -> None:
        """Keep sets within the limit, if there is one, until cancelled."""
        while self._max_bytes:
            if 0 in self._node.leases.held:
                await self.look()
            await asyncio.sleep(INTERVAL)

    async def look(self) -> None:
        """Give up sets if they exceed the limit, and delete those given up."""
        found = await self._states()
        total = sum(state.set_bytes for state in found.values())
        if total > self._max_bytes:
            self._warn()
            aim = self._max_bytes * (1 - FREE)
            for number in sorted(found, key=lambda n: -found[n].set_bytes):
                if total <= aim:
                    break
                total -= found[number].set_bytes
                await self._give_up(number, found[number].layout)
            found = await self._states()
        for number, state in found.items():
            if state.old is not None:
                await self._delete(number, *state.old)
        self.state = crawl_state(self._tiers, list(found.values()))

    async def _states(self) -> dict[int, PartitionState]:
        found = {}
        for numbers in batches(range(self._node.config.partitions), BATCH):
            calls = [state_call(self._keys.partition(number)) for number in numbers]
            replies = await self._node.run(calls)
            for number, reply in zip(numbers, replies, strict=True):
                state = partition_state(self._tiers, reply)
                if state is not None:
                    found[number] = state
        return found

    async def _give_up(self, number: int, layout: SeenLayout) -> None:
        """Drop a set; not if it was dropped before, or an older one is there yet."""
        args = [layout.era, in_bloom(self._tiers, layout)]
        call = Call.to("seen_give_up", [self._keys.partition(number).seen], args)
        has_given_up = await self._node.answer(call)
        if has_given_up:
            what = "the set of partition %d was given up (%d)"
            logger.info(what, number, layout.count)

    async def _delete(self, number: int, era: int, buckets: int) -> None:
        keys = self._keys.partition(number)
        for numbers in batches(range(buckets), MAX_KEYS):
            names = [keys.bucket(era, number) for number in numbers]
            await self._node.answer(Call.command("UNLINK", *names))
        await self._node.answer(Call.command("HDEL", keys.seen, "old"))

    def _warn(self) -> None:
        if not self._warned:
            self._warned = True
            logger.warning(
                "the set tier has reached FRONTIER_SEEN_SET_MAX_BYTES = %s: its "
                "largest sets are dropped, and Bloom alone decides about their "
                "URLs; at most a share of FRONTIER_BLOOM_ERROR_RATE of new URLs is "
                "lost (see `frontier crawl status`)",
                self._max_bytes,
            )
