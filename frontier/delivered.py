"""What the store gave this node and the engine is not done with.

What always holds:

1.  A reservation is told to be gone once, and not before its request has left
    the engine.
2.  Nor before what was kept on this node, outside the store, while it was in
    progress is done: should the node die, it comes back with its parent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy import Request

    from frontier.queues.partition import Reservation


class Delivered:
    """Requests, the reservation of each, and which wait for others."""

    def __init__(self) -> None:
        self._reservations: dict[Request, Reservation] = {}
        self._guards: dict[Request, list[Reservation]] = {}
        self._guarded: dict[int, int] = {}

    @property
    def guarding(self) -> bool:
        """Whether a request that is not in the store is under way."""
        return bool(self._guards)

    def add(self, request: Request, reservation: Reservation) -> None:
        """Note that *request* goes to the engine."""
        self._reservations[request] = reservation

    def guard(self, request: Request) -> None:
        """Hold what is in progress until *request*, not in the store, is done."""
        guards = list(self._reservations.values())
        for reservation in guards:
            self._guarded[id(reservation)] = self._guarded.get(id(reservation), 0) + 1
        self._guards[request] = guards

    def gone(
        self, in_progress: set[Request], waiting: Iterable[Request]
    ) -> list[Reservation]:
        """The reservations that are done with, given what the engine has.

        *waiting* are the guarded requests that the engine does not have yet.
        """
        pending = in_progress | set(waiting)
        for request in [r for r in self._guards if r not in pending]:
            for reservation in self._guards.pop(request):
                self._guarded[id(reservation)] -= 1
        gone = []
        for request in [r for r in self._reservations if r not in in_progress]:
            reservation = self._reservations[request]
            if self._guarded.get(id(reservation), 0) > 0:
                continue
            self._guarded.pop(id(reservation), None)
            del self._reservations[request]
            gone.append(reservation)
        return gone
