"""The deliveries of a node: which are adopted, kept, ended or lost.

What always holds:

1.  A reservation is acked when nothing is left of its tree. So if the process dies, its
    request is delivered again, and leads to the rest once more.
2.  A mark is claimed in one step with the seen test, and stays claimed until everything
    that the request led to is done. A claimed URL is new to the delivery that has
    claimed it, whichever process has that delivery, and seen for all others. So no two
    nodes fetch it, and after a kill only what was not done is fetched again, and the
    requests that lead there. What no single delivery has led to is claimed without an
    owner: the next link to it is new, too.
3.  A root whose own request is through its callbacks is *kept*: the next holder of its
    partition leaves it alone for as long as its keeper's name is on the map. So no
    partition has to wait until another one is handed over. The root ends under the
    lease of its partition, which is borrowed for that.
4.  A tree whose root is lost is dropped: none of its requests is sent any more.
5.  Of the adopted deliveries with one mark, at most one is here that is not over. The
    store says that all marks of a tree are new to that tree; without this rule, two
    pages that lead to each other would never end.
6.  Adopted deliveries wait in queues of their own, with the same names as those in the
    store (`frontier.node.ready_queues`). They are handed out as reservations that no
    store has, under the lease of their host's partition, so that the same rules hold
    as for requests from there; `frontier.node.borrow` gets the partition for that.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from typing_extensions import override

from frontier.node.context import Part
from frontier.queue.reserve import Reservation, is_kept, keep_call
from frontier.store.client import Call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frontier.node.delivery import Delivery
    from frontier.node.node import Node


class Deliveries(Part):
    """Keeps and ends the trees of one node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._keys = node.keys
        self._leases = node.leases
        self._parts = node.parts
        self._membership = node.membership
        self._inbox = node.inbox
        self._ready = node.ready
        self._acks = node.acks
        self.kept: dict[tuple[int, int], Delivery] = {}
        """Roots that this node keeps, by partition and the reservation's id there. Of
        which nothing is left, that only has to be acked."""
        self._claimed: dict[tuple[int, int], Delivery] = {}
        """Adopted deliveries that were new and are not over, by partition and mark."""
        self.waiting: dict[int, dict[str, list[Delivery]]] = defaultdict(dict)
        """Adopted deliveries that wait, by partition and queue; no entry is empty."""
        self._has_kept = False
        self._known: tuple[int, str] = (0, "")

    @property
    def partitions(self) -> set[int]:
        """Partitions whose leases are needed for what only this process can do."""
        ends = {place[0] for place, root in self.kept.items() if not root.left}
        return ends.union(self.waiting)

    def has_lost(self, delivery: Delivery) -> bool:
        """Whether all roots of *delivery* are lost, and others deliver them again."""
        return all(map(self._is_lost, delivery.roots))

    def _is_lost(self, root: Delivery) -> bool:
        reservation = root.reservation
        if reservation is None:
            return False
        if not root.keeper:
            return reservation.key not in self._inbox.open
        is_known = _place(reservation) in self.kept
        return not is_known or root.keeper != self._leases.name

    # Adopted deliveries, from test to end.

    def may_test(self, made: Delivery) -> bool:
        """Whether *made* is to take the seen test.

        If not, it ends: its mark is here already.
        """
        if made.mark and self._has(made):
            self.end(made)
            return False
        return True

    def accept(self, made: Delivery, wait: float = 0.0) -> None:
        """Queue *made*, which is new, to be sent in *wait* seconds at the earliest."""
        # Another one with its mark may have been tested at the same time.
        if not self.may_test(made):
            return
        if made.mark:
            self._claimed[made.partition, made.mark] = made
        if wait > 0:
            asyncio.get_running_loop().call_later(wait, self.wait, made)
        else:
            self.wait(made)

    def _has(self, delivery: Delivery) -> bool:
        """Whether a delivery with its mark is here and was new; not one in test."""
        known = self._claimed.get((delivery.partition, delivery.mark))
        return known is not None and not self.has_lost(known)

    def _forget(self, delivery: Delivery) -> None:
        """Forget *delivery*: its mark was seen, or is no longer claimed."""
        place = (delivery.partition, delivery.mark)
        if self._claimed.get(place) is delivery:
            del self._claimed[place]

    def wait(self, delivery: Delivery) -> None:
        """Have *delivery* wait here for its turn."""
        delivery.reservation = None
        if self.has_lost(delivery):
            self.end(delivery)
            return
        queues = self.waiting[delivery.partition]
        queues.setdefault(delivery.queue, []).append(delivery)
        self._ready.changed.set()

    def counts(self, partition: int) -> dict[str, int]:
        """How many wait in *partition*, by queue."""
        queues = self.waiting.get(partition, {})
        return {queue: len(waiting) for queue, waiting in queues.items()}

    def take(
        self, partition: int, queue: str, most: int | None = None
    ) -> list[Delivery]:
        """Take what waits in *queue*, the oldest first; no more than *most*."""
        queues = self.waiting.get(partition, {})
        waiting = queues.pop(queue, [])
        taken, rest = waiting[:most], waiting[len(waiting[:most]) :]
        if rest:
            queues[queue] = rest
        elif not queues:
            self.waiting.pop(partition, None)
        return taken

    # What becomes of deliveries.

    def through(self, reservation: Reservation) -> None:
        """Note that the request of *reservation* is done."""
        delivery: Delivery = reservation.delivery
        delivery.reservation = reservation
        if not delivery.is_adopted and delivery.left == 1:
            self._complete(reservation)
            return
        delivery.is_through = True
        self._inbox.finish(reservation)
        self._parts.call(Part.ended, [reservation])
        if delivery.is_adopted:
            self._inbox.forget(reservation)
        elif reservation.key in self._inbox.open:
            delivery.keeper, self._has_kept = self._leases.name, True
            self.kept[_place(reservation)] = delivery
            self._node.tasks.begin(self._keep(delivery, reservation))
        self.end(delivery)

    async def _keep(self, root: Delivery, reservation: Reservation) -> None:
        """Keep *root* whoever holds its partition; drop it if its lease is lost."""
        keys = self._keys.partition(reservation.lease.partition)
        read = Call.command("HGET", keys.reserved, reservation.id)
        keep = keep_call(keys, reservation, root.keeper)
        _, entry = await self._node.run([keep, read])
        # An earlier call whose reply was lost may have been executed.
        if not is_kept(entry, reservation, root.keeper):
            self.kept.pop(_place(reservation), None)
        self._inbox.forget(reservation)

    def end(self, delivery: Delivery) -> None:
        """Count one less as left of *delivery*: itself, or one that it had adopted."""
        less = [delivery]
        while less:
            one = less.pop()
            one.left -= 1
            if one.left:
                continue
            if one.is_adopted:
                self._end_adopted(one)
                less += one.parents
            elif one.keeper:
                self._try_to_end(one)
            if one.over is not None:
                one.over.set()

    def _end_adopted(self, one: Delivery) -> None:
        if one.reason:  # it stays claimed: new to its roots the next time
            for root in one.roots:
                root.reason = root.reason or one.reason
        elif one.reservation is None or self.has_lost(one):
            self._forget(one)
        else:
            self._acks.complete(one.reservation)

    def _complete(self, reservation: Reservation) -> None:
        if reason := reservation.delivery.reason:
            self._node.tasks.begin(self._acks.bury(reservation, reason))
        else:
            self._acks.complete(reservation)

    def look(self) -> None:
        """End the roots that can end, and drop what is lost."""
        known = (self._leases.changes, self._leases.name)
        if known != self._known:
            self._known = known
            for place in [p for p, root in self.kept.items() if self._is_lost(root)]:
                del self.kept[place]
            for partition, queues in [*self.waiting.items()]:
                for queue in [*queues]:
                    for one in self.take(partition, queue):
                        self.wait(one)  # or ends it, if others will make it again
        for root in [root for root in self.kept.values() if not root.left]:
            self._try_to_end(root)

    def _try_to_end(self, root: Delivery) -> None:
        """Ack *root* under the lease that this node has on its partition, if any."""
        reservation = root.reservation
        if reservation is None or self._is_lost(root):
            return
        partition, open_ = reservation.lease.partition, self._inbox.open
        lease = self._leases.current(partition)
        if lease is None:
            return
        # The entry in the store keeps its first token for ever.
        under = replace(reservation, lease=lease)
        if not {reservation.key, under.key} & open_.keys():
            open_[under.key] = under
            self._complete(under)

    def note_acked(self, reservations: Sequence[Reservation]) -> None:
        """Note that *reservations* have left the store, or their marks are released."""
        for reservation in reservations:
            if reservation.id < 0:
                self._forget(reservation.delivery)
            elif reservation.delivery is not None:
                self.kept.pop(_place(reservation), None)

    async def give_back(self) -> None:
        """Requeue what is kept, as this node leaves, in the partitions that it holds.

        The holders of the other partitions put back what is there.
        """
        stand = [r.reservation for r in self.kept.values() if r.reservation]
        self.kept.clear()
        current = self._leases.current
        back = [
            replace(reservation, lease=lease)
            for reservation in stand
            if (lease := current(reservation.lease.partition))
        ]
        await self._inbox.requeue(back)

    @override
    def went_back(self) -> None:
        """The store may have forgotten that roots are kept here, or no longer are.

        No other node can tell which, so all that this node has kept is delivered again.
        """
        self.kept.clear()
        if self._has_kept:
            self._has_kept = False
            self._membership.end_name()


def _place(reservation: Reservation) -> tuple[int, int]:
    return (reservation.lease.partition, reservation.id)
