"""Deliveries: a reservation, and everything in this process that stands on it.

That is the request itself, its robots.txt, the requests that it has pushed without the
seen test, and those that it has *adopted*. A request whose callback is a lambda, or
whose ``meta`` holds an object, exists only in the memory of the process that made it.
It is adopted by the delivery of the request that it comes from, and so on: a tree,
whose root stands on a reservation in the store. All that the store has of an adopted
request is that its mark is claimed by the root. `frontier.node.deliveries` keeps and
ends the trees.
"""

from __future__ import annotations

import contextlib
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
    """A request in this process, and what it led to that exists only here.

    A root without a reservation is, for example, what start requests stand on.
    """

    reservation: Reservation | None = None
    """The reservation of its own request: the last one, if it had several."""
    name: bytes = b""
    """Distinguishes it from other deliveries where its item cannot: equal requests that
    skip the seen test have equal items."""
    parents: tuple[Delivery, ...] = ()
    request: Any = None
    """The request to send, if it is adopted."""
    partition: int = 0
    queue: str = ""
    mark: int = 0
    """The mark that is claimed for it; 0 if none is."""
    left: int = 1
    """How many are not over: itself, and the deliveries that it has adopted."""
    keeper: str = ""
    """The name under which this process keeps it; empty if it does not."""
    is_through: bool = False
    """Whether its own request is done, but not all that it has adopted."""
    waits: bool = False
    """Whether its request was not sent, and goes back to where it came from."""
    is_given_back: bool = False
    """Whether this node is closing and will no longer send it."""
    again: Again | None = None
    """The next visit, which waits in its place once it is acked, if there is one."""
    is_last: bool = False
    """Whether no visit is to wait in its place, as its URL is not fetched again."""
    reason: str = ""
    """Why it is given up, if it is."""
    forced: dict[int, int] = field(default_factory=dict)
    """The partition of each push that it made without the seen test, by its id."""
    notes: dict[Any, Any] = field(default_factory=dict)
    """What parts have noted of it, each under a key of its own."""
    over: asyncio.Event | None = None
    """Set when nothing is left of it, if something waits for that."""
    _equal: Counter[bytes] | None = None
    _roots: tuple[Delivery, ...] = ()

    @property
    def is_adopted(self) -> bool:
        """Whether it is adopted, as its request cannot be stored."""
        return bool(self.parents)

    @property
    def identity(self) -> bytes:
        """Distinguishes it from all others; the same if it is delivered again."""
        if not self.name and self.reservation is not None:
            reservation = self.reservation
            self.name = reservation.queue.encode() + reservation.item[1:]
        return self.name

    @property
    def owner(self) -> int:
        """The id under which its mark, and all marks below it, are claimed.

        0 if it has several roots or none: nobody knows who makes it again.
        """
        root, *others = self.roots
        return seen_hash(root.identity) if root.identity and not others else 0

    @property
    def roots(self) -> tuple[Delivery, ...]:
        """The roots of the trees that it is in; itself, if it is one."""
        return self._roots or (self,)

    def __post_init__(self) -> None:
        """Count this delivery among what is left of its parents; find its roots."""
        for parent in self.parents:
            parent.left += 1
        if self.parents:
            roots = (root for parent in self.parents for root in parent.roots)
            self._roots = tuple(dict.fromkeys(roots))

    def next_id(self, fingerprint: bytes) -> int:
        """A new id for a request with *fingerprint*, adopted or pushed without a test.

        The ids are the same if it is delivered again, so that each is queued once.
        """
        if self._equal is None:
            self._equal = Counter()
        self._equal[fingerprint] += 1
        ordinal = self._equal[fingerprint]
        return seen_hash(b"%d %b %b" % (ordinal, fingerprint, self.identity))

    def take(self) -> Any:
        """Its request, to be started; a copy stays here in case it starts again."""
        self.waits = False
        given = self.request
        with contextlib.suppress(TypeError):  # Scrapy cannot copy all of its subclasses
            self.request = given.copy()
        return given


@dataclass(slots=True, eq=False)
class Link:
    """A request that is about to be queued."""

    request: Any
    mode: str
    """How it is pushed; see `frontier.queue.push`."""
    fingerprint: bytes
    partition: int
    queue: str
    due: int = 0
    """When it is to be ready, in ms of the server's clock; 0 for at once."""
    extra: dict[str, Any] = field(default_factory=dict)
    """What its item says besides; `Part.start` gets it when the request is taken."""
    replaces: Delivery | None = None
    """The delivery that it takes the place of, in one step with the ack; it is not
    pushed then. Both are in one partition."""
