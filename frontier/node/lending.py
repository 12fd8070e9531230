"""Lending partitions: how a node comes to send requests that only it can make.

A request of a host that another node holds waits in a queue of its process, in the
host's partition. Whoever holds that sees the queue and hands the partition over, and
the node that asks acquires it: lease, guard, delays and fencing are those of any
holder. `Claims` has the requests that only this process can make.

What always holds:

1.  A partition has one holder, by its lease. To lend one is to release it once what
    was started there is done, and to leave it alone for `GRACE` seconds.
2.  Nobody waits for anybody while holding: what a holder finishes before it hands a
    partition over depends on no other partition, so two nodes that want each other's
    both get them.
3.  Who has claims of its own in a partition keeps it for `SLICE` seconds before it
    hands it to another, and who has none does so at once. One that was borrowed is
    given back as soon as nothing of the borrower's is left there.
4.  The claims of a process that is gone are resolved by the holder; see
    `frontier.node.recovery`.
5.  A request is here from before its claim is queued until the claim's reservation
    is acked, or the URL was seen: whatever is reserved in between can be made.
6.  No claim is queued before the store has the process, under a key that ends
    `ttl` seconds after it was last renewed, by the server's clock. Whoever finds a
    claim without that key takes the process for gone.
7.  A request is started only when its claim is reserved, under a lease like any
    other. So a process that was frozen and taken for gone sends nothing of what
    others have made again: its claims are not there any more.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from frontier.node.outbox import hint_calls, hints_of
from frontier.queue.item import Claim
from frontier.queue.priority import new_process, process_of
from frontier.store.client import Call

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from frontier.cluster.membership import Membership
    from frontier.node.context import NodeContext
    from frontier.node.inbox import Inbox
    from frontier.queue.item import Origin
    from frontier.queue.reserve import Reservation
    from frontier.store.keys import CrawlKeys
    from frontier.store.outage_retry import OutageRetry


logger = logging.getLogger(__name__)

INTERVAL = 0.2
"""Seconds between looks at what others want, and at what was borrowed."""
GRACE = 1.0
"""Seconds for which a partition that was lent is left to those who asked."""
SLICE = 3.0
"""Seconds that a node with claims in a partition has it before others get it."""
ASK = 1.0
"""Seconds between hints to the owners of partitions that are wanted."""
MAX_ASKED = 64
"""Partitions that a node asks for at once."""


class Lending:
    """Decides which partitions a node has besides, and without, those of the ring."""

    def __init__(
        self,
        context: NodeContext,
        inbox: Inbox,
        claims: Claims,
        membership: Membership,
        *,
        resolve: Callable[[dict[int, list[str]]], Awaitable[None]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._outage_retry = context.outage_retry
        self._keys = context.keys
        self._leases = context.leases
        self._inbox = inbox
        self._claims = claims
        self._membership = membership
        self._node_id = context.node_id
        self._resolve = resolve
        self._clock = clock
        self._lent: dict[int, float] = {}
        """Partitions that others shall have, and until when; see `chosen`."""
        self._since: dict[int, tuple[int, float]] = {}
        """Token of the lease on a partition, and since when it is held."""
        self._wanting: set[int] = set()
        self.moved: set[int] = set()
        """Partitions that were lent or borrowed."""
        self._missed: set[int] = set()
        """Claims that were not where they should be at the last look."""
        self._asked = 0.0
        self._turn = 0
        self.on_change: Callable[[], None] = lambda: None
        """Told when this node is to have other partitions than before."""

    def chosen(self, owned: set[int]) -> set[int]:
        """What this node is to hold, given what it *owned* by the ring."""
        now = self._clock()
        for partition in list(self._lent):
            if partition in self._leases.held:  # what is under way there is not done
                self._lent[partition] = now + GRACE
            elif self._lent[partition] <= now:
                del self._lent[partition]
        return (owned | self._wanted(owned)) - set(self._lent)

    def _wanted(self, owned: set[int]) -> set[int]:
        """Partitions of others in which this process has claims: some of them."""
        wanted = self._claims.partitions() - owned
        held = wanted & set(self._leases.held)
        asked = sorted(wanted - held)
        if len(asked) > MAX_ASKED:
            self._turn = (self._turn + MAX_ASKED) % len(asked)
            asked = (asked[self._turn :] + asked[: self._turn])[:MAX_ASKED]
        self.moved |= wanted
        return held | set(asked)

    async def run(self) -> None:
        """Look, until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL)
            if self._inbox.others or self._claims.partitions() or self._since:
                await self.look()

    async def look(self) -> None:
        """See what others want and what the dead have left; ask for what is wanted."""
        now = self._clock()
        held = self._leases.held
        self._since = {
            partition: kept
            if (kept := self._since.get(partition)) and kept[0] == lease.token
            else (lease.token, now)
            for partition, lease in held.items()
            if partition in self._inbox.others
            or partition in self._claims.partitions()
            or partition in self._since
        }
        for partition in [p for p in self._inbox.others if p not in held]:
            self._inbox.others.pop(partition, None)
        await self._see_others(now)
        wanting = self._claims.partitions() - set(held)
        if wanting - self._wanting:
            self.on_change()
        self._wanting = wanting
        if now - self._asked >= ASK:
            self._asked = now
            await self._find_missing()
            await self._ask()

    async def _see_others(self, now: float) -> None:
        asked = [(p, q) for p, queues in self._inbox.others.items() for q in queues]
        if not asked:
            return
        processes = sorted({process_of(queue) for _, queue in asked})
        calls = [Call.command("EXISTS", self._keys.process(p)) for p in processes]
        calls += [
            Call.command("ZSCORE", self._keys.partition(partition).queues, queue)
            for partition, queue in asked
        ]
        replies = await self._outage_retry.retry(calls)
        alive = {p for p, lives in zip(processes, replies, strict=False) if lives}
        gone: dict[int, list[str]] = defaultdict(list)
        for (partition, queue), score in zip(
            asked, replies[len(processes) :], strict=True
        ):
            if score is None:
                self._inbox.others.get(partition, set()).discard(queue)
            elif process_of(queue) not in alive:
                gone[partition].append(queue)
            elif partition not in self._lent and self._may_lend(partition, now):
                self._lent[partition] = now + GRACE
                self.moved.add(partition)
                self.on_change()
        if gone:
            await self._resolve(dict(gone))
        for partition in [p for p, q in self._inbox.others.items() if not q]:
            self._inbox.others.pop(partition, None)

    def _may_lend(self, partition: int, now: float) -> bool:
        if not self._claims.of(partition):
            return True
        since = self._since.get(partition)
        return since is not None and now - since[1] >= SLICE

    async def _find_missing(self) -> None:
        """Forget requests whose claims others have resolved, taking us for gone."""
        kept = [
            (p, one) for p in self._claims.partitions() for one in self._claims.of(p)
        ]
        queues = sorted({(p, one.queue) for p, one in kept})
        calls = [
            Call.command("LLEN", self._keys.partition(p).ready(queue))
            for p, queue in queues
        ]
        replies = await self._outage_retry.retry(calls)
        empty = {place for place, n in zip(queues, replies, strict=True) if not n}
        missing = {
            one.claim.number
            for p, one in kept
            if (p, one.queue) in empty and one.reserved not in self._inbox.open
        }
        # Not at the first look: a reservation may be on its way. If one comes after
        # all, its claim is resolved, as that of any process that is gone.
        for number in missing & self._missed:
            self._claims.forget(number)
        self._missed = missing

    async def _ask(self) -> None:
        """Tell the owners what is wanted of them; look at what was borrowed."""
        ring, wanted = self._membership.ring, self._claims.partitions()
        asked = wanted - set(self._leases.held)
        lines = [(p, one.queue) for p in asked for one in self._claims.of(p)[:1]]
        hints = hints_of(lines, ring, self._node_id)
        kept_ms = int(ASK * 5000)
        await self._outage_retry.retry(hint_calls(self._keys, hints, kept_ms))
        owned = set(ring.owned_by(self._node_id))
        # Hints about these go to their owners.
        if borrowed := set(self._leases.held) - owned:
            await self._inbox.load_queues(borrowed)


