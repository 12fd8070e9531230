"""Leases: who may reserve from a partition, and until when.

What always holds:

1.  A partition has at most one live lease.
2.  The tokens of a partition only grow. Every change of its reservations
    carries a token, and the store refuses one that is not current; a node that
    was paused and wakes up late can do no harm.
3.  Clocks are never compared across nodes. Redis decides when a lease ends.
    The holder counts from *before* it asked, so it stops early, never late.
4.  A lease that was released is ended in the store again and again until the store
    has said that it is: an error, or a task that was cancelled, leaves no partition
    that nobody may take and nobody has.
5.  What was sent before a release and arrives after it brings nothing back: with the
    lease its token ends.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from frontier.errors import CrawlLost, StoreUnavailable
from frontier.model import Lease
from frontier.store.client import Argument, Call
from frontier.store.scripts import LEASE_ACQUIRE, LEASE_RELEASE, LEASE_RENEW

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from frontier.store.keys import CrawlKeys

    Run = Callable[[Sequence[Call]], Awaitable[list[Any]]]

T = TypeVar("T")

BATCH = 256
"""Calls per pipeline, so that the reactor is never busy for long. Pipelines go
out together, each on a connection of its own: where callbacks keep the reactor busy,
each one that had to wait for the one before would wait for them too, and leases would
end."""


class Renewer(Protocol):
    """Who renews leases where this process cannot; see `frontier.watchdog`."""

    def deadline(self, partition: int, token: int) -> float:
        """Until when it has renewed that lease, on our clock; 0 if it has not."""

    def hold(self) -> None:
        """Learn which leases are held: there are others than before."""


@dataclass(frozen=True, slots=True)
class Acquired:
    """A lease that was just taken, and what its partition holds."""

    lease: Lease
    ready: int
    reserved: int
    """Reservations that an earlier holder left behind."""


class Leases:
    """Acquires, renews and releases the leases of one node."""

    def __init__(
        self,
        run: Run,
        keys: CrawlKeys,
        node_id: str,
        *,
        ttl: float,
        clock: Callable[[], float] = time.monotonic,
        some: Run | None = None,
    ) -> None:
        self._run = run
        self._some = some or run
        self._keys = keys
        self._node_id = node_id
        self._ttl = ttl
        self._ttl_ms = int(ttl * 1000)
        self._clock = clock
        self._held: dict[int, Lease] = {}
        self.changes = 0
        """How often a lease was taken or has gone; a renewal keeps its token."""
        self.renewer: Renewer | None = None
        """Who has renewed leases that this process takes for ended."""
        self.waiting: set[int] = set()
        """Partitions that hold URLs which are not due yet, as the store has told."""
        self._ending: dict[tuple[int, int], Lease] = {}
        """Leases that were released, by partition and token, and of which the store has
        not said that they have ended."""

    @property
    def held(self) -> dict[int, Lease]:
        """Partition to lease, also of leases past their deadline. Read only."""
        return self._held

    @property
    def releasing(self) -> bool:
        """Whether the store has yet to say that leases have ended which were released.

        The next `release` ends them, of whatever partitions.
        """
        return bool(self._ending)

    def current(self, partition: int) -> Lease | None:
        """The lease on *partition*, or ``None`` if there is none to rely on."""
        lease = self._held.get(partition)
        if lease is None or lease.deadline > self._clock():
            return lease
        if self.renewer is not None:
            deadline = self.renewer.deadline(partition, lease.token)
            if deadline > self._clock():
                return replace(lease, deadline=deadline)
        return None

    def covers(self, lease: Lease) -> bool:
        """Whether *lease*'s token is still held and its deadline ahead."""
        held = self.current(lease.partition)
        return held is not None and held.token == lease.token

    async def acquire(self, partitions: Iterable[int]) -> list[Acquired]:
        """Take those of *partitions* that nobody holds.

        If the store did not answer for some, returns what was taken of the rest:
        somebody has to take care of what former holders left there.

        Raises:
            CrawlLost: The store has lost what was in one of them.
        """
        taken: list[Acquired] = []

        async def take(batch: list[int]) -> None:
            asked_at = self._clock()
            replies = await self._some([*map(self._acquiring, batch)])
            for partition, reply in zip(batch, replies, strict=True):
                if reply is None or isinstance(reply, StoreUnavailable):
                    continue
                if reply == -1:
                    raise CrawlLost(self._keys.crawl_id)
                token, ready, reserved, waiting = (int(value) for value in reply)
                self._note_waiting(partition, waiting)
                lease = Lease(partition, token, asked_at + self._ttl)
                self._held[partition] = lease
                self.changes += 1
                taken.append(Acquired(lease, ready, reserved))

        try:
            await _each(take, _batches(partitions), lambda: taken)
        finally:  # before anything is reserved: the first page may end this process
            if taken and self.renewer is not None:
                self.renewer.hold()
        return taken

    def _acquiring(self, partition: int) -> Call:
        keys = self._keys.partition(partition)
        names = [keys.lease, keys.fence, keys.counts, keys.reserved]
        return Call.to(LEASE_ACQUIRE, names, [self._node_id, self._ttl_ms, keys.born])

    async def renew_refused(self, refused: Iterable[Lease]) -> set[tuple[int, int]]:
        """Renew leases whose tokens the store refused; return which are still held.

        Each is named by partition and token. One that had merely ended comes back,
        and with it what is reserved under it.
        """
        asked = {(lease.partition, lease.token) for lease in refused}
        if not asked:  # as nearly always: not to wait for a renewal under way
            return set()
        # Not another lease on the same partition: who asks learns of these alone.
        chosen = {number for number, _ in asked & self._tokens()}
        with suppress(StoreUnavailable):  # asked again when the call is repeated
            await self.renew(chosen)
        return asked & self._tokens()

    def _tokens(self) -> set[tuple[int, int]]:
        return {(number, lease.token) for number, lease in self._held.items()}

    async def renew(
        self, partitions: Iterable[int] | None = None
    ) -> tuple[dict[int, int], list[Lease]]:
        """Renew all leases, or those on *partitions*.

        Returns the number of ready URLs of each partition that is still held,
        and the leases that are lost. Of what the store did not answer neither is said,
        if it answered for some: who does not learn of a loss would wait for ever.
        """
        ready: dict[int, int] = {}
        lost: list[Lease] = []

        async def extend(batch: list[int]) -> None:
            asked_at = self._clock()
            leases = [self._held[p] for p in batch if p in self._held]
            mine = (self._keys, self._node_id, self._ttl_ms)
            calls = [renew_call(*mine, lease) for lease in leases]
            for lease, reply in zip(leases, await self._some(calls), strict=True):
                if isinstance(reply, StoreUnavailable):
                    continue  # those of the other servers are to be kept
                if self._held.get(lease.partition) is not lease:
                    continue  # released while the renewal was under way
                if reply is None:
                    del self._held[lease.partition]
                    self.changes += 1
                    lost.append(lease)
                else:
                    deadline = asked_at + self._ttl
                    self._held[lease.partition] = replace(lease, deadline=deadline)
                    some, waiting = reply if isinstance(reply, list) else (reply, 0)
                    ready[lease.partition] = int(some)
                    self._note_waiting(lease.partition, waiting)

        batches = _batches(self._held if partitions is None else partitions)
        await _each(extend, batches, lambda: ready or lost)
        return ready, lost

    def _note_waiting(self, partition: int, count: int) -> None:
        if count:
            self.waiting.add(partition)
        else:
            self.waiting.discard(partition)

    async def release(self, partitions: Iterable[int]) -> None:
        """Give those of *partitions* back that are held.

        And end what was given back before, and may have not been heard of. If the
        store does not answer for some, they are still `releasing` after that.

        Raises:
            StoreUnavailable: It has answered for none.
        """
        for partition in partitions:
            lease = self._held.pop(partition, None)
            if lease is not None:
                self.changes += 1
                self._ending[partition, lease.token] = lease
        ended: list[Lease] = []

        async def end(batch: list[Lease]) -> None:
            replies = await self._some([self.release_call(lease) for lease in batch])
            for lease, reply in zip(batch, replies, strict=True):
                if not isinstance(reply, StoreUnavailable):
                    self._ending.pop((lease.partition, lease.token), None)
                    ended.append(lease)

        await _each(end, _batches(self._ending.values()), lambda: ended)

    def release_call(self, lease: Lease) -> Call:
        """The call that ends *lease* in the store."""
        keys = self._keys.partition(lease.partition)
        return Call.to(LEASE_RELEASE, [keys.lease, keys.fence], [lease.token])

    def forget(self, lease: Lease) -> None:
        """Count *lease* as lost, because the store refused its token."""
        held = self._held.get(lease.partition)
        if held is not None and held.token == lease.token:
            del self._held[lease.partition]
            self.changes += 1


def renew_call(keys: CrawlKeys, node_id: str, ttl_ms: int, lease: Lease) -> Call:
    """The call that renews *lease*; its reply is nil if it is lost."""
    part = keys.partition(lease.partition)
    args: list[Argument] = [node_id, ttl_ms, lease.token]
    return Call.to(LEASE_RENEW, [part.lease, part.fence, part.counts], args)


async def _each(
    do: Callable[[list[T]], Awaitable[None]],
    batches: list[list[T]],
    found: Callable[[], object],
) -> None:
    """Do all *batches*; what the store did not answer counts if nothing was *found*."""
    results = await asyncio.gather(*map(do, batches), return_exceptions=True)
    for failure in results:
        if failure is not None and not (
            isinstance(failure, StoreUnavailable) and found()
        ):
            raise failure


def _batches(things: Iterable[T]) -> list[list[T]]:
    every = list(things)
    return [every[i : i + BATCH] for i in range(0, len(every), BATCH)]
