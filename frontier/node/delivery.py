"""Deliveries: a reservation, and everything in this process that stands on it.

Beside the request itself that is its robots.txt, what it has pushed untested, and what
it has *adopted*: a request whose callback is a lambda, or whose ``meta`` holds an
object, exists in the memory of the process that made it and nowhere else. It is adopted
by the delivery of the request that it comes from, and so on: a tree, whose root stands
on a reservation in the store. What is stored is only that its mark is claimed by the
root. `frontier.node.deliveries` keeps and ends them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from frontier.urls.fingerprint import seen_hash

if TYPE_CHECKING:
    import asyncio

    from frontier.queue.due import Again
    from frontier.queue.reserve import Reservation


@dataclass(slots=True, weakref_slot=True, eq=False, repr=False)
class Delivery:
    """A request in this process, with what it led to that is here alone.

    A root without a reservation is what start requests stand on, say.
    """

    reservation: Reservation | None = None
    """Of its own request: the last one, if it had several."""
    name: bytes = b""
    """What tells it from all others, where its item does not: equal requests that were
    not tested have equal items."""
    parents: tuple[Delivery, ...] = ()
    request: Any = None
    """What is to be sent, if it is adopted."""
    partition: int = 0
    queue: str = ""
    mark: int = 0
    """That is claimed; 0 if none is."""
    left: int = field(default=1, init=False)
    """Itself, if it is not over, and what it has adopted that is not."""
    keeper: str = field(default="", init=False)
    """The name under which this process keeps it, if it does."""
    is_through: bool = field(default=False, init=False)
    """Whether its own request is done with, and only what it has adopted is not."""
    waits: bool = field(default=False, init=False)
    """Whether its request was not sent, and goes back to where it came from."""
    is_given_back: bool = field(default=False, init=False)
    """Whether this node, as it closes, does not send it any more."""
    again: Again | None = field(default=None, init=False)
    """What waits in its place when it is acked, if anything."""
    is_last: bool = field(default=False, init=False)
    """Whether nothing is to wait there, as its URL is not fetched again."""
    reason: str = field(default="", init=False)
    """Why it is given up, if it is."""
    forced: dict[int, int] = field(default_factory=dict, init=False)
    """The partitions of what it has pushed untested, by their ids."""
    notes: dict[Any, Any] = field(default_factory=dict, init=False)
    """What parts know of it, each by its own name."""
    over: asyncio.Event | None = field(default=None, init=False)
    """Set when nothing is left of it, if somebody waits for that."""
    _equal: Counter[bytes] | None = field(default=None, init=False)
    _roots: tuple[Delivery, ...] = field(default=(), init=False)

    @property
    def is_adopted(self) -> bool:
        """Whether it cannot be stored."""
        return bool(self.parents)

    @property
    def identity(self) -> bytes:
        """What tells it from all others; the same if it is delivered again."""
        if not self.name and self.reservation is not None:
            reservation = self.reservation
            self.name = reservation.queue.encode() + reservation.item[1:]
        return self.name

    @property
    def owner(self) -> int:
        """The id by which its mark, and those of all below it, are claimed."""
        return seen_hash(self.roots[0].identity) if len(self.roots) == 1 else LOOSE

    @property
    def roots(self) -> tuple[Delivery, ...]:
        """What it stands on at last."""
        return self._roots or (self,)

    def __post_init__(self) -> None:
        """Count as left with those that it comes from."""
        for parent in self.parents:
            parent.left += 1
        if self.parents:
            roots = (root for parent in self.parents for root in parent.roots)
            self._roots = tuple(dict.fromkeys(roots))

    def next_id(self, fingerprint: bytes) -> int:
        """The id of one more that it adopts or pushes untested, with *fingerprint*.

        The ids are the same if it is delivered again, so that each is queued once.
        """
        if self._equal is None:
            self._equal = Counter()
        self._equal[fingerprint] += 1
        ordinal = self._equal[fingerprint]
        return seen_hash(b"%d %b %b" % (ordinal, fingerprint, self.identity))

    def take(self) -> Any:
        """Its request, to be started; a copy stays here, should it be once more."""
        self.waits = False
        given, self.request = self.request, self.request.copy()
        return given


LOOSE = seen_hash(b"loose")
"""The owner of what several deliveries have adopted, as nobody knows whose it is."""
