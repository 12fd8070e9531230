"""What a crawl looks like, as plain values."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any

from frontier.model import frozen
from frontier.status.back_offs import BackOffsView
from frontier.status.text import duration, first_of

if TYPE_CHECKING:
    from frontier.cluster.controls import By, Controls, Entry
    from frontier.queue.reserve import Scan
    from frontier.seen.seen_set import SeenState
    from frontier.status.figures import Figures

MAX_NAMED = 5
"""Damaged keys that one line names."""
MUCH_MEMORY = 0.8
"""Share of the store's memory from which on people are warned."""


@frozen
class CrawlSummary:
    """A crawl's own data, without those of its nodes and partitions."""

    crawl_id: str
    spider: str
    state: str
    """``open``, ``finished``, ``canceled`` or ``limit``.

    ``damaged`` if its key cannot be read; then no more is known. ``deleting`` if its
    deletion has begun and has not ended.
    """
    created_ms: int
    finished_ms: int
    """Milliseconds since the Unix epoch; 0 while it is open."""
    nodes: int
    """Nodes on the membership map."""
    kind: str = "crawl"
    """``crawl``, or ``dupefilter``: what a duplicate filter alone has seen."""
    schema: str = ""
    """The version of its keys; empty if it is damaged."""
    paused: bool = False
    """Whether it is open, and an operator has paused it."""


@frozen
class NodeView:
    """One node of a crawl, live or not."""

    node_id: str
    state: str
    """``live``, ``leaving`` (it is closing, and owns nothing any more), ``silent`` (no
    heartbeat for longer than a lease), ``lost`` (the others took it off the map for
    that) or ``left``."""
    weight: int
    """0 if it is not on the map."""
    owned: int
    """Partitions that the ring of live nodes gives to the node."""
    held: int
    """Partitions whose lease it holds."""
    figures: Figures | None
    """``None`` if it has not reported, or its report cannot be read."""
    beat_ms: int = 0
    """Its last heartbeat, milliseconds since the Unix epoch, on the store's clock. If
    it is off the map, its last report, on its own clock; 0 without one."""


@frozen
class DeadLetter:
    """A request that was given up."""

    url: str
    """Empty if the request cannot be decoded."""
    reason: str


@frozen
class Harmed:
    """A key that is damaged."""

    partition: int | None
    """``None`` if it is the crawl's own."""
    key: str
    """What follows the tag of the partition, or the crawl."""
    reason: str


@frozen
class Excluded:
    """What an operator has excluded."""

    kind: str
    """``host``, ``prefix`` or ``pattern``."""
    value: str
    at_ms: int
    who: str


@frozen
class Changed:
    """A setting that an operator has changed."""

    name: str
    host: str
    """Empty if it is for all hosts."""
    value: str
    at_ms: int
    who: str


@frozen
class ControlsView:
    """What operators want of a crawl that runs, or wanted."""

    paused: By | None = None
    excluded: tuple[Excluded, ...] = ()
    changed: tuple[Changed, ...] = ()
    """Settings that are not what nodes were started with."""
    log: tuple[Entry, ...] = ()
    """The oldest first."""
    damaged: tuple[str, ...] = ()
    """What could not be read, and is left out."""

    @classmethod
    def of(cls, controls: Controls) -> ControlsView:
        """*controls* as plain values."""
        return cls(
            controls.paused,
            tuple(
                Excluded(rule.kind, rule.value, by.at_ms, by.who)
                for rule, by in controls.excluded.items()
            ),
            tuple(
                Changed(name, host, value, by.at_ms, by.who)
                for (name, host), (value, by) in controls.settings.items()
            ),
            controls.log,
            controls.strange,
        )


@frozen
class Tiers:
    """The shared tiers of a crawl."""

    has_set: bool
    has_bloom: bool
    state: SeenState


@frozen
class LimitProgress:
    """How close a crawl is to one of its limits."""

    name: str
    """``pages``, ``items``, ``errors``, ``bytes`` or ``time``."""
    setting: str
    """The name of its setting."""
    value: int
    """What the crawl has used of it; milliseconds for ``time``."""
    limit: int
    share: float
    """The share of it that is used, from 0 to 1."""


