"""What is adopted on this node (`frontier.node.delivery`), from its test to its end.

What always holds:

1.  Of what has one mark only one is here that is not over. All of a tree is new to the
    tree, as the store says: else two pages that lead to each other would never end.
2.  What is adopted waits in queues of its own, of the same names as those in the store
    (`frontier.node.ready_queues`). It is handed out as a reservation that no store
    has, under the lease of its host's partition, so that all holds that holds of
    requests from there; `frontier.node.borrow` has the partition come here.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from frontier.node.delivery import Delivery
    from frontier.node.node import Node


class Adopted:
    """Knows what is adopted and not over, and what of it waits."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._claimed: dict[tuple[int, int], Delivery] = {}
        """What was new and is not over, by its partition and mark."""
        self._waiting: dict[int, dict[str, list[Delivery]]] = defaultdict(dict)
        """By partition and queue; neither is empty."""

    def may_test(self, made: Delivery) -> bool:
        """Whether *made* is to be tested.

        Else it ends: the same is here already, or it is for others to make again.
        """
        deliveries = self._node.deliveries
        if deliveries.has_lost(made) or (made.mark and self._has(made)):
            deliveries.end(made)
            return False
        return True

    def accept(self, made: Delivery, wait: float = 0.0) -> None:
        """Have *made*, which is new, be sent; in *wait* seconds at the earliest."""
        # What was tested at the same time may be the same.
        if not self.may_test(made):
            return
        if made.mark:
            self._claimed[made.partition, made.mark] = made
        if wait > 0:
            asyncio.get_running_loop().call_later(wait, self.wait, made)
        else:
            self.wait(made)

    def _has(self, delivery: Delivery) -> bool:
        """Whether what has its mark is here, and was new. What is tested may not be."""
        known = self._claimed.get((delivery.partition, delivery.mark))
        return known is not None and not self._node.deliveries.has_lost(known)

    def forget(self, delivery: Delivery) -> None:
        """The mark of *delivery* was seen, or is not claimed any more."""
        place = (delivery.partition, delivery.mark)
        if self._claimed.get(place) is delivery:
            del self._claimed[place]

    def wait(self, delivery: Delivery) -> None:
        """Have *delivery* wait here for its turn."""
        delivery.reservation = None
        if self._node.deliveries.has_lost(delivery):
            self._node.deliveries.end(delivery)
            return
        queues = self._waiting[delivery.partition]
        queues.setdefault(delivery.queue, []).append(delivery)
        self._node.ready.changed.set()

    def look(self) -> None:
        """End what waits and is for others to make again."""
        waiting = [
            (p, queue) for p, queues in self._waiting.items() for queue in queues
        ]
        for place in waiting:
            for one in self.take(*place):
                self.wait(one)

    @property
    def partitions(self) -> set[int]:
        """Those of what waits."""
        return set(self._waiting)

    def counts(self, partition: int) -> dict[str, int]:
        """How much waits in *partition*, by queue."""
        queues = self._waiting.get(partition, {})
        return {queue: len(waiting) for queue, waiting in queues.items()}

    def take(
        self, partition: int, queue: str, most: int | None = None
    ) -> list[Delivery]:
        """What waits in *queue*, the first first; no more than *most*."""
        queues = self._waiting.get(partition, {})
        waiting = queues.pop(queue, [])
        taken, rest = waiting[:most], waiting[len(waiting[:most]) :]
        if rest:
            queues[queue] = rest
        elif not queues:
            self._waiting.pop(partition, None)
        return taken
