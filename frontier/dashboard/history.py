"""The history of a crawl since a page began to look: its trend, events and colours.

What always holds:

1.  It is of this page alone, and begins with its first look, but for what the store's
    log says of the members before, and nodes of partitions that they took. What was
    before else is not made up.
2.  It is bounded: the last `POINTS` of the trend, the last `EVENTS` that happened.
3.  A node that is known keeps its colour, whoever comes and goes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from frontier.status.membership_log import said_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from frontier.status.membership_log import MemberEvent
    from frontier.status.views import CrawlSnapshot
    from frontier.status.watch import HandOver, Watched

POINTS = 180
"""Looks that the trend has."""
GAP_MS = 5_000
"""Between two looks, from which on nobody has looked, and a new trend begins."""
EVENTS = 200
GONE = {"lost", "left"}
"""States of nodes that take no part."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that has happened to the members of a crawl."""

    number: int
    at_ms: int
    """When it was noted in the store, or else seen by this page, on its clock."""
    kind: str
    """As `MemberEvent` has it, or ``silent``, ``back`` or ``moved``."""
    text: str


class NodeColours:
    """Which number, and so which colour, each node of a crawl has."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def of(self, there: Iterable[str]) -> Mapping[str, int]:
        """The numbers of the nodes that are *there*, and of no others from now on."""
        names = dict.fromkeys(there)
        self._numbers = {n: i for n, i in self._numbers.items() if n in names}
        used, free = set(self._numbers.values()), 0
        for name in names:
            if name not in self._numbers:
                while free in used:
                    free += 1
                used.add(free)
                self._numbers[name] = free
        return {name: self._numbers[name] for name in names}


class CrawlHistory:
    """The trend of a crawl, its events, and the colours of its nodes."""

    def __init__(self) -> None:
        self._colours = NodeColours()
        self._states: dict[str, str] | None = None
        self._told: HandOver | None = None
        self._log: frozenset[MemberEvent] = frozenset()
        self._count = 0
        self._at = 0
        self.trend: deque[float] = deque(maxlen=POINTS)
        """Pages per second, the latest last."""
        self.events: deque[Event] = deque(maxlen=EVENTS)
        """The latest first."""
        self.numbers: Mapping[str, int] = {}
        """Of the nodes that take part, and of those that hold partitions."""

    def note(self, seen: Watched) -> None:
        """Remember what there is to remember of *seen*."""
        at = seen.crawl.taken_ms
        if at - self._at > GAP_MS:
            self.trend.clear()
        self._at = at
        self.trend.append(seen.crawl.totals.lately.pages)
        self._note_members(seen)
        if self._states is None:
            self._note_taken(seen.crawl)
        self._note_states(seen.crawl)
        self._note_moves(seen)
        holding = set(seen.holders)
        self.numbers = self._colours.of(
            node.node_id
            for node in seen.crawl.nodes
            if node.state not in GONE or node.node_id in holding
        )

    def _note_states(self, crawl: CrawlSnapshot) -> None:
        states = {node.node_id: node.state for node in crawl.nodes}
        before, self._states = self._states, states
        if before is None:
            return
        for name, state in states.items():
            was = before.get(name)
            if state == "silent" and was != "silent":
                text = f"{name} sends no heartbeat"
                self._add(crawl.taken_ms, "silent", text)
            elif was == "silent" and state not in {"silent", *GONE}:
                self._add(crawl.taken_ms, "back", f"{name} sends heartbeats again")

    def _note_members(self, seen: Watched) -> None:
        """Note what the store's log says since the last look; at the first, all."""
        for event in reversed(seen.membership):
            if event not in self._log:
                self._add(event.at_ms, event.what, said_of(event))
        self._log = frozenset(seen.membership)

    def _note_taken(self, crawl: CrawlSnapshot) -> None:
        """Note what nodes say they took before the first look."""
        for node in crawl.nodes:
            for taken in node.figures.taken if node.figures is not None else ():
                count = _partitions(taken.partitions)
                self._add(taken.at_ms, "moved", f"{node.node_id} took {count}")

    def _note_moves(self, seen: Watched) -> None:
        fresh = []
        for move in seen.hand_overs:
            if move is self._told:
                break
            fresh.append(move)
        if seen.hand_overs:
            self._told = seen.hand_overs[0]
        for move in reversed(fresh):
            source, target = move.source or "nobody", move.target or "nobody"
            count = _partitions(move.partitions)
            told = f"{count}: from {source} to {target}"
            self._add(seen.crawl.taken_ms, "moved", told)

    def _add(self, at_ms: int, kind: str, text: str) -> None:
        """Note an event where its time is, which may be before what was seen last."""
        self._count += 1
        later = 0
        while later < len(self.events) and self.events[later].at_ms > at_ms:
            later += 1
        if later < EVENTS:
            if len(self.events) == EVENTS:
                self.events.pop()
            self.events.insert(later, Event(self._count, at_ms, kind, text))


def _partitions(count: int) -> str:
    return f"{count:,} partition{'s' * (count != 1)}"
