"""What is seen of a crawl, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from frontier.status.back_offs import BackOffsView
from frontier.status.text import duration

if TYPE_CHECKING:
    from frontier.cluster.controls import By, Controls, Entry
    from frontier.queue.reserve import Scan
    from frontier.seen.seen_set import SeenState

MAX_NAMED = 5
"""Damaged keys that one line names."""
MUCH_MEMORY = 0.8
"""Share of the store's memory from which on it is warned of."""


@dataclass(frozen=True, slots=True)
class CrawlSummary:
    """A crawl's own data, without those of its nodes and partitions."""

    crawl_id: str
    spider: str
    state: str
    """``open``, ``finished``, ``canceled`` or ``limit``.

    ``damaged`` if its key cannot be read; then no more is known. ``deleting`` if a
    deletion of it has begun and was not ended.
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


@dataclass(frozen=True, slots=True)
class SeenFigures:
    """How many URLs each tier called seen."""

    recent: int = 0
    bloom: int = 0
    set: int = 0
    imported: int = 0
    """Those that were seen before the crawl (`frontier.seen.imported_filter`)."""


@dataclass(frozen=True, slots=True)
class ArchiveFigures:
    """What was written to WARC files; see `frontier.warc.batch.Counters`."""

    originals: int = 0
    revisits: int = 0
    original_bytes: int = 0
    revisit_bytes: int = 0
    """Payload bytes that were not stored again."""
    written_bytes: int = 0
    files: int = 0
    """WARC files that were begun."""
    handled: int = 0
    """Payloads that were looked up; new ones and the three kinds of hits together."""
    handled_bytes: int = 0
    new_payloads: int = 0
    new_bytes: int = 0
    exact_url: int = 0
    exact_url_bytes: int = 0
    canonical_url: int = 0
    canonical_url_bytes: int = 0
    digest: int = 0
    """Hits of an original from a URL that is not even equivalent."""
    digest_bytes: int = 0
    lookup_us: int = 0
    """Microseconds that the writer threads waited for the index."""
    unmodified: int = 0
    cdx_asked: int = 0
    """Payloads that CDX servers were asked for."""
    cdx_found: int = 0
    cdx_failed: int = 0
    cdx_us: int = 0
    """Microseconds that the writer threads waited for their answers."""


@dataclass(frozen=True, slots=True)
class ShareFigures:
    """What was looked up and found of a host, or of a media type."""

    handled: int = 0
    handled_bytes: int = 0
    hits: int = 0
    hit_bytes: int = 0


Shares = dict[str, dict[str, ShareFigures]]
"""``hosts`` and ``mimes``: name to its figures, those with most bytes saved."""


@dataclass(frozen=True, slots=True)
class HostSeconds:
    """How long requests to a host took, answered or not."""

    requests: int = 0
    seconds: float = 0.0
    """Of all of them together."""

    @property
    def mean(self) -> float:
        """Seconds that one took, on average."""
        return self.seconds / self.requests if self.requests else 0.0


@dataclass(frozen=True, slots=True)
class Taken:
    """Partitions that a node took when the members of its crawl changed."""

    at_ms: int
    """When, in milliseconds since the Unix epoch, on the node's clock."""
    partitions: int


