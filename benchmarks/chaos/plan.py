"""What happens to a crawl, drawn from a seed.

1.  The same seed draws the same plan from the same kinds, in their order.
2.  A kind is a member of `Kind` and a method of its name, after ``_``, of
    `benchmarks.chaos.trial.Trial`. What needs another store, a fail-over of a
    Sentinel or a migration of slots, goes into a list beside `KINDS`.
3.  Every plan kills at least one node.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class Kind(StrEnum):
    """What may happen."""

    KILL = "kill"
    """kill -9 of a node, with what it had sent and was on its way; another one is
    started."""
    FREEZE = "freeze"
    """SIGSTOP of a node, and SIGCONT when its leases have ended."""
    JOIN = "join"
    """One more node."""
    LEAVE = "leave"
    """SIGTERM of a node: a clean exit."""
    DRAIN = "drain"
    """A node is told through the store to hand over and exit."""
    RESTART = "restart"
    """kill -9 of the store, which is started again on its append-only file."""
    PAUSE = "pause"
    """SIGSTOP and SIGCONT of the store: it keeps connections, and is silent."""
    SLOW = "slow"
    """Every round trip to the store takes longer for a while."""
    CUT = "cut"
    """All connections to the store are cut, with what is on its way."""


NODE_KINDS = (Kind.KILL, Kind.FREEZE, Kind.JOIN, Kind.LEAVE, Kind.DRAIN)
STORE_KINDS = (Kind.RESTART, Kind.PAUSE, Kind.SLOW, Kind.CUT)
KINDS = NODE_KINDS + STORE_KINDS
"""What a plan is drawn from unless the caller says otherwise."""

_SECONDS: dict[Kind, tuple[float, float]] = {
    Kind.FREEZE: (1.2, 2.5),  # times the lease
    Kind.RESTART: (0.05, 1.5),
    Kind.PAUSE: (0.3, 3.5),
    Kind.SLOW: (0.5, 3.0),
}


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happens."""

    kind: Kind
    at: float
    """When so much of the site was served, as a share."""
    pick: int = 0
    """Which of the nodes that are there then, counted around."""
    seconds: float = 0.0
    """How long it lasts; of a freeze, as a multiple of the lease."""
    same_id: bool = False
    """Whether a killed node's successor has its id."""
    strained: bool = False
    """Whether the node's own wire is slow before it is killed."""

    def __str__(self) -> str:
        """One line for people."""
        text = f"{self.at:4.0%} {self.kind}"
        if self.seconds:
            text += f" {self.seconds:.2f}" + (
                " leases" if self.kind == Kind.FREEZE else " s"
            )
        if self.kind in {Kind.KILL, Kind.FREEZE, Kind.LEAVE, Kind.DRAIN}:
            text += f" node {self.pick}"
        text += ", on a slow wire" if self.strained else ""
        return text + (", successor with its id" if self.same_id else "")


@dataclass(frozen=True, slots=True)
class Plan:
    """All that happens in one trial."""

    seed: int
    nodes: int
    """How many nodes there are at first."""
    events: tuple[Event, ...]

    def only(self, *kinds: Kind) -> Plan:
        """This plan without events of other kinds."""
        kept = tuple(event for event in self.events if event.kind in kinds)
        return Plan(self.seed, self.nodes, kept)

    def lines(self) -> list[str]:
        """The plan, for people."""
        return [f"seed {self.seed}: {self.nodes} nodes", *map(str, self.events)]


def draw(seed: int, kinds: Sequence[Kind] = KINDS) -> Plan:
    """The plan of *seed*."""
    random = Random(seed)
    nodes = random.randint(2, 3)
    chosen = [Kind.KILL, *random.choices(kinds, k=random.randint(2, 4))]
    events = [_event(random, kind) for kind in chosen]
    return Plan(seed, nodes, tuple(sorted(events, key=lambda event: event.at)))


def _event(random: Random, kind: Kind) -> Event:
    at, pick, part = random.uniform(0.03, 0.85), random.randrange(12), random.random()
    least, most = _SECONDS.get(kind, (0.0, 0.0))
    return Event(
        kind,
        round(at, 3),
        pick if kind in NODE_KINDS else 0,
        round(least + part * (most - least), 3),
        kind == Kind.KILL and random.random() < 0.3,
        kind == Kind.KILL and random.random() < 0.5,
    )
