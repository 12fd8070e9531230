"""The outbox: links that wait to be pushed, many per round trip.

What always holds:

1.  `put` never waits. What was put leaves the outbox only when the store has
    confirmed it, however long the store is unreachable.
2.  Every push gets exactly one verdict, in the order of `put` per partition: a
    partition is in one flight at a time.
3.  `flush` returns when everything put before it is in the store, and has been
    handed to the journal if there is one. The journal gets seen URLs, too: the
    node that had the verdict "new" may have died before its journal had it.
4.  What was stored is kept until its own server has stored something `KEPT` seconds
    later, and is put once more if the store has gone back; nothing else is put again.
    It gets no second verdict.
5.  A push whose reply was lost is sent again, and queued once. What was new the first
    time is seen the second time.
6.  Once a single server has gone back, claims of lost deliveries are not pushed: their
    verdict is `SEEN`. Such a claim would keep its URL from all other pages, and its own
    page may not lead there again: another page may have claimed a URL between the two.
    The servers of a cluster do not go back together, so there such claims are made
    again as soon as possible.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections import Counter, defaultdict, deque
from typing import TYPE_CHECKING, NamedTuple

from frontier.errors import StoreUnavailable
from frontier.node.context import Part, happens
from frontier.node.ready_queues import hint_calls, hints_of
from frontier.queue.due import DUE
from frontier.queue.push import SEEN, Push, Pusher
from frontier.seen.config import MAX_URLS, joined
from frontier.store.outage_retry import pauses

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frontier.node.node import Node
    from frontier.store.address import Server
    from frontier.store.client import Call


DELAY = 0.01
"""Seconds that a flight waits for more pushes."""
KEPT = 5.0
"""Seconds for which pushes are kept here after they are stored."""
KEPT_BY_CLUSTER = 20.0
"""The same for a cluster. A primary that is cut off from the others takes writes for
its node time-out (15 s by default), and these are lost."""
MAX_KEPT = 20_000
"""The most pushes that are kept."""
AGAIN = object()
"""The tag of a push that is put once more and gets no second verdict."""
MAX_PENDING = 10_000
"""Pushes without a verdict above which the outbox is full: a node starts nothing more,
and pages and seeds with more links wait."""
MAX_PER_FLIGHT = 500
"""URLs sent in one round trip, over all partitions."""
FLIGHTS = 3
"""Round trips at a time: the next is packed while the store works on one."""


class _Kept(NamedTuple):
    """Pushes that are stored, and may have to be put once more."""

    stored: float
    partition: int
    pushes: Sequence[Push]


class Outbox:
    """Collects pushes and sends them to their partitions."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._outage_retry = node.outage_retry
        self._keys = node.keys
        self._parts = node.parts
        self.pusher = Pusher(node.keys, node.seen, server_ms=node.clock)
        self._waiting: dict[int, list[Push]] = defaultdict(list)
        self._flying: dict[int, int] = {}
        self._stored: Counter[int] = Counter()
        self._some = asyncio.Event()
        self._stored_more = asyncio.Condition()
        self._urgent = asyncio.Event()
        self._flushes = 0
        self._kept: dict[Server | None, deque[_Kept]] = defaultdict(deque)
        """What is kept, by the server that stored it: what others have stored since
        tells nothing of what a dead one had."""
        self._kept_count = 0
        self._has_gone_back = False
        """Whether the store has gone back since the node was started."""
        self.pending = 0
        """Pushes without a verdict."""

    @property
    def is_full(self) -> bool:
        """Whether too many URLs wait for the store."""
        return self.pending > MAX_PENDING

    @property
    def is_resending(self) -> bool:
        """Whether something waits that may stand for a page that is acked."""
        return self._has_gone_back and self.pending > 0

    def put(self, partition: int, push: Push) -> None:
        """Add *push*; parts are told its verdict by `Part.stored`."""
        self._waiting[partition].append(push)
        self.pending += 1
        self._some.set()
        if self.pending >= MAX_PER_FLIGHT:
            self._urgent.set()

    async def flush(self) -> None:
        """Return when everything that was put so far is in the store."""
        stored, wanted = self._stored, dict[int, int]()
        for partition in (*self._flying, *self._waiting):
            ahead = self._flying.get(partition, 0)
            ahead += len(self._waiting.get(partition, ()))
            wanted[partition] = stored[partition] + ahead
        if not wanted:
            return
        self._urgent.set()
        self._flushes += 1
        try:
            async with self._stored_more:
                await self._stored_more.wait_for(
                    lambda: all(stored[p] >= count for p, count in wanted.items())
                )
        finally:
            self._flushes -= 1

    def resend(self) -> int:
        """Put again what was stored lately; return how many pushes that is."""
        self._has_gone_back = True
        self.pusher.went_back()
        kept, self._kept, self._kept_count = self._kept, defaultdict(deque), 0
        again = [*itertools.chain.from_iterable(kept.values())]
        for one in again:
            for push in one.pushes:
                self.put(one.partition, push._replace(tag=AGAIN))
        return sum(len(one.pushes) for one in again)

    def _keep(self, partition: int, pushes: Sequence[Push]) -> None:
        now = time.monotonic()
        store, counts = self._outage_retry.store, self._keys.partition(partition).counts
        server = store.server_of(counts)
        here = self._kept[server]
        here.append(_Kept(now, partition, pushes))
        self._kept_count += len(pushes)
        since = now - (KEPT if store.alone else KEPT_BY_CLUSTER)
        while here[0].stored < since:
            self._drop_first(here)
        while self._kept_count > MAX_KEPT:
            self._drop_first(max(self._kept.values(), key=len))

    def _drop_first(self, kept: deque[_Kept]) -> None:
        self._kept_count -= len(kept.popleft().pushes)

    def _tell(self, pushes: Sequence[Push], verdicts: str) -> None:
        if self._has_gone_back and any(push.tag is AGAIN for push in pushes):
            places = [i for i, push in enumerate(pushes) if push.tag is not AGAIN]
            verdicts = "".join(verdicts[i] for i in places)
            pushes = [pushes[i] for i in places]
        self._parts.call(Part.stored, pushes, verdicts)

    async def run(self) -> None:
        """Send what is put, until cancelled."""
        flights: set[asyncio.Task[None]] = set()
        try:
            while True:
                await self._some.wait()
                if not self._flushes and self.pending < MAX_PER_FLIGHT:
                    await happens(self._urgent, DELAY)
                self._some.clear()
                self._urgent.clear()
                while batches := self._take():
                    flight = asyncio.create_task(self._send(batches))
                    flight.add_done_callback(lambda _: self._some.set())
                    flights.add(flight)
                    if len(flights) == FLIGHTS:
                        await asyncio.wait(flights, return_when="FIRST_COMPLETED")
                        flights = _going(flights)
                flights = _going(flights)
        finally:
            for flight in flights:
                flight.cancel()
            await asyncio.gather(*flights, return_exceptions=True)

    def _take(self) -> list[tuple[int, list[Push]]]:
        """What goes on the next flight; nothing of partitions that are on one now."""
        batches: list[tuple[int, list[Push]]] = []
        room = MAX_PER_FLIGHT
        for partition in [p for p in self._waiting if p not in self._flying]:
            pushes = self._waiting.pop(partition)
            count = min(MAX_URLS, room)
            if len(pushes) > count:
                self._waiting[partition] = pushes[count:]
                del pushes[count:]
            batches.append((partition, pushes))
            self._flying[partition] = len(pushes)
            room -= len(pushes)
            if room <= 0:
                break
        return batches

    async def _send(self, batches: list[tuple[int, list[Push]]]) -> None:
        """Push *batches*, until the store has all of them."""
        became_ready: list[tuple[int, str]] = []
        waits, is_repeated = pauses(), False
        while batches := self._without_lost(batches):
            plans = [self.pusher.plan(*batch) for batch in batches]
            calls = joined(plans, alone=self._outage_retry.store.alone)
            try:
                replies = await self._outage_retry.call(calls, copied=True)
            except StoreUnavailable:
                is_repeated = True  # some may have been executed
                await asyncio.sleep(next(waits))
                continue
            every = itertools.chain.from_iterable(replies)
            again: list[tuple[int, list[Push]]] = []
            for (partition, pushes), reply in zip(batches, every, strict=True):
                done = self.pusher.pushed(partition, reply, pushes)
                if done is None:
                    again.append((partition, pushes))
                    continue
                ready = done.became_ready
                if is_repeated:
                    ready = tuple({DUE if push.due else push.queue for push in pushes})
                became_ready += [(partition, queue) for queue in ready if queue]
                self._land(partition, pushes)
                self._keep(partition, pushes)
                self._tell(pushes, done.verdicts)
            batches, waits, is_repeated = again, pauses(), False
        async with self._stored_more:
            self._stored_more.notify_all()
        after = self.note_ready(became_ready) + self.pusher.forget_calls()
        # If a hint is lost, a look at all partitions finds what is ready.
        with contextlib.suppress(StoreUnavailable):
            await self._outage_retry.call(after)

    def note_ready(self, became_ready: Sequence[tuple[int, str]]) -> list[Call]:
        """Note queues that have just become ready; the calls that tell their owners."""
        node = self._node
        for partition, queue in became_ready:
            if partition in node.leases.held:
                node.inbox.heed(partition, queue)
        hints = hints_of(became_ready, node.membership.ring, node.config.node_id)
        return hint_calls(self._keys, hints, int(node.config.lease_ttl * 2000))

    def _without_lost(
        self, batches: list[tuple[int, list[Push]]]
    ) -> list[tuple[int, list[Push]]]:
        """*batches* without the claims of invariant 6, which get their verdict."""
        if not (self._has_gone_back and self._outage_retry.store.alone):
            return batches
        left, has_lost = [], self._node.deliveries.has_lost
        for partition, pushes in batches:
            lost: list[Push] = []
            rest: list[Push] = []
            for push in pushes:
                is_lost = push.claimer is not None and has_lost(push.claimer)
                (lost if is_lost else rest).append(push)
            self._count_stored(partition, len(lost))
            self._tell(lost, SEEN * len(lost))
            if rest:
                left.append((partition, rest))
            else:
                del self._flying[partition]
        return left

    def _count_stored(self, partition: int, count: int) -> None:
        self._flying[partition] -= count
        self._stored[partition] += count
        self.pending -= count

    def _land(self, partition: int, pushes: Sequence[Push]) -> None:
        """Count *pushes*, all that was left of a batch, as stored."""
        self._count_stored(partition, len(pushes))
        del self._flying[partition]
        self._parts.call(Part.pushed, partition, pushes)


def _going(flights: set[asyncio.Task[None]]) -> set[asyncio.Task[None]]:
    """Those of *flights* that are not over; raises what a finished one has raised."""
    for flight in flights:
        if flight.done():
            flight.result()
    return {flight for flight in flights if not flight.done()}