@dataclass(frozen=True, slots=True)
class Figures:
    """What a node did since it was started, or what all nodes did."""

    pages: int = 0
    """Responses that were not redirects, those for robots.txt included."""
    requests: int = 0
    bytes: int = 0
    """Of responses, as they came over the network."""
    items: int = 0
    errors: int = 0
    """Requests that ended without a response though they were allowed, and responses
    of status 429 or 5xx; each try counts."""
    forbidden: int = 0
    """Requests that robots.txt does not allow, and that were not sent."""
    refused: int = 0
    """Requests that were not sent: out of scope, or to addresses not connected to."""
    excluded: int = 0
    """Links, and queued requests, that an operator has excluded: neither is sent."""
    trapped: int = 0
    """Links that were not followed because they look like a trap."""
    new: int = 0
    """URLs that were new and therefore queued."""
    given_up: int = 0
    """Requests that were not sent because their host was left alone too often."""
    local: int = 0
    """Requests that could not be stored and stayed on their node."""
    dead: int = 0
    reclaimed: int = 0
    """Requests of dead nodes that were put back."""
    partitions: int = 0
    """Leases held at the last heartbeat; of nodes that have left, too."""
    opened: float = 0.0
    """Seconds since the Unix epoch, on the node's clock; the first one's."""
    seconds: float = 0.0
    """How long the node ran; of all, from the first start to the last report."""
    rate: float = 0.0
    """Pages per second, from the first start to the last report."""
    lately: float = 0.0
    """Pages per second in the last `lately_seconds`; of all, those of nodes on the map
    together."""
    lately_seconds: float = 0.0
    """A minute, or less of a node that has not run for so long; 0 if not known. Of all,
    the most."""
    taken: tuple[Taken, ...] = ()
    """When the node took partitions: the last eight times, the oldest first."""
    seen: SeenFigures = field(default_factory=SeenFigures)
    archive: ArchiveFigures = field(default_factory=ArchiveFigures)
    shares: Shares = field(default_factory=dict)
    traps: dict[str, int] = field(default_factory=dict)
    """The same by kind of trap, as `frontier.urls.traps` names them."""
    statuses: dict[str, int] = field(default_factory=dict)
    """Responses by HTTP status; each try counts, redirects too."""
    busy_seconds: float = 0.0
    """For how long a callback, or something else, has blocked the node by now."""
    busy_url: str = ""
    """Of that callback's page; empty if no callback blocks it."""
    uplink_seconds: float = 0.0
    """For how long the node has paused, as no host answers it; 0 if one does."""
    disk_full: bool = False
    """Whether the node waits, as the disk of its WARC files takes nothing."""
    set_limit: str = ""
    """``FRONTIER_SEEN_SET_MAX_BYTES``, as the node has it; empty if there is none, or
    if it is a share and the node has not looked yet what that is of."""
    set_limit_bytes: int = 0
    """The same in bytes."""
    controls: int = 0
    """The version of what an operator wants that is in force there; 0 for nothing."""
    own: dict[str, str] = field(default_factory=dict)
    """What it was started with, of the settings that can be changed while it runs, but
    for those that are 0; and those of back-offs."""
    left: bool = False
    """Whether it is the last report of a node that closed by itself."""
    memory_bytes: int = 0
    """Resident memory of its process; of all, that of nodes on the map. What is not
    known is 0, here and in the next four."""
    memory_limit_bytes: int = 0
    """What its process may have: the least of ``MEMUSAGE_LIMIT_MB`` and the limits of
    its control groups; 0 if there is none."""
    disk_free_bytes: int = 0
    """Of the disk of ``FRONTIER_WARC_DIR``; 0 without an archive."""
    disk_total_bytes: int = 0
    cpu_seconds: float = 0.0
    """CPU time, since its process was started."""
    in_flight: int = 0
    """Requests being fetched or parsed; of all, those of nodes on the map."""
    inbox: int = 0
    """Requests that it has reserved and not started; of all, as before."""
    lag_ms: int = 0
    """The most that its loop was late in the last five seconds, milliseconds."""
    machine: str = ""
    """The name of its host."""
    pid: int = 0
    metrics_port: int = 0
    """Where it serves its metrics; 0 if it does not."""
    metrics_host: str = ""
    """The address of its machine at which it does."""
    holds: str = ""
    """Partitions that it holds, as ``0-41,77``; with ``...`` at the end if there are
    more."""
    error_kinds: dict[str, int] = field(default_factory=dict)
    """Errors by kind, as `frontier.session.request_stats` names them."""
    host_errors: dict[str, dict[str, int]] = field(default_factory=dict)
    """Hosts with most errors, to their errors by kind."""
    host_seconds: dict[str, HostSeconds] = field(default_factory=dict)
    """Hosts that took longest for a request on average, the slowest first."""


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node of a crawl, live or not."""

    node_id: str
    state: str
    """``live``, ``leaving`` (it closes, and owns nothing any more), ``silent`` (no
    heartbeat for longer than a lease), ``lost`` (the others took it off the map for
    that) or ``left``."""
    weight: int
    """0 if it is not on the map."""
    owned: int
    """Partitions that are the node's according to the ring of live nodes."""
    held: int
    """Partitions that it has the lease of."""
    figures: Figures | None
    """``None`` if it has not reported, or nothing that can be read."""
    beat_ms: int = 0
    """Its last heartbeat, milliseconds since the Unix epoch, on the store's clock. Of
    one that is off the map its last report, on its own clock; 0 without one."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A request that was given up."""

    url: str
    """Empty if the request cannot be decoded."""
    reason: str


@dataclass(frozen=True, slots=True)
class Harmed:
    """A key that is damaged."""

    partition: int | None
    """``None`` if it is the crawl's own."""
    key: str
    """What follows the tag of the partition, or the crawl."""
    reason: str


