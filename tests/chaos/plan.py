"""What happens to a crawl, drawn from a seed.

1.  The same seed draws the same plan from the same kinds, in their order.
2.  A kind is a member of `Kind` and a method of its name, after ``_``, of
    `tests.chaos.trial.Trial`. `KINDS` says which are drawn on which store.
3.  Every plan kills at least one node. Every plan on a cluster moves slots, every
    one with a Sentinel has a failover.
4.  Of five successive seeds three have a single server, one has a cluster and one
    a Sentinel; of ten, half of the latter two run Redis instead of Valkey.
"""

from dataclasses import dataclass
from enum import StrEnum
from random import Random


class StoreKind(StrEnum):
    """What the nodes share."""

    SINGLE = "single"
    """One server."""
    CLUSTER = "cluster"
    """Three primaries that share the hash slots."""
    SENTINEL = "sentinel"
    """A primary, a replica, and a Sentinel that promotes it."""


class Way(StrEnum):
    """How a primary comes to be one no more."""

    KILL = "kill -9"
    HANG = "SIGSTOP"
    """It is silent, and later goes on as if it still were the primary."""
    ORDER = "SENTINEL FAILOVER"
    """An operator's command; it remains up, and writable for some seconds."""


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
    MIGRATE = "migrate"
    """Slots with keys of the crawl are moved between servers of a cluster."""
    FAILOVER = "failover"
    """The primary fails, or has to go, and Sentinel promotes the replica."""


NODE_KINDS = (Kind.KILL, Kind.FREEZE, Kind.JOIN, Kind.LEAVE, Kind.DRAIN)
SERVER_KINDS = (Kind.RESTART, Kind.PAUSE)
WIRE_KINDS = (Kind.SLOW, Kind.CUT)
KINDS = {
    StoreKind.SINGLE: NODE_KINDS + SERVER_KINDS + WIRE_KINDS,
    StoreKind.CLUSTER: (*NODE_KINDS, *SERVER_KINDS, *WIRE_KINDS, *[Kind.MIGRATE] * 3),
    StoreKind.SENTINEL: (*NODE_KINDS, *WIRE_KINDS, *[Kind.FAILOVER] * 3),
}
"""What a plan is drawn from; what is named several times is as much likelier."""
_ALWAYS = {
    StoreKind.SINGLE: (Kind.KILL,),
    StoreKind.CLUSTER: (Kind.KILL, Kind.MIGRATE),
    StoreKind.SENTINEL: (Kind.KILL, Kind.FAILOVER),
}
_STORES = (
    StoreKind.SINGLE,
    StoreKind.CLUSTER,
    StoreKind.SINGLE,
    StoreKind.SENTINEL,
    StoreKind.SINGLE,
)
"""Which a seed has, by its remainder."""

_SECONDS = {
    Kind.FREEZE: (1.2, 2.5),  # times the lease
    Kind.RESTART: (0.05, 1.5),
    Kind.PAUSE: (0.3, 3.5),
    Kind.SLOW: (0.5, 3.0),
    Kind.MIGRATE: (1.0, 4.0),
    Kind.FAILOVER: (0.1, 2.5),  # from the promotion until the old primary is back
}
_GAP = {Kind.MIGRATE: 0.3, Kind.FAILOVER: 0.5}


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happens."""

    kind: Kind
    at: float
    """When so much of the site was served, as a share."""
    pick: int = 0
    """Which of the nodes, or the servers, that are there then, counted around."""
    seconds: float = 0.0
    """How long it lasts; of a freeze, as a multiple of the lease."""
    same_id: bool = False
    """Whether a killed node's successor has its id."""
    strained: bool = False
    """Whether the node's own wire is slow before it is killed."""
    gap: float = 0.0
    """Seconds: for which a slot is between two servers, or a replica behind."""
    way: object = None
    """Of a failover."""

    def __str__(self):
        """One line for people."""
        text = f"{self.at:4.0%} {self.kind}"
        if self.seconds:
            text += f" {self.seconds:.2f}" + (
                " leases" if self.kind == Kind.FREEZE else " s"
            )
        if self.kind in {Kind.KILL, Kind.FREEZE, Kind.LEAVE, Kind.DRAIN}:
            text += f" node {self.pick}"
        if self.kind == Kind.MIGRATE:
            text += f", {self.gap:.2f} s each"
        if self.way is not None:
            text += f" by {self.way}"
            text += f", {self.gap:.2f} s behind" if self.gap else ""
        text += ", on a slow wire" if self.strained else ""
        return text + (", successor with its id" if self.same_id else "")


@dataclass(frozen=True, slots=True)
class Plan:
    """All that happens in one trial."""

    seed: int
    nodes: int
    """How many nodes there are at first."""
    events: object
    store: StoreKind = StoreKind.SINGLE
    redis: bool = False
    """Whether its servers are Redis where that is installed, and not Valkey."""
    careful: bool = False
    """Whether a primary without a replica refuses to write."""
    every: int = 0
    """Seconds between two rounds in which it is committed; 0 for at its end."""

    def lines(self):
        """The plan, for people."""
        store = str(self.store) + (" of Redis" if self.redis else "")
        store += ", min-replicas-to-write 1" if self.careful else ""
        store += f", committed each {self.every} s" if self.every else ""
        first = f"seed {self.seed}: {self.nodes} nodes, {store}"
        return [first, *map(str, self.events)]


def draw(seed):
    """The plan of *seed*."""
    random = Random(seed)
    store = _STORES[seed % len(_STORES)]
    single = store is StoreKind.SINGLE
    nodes = random.randint(2, 3)
    count = random.randint(2, 4) - (not single)
    chosen = [*_ALWAYS[store], *random.choices(KINDS[store], k=count)]
    events = [_event(random, kind, store) for kind in chosen]
    return Plan(
        seed,
        nodes,
        tuple(sorted(events, key=lambda event: event.at)),
        store,
        not single and bool(seed // len(_STORES) % 2),
        store is StoreKind.SENTINEL and random.random() < 0.5,
        seed % 2,
    )


def _event(random, kind, store):
    at, pick, part = random.uniform(0.03, 0.85), random.randrange(12), random.random()
    least, most = _SECONDS.get(kind, (0.0, 0.0))
    picks = kind in NODE_KINDS or (store is not StoreKind.SINGLE)
    same_id = kind == Kind.KILL and random.random() < 0.3
    strained = kind == Kind.KILL and random.random() < 0.5
    gap = random.uniform(0, _GAP[kind]) if kind in _GAP else 0.0
    way = random.choice(list(Way)) if kind == Kind.FAILOVER else None
    if way is Way.ORDER or (way and random.random() < 0.5):
        gap = 0.0  # Sentinel does not promote on command what is behind
    return Event(
        kind,
        round(at, 3),
        pick if picks else 0,
        round(least + part * (most - least), 3),
        same_id,
        strained,
        round(gap, 3),
        way,
    )
