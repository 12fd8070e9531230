"""The end of a crawl, found by its nodes themselves.

A request stays reserved until its links are in the store, so a crawl has
nothing left to do when two successive scans of all partitions find nothing
ready and nothing reserved, with the same number of URLs ever queued. One scan is
not enough: a child can land in a partition that was already looked at. The second
follows at once, as the time between them proves nothing. That number only grows: if it
is the same, nothing was pushed to a partition between the first look at it and the
second, so when the first scan ended no partition had anything.

Any node may find the end, but if all of them looked as often, the scans of a
thousand idle ones would keep the server busy. The first by name looks as soon as it
has nothing to do, and every half second from then on; the others wait first, and the
more nodes come before one, the less often it looks.

URLs that wait until they are due keep a crawl open, except those that are due after
`EndOfCrawl.until`. While nothing else is left, scans are rare until the next is due.

A crawl does not end while a node's last heartbeat said that it is busy. So a node that
has nothing left to do says so at once.

A crawl may end without one page: its seeds were given up, robots.txt forbids them, or
they lead out of scope. Each node learns that, whichever found the end: the first page
of each node is in the store before its request is acked.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from typing import TYPE_CHECKING

from typing_extensions import override

from frontier.cluster import crawls, endings
from frontier.errors import CrawlLost, KeyDamaged, StoreUnavailable
from frontier.node.context import Part
from frontier.queue.reserve import Reservation, Scan, scan_call
from frontier.store.calls import Run, batches
from frontier.store.client import Argument, Call
from frontier.urls.partition import origin_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from frontier.node.node import Node
    from frontier.store.keys import CrawlKeys

logger = logging.getLogger(__name__)

INTERVAL = 0.5
"""Seconds between scans of the first node while it is idle; a node with r others before
it waits (r + 1)^2 times as long. All together they scan 3.3 times a second, however
many they are; once more when nothing is left."""
AT_LEAST = 10.0
"""Seconds between scans while all that is left waits until it is due."""
LOOK = 0.05
"""Seconds between checks whether this node is idle, which cost no call."""
MAX_ORIGIN = 300
"""Characters of the origin of a page."""
MAX_ORIGINS = 2_000
"""Characters of all origins that are remembered."""
BATCH = 128
"""Partitions per round trip."""


async def scans(
    run: Run, keys: CrawlKeys, partitions: int
) -> AsyncIterator[tuple[int, Scan]]:
    """The number of each partition, and what it has.

    Raises:
        CrawlLost: The store has lost what was in one of them.
    """
    for batch in batches(range(partitions), BATCH):
        replies = await run([scan_call(keys.partition(number)) for number in batch])
        for number, (born, _, *figures) in zip(batch, replies, strict=True):
            if born.decode("utf-8", "replace") != keys.born:
                raise CrawlLost(keys.crawl_id)
            yield number, Scan(*figures)


class EndOfCrawl:
    """Looks for the end of the crawl while this node has nothing to do."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._outage_retry = node.outage_retry
        self._keys = node.keys
        self._leases = node.leases
        self.until = math.inf
        """In ms of the server's clock; what is due later does not keep a crawl open."""
        self._later = 0
        """URLs that waited at the last scan."""
        self._next_due = 0.0
        """When something is due by the last scan, if nothing else is left; else 0."""

    async def run(self) -> None:
        """Scan until the crawl has ended or this is cancelled."""
        pushed: int | None = None
        scanned, idle_since, idle = -math.inf, time.monotonic(), False
        while True:
            await asyncio.sleep(LOOK)
            now = time.monotonic()
            if not self._node.is_idle():
                pushed, idle_since, idle = None, now, False
                continue
            if not idle:
                with contextlib.suppress(StoreUnavailable):  # the next beat says it
                    await self._node.heartbeat.say_idle()
            idle = True
            rank = self._node.membership.rank  # the others go, and it has its turn
            since = max(scanned, idle_since) if rank else scanned
            if now < since + INTERVAL * (rank + 1) ** 2:
                continue
            if now < scanned + AT_LEAST and self._node.clock() < self._next_due:
                continue
            scanned = now
            try:
                before, pushed = pushed, await self._scan()
                if pushed is not None and pushed != before:
                    if not self._node.is_idle():
                        pushed = None
                        continue
                    before, pushed = pushed, await self._scan()
                if pushed is None or pushed != before:
                    continue
                ended = await self._finish()
            except StoreUnavailable:
                pushed = None
                continue
            if ended is not None:
                self._say_end()
                return

    def _say_end(self) -> None:
        if self._later:
            logger.info(
                "%d URLs are due after FRONTIER_RECRAWL_UNTIL, and are not fetched",
                self._later,
            )
        self._node.tell_end(crawls.FINISHED)

    async def _finish(self) -> bool | None:
        """End the crawl; see `endings.finish`."""
        run, keys = self._outage_retry.call, self._keys
        return await endings.finish(run, keys, ttl=self._node.config.lease_ttl)

    async def nothing_left(self) -> bool:
        """Whether nothing is queued or under way on any node, as far as one scan sees.

        The caller does not end the crawl for that: a URL that the scan has overlooked
        is the child of a page that another node has.

        Raises:
            StoreUnavailable: The store does not say.
        """
        return await self._scan() is not None

    async def finish_empty(self) -> bool:
        """End the crawl if nothing is left in it; return whether this call ended it.

        For the last node, after it has left the map.

        Raises:
            StoreUnavailable: The store does not say.
        """
        before = await self._scan()
        if before is None or before != await self._scan():
            return False
        return await self._finish() is True

    async def left(self) -> int:
        """How many requests are queued, or under way."""
        run, partitions, count = self._node.run, self._node.config.partitions, 0
        async for _, scan in scans(run, self._keys, partitions):
            count += scan.ready + scan.waiting + scan.reserved
        return count

    async def _scan(self) -> int | None:
        """How many URLs were ever queued; ``None`` if some are not done."""
        total, later, open_, next_due = 0, 0, False, math.inf
        run, partitions = self._outage_retry.call, self._node.config.partitions
        async for partition, scan in scans(run, self._keys, partitions):
            total += scan.pushed
            waits = scan.ready > 0 or scan.queues > 0
            open_ = open_ or waits or scan.reserved > 0
            later += scan.waiting
            if scan.waiting or scan.due:
                next_due = min(next_due, self._waits(partition, scan))
            if self._leases.current(partition):
                self._require_counts(partition, scan)
                if waits:
                    await self._node.ready.load([partition])
        self._later = later
        waits = math.isfinite(next_due) and next_due <= self.until
        self._next_due = next_due if waits and not open_ else 0.0
        open_ = open_ or waits
        return None if open_ else total

    def _waits(self, partition: int, scan: Scan) -> int:
        """When something in *partition* is due; 0 if nothing is counted as waiting."""
        if not scan.waiting and self._leases.current(partition):
            self._node.due_times.note(partition)  # nothing else would look
        return scan.due if scan.waiting else 0

    def _require_counts(self, partition: int, scan: Scan) -> None:
        """Reject counts of URLs that no queue has: they would keep the crawl open.

        Raises:
            KeyDamaged: The counts are wrong.
        """
        counts = self._keys.partition(partition).counts
        if scan.ready and not scan.queues:
            reason = f"its ready is {scan.ready}, and no queue has anything"
            raise KeyDamaged("", counts, reason)
        if scan.waiting and not scan.due:
            reason = f"its waiting is {scan.waiting}, and there is no list of it"
            raise KeyDamaged("", counts, reason)


