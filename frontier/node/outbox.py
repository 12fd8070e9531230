"""The outbox: links that wait to be pushed, many per round trip.

What always holds:

1.  `put` never waits. What was put leaves the outbox only when the store has
    confirmed it, however long the store is unreachable.
2.  Every push gets exactly one verdict, in the order of `put` per partition: a
    partition is in one flight at a time.
3.  `flush` returns when everything put before it is in the store, and has been
    handed to the journal if there is one. All of it is, also what was seen: the
    node that had the verdict "new" may have died before its journal had it.
4.  What was stored can be put once more, should the store have forgotten it, until its
    own server has stored something `KEPT` seconds later: that and nothing else. It gets
    no second verdict.
5.  A push whose reply was lost is done once, and has the verdicts of the first time.

Hints: word to who holds a partition that one of its queues is not empty now.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections import Counter, defaultdict, deque
from typing import TYPE_CHECKING, Any, NamedTuple

from frontier.errors import PushForgotten, StoreUnavailable
from frontier.seen.config import MAX_URLS, joined
from frontier.store.client import Call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from frontier.cluster.ring import Ring
    from frontier.queue.push import Push, Pusher
    from frontier.store.address import Server
    from frontier.store.keys import CrawlKeys
    from frontier.store.outage_retry import OutageRetry


MOST = 1000
"""Lines per call."""


def hint_calls(
    keys: CrawlKeys, hints: Mapping[str, Sequence[str]], kept_ms: int
) -> list[Call]:
    """The calls that leave *hints*, the lines for each node, for *kept_ms*."""
    return [
        Call.txn(
            [(("EXISTS", keys.meta()), 1)],
            [
                ("RPUSH", keys.hints(node_id), *lines[i : i + MOST]),
                ("PEXPIRE", keys.hints(node_id), kept_ms),
            ],
        )
        for node_id, lines in hints.items()
        for i in range(0, len(lines), MOST)
    ]


WANTED = "wanted"
"""What a hint about a partition says instead of a queue: its holder is to have it no
more, and may not know that it has it."""


def hints_of(
    became_ready: Iterable[tuple[int, str]], ring: Ring, node_id: str
) -> dict[str, list[str]]:
    """The lines for each owner but *node_id* of the queues that *became_ready*."""
    hints: dict[str, list[str]] = {}
    for partition, queue in became_ready:
        if ring.owners and (owner := ring.owner(partition)) != node_id:
            hints.setdefault(owner, []).append(f"{partition} {queue}")
    return hints


DELAY = 0.01
"""Seconds that a flush waits for more to come."""
KEPT = 5.0
"""Seconds for which what is stored is kept here as well."""
KEPT_BY_CLUSTER = 20.0
"""The same of a cluster. A primary that is cut off from the others takes writes for
its node time-out (15 s, if nobody has changed it), and these are lost."""
MAX_KEPT = 20_000
"""Pushes that are kept at most."""
AGAIN = object()
"""The tag of a push that was made before."""
MAX_PER_FLIGHT = 500
"""URLs sent in one round trip, over all partitions."""
FLIGHTS = 3
"""Round trips at a time: the next is packed while the store works on the last."""


class _Kept(NamedTuple):
    """What was stored, and may have to be put once more."""

    stored: float
    partition: int
    number: int
    pushes: Sequence[Push]


class Outbox:
    """Collects pushes and sends them to their partitions."""

    def __init__(
        self,
        outage_retry: OutageRetry,
        pusher: Pusher,
        *,
        on_verdicts: Callable[[Sequence[Push], str], None],
        on_became_ready: Callable[[list[tuple[int, str]]], list[Call]],
        journal: Callable[[int, Sequence[Push]], None] | None = None,
    ) -> None:
        self._outage_retry = outage_retry
        self.pusher = pusher
        self._on_verdicts = on_verdicts
        self._on_became_ready = on_became_ready
        self._journal = journal
        self._waiting: dict[int, list[Push]] = defaultdict(list)
        self._flying: dict[int, int] = {}
        self._stored: Counter[int] = Counter()
        self._some = asyncio.Event()
        self._stored_more = asyncio.Condition()
        self._urgent = asyncio.Event()
        self._flushes = 0
        self._kept: dict[Server | None, deque[_Kept]] = defaultdict(deque)
        """By the servers that have it: one that is dead says nothing of what it had,
        whatever the others have stored since."""
        self._kept_count = 0
        self._let_go: dict[int, int] = {}
        self._resends = False
        self._late: set[asyncio.Task[None]] = set()
        """What servers have not answered; no more than one of a partition."""
        self.pending = 0
        """Pushes without a verdict."""

    def put(self, partition: int, push: Push) -> None:
        """Add *push*; its verdict comes through ``on_verdicts``."""
        self._waiting[partition].append(push)
        self.pending += 1
        self._some.set()
        if self.pending >= MAX_PER_FLIGHT:
            self._urgent.set()

    def put_again(self, partition: int, push: Push) -> None:
        """Add *push*, which somebody has made before; it gets no verdict."""
        self._resends = True
        self.put(partition, push._replace(tag=AGAIN))

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

    def resend(self, forgotten: Mapping[int, int]) -> tuple[int, int]:
        """Put again what was stored lately, and is not any more.

        *forgotten* tells which partitions lack pushes, and the last number that
        each has. Returns how many pushes that is, and in how many partitions
        something is forgotten that is not kept here any more.
        """
        self.pusher.went_back(forgotten)
        kept, self._kept, self._kept_count = self._kept, defaultdict(deque), 0
        now, count = time.monotonic(), 0
        for one in itertools.chain.from_iterable(kept.values()):
            if one.number <= forgotten.get(one.partition, one.number):
                # Another server may have it now, which has had it for this moment.
                self._hold(one._replace(stored=now))
                continue
            for push in one.pushes:
                self.put_again(one.partition, push)
            count += len(one.pushes)
        gone = sum(self._let_go.get(p, 0) > last for p, last in forgotten.items())
        return count, gone

    def _hold(self, one: _Kept) -> deque[_Kept]:
        server = self._outage_retry.server_of(self.pusher.key(one.partition))
        self._kept[server].append(one)
        self._kept_count += len(one.pushes)
        return self._kept[server]

    def _keep(self, partition: int, pushes: Sequence[Push]) -> None:
        now, number = time.monotonic(), self.pusher.confirmed(partition)
        here = self._hold(_Kept(now, partition, number, pushes))
        since = now - (KEPT if self._outage_retry.alone else KEPT_BY_CLUSTER)
        while here[0].stored < since:
            self._drop_first(here)
        while self._kept_count > MAX_KEPT:
            self._drop_first(max(self._kept.values(), key=len))

    def _drop_first(self, kept: deque[_Kept]) -> None:
        gone = kept.popleft()
        self._kept_count -= len(gone.pushes)
        # Of a partition that has moved, two servers' are let go in any order.
        before = self._let_go.get(gone.partition, 0)
        self._let_go[gone.partition] = max(gone.number, before)

    def _tell(self, pushes: Sequence[Push], verdicts: str) -> None:
        if self._resends and any(push.tag is AGAIN for push in pushes):
            places = [i for i, push in enumerate(pushes) if push.tag is not AGAIN]
            verdicts = "".join(verdicts[i] for i in places)
            pushes = [pushes[i] for i in places]
        self._on_verdicts(pushes, verdicts)

    async def run(self) -> None:
        """Send what is put, until cancelled."""
        flights: set[asyncio.Task[None]] = set()
        try:
            while True:
                await self._some.wait()
                self._late = _going(self._late)
                if not self._flushes and self.pending < MAX_PER_FLIGHT:
                    await self._linger()
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
            flights |= self._late
            for flight in flights:
                flight.cancel()
            await asyncio.gather(*flights, return_exceptions=True)

    async def _linger(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DELAY):
                await self._urgent.wait()

    def _take(self) -> list[tuple[int, list[Push]]]:
        """What goes on the next flight; nothing of partitions that are on one."""
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

    async def _send(
        self,
        batches: list[tuple[int, list[Push]]],
        calls: list[Call] | None = None,
    ) -> None:
        """Push *batches*, with *calls* if these were made before.

        What one of several servers does not answer is no flight any more, which
        the others' have to wait for.
        """
        became_ready: list[tuple[int, str]] = []
        while batches:
            if calls is None and not self._outage_retry.alone:
                calls = self._calls(batches)
                replies = await self._outage_retry.partial(calls, copied=True)
                batches, calls, replies = self._leave(batches, calls, replies)
            else:
                replies = await self._outage_retry.retry(
                    calls or self._calls(batches), copied=True
                )
            calls = None
            every = itertools.chain.from_iterable(replies)
            batches = self._note_replies(batches, every, became_ready)
        async with self._stored_more:
            self._stored_more.notify_all()
        if hints := self._on_became_ready(became_ready):
            # A renewal says what is ready if a hint is lost.
            with contextlib.suppress(StoreUnavailable):
                await self._outage_retry.call(hints)

    def _note_replies(
        self,
        batches: list[tuple[int, list[Push]]],
        replies: Iterable[Any],
        became_ready: list[tuple[int, str]],
    ) -> list[tuple[int, list[Push]]]:
        """Note what was stored; return what is to be sent again.

        Adds to *became_ready*.
        """
        again: list[tuple[int, list[Push]]] = []
        for (partition, pushes), reply in zip(batches, replies, strict=True):
            try:
                done = self.pusher.pushed(partition, reply, pushes)
            except PushForgotten:
                done = None
                if not self.pusher.is_outdated(partition):
                    self._outage_retry.doubt()
            if done is None:
                again.append((partition, pushes))
                continue
            became_ready += [(partition, queue) for queue in done.became_ready]
            self._land(partition, pushes)
            self._keep(partition, pushes)
            self._tell(pushes, done.verdicts)
        return again

    def _land(self, partition: int, pushes: Sequence[Push]) -> None:
        """Count *pushes* as stored."""
        del self._flying[partition]
        self._stored[partition] += len(pushes)
        self.pending -= len(pushes)
        if self._journal is not None:
            self._journal(partition, pushes)

    def _leave(
        self,
        batches: list[tuple[int, list[Push]]],
        calls: list[Call],
        replies: list[Any],
    ) -> tuple[list[tuple[int, list[Push]]], list[Call], list[Any]]:
        """What was answered; what was not is sent again, as it was, by another task."""
        every = list(zip(batches, calls, replies, strict=True))
        late = [one for one in every if isinstance(one[2], StoreUnavailable)]
        if late:
            there, sent = [batch for batch, _, _ in late], [call for _, call, _ in late]
            task = asyncio.create_task(self._send(there, sent))
            task.add_done_callback(lambda _: self._some.set())
            self._late.add(task)
        rest = [one for one in every if not isinstance(one[2], StoreUnavailable)]
        return [b for b, _, _ in rest], [c for _, c, _ in rest], [r for _, _, r in rest]

    def _calls(self, batches: list[tuple[int, list[Push]]]) -> list[Call]:
        """The calls that push *batches*, in their order, few of them."""
        plans = [self.pusher.plan(partition, pushes) for partition, pushes in batches]
        return joined(plans, alone=self._outage_retry.alone)


def _going(flights: set[asyncio.Task[None]]) -> set[asyncio.Task[None]]:
    """Those of *flights* that are not over; raises what one of them has raised."""
    for flight in flights:
        if flight.done():
            flight.result()
    return {flight for flight in flights if not flight.done()}
