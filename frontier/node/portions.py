"""What nodes count of groups of URLs, summed up in the store.

What always holds:

1.  The store has of each group the sum of what nodes have told of it. A node tells
    in portions (see `frontier.urls.traps`), so that the store has only groups with many
    URLs, however many there are.
2.  Nobody waits for it: a portion that is on its way is missing from the sum.
3.  A portion whose reply was lost is told again and may count twice: a limit may be
    reached sooner by that much. One of a node that is killed is missing.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING

from frontier.errors import StoreRefused
from frontier.store.client import Call
from frontier.urls.seen_hash import mark, partition_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from frontier.store.keys import CrawlKeys
    from frontier.store.outage_retry import Patience
    from frontier.urls.traps import Group

logger = logging.getLogger(__name__)

DELAY = 0.05
"""Seconds that a portion waits for others."""


class Portions:
    """Tells the store of portions, and *on_total* of the sum of a group after each."""

    def __init__(self, patience: Patience, keys: CrawlKeys, *, partitions: int) -> None:
        self._patience = patience
        self._keys = keys
        self._partitions = partitions
        self._waiting: Counter[Group] = Counter()
        self._some = asyncio.Event()
        self._has_failed = False
        self.on_total: Callable[[Group, int], None] = lambda _, __: None

    def add(self, group: Group, count: int) -> None:
        """Tell of *count* more URLs of *group*."""
        self._waiting[group] += count
        self._some.set()

    async def run(self) -> None:
        """Tell, until cancelled."""
        while True:
            await self._some.wait()
            await asyncio.sleep(DELAY)
            await self.flush()

    async def flush(self) -> None:
        """Tell of all that waits."""
        self._some.clear()
        told, self._waiting = self._waiting, Counter()
        calls = [self._call(group, count) for group, count in told.items()]
        try:
            totals = await self._patience.run(calls)
        except StoreRefused as error:  # a limit of this node's own is left
            if not self._has_failed:
                self._has_failed = True
                logger.warning(
                    "%s; FRONTIER_TRAP_QUERY_URLS, _DIRECTORY_URLS and _HOST_URLS "
                    "count what this node finds, and not what others do",
                    error,
                )
            return
        for group, total in zip(told, totals, strict=True):
            self.on_total(group, int(total))

    def _call(self, group: Group, count: int) -> Call:
        partition = partition_of(group.host, self._partitions)
        name = self._keys.partition(partition).groups
        field = str(mark(f"{group.kind} {group.name}".encode("utf-8", "replace")))
        return Call.command("HINCRBY", name, field, count)