@frozen
class CrawlSnapshot:
    """Everything that the report of a crawl is made of."""

    crawl_id: str
    spider: str
    state: str
    created_ms: int
    finished_ms: int
    taken_ms: int
    """When it was looked at, on the store's clock."""
    shape: dict[str, Any]
    """The settings that all nodes share."""
    partitions: int
    nodes: tuple[NodeView, ...]
    totals: Figures
    """The sums over all nodes, including gone ones that are not among *nodes*."""
    queue: Scan
    """The sum of all partitions."""
    dead_letters: tuple[DeadLetter, ...]
    """The first few."""
    tiers: Tiers | None = None
    """The shared tiers of the seen test; ``None`` if they cannot be read."""
    kind: str = "crawl"
    """``crawl``, or ``dupefilter``: it has no nodes and no queue, and never ends."""
    limit: str = ""
    """The limit that it ended at: ``pages``, ``items``, ``errors``, ``bytes`` or
    ``time``."""
    limit_value: int = 0
    """That limit; milliseconds for ``time``."""
    fetched: bool = True
    """Whether a page was fetched: a response, neither a redirect nor robots.txt."""
    removed_ms: int = 0
    """When its queues and its seen-set were removed; 0 if they were not."""
    twice: str = ""
    """The node id that two processes had at the same time, when that last happened; the
    one that came first was stopped."""
    twice_ms: int = 0
    """When that was found, on the store's clock."""
    memory_share: float = 0.0
    """How much of its memory the store uses: 1.0 is all; 0 where there is no limit."""
    lost: int = 0
    """Partitions without the crawl's mark: the store has lost what was in them."""
    controls: ControlsView = field(default_factory=ControlsView)
    """What an operator wants of it, or wanted."""
    gone: int = 0
    """Nodes that are gone, and are only in the totals."""
    gone_lost: int = 0
    """How many of them, or earlier processes of nodes, were lost: the totals lack what
    each did after its last report."""
    back_offs: BackOffsView = field(default_factory=BackOffsView)
    """Hosts that are left alone."""
    harmed: tuple[Harmed, ...] = ()
    """Damaged keys, of partitions and of the crawl: a node that meets one stops."""
    limits: tuple[LimitProgress, ...] = ()
    """The limits of the whole crawl, and how close it is to each."""

    @property
    def harm(self) -> str:
        """What is damaged, in one line; empty if nothing is."""
        if not self.harmed:
            return ""
        named = [
            f"{one.key}: {one.reason}"
            if one.partition is None
            else f"partition {one.partition} ({one.key}: {one.reason})"
            for one in self.harmed
        ]
        return (
            f"damaged keys: {first_of(named, MAX_NAMED)}; a node that meets one stops; "
            f"frontier crawl repair --crawl {self.crawl_id} mends them"
        )

    @property
    def waits(self) -> tuple[str, ...]:
        """What nodes on the map wait for, or soon will: a line for each."""
        found = []
        if self.memory_share >= MUCH_MEMORY:
            found.append(
                f"the store has {self.memory_share:.0%} of its memory in use "
                "(maxmemory); at 95% nodes start nothing more. Raise it, or delete "
                "other keys"
            )
        for node in self.nodes:
            figures = node.figures
            if figures is None or node.state not in {"live", "leaving"}:
                continue
            if figures.uplink_seconds:
                found.append(
                    f"{node.node_id} waits: no host has answered it for "
                    f"{duration(figures.uplink_seconds)}; its uplink, its name server "
                    "or its proxy may be down. It goes on when a host answers"
                )
            if figures.disk_full:
                why = "its archive, journal or items cannot be written"
                found.append(f"{node.node_id} waits: {why}; its log says why")
        return tuple(found)

    @property
    def left_out(self) -> str:
        """What was not fetched because its hosts did not answer; in one line."""
        if self.state == "open" or not (self.totals.given_up and self.queue.dead):
            return ""
        return (
            f"{self.queue.dead:,} requests were given up: frontier crawl dead --crawl "
            f"{self.crawl_id} lists them, and frontier crawl requeue puts them back"
        )

    @property
    def ended_at(self) -> str:
        """The limit that it has ended at, as a phrase for people; else empty."""
        if not self.limit:
            return ""
        # Imports the rules of URLs, which takes a tenth of a command's time.
        from frontier.node.ends import described

        limit = described(f"{self.limit} {self.limit_value}")
        return f"has ended at its limit: {limit}"

    @property
    def has_failed(self) -> bool:
        """Whether it had requests and has ended without one page."""
        return self.state == "finished" and not self.fetched and self.queue.pushed > 0

    @property
    def seconds(self) -> float:
        """How long the crawl has lasted, until now or until its end."""
        return max(0, (self.finished_ms or self.taken_ms) - self.created_ms) / 1000
