"""Acks: what is done leaves the store, once everything that it produced is safe.

`DeliveryMarks` say which reservations were started, so that only these count as
delivered. A node that is killed also leaves what waited in its inbox reserved: that
has not been tried, and does not come nearer to the dead letters.

What always holds:

1.  A reservation is acked after the links that it produced are in the store
    and after its records and journal entries are on disk: a node that dies
    before that leaves the URL to be fetched again, one that dies after it
    leaves nothing to do.
2.  A reservation whose lease is lost is not acked; its new holder has it.
3.  A delivery mark never stands for another reservation: an id is used once.
4.  Nothing waits for a delivery mark. It is sent as soon as the request is started,
    together with others, and has arrived long before a page could do any harm. The
    script that ends the reservation removes it.
5.  A node that takes a partition over removes the delivery marks after it has put back
    the reservations that they are about.
6.  The ids of forced pushes stay until the request that made them is acked: if it is
    delivered again instead, they are not queued again.
7.  An adopted request (`frontier.node.delivery`) is in no store: instead of an ack, the
    claim on its mark is removed, under the same conditions.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from frontier.node.context import Part
from frontier.queue.due import again_calls
from frontier.queue.push import TEST, Push
from frontier.queue.reserve import Reservation, ack_calls, bury_call, start_call
from frontier.store.client import Call

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from frontier.errors import KeyDamaged
    from frontier.model import Lease
    from frontier.node.node import Node


class DeliveryMarks(Part):
    """Marks the reservations that one node has started."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._keys = node.keys
        self._begun: dict[int, set[int]] = defaultdict(set)
        """What was started since the last call, by partition."""
        self._some = asyncio.Event()

    @override
    def begin(self, reservation: Reservation) -> None:
        """Mark *reservation* as started."""
        if reservation.id > 0:  # else no store has it
            self._begun[reservation.lease.partition].add(reservation.id)
            self._some.set()

    @override
    async def before_ack(self, reservations: Sequence[Reservation] = ()) -> None:
        """Send no mark of *reservations* any more: after the ack it would stay."""
        for one in reservations:
            if ids := self._begun.get(one.lease.partition):
                ids.discard(one.id)

    @override
    async def run(self) -> None:
        """Send marks, until cancelled."""
        while True:
            await self._some.wait()
            self._some.clear()
            begun, self._begun = self._begun, defaultdict(set)
            calls = [
                start_call(self._keys.partition(partition), ids)
                for partition, ids in begun.items()
                if ids
            ]
            await self._node.run(calls)


DELAY = 0.01
"""Seconds that an ack waits for others."""


