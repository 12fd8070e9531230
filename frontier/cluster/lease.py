"""Leases: who may reserve from a partition.

A lease is a hash of its partition, ``{token, holder}``, without an expiry. Its holder
is a name on the map of members, and a node has all its leases for as long as its
heartbeat keeps that name there (`frontier.cluster.membership`): nothing is renewed.

What always holds:

1.  A lease is taken only if it is still as it was last seen, and from another holder
    only if that is dead. So a call that is late, or is made twice, takes nothing.
2.  The tokens of a partition only grow. Every change of its reservations
    carries a token, and the store refuses one that is not current; a node that
    was paused and wakes up late can do no harm.
3.  A node relies on no lease after its deadline, which is before anybody may take it
    for dead. It comes back under another name, and has each lease again, under the same
    token, once the lease names that, if nobody took it meanwhile.
4.  A token ends with its release: once that was sent the token is not used any more,
    whether a reply came or not.
5.  Clocks are never compared across nodes.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import starmap
from secrets import randbelow
from typing import TYPE_CHECKING, Any, NamedTuple

from frontier.errors import CrawlLost, StoreUnavailable
from frontier.model import Lease, frozen
from frontier.store.calls import Run, batches
from frontier.store.client import Call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from frontier.cluster.membership import Membership
    from frontier.store.keys import CrawlKeys, PartitionKeys

BATCH = 256
"""Calls per pipeline, so that the reactor is never busy for long. Pipelines go out
together, each on a connection of its own: where callbacks keep the reactor busy, a
pipeline that had to wait for the one before would wait for callbacks too."""

MOST_MORE = 1 << 20
"""By how much a token may be more than the one before: enough that a store which has
lost the last one, and whose clock was set back, hands out another."""


class Seen(NamedTuple):
    """A lease as the store last reported it."""

    holder: str
    token: int


NOBODY = Seen("", 0)


@frozen
class Acquired:
    """A lease that was just taken, and what its partition holds."""

    lease: Lease
    ready: int
    reserved: int
    """Reservations that an earlier holder left behind."""
    former: Seen = NOBODY
    """Who held it, and under which token."""
    now_ms: int = 0
    """When it was taken, by the server's clock."""
    hosts: Sequence[bytes] = ()
    """Hosts and their records by turns; see `frontier.queue.hosts`."""


class Look(NamedTuple):
    """How many requests a held partition has."""

    ready: int
    reserved: int


