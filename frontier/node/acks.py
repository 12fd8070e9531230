"""Acks: what is done leaves the store, after everything that it produced.

What always holds:

1.  A reservation is acked after the links that it produced are in the store
    and after its records and journal entries are on disk: a node that dies
    before that leaves the URL to be fetched again, one that dies after it
    leaves nothing to do.
2.  A reservation whose lease is lost is not acked; its new holder has it.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING

from frontier.errors import LeaseLost
from frontier.queue.reserve import ack_calls, acked, bury_call

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from frontier.cluster.lease import Leases
    from frontier.model import Lease
    from frontier.node.inbox import Inbox
    from frontier.node.outbox import Outbox
    from frontier.queue.reserve import Reservation
    from frontier.store.client import Call
    from frontier.store.keys import CrawlKeys
    from frontier.store.outage_retry import Patience

DELAY = 0.01
"""Seconds that an ack waits for others."""


class Acks:
    """Acks completed reservations, many per round trip."""

    def __init__(
        self,
        patience: Patience,
        keys: CrawlKeys,
        leases: Leases,
        inbox: Inbox,
        outbox: Outbox,
        *,
        archived: Callable[[], Awaitable[None]],
        on_acked: Callable[[list[Reservation]], None] = lambda _: None,
        on_ended: Callable[[list[Reservation]], None] = lambda _: None,
        journal: Callable[[int, str, bytes], None] | None = None,
        charge: Callable[[Reservation], str] | None = None,
    ) -> None:
        self._patience = patience
        self._keys = keys
        self._leases = leases
        self._inbox = inbox
        self._outbox = outbox
        self._archived = archived
        self._on_acked = on_acked
        self._on_ended = on_ended
        self._journal = journal
        self._charge = charge
        self._completed: list[Reservation] = []
        self._replaced: set[tuple[int, int, int]] = set()
        self._some = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()
        self.acked = 0

    def complete(self, reservation: Reservation, *, is_done: bool = True) -> None:
        """Count *reservation* as done, callbacks and item pipelines included.

        If it is not, others that were queued lead to it again: its journal is not told.
        """
        self._inbox.finish(reservation)
        if not is_done:
            self._replaced.add(reservation.key)
        self._completed.append(reservation)
        self._some.set()

    async def bury(self, reservation: Reservation, reason: str) -> None:
        """Move *reservation* to the dead letter."""
        keys = self._keys.partition(reservation.lease.partition)
        await self._patience.run([bury_call(keys, reservation, reason)])
        self._on_ended([reservation])
        self._inbox.finish(reservation)
        self._inbox.settle(reservation)
        self._on_acked([reservation])

    async def run(self) -> None:
        """Ack what is completed, until cancelled."""
        while True:
            await self._some.wait()
            await asyncio.sleep(DELAY)
            await self.drain()

    async def drain(self) -> None:
        """Ack everything that was completed so far."""
        async with self._one_at_a_time:
            self._some.clear()
            completed, self._completed = self._completed, []
            if not completed:
                return
            await self._outbox.flush()
            await self._archived()
            await self._ack(completed)

    async def _ack(self, completed: list[Reservation]) -> None:
        groups: dict[tuple[int, int], list[Reservation]] = defaultdict(list)
        for reservation in completed:
            lease = reservation.lease
            if reservation.key in self._inbox.open:
                groups[lease.partition, lease.token].append(reservation)
        asked: list[tuple[Lease, Call]] = []
        lost: set[tuple[int, int]] = set()
        for (partition, _), group in groups.items():
            tell = self._charge or _id
            ids = [tell(reservation) for reservation in group]
            keys = self._keys.partition(partition)
            charged = self._charge is not None
            calls = ack_calls(keys, group[0].lease, ids, charged=charged)
            asked += ((group[0].lease, call) for call in calls)
        while asked:
            replies = await self._patience.run([call for _, call in asked])
            refused = []
            for (lease, call), reply in zip(asked, replies, strict=True):
                try:
                    self.acked += acked(reply, lease)
                except LeaseLost:
                    refused.append((lease, call))
            kept = await self._leases.kept(lease for lease, _ in refused)
            asked = []  # again, of a lease that had ended and came back
            for lease, call in refused:
                if (lease.partition, lease.token) in kept:
                    asked.append((lease, call))
                elif (lease.partition, lease.token) not in lost:
                    lost.add((lease.partition, lease.token))
                    self._inbox.lose(lease)
        if self._journal is not None:
            for group_key, group in groups.items():
                if group_key not in lost:
                    for done in (r for r in group if r.key not in self._replaced):
                        self._journal(done.lease.partition, done.queue, done.item)
        self._replaced.difference_update(r.key for r in completed)
        self._on_ended(
            [r for k, group in groups.items() if k not in lost for r in group]
        )
        for reservation in completed:
            self._inbox.settle(reservation)
        self._on_acked(completed)


def _id(reservation: Reservation) -> int:
    return reservation.id
