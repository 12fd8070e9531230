"""The requests that only this process can make, and their claims.

What always holds:

1.  A request is here from before its claim is queued until the claim's reservation
    is acked, or the URL was seen: whatever is reserved in between can be made.
2.  No claim is queued before the store has the process, under a key that ends
    `ttl` seconds after it was last renewed, by the server's clock. Whoever finds a
    claim without that key takes the process for gone.
3.  A request is started only when its claim is reserved, under a lease like any
    other. So a process that was frozen and taken for gone sends nothing of what
    others have made again: its claims are not there any more.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from frontier.queue.claims import Claim
from frontier.queue.reserve import new_process
from frontier.store.client import Call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from frontier.queue.claims import Origin
    from frontier.queue.reserve import Reservation
    from frontier.store.keys import CrawlKeys
    from frontier.store.outage_retry import Patience


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
        self, patience: Patience, keys: CrawlKeys, *, node_id: str, ttl: float
    ) -> None:
        self._patience = patience
        self._keys = keys
        self._node_id = node_id
        self._ttl = ttl
        self.process = new_process()
        self._kept: dict[int, Kept] = {}
        self._numbers: dict[int, int] = {}
        """By the identities of requests, which are kept as well."""
        self._by_partition: dict[int, set[int]] = defaultdict(set)
        self._reserved: dict[tuple[int, int, int], int] = {}
        self._last = 0
        self._some = asyncio.Event()
        self._said: asyncio.Task[None] | None = None
        self.announced = False
        """Whether the store has this process."""

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
        if self._said is None:
            self._said = asyncio.create_task(self._say())
        await asyncio.shield(self._said)

    async def _say(self) -> None:
        key = self._keys.process(self.process)
        ttl_ms = int(self._ttl * 1000)
        await self._patience.run(
            [Call.command("SET", key, self._node_id, "PX", ttl_ms)]
        )
        self.announced = True
        self._some.set()

    async def run(self) -> None:
        """Renew, until cancelled."""
        await self._some.wait()
        while True:
            await asyncio.sleep(self._ttl / 3)
            await self._say()

    def key(self) -> str:
        """The key that says that this process lives; empty if there is none yet."""
        return self._keys.process(self.process) if self.announced else ""

    async def leave(self) -> None:
        """Say that this process has ended: its claims are for others to resolve."""
        if self.announced:
            key = self._keys.process(self.process)
            await self._patience.run([Call.command("DEL", key)])

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