class Leases:
    """Acquires, looks after and releases the leases of one node."""

    def __init__(
        self,
        run: Run,
        keys: CrawlKeys,
        membership: Membership,
    ) -> None:
        self._run = run
        self._keys = keys
        self.membership = membership
        self.held: dict[int, Lease] = {}
        """Partition to lease, even while none can be relied on; changed here alone."""
        self.changes = 0
        """How often a lease was taken, released or lost."""
        self.on_taken: Callable[[Acquired], object] = lambda _: None
        """Called with each lease that is taken, before anybody can rely on it."""
        self._seen: dict[int, Seen] = {}
        self.waiting: set[int] = set()
        """Partitions with URLs that are not due yet, as the store last reported."""
        self.doubtful: set[int] = set()
        """Partitions that this node may hold in the store without knowing it: they are
        to be acquired, and released if they are not wanted."""
        self.refused: dict[int, str] = {}
        """Partitions that `acquire` did not get, and who holds them."""

    @property
    def name(self) -> str:
        """The name under which leases are taken now."""
        return self.membership.name

    def is_gone(self, holder: str) -> bool:
        """Whether *holder* is a name under which nobody does anything any more."""
        is_former = self.membership.is_own(holder) and holder != self.name
        return is_former or self.membership.is_dead(holder)

    def current(self, partition: int) -> Lease | None:
        """The lease on *partition*, or ``None`` if there is none to rely on."""
        lease = self.held.get(partition)
        if (
            lease is None
            or lease.holder != self.membership.name
            or not self.membership.is_live
        ):
            return None
        return lease

    def covers(self, lease: Lease) -> bool:
        """Whether *lease*'s token is still held and can be relied on."""
        held = self.current(lease.partition)
        return held is not None and held.token == lease.token

    def holds(self, lease: Lease) -> bool:
        """Whether *lease*'s token is still held, even if it cannot be relied on."""
        held = self.held.get(lease.partition)
        return held is not None and held.token == lease.token

    async def acquire(self, partitions: Iterable[int]) -> list[Acquired]:
        """Take those of *partitions* that no live process holds.

        Those for which the store has not answered are then `doubtful`.

        Raises:
            CrawlLost: The store has lost what was in one of them.
            StoreUnavailable: Nothing was taken.
        """
        taken: list[Acquired] = []
        # A live holder may have released its lease meanwhile: asking finds that out.
        asked = {p: self._known(p) or NOBODY for p in partitions}
        while asked:
            name = self.name
            self.doubtful.update(asked)
            try:
                replies = await self._ask(starmap(self._acquiring, asked.items()))
            except StoreUnavailable:
                if not taken:
                    raise
                break  # the caller has to requeue what former holders left in these
            found: dict[int, Acquired | None] = {}
            for (p, before), reply in zip(asked.items(), replies, strict=True):
                found[p] = one = self._taken(p, before, name, reply)
                if one is not None and one.hosts:
                    await asyncio.sleep(0)  # there may be thousands of records
            taken += filter(None, found.values())
            moved = [p for p, one in found.items() if one is None]
            asked = {p: seen for p in moved if (seen := self._known(p))}
            self.refused |= {p: self._seen[p].holder for p in moved if p not in asked}
        return taken

    async def _ask(self, calls: Iterable[Call]) -> list[Any]:
        """The replies to *calls*.

        Raises:
            StoreUnavailable: Some are missing. Their calls may have been executed.
        """
        running = (self._run(batch) for batch in batches([*calls], BATCH))
        replies: list[Any] = []
        for result in await asyncio.gather(*running, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result
            replies += result
        return replies

    def _known(self, partition: int) -> Seen | None:
        """The lease as it was last seen; `None` if another live process holds it."""
        seen = self._seen.get(partition, NOBODY)
        holder = seen.holder
        if (
            not holder
            or self.membership.is_own(holder)
            or self.membership.is_dead(holder)
        ):
            return seen
        return None

    def _acquiring(self, partition: int, seen: Seen, *, keeps: bool = False) -> Call:
        keys = self._keys.partition(partition)
        return acquire_call(keys, self.name, seen, keeps=keeps)

    def _taken(
        self, partition: int, before: Seen, name: str, reply: list[Any]
    ) -> Acquired | None:
        """What was taken; `None` if the lease is no longer as it was *before*."""
        if reply[0] < 0:
            raise CrawlLost(self._keys.crawl_id)
        _, holder, token, *facts = reply
        self._seen[partition] = Seen(holder.decode("utf-8", "replace"), int(token))
        self.doubtful.discard(partition)
        self.refused.pop(partition, None)
        if not reply[0]:
            return None
        *figures, hosts = facts
        ready, reserved, waiting, now_ms = map(int, figures)
        self._note_waiting(partition, waiting)
        lease = self.held[partition] = Lease(partition, int(token), name)
        self.changes += 1
        taken = Acquired(lease, ready, reserved, before, now_ms, hosts)
        self.on_taken(taken)
        return taken

    async def rename(self) -> list[Lease]:
        """Move leases under an earlier name of this node to its present name.

        Returns those that are lost.

        Raises:
            CrawlLost: The store has lost what was in one of the partitions.
            StoreUnavailable: This has to be called again.
        """
        lost: list[Lease] = []
        name = self.name
        stale = [lease for lease in self.held.values() if lease.holder != name]
        calls = (
            self._acquiring(one.partition, Seen(one.holder, one.token), keeps=True)
            for one in stale
        )
        for lease, reply in zip(stale, await self._ask(calls), strict=True):
            if self.held.get(lease.partition) is not lease:
                continue  # it was lost or released meanwhile
            if reply[0] < 0:
                raise CrawlLost(self._keys.crawl_id)
            holder = reply[1].decode("utf-8", "replace")
            if int(reply[2]) == lease.token and self.membership.is_own(holder):
                # Also if an earlier call was executed and its reply was lost.
                self.held[lease.partition] = replace(lease, holder=holder)
            else:
                self.forget(lease)
                lost.append(lease)
        return lost

    async def look(self) -> tuple[dict[int, Look], list[Lease]]:
        """Look at what all held partitions have.

        Also returns the leases that are lost, which are forgotten.

        Raises:
            StoreUnavailable: The store has not answered for all.
        """
        found: dict[int, Look] = {}
        lost: list[Lease] = []
        leases = list(self.held.values())
        replies = await self._ask(map(self._looking, leases))
        for lease, reply in zip(leases, replies, strict=True):
            if self.held.get(lease.partition) is not lease:
                continue  # it was released meanwhile, say
            if reply is None:
                self.forget(lease)
                lost.append(lease)
            else:
                ready, waiting, reserved = reply
                self._note_waiting(lease.partition, waiting)
                found[lease.partition] = Look(ready, reserved)
        return found, lost

    def _looking(self, lease: Lease) -> Call:
        keys = self._keys.partition(lease.partition)
        return Call.to(
            "lease_look", [keys.lease, keys.counts, keys.reserved], [lease.token]
        )

    def _note_waiting(self, partition: int, count: int) -> None:
        if count:
            self.waiting.add(partition)
        else:
            self.waiting.discard(partition)

    async def release(self, partitions: Iterable[int]) -> None:
        """Release those of *partitions* that are held.

        They are `doubtful` until the store has answered.

        Raises:
            StoreUnavailable: It has not answered for all.
        """
        leases = [self.held.pop(p) for p in partitions if p in self.held]
        self.changes += len(leases)
        self.doubtful.update(lease.partition for lease in leases)
        await self._ask(map(self.release_call, leases))
        for lease in leases:
            self.doubtful.discard(lease.partition)
            self._seen[lease.partition] = Seen("", lease.token + 1)

    def release_call(self, lease: Lease) -> Call:
        """The call that ends *lease* in the store."""
        keys = self._keys.partition(lease.partition)
        return Call.to("lease_release", [keys.lease], [lease.token])

    def forget(self, lease: Lease) -> None:
        """Count *lease* as lost, because the store refused its token."""
        if self.holds(lease):
            del self.held[lease.partition]
            self.changes += 1


def acquire_call(
    keys: PartitionKeys, name: str, seen: Seen = NOBODY, *, keeps: bool = False
) -> Call:
    """The call that takes a partition for *name*, if its lease is still as *seen*.

    With *keeps* the token stays, and only the holder's name changes.
    """
    more = 0 if keeps else 1 + randbelow(MOST_MORE)
    args = (name, keys.born, seen.holder, seen.token, more)
    names = [keys.lease, keys.counts, keys.reserved, keys.hosts]
    return Call.to("lease_acquire", names, args)