class Acks:
    """Acks completed reservations, many per round trip."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._keys = node.keys
        self._inbox = node.inbox
        self._parts = node.parts
        self._completed: list[Reservation] = []
        self._some = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()
        self.acked = 0
        self.fault: KeyDamaged | None = None
        """Damage that this node has met: it acks nothing more, as something that came
        of a request may be missing."""

    def complete(self, reservation: Reservation) -> None:
        """Count *reservation* as done, callbacks and item pipelines included.

        The `again` of its delivery, if any, waits in its place from the ack on.
        """
        if not reservation.delivery.is_through:
            self._inbox.finish(reservation)
        self._completed.append(reservation)
        self._some.set()

    async def bury(self, reservation: Reservation, reason: str) -> None:
        """Move *reservation* to the dead letter once all that came of it is stored."""
        await self.settle([reservation])
        keys = self._keys.partition(reservation.lease.partition)
        call = bury_call(keys, reservation, reason)
        if not await self._inbox.send_fenced([(reservation.lease, call)]):
            self._node.deliveries.note_acked([reservation])
        self._inbox.forget(reservation)
        if not reservation.delivery.is_through:
            self._inbox.finish(reservation)
            self._parts.call(Part.ended, [reservation])

    async def put_back(self, reservation: Reservation) -> None:
        """Have *reservation* wait in the store again: its request was not sent."""
        await self._inbox.put_back([reservation])
        self._parts.call(Part.ended, [reservation])

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
            await self.settle(completed)
            await self._ack(completed)

    async def settle(self, reservations: Sequence[Reservation]) -> None:
        """Return when nothing that came of *reservations* is on this node alone.

        First their links are stored, then what parts have of them.

        Raises:
            KeyDamaged: The node has met it, now or before.
        """
        await self._node.outbox.flush()
        for before_ack in self._parts.each(Part.before_ack):
            await before_ack(reservations)
        if self.fault is not None:
            raise self.fault

    async def _ack(self, completed: list[Reservation]) -> None:
        await self._release([r for r in completed if r.id < 0])
        groups: dict[tuple[int, int], list[Reservation]] = defaultdict(list)
        for reservation in completed:
            lease = reservation.lease
            if reservation.key in self._inbox.open:
                groups[lease.partition, lease.token].append(reservation)
        # A page that is fetched again makes the same forced pushes: their ids go before
        # its ack. Those of other pages go after it, as a page that is not acked is
        # delivered once more.
        await self._forget_forced(r for r in completed if r.delivery.again)
        lost = await self._inbox.send_fenced(
            self._calls(groups.values()), self._count_ended
        )
        for group_key, group in groups.items():
            if group_key in lost:
                continue
            for done in group:
                self._parts.call(Part.acked, done, done.delivery.again)
        acked = [r for k, group in groups.items() if k not in lost for r in group]
        await self._forget_forced(acked)
        self._node.deliveries.note_acked(acked)
        for reservation in completed:
            self._inbox.forget(reservation)
        ended = [r for r in completed if not r.delivery.is_through]
        self._parts.call(Part.ended, ended)

    async def _release(self, adopted: list[Reservation]) -> None:
        """Remove the claims of *adopted*, so that their marks are seen for good."""
        done = [r.delivery for r in adopted if r.delivery.mark]
        if done:
            keys = [self._keys.partition(one.partition) for one in done]
            calls = [
                Call.command("HDEL", each.claimed, one.mark)
                for each, one in zip(keys, done, strict=True)
            ]
            await self._node.run(calls)
        for one in done:
            mark = Push(TEST, one.mark, "", 0, b"")
            self._parts.call(Part.pushed, one.partition, [mark])
        await self._forget_forced(adopted)
        self._node.deliveries.note_acked(adopted)

    async def _forget_forced(self, reservations: Iterable[Reservation]) -> None:
        """Remove the ids of what *reservations* forced: none of it comes again."""
        ids: dict[int, list[int]] = defaultdict(list)
        for reservation in reservations:
            for one, partition in reservation.delivery.forced.items():
                ids[partition].append(one)
            reservation.delivery.forced.clear()
        calls = [
            Call.command("SREM", self._keys.partition(partition).forced, *some)
            for partition, some in ids.items()
        ]
        if calls:
            await self._node.run(calls)

    def _calls(
        self, groups: Iterable[Sequence[Reservation]]
    ) -> list[tuple[Lease, Call]]:
        """The calls that ack *groups*, each of one lease."""
        asked: list[tuple[Lease, Call]] = []
        for group in groups:
            lease = group[0].lease
            keys = self._keys.partition(lease.partition)
            later = [(r.id, r.delivery.again) for r in group if r.delivery.again]
            ids = [r.id for r in group if not r.delivery.again]
            calls = ack_calls(keys, lease, ids)
            if later:
                calls += again_calls(keys, lease, later, self._node.clock)
            asked += ((lease, call) for call in calls)
        return asked

    def _count_ended(self, reply: Any, lease: Lease) -> None:
        """Count the reservations that one of these calls ended, by its *reply*."""
        count, is_next = reply if isinstance(reply, list) else (reply, False)
        self.acked += count
        if is_next:
            self._node.due_times.note(lease.partition)