@dataclass(frozen=True, slots=True)
class Excluded:
    """What an operator has excluded."""

    kind: str
    """``host``, ``prefix`` or ``pattern``."""
    value: str
    at_ms: int
    who: str


@dataclass(frozen=True, slots=True)
class Changed:
    """A setting that an operator has changed."""

    name: str
    host: str
    """Empty if it is for all."""
    value: str
    at_ms: int
    who: str


@dataclass(frozen=True, slots=True)
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
        """The same, as plain values."""
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


@dataclass(frozen=True, slots=True)
class Outlook:
    """The tiers when the crawl has gone on for some time at its mean pace."""

    seconds: float
    """From now."""
    urls: int
    set_bytes: int
    """As if no set was given up."""
    bloom_error: float
    """Chance that the Bloom tier will call a new URL seen."""


@dataclass(frozen=True, slots=True)
class Tiers:
    """The shared tiers of a crawl now, and later."""

    has_set: bool
    has_bloom: bool
    state: SeenState
    outlook: Outlook | None
    """``None`` if the crawl is over, or nothing was seen yet."""


@dataclass(frozen=True, slots=True)
class LimitProgress:
    """How far a crawl is to one of its limits."""

    name: str
    """``pages``, ``items``, ``errors``, ``bytes`` or ``time``."""
    setting: str
    """By which it is set."""
    value: int
    """What the crawl has had; milliseconds of the time."""
    limit: int
    share: float
    """The part of it, from 0 to 1."""


@dataclass(frozen=True, slots=True)
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
    """Of all nodes, those included that are gone and not among *nodes* any more."""
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
    """That limit; milliseconds of the time."""
    fetched: bool = True
    """Whether a page was fetched: a response that is no redirect and no robots.txt."""
    removed_ms: int = 0
    """When its queues and its seen-set were removed; 0 if they were not."""
    twice: str = ""
    """The node id that two processes had at a time, where that happened last; the one
    that came first was stopped."""
    twice_ms: int = 0
    """When that was found, on the store's clock."""
    memory_share: float = 0.0
    """How much of its memory the store uses: 1.0 is all; 0 where there is no limit."""
    lost: int = 0
    """Partitions without the crawl's mark: the store has lost what was in them."""
    controls: ControlsView = field(default_factory=ControlsView)
    """What an operator wants of it, or wanted."""
    gone: int = 0
    """Nodes that are gone, and of which only the totals know."""
    back_offs: BackOffsView = field(default_factory=BackOffsView)
    """Hosts that are left alone."""
    harmed: tuple[Harmed, ...] = ()
    """Damaged keys, of partitions and of the crawl: a node that meets one stops."""
    limits: tuple[LimitProgress, ...] = ()
    """Of the whole crawl, and how far it is."""

    @property
    def harm(self) -> str:
        """What is damaged, in one line; empty if nothing is."""
        if not self.harmed:
            return ""
        named = [
            f"{one.key}: {one.reason}"
            if one.partition is None
            else f"partition {one.partition} ({one.key}: {one.reason})"
            for one in self.harmed[:MAX_NAMED]
        ]
        left = len(self.harmed) - MAX_NAMED
        more = f" and {left:,} more" if left > 0 else ""
        return (
            f"damaged keys: {', '.join(named)}{more}; a node that meets one stops; "
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
                found.append(f"{node.node_id} waits: its disk is full")
        return tuple(found)

    @property
    def left_out(self) -> str:
        """What was not fetched, as its hosts did not answer; in one line."""
        if self.state == "open" or not (self.totals.given_up and self.queue.dead):
            return ""
        return (
            f"{self.queue.dead:,} requests were given up: frontier crawl dead --crawl "
            f"{self.crawl_id} lists them, and frontier crawl requeue puts them back"
        )

    @property
    def ended_at(self) -> str:
        """That it has ended at a limit, and which, for people; else empty."""
        if not self.limit:
            return ""
        # Brings the rules of URLs with it, which take a tenth of a command's time.
        from frontier.node.crawl_limits import described

        limit = described(f"{self.limit} {self.limit_value}")
        return f"has ended at its limit: {limit}"

    @property
    def has_failed(self) -> bool:
        """Whether it had requests and has ended without one page."""
        return self.state == "finished" and not self.fetched and self.queue.pushed > 0

    @property
    def seconds(self) -> float:
        """How long the crawl has lasted, or did."""
        return max(0, (self.finished_ms or self.taken_ms) - self.created_ms) / 1000
