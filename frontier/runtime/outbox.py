"""The outbox: URLs on their way to the store, many per round trip.

What always holds:

1.  `put` never waits. What was put leaves the outbox only when the store has
    confirmed it, however long the store is away.
2.  Every push gets exactly one verdict, in the order of `put` per partition.
3.  `flush` returns when everything put before it is in the store.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from typing import TYPE_CHECKING

from frontier.errors import LayoutStale
from frontier.model import Layout
from frontier.queues.push import MAX_URLS, Push, push_call, pushed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from frontier.queues.push import SeenShape
    from frontier.runtime.patience import Patience
    from frontier.store.client import Call
    from frontier.store.keys import CrawlKeys

DELAY = 0.01
"""Seconds that a flush waits for more to come."""
MAX_PER_ROUND = 2 * MAX_URLS
"""URLs sent in one round trip, over all partitions."""


class Outbox:
    """Collects pushes and sends them to their partitions."""

    def __init__(
        self,
        patience: Patience,
        keys: CrawlKeys,
        shape: SeenShape,
        *,
        on_verdicts: Callable[[Sequence[Push], str], None],
        on_risen: Callable[[list[tuple[int, str]]], list[Call]],
    ) -> None:
        self._patience = patience
        self._keys = keys
        self._shape = shape
        self._on_verdicts = on_verdicts
        self._on_risen = on_risen
        self._waiting: dict[int, list[Push]] = defaultdict(list)
        self._layouts: dict[int, Layout] = {}
        self._put = 0
        self._stored = 0
        self._some = asyncio.Event()
        self._stored_more = asyncio.Condition()
        self._urgent = asyncio.Event()

    @property
    def pending(self) -> int:
        """Pushes without a verdict."""
        return self._put - self._stored

    def put(self, partition: int, push: Push) -> None:
        """Add *push*; its verdict comes through ``on_verdicts``."""
        self._waiting[partition].append(push)
        self._put += 1
        self._some.set()
        if self.pending >= MAX_PER_ROUND:
            self._urgent.set()

    async def flush(self) -> None:
        """Return when everything that was put so far is in the store."""
        target = self._put
        if self._stored >= target:
            return
        self._urgent.set()
        async with self._stored_more:
            await self._stored_more.wait_for(lambda: self._stored >= target)

    async def run(self) -> None:
        """Send what is put, until cancelled."""
        while True:
            await self._some.wait()
            await self._linger()
            self._urgent.clear()
            self._some.clear()
            while self._waiting:
                await self._send(self._take())

    async def _linger(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DELAY):
                await self._urgent.wait()

    def _take(self) -> list[tuple[int, list[Push]]]:
        batches, room = [], MAX_PER_ROUND
        for partition in list(self._waiting):
            pushes = self._waiting[partition]
            count = min(MAX_URLS, room)
            batches.append((partition, pushes[:count]))
            if len(pushes) > count:
                self._waiting[partition] = pushes[count:]
            else:
                del self._waiting[partition]
            room -= min(count, len(pushes))
            if room <= 0:
                break
        return batches

    async def _send(self, batches: list[tuple[int, list[Push]]]) -> None:
        risen: list[tuple[int, str]] = []
        while batches:
            calls = [self._call(partition, pushes) for partition, pushes in batches]
            replies = await self._patience.run(calls)
            again = []
            for (partition, pushes), reply in zip(batches, replies, strict=True):
                try:
                    done = pushed(reply, pushes)
                except LayoutStale as stale:
                    self._layouts[partition] = stale.layout
                    again.append((partition, pushes))
                    continue
                self._layouts[partition] = done.layout
                risen += [(partition, queue) for queue in done.risen]
                self._stored += len(pushes)
                self._on_verdicts(pushes, done.verdicts)
            batches = again
        if hints := self._on_risen(risen):
            await self._patience.run(hints)
        async with self._stored_more:
            self._stored_more.notify_all()

    def _call(self, partition: int, pushes: list[Push]) -> Call:
        layout = self._layouts.get(partition, Layout())
        return push_call(self._keys.partition(partition), self._shape, layout, pushes)
