"""The memory limit of the set tier: beyond it, sets are dropped.

What always holds:

1.  A set is dropped by one script, after which the Bloom tier decides about
    its URLs; the keys of the old set are deleted later, and whoever comes next
    goes on with that if this node dies.
2.  The Bloom tier has all that a set has: each push writes both, from the first on.
3.  One node looks, the one that holds partition 0. If two think they do, the
    script lets one of them give up a set.
4.  The largest sets go first, until a tenth of the limit is free.
5.  A limit that is a share of what the store may use follows that, from look to look.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from frontier.errors import ConfigurationError
from frontier.seen.seen_set import crawl_state, in_bloom, partition_state, state_call
from frontier.settings.values import Percent
from frontier.store.client import Call, max_memory
from frontier.store.scripts import SEEN_GIVE_UP

if TYPE_CHECKING:
    from collections.abc import Mapping

    from frontier.cluster.lease import Leases
    from frontier.seen.config import SeenConfig
    from frontier.seen.seen_set import PartitionState, SeenState
    from frontier.store.keys import CrawlKeys
    from frontier.store.outage_retry import OutageRetry

logger = logging.getLogger(__name__)

INTERVAL = 2.0
"""Seconds between looks."""
BATCH = 128
"""Partitions per round trip."""
FREE = 0.1
"""Share of the limit that is free after sets were dropped."""
MAX_KEYS = 200
"""Keys that are deleted with one call."""


class SeenMemoryLimit:
    """Watches the memory of one crawl's sets."""

    def __init__(
        self,
        outage_retry: OutageRetry,
        keys: CrawlKeys,
        leases: Leases,
        tiers: SeenConfig,
        *,
        partitions: int,
        max_bytes: int | Percent,
    ) -> None:
        self._outage_retry = outage_retry
        self._keys = keys
        self._leases = leases
        self._tiers = tiers
        self._partitions = partitions
        self._asked = max_bytes
        self.max_bytes = 0 if isinstance(max_bytes, Percent) else max_bytes
        """What all sets may take. A share is one of what the store may use, at the last
        look; 0 before the first."""
        self._warned = False
        self.state: SeenState | None = None
        """As of the last look; ``None`` if this node never looked."""

    async def run(self) -> None:
        """Keep to the limit, until cancelled."""
        while True:
            if 0 in self._leases.held:
                await self.look()
            await asyncio.sleep(INTERVAL)

    async def look(self) -> None:
        """Give up what is above the limit, and delete what was given up."""
        if isinstance(self._asked, Percent):
            (memory,) = await self._outage_retry.retry([Call.command("INFO", "memory")])
            limit = share_of(self._asked, max_memory(memory))
            self.max_bytes = limit or self.max_bytes  # as it was, if it was lifted
        found = await self._states()
        total = sum(state.set_bytes for state in found.values())
        if total > self.max_bytes > 0:
            self._warn()
            aim = self.max_bytes * (1 - FREE)
            for number in sorted(found, key=lambda n: -found[n].set_bytes):
                if total <= aim:
                    break
                total -= found[number].set_bytes
                found[number] = await self._give_up(number, found[number])
        for number, state in found.items():
            if state.old is not None:
                await self._delete(number, *state.old)
        self.state = crawl_state(self._tiers, list(found.values()))

    async def _states(self) -> dict[int, PartitionState]:
        found = {}
        for first in range(0, self._partitions, BATCH):
            numbers = range(first, min(first + BATCH, self._partitions))
            calls = [state_call(self._keys.partition(number)) for number in numbers]
            replies = await self._outage_retry.retry(calls)
            for number, reply in zip(numbers, replies, strict=True):
                state = partition_state(self._tiers, reply)
                if state is not None:
                    found[number] = state
        return found

    async def _give_up(self, number: int, state: PartitionState) -> PartitionState:
        layout, keys = state.layout, self._keys.partition(number)
        inside = in_bloom(self._tiers, layout)
        call = Call.to(SEEN_GIVE_UP, [keys.seen], [layout.era, inside])
        (has_given_up,) = await self._outage_retry.retry([call])
        if not has_given_up:  # its last set is not deleted yet, or it is done
            return state
        logger.info("the set of partition %d was given up (%d)", number, layout.count)
        return replace(
            state,
            layout=replace(layout, era=layout.era + 1, buckets=1, count=0),
            given_up=state.given_up + layout.count,
            lost_from=inside if state.lost_from is None else state.lost_from,
            old=(layout.era, layout.buckets),
            set_bytes=0,
        )

    async def _delete(self, number: int, era: int, buckets: int) -> None:
        keys = self._keys.partition(number)
        for first in range(0, buckets, MAX_KEYS):
            last = min(first + MAX_KEYS, buckets)
            names = [keys.bucket(era, n) for n in range(first, last)]
            await self._outage_retry.retry([Call.command("UNLINK", *names)])
        await self._outage_retry.retry([Call.command("HDEL", keys.seen, "old")])

    def _warn(self) -> None:
        if not self._warned:
            self._warned = True
            logger.warning(
                "the set tier has reached FRONTIER_SEEN_SET_MAX_BYTES = %s%s: its "
                "largest sets are given up, and Bloom decides about their URLs; new "
                "URLs are lost at the rate of FRONTIER_BLOOM_ERROR_RATE at most "
                "(see `frontier crawl status`)",
                self._asked,
                f" ({self.max_bytes:,} bytes)"
                if isinstance(self._asked, Percent)
                else "",
            )


def share_of(share: Percent, most: int) -> int:
    """The bytes that *share* of *most* is."""
    return int(most * share / 100)


def require_max_memory(
    asked: int | Percent, memory: bytes | Mapping[str, Any], where: str
) -> None:
    """Refuse a share of nothing, given the ``INFO memory`` of the store at *where*.

    Raises:
        ConfigurationError: A share is *asked* for, and the store has no limit.
    """
    if isinstance(asked, Percent) and not max_memory(memory):
        raise ConfigurationError(
            f"FRONTIER_SEEN_SET_MAX_BYTES = {str(asked)!r}: the store at {where} has "
            "no maxmemory, of which this could be a share; set it (CONFIG SET "
            "maxmemory; on each primary of a cluster), or give a number of bytes"
        )
