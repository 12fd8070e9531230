"""The adopted deliveries of this node (`frontier.node.delivery`), from test to end.

What always holds:

1.  Of the deliveries with one mark, at most one is here that is not over. The store
    says that all marks of a tree are new to that tree; without this rule, two pages
    that lead to each other would never end.
2.  Adopted deliveries wait in queues of their own, with the same names as those in the
    store (`frontier.node.ready_queues`). They are handed out as reservations that no
    store has, under the lease of their host's partition, so that the same rules hold
    as for requests from there; `frontier.node.borrow` gets the partition for that.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from frontier.node.delivery import Delivery
    from frontier.node.node import Node


class Adopted:
    """Knows which adopted deliveries are not over, and which of them wait."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._claimed: dict[tuple[int, int], Delivery] = {}
        """Deliveries that were new and are not over, by partition and mark."""
        self._waiting: dict[int, dict[str, list[Delivery]]] = defaultdict(dict)
        """Deliveries that wait, by partition and queue; no entry is empty."""

    def may_test(self, made: Delivery) -> bool:
        """Whether *made* is to take the seen test.

        If not, it ends: its mark is here already.
        """
        if made.mark and self._has(made):
            self._node.deliveries.end(made)
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
        return known is not None and not self._node.deliveries.has_lost(known)

    def forget(self, delivery: Delivery) -> None:
        """Forget *delivery*: its mark was seen, or is no longer claimed."""
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
        """End those that wait here but are lost: others will make them again."""
        waiting = [
            (p, queue) for p, queues in self._waiting.items() for queue in queues
        ]
        for place in waiting:
            for one in self.take(*place):
                self.wait(one)

    @property
    def partitions(self) -> set[int]:
        """The partitions where something waits."""
        return set(self._waiting)

    def counts(self, partition: int) -> dict[str, int]:
        """How many wait in *partition*, by queue."""
        queues = self._waiting.get(partition, {})
        return {queue: len(waiting) for queue, waiting in queues.items()}

    def take(
        self, partition: int, queue: str, most: int | None = None
    ) -> list[Delivery]:
        """Take what waits in *queue*, the oldest first; no more than *most*."""
        queues = self._waiting.get(partition, {})
        waiting = queues.pop(queue, [])
        taken, rest = waiting[:most], waiting[len(waiting[:most]) :]
        if rest:
            queues[queue] = rest
        elif not queues:
            self._waiting.pop(partition, None)
        return taken