@dataclass(slots=True)
class Kept:
    """A request of this process."""

    claim: Claim
    request: Any
    again: Callable[[], Any]
    """Makes a copy of the request as it was, should it be started once more."""
    partition: int
    queue: str
    is_started: bool = False
    reserved: tuple[int, int, int] | None = None
    """The key of its claim's reservation."""


class Claims:
    """Keeps what only this process can make, and says that the process lives."""

    def __init__(
        self, outage_retry: OutageRetry, keys: CrawlKeys, *, node_id: str, ttl: float
    ) -> None:
        self._outage_retry = outage_retry
        self._keys = keys
        self._node_id = node_id
        self._ttl = ttl
        self.process = new_process()
        self._kept: dict[int, Kept] = {}
        self._numbers: dict[int, int] = {}
        """By the fingerprints of requests, which are kept as well."""
        self._by_partition: dict[int, set[int]] = defaultdict(set)
        self._reserved: dict[tuple[int, int, int], int] = {}
        self._last = 0

    def make(
        self,
        request: Any,
        again: Callable[[], Any],
        url: str,
        place: tuple[int, str],
        origins: Iterable[Origin],
        marks: Iterable[tuple[int, int]],
        start_id: str,
    ) -> Claim:
        """Keep *request*; what is returned is to be queued for it.

        *again* makes a copy of it. *place* is a partition, and a queue there.
        """
        self._last += 1
        claim = Claim(
            self.process, self._last, url, tuple(origins), tuple(marks), start_id
        )
        self._kept[claim.number] = Kept(claim, request, again, *place)
        self._numbers[id(request)] = claim.number
        return claim

    async def announce(self) -> None:
        """Return when the store has this process."""
        ttl_ms = int(self._ttl * 1000)
        await self._outage_retry.retry(
            [Call.command("SET", self.key, self._node_id, "PX", ttl_ms)]
        )

    async def run(self) -> None:
        """Renew, until cancelled."""
        while True:
            await asyncio.sleep(self._ttl / 3)
            await self.announce()

    @property
    def key(self) -> str:
        """The key that says that this process lives."""
        return self._keys.process(self.process)

    async def leave(self) -> None:
        """Say that this process has ended: its claims are for others to resolve."""
        await self._outage_retry.retry([Call.command("DEL", self.key)])

    @property
    def waiting(self) -> bool:
        """Whether there are requests of which it is not known whether they are new."""
        return bool(self._numbers)

    def stored(self, request: Any) -> None:
        """Note that the claim of *request* is in the store: its URL was new."""
        kept = self._kept.get(self._numbers.pop(id(request), 0))
        if kept is not None:
            self._by_partition[kept.partition].add(kept.claim.number)

    def refused(self, request: Any) -> None:
        """Forget *request*: its URL was seen."""
        self._kept.pop(self._numbers.pop(id(request), 0), None)

    def take(self, claim: Claim, reservation: Reservation) -> Any | None:
        """The request of *claim*, which is reserved; `None` if it is not kept here.

        The reservation may come before it is known that the URL was new.
        """
        kept = self._kept.get(claim.number)
        if kept is None or claim.process != self.process:
            return None
        self.stored(kept.request)
        self._note(kept, reservation)
        if kept.is_started:
            return kept.again()
        kept.is_started = True
        return kept.request

    def peek(self, claim: Claim) -> Any | None:
        """The request of *claim*; `None` if it is not kept here."""
        kept = self._kept.get(claim.number)
        return kept.request if kept and claim.process == self.process else None

    def _note(self, kept: Kept, reservation: Reservation) -> None:
        if kept.reserved is not None:
            self._reserved.pop(kept.reserved, None)
        kept.reserved = reservation.key
        self._reserved[reservation.key] = kept.claim.number

    def ended(self, reservations: Iterable[Reservation]) -> None:
        """Forget the requests whose claims' *reservations* have left the store."""
        for reservation in reservations:
            number = self._reserved.get(reservation.key)
            if number is not None:
                self.forget(number)

    def forget(self, number: int) -> None:
        """Forget the request of claim *number*."""
        kept = self._kept.pop(number, None)
        if kept is None:
            return
        if self._numbers.get(id(kept.request)) == number:
            del self._numbers[id(kept.request)]
        if kept.reserved is not None:
            self._reserved.pop(kept.reserved, None)
        numbers = self._by_partition.get(kept.partition, set())
        numbers.discard(number)
        if not numbers:
            self._by_partition.pop(kept.partition, None)

    def partitions(self) -> set[int]:
        """Those in which there are claims of this process."""
        return set(self._by_partition)

    def of(self, partition: int) -> list[Kept]:
        """What is kept of claims in *partition*."""
        return [self._kept[n] for n in self._by_partition.get(partition, ())]