class Fetched(Part):
    """Knows whether the crawl has fetched a page, on any node.

    A page is a response to a request of the crawl, whatever its status, that is not a
    redirect; robots.txt is not a page.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._keys = node.keys
        self._origin = ""
        self._stored = False

    def page(self, url: str) -> None:
        """Note that this node has fetched the page *url*."""
        if not self._origin:
            self._origin = origin_of(url)

    async def origins(self) -> list[str]:
        """The origins of some pages that were fetched, each by a different node.

        Raises:
            StoreUnavailable: The store does not answer.
        """
        found = (await self._told() or b"")[:MAX_ORIGINS]
        words = found.decode("utf-8", "replace").split(" ")
        return [w for w in words if w.startswith(("http://", "https://"))]

    async def _told(self) -> bytes | None:
        """What nodes have said of pages so far, if any has."""
        ask = Call.command("HGET", self._keys.meta, "fetched")
        told: bytes | None = await self._node.answer(ask)
        return told

    @override
    def went_back(self) -> None:
        """The store may have forgotten what this node has said."""
        self._stored = False

    @override
    async def before_ack(self, reservations: Sequence[Reservation] = ()) -> None:
        """Return when the store knows what was noted. Costs one call per node."""
        if self._origin and not self._stored:
            keys = self._keys
            told: list[Argument] = [keys.born, self._origin[:MAX_ORIGIN], MAX_ORIGINS]
            call = Call.to("crawl_fetched", [keys.meta], told)
            await self._node.answer(call)
            self._stored = True

    async def without(self) -> tuple[int, int] | None:
        """How many requests were queued and given up; `None` if a page was fetched."""
        if self._origin or await self._told() is not None:
            return None
        queued = dead = 0
        partitions = self._node.config.partitions
        async for _, scan in scans(self._node.run, self._keys, partitions):
            queued, dead = queued + scan.pushed, dead + scan.dead
        return queued, dead
