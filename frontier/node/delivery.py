"""Deliveries: what stands on a reservation in this process, beside its own request.

A request whose callback is a lambda, or whose ``meta`` holds an object, exists in the
memory of the process that made it and nowhere else. It is *adopted* by the delivery of
the request that it comes from, and so on: a tree, whose root stands on a reservation
in the store. What is stored is only that its mark is claimed by the root.
`frontier.node.deliveries` keeps and ends them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from frontier.urls.fingerprint import seen_hash

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from frontier.queue.due import Again
    from frontier.queue.push import Forced
    from frontier.queue.reserve import Reservation


@dataclass(slots=True, eq=False, repr=False)
class Delivery:
    """A request in this process, with what it led to that cannot be stored.

    A root without a reservation is what start requests stand on, say.
    """

    identity: bytes
    """What tells it from all others; the same if it is delivered again."""
    reservation: Reservation | None = None
    """Of its own request: the last one, if it had several."""
    parents: tuple[Delivery, ...] = ()
    request: Any = None
    """What is to be sent, if it is adopted."""
    copy: Callable[[], Any] = lambda: None
    """Makes a copy of it as it was, should it be started once more."""
    partition: int = 0
    queue: str = ""
    mark: int = 0
    """That is claimed; 0 if none is."""
    push_id: int = 0
    """What its own pushes are told by; see `frontier.queue.push.Forced`."""
    left: int = 1
    """Itself, if it is not over, and what it has adopted that is not."""
    is_started: bool = False
    keeper: str = ""
    """The name under which this process keeps it, if it does."""
    again: Again | None = None
    forced: Forced | None = None
    reason: str = ""
    """Why it is given up, if it is."""
    over: asyncio.Event | None = None
    """Set when nothing is left of it, if somebody waits for that."""
    _equal: Counter[bytes] = field(default_factory=Counter)

    @property
    def is_adopted(self) -> bool:
        """Whether it cannot be stored."""
        return bool(self.parents)

    @property
    def owner(self) -> int:
        """The id by which its mark, and those of all below it, are claimed."""
        return seen_hash(self.roots[0].identity) if len(self.roots) == 1 else LOOSE

    @property
    def roots(self) -> tuple[Delivery, ...]:
        """What it stands on at last."""
        return self._roots or (self,)

    _roots: tuple[Delivery, ...] = ()

    def __post_init__(self) -> None:
        """Count as left with those that it comes from."""
        for parent in self.parents:
            parent.left += 1
        if self.parents:
            roots = (root for parent in self.parents for root in parent.roots)
            self._roots = tuple(dict.fromkeys(roots))

    def next_id(self, fingerprint: bytes) -> int:
        """The id of one more that it adopts, with *fingerprint*."""
        self._equal[fingerprint] += 1
        ordinal = self._equal[fingerprint]
        return seen_hash(b"local %d %b %b" % (ordinal, fingerprint, self.identity))

    def take(self) -> Any:
        """Its request, to be started: a copy, if it was before."""
        if self.is_started:
            return self.copy()
        self.is_started = True
        return self.request


LOOSE = seen_hash(b"loose")
"""The owner of what several deliveries have adopted, as nobody knows whose it is."""
