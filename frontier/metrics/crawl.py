"""The metrics of crawls as wholes: the sums over their nodes, and what is queued.

What always holds:

1.  A crawl is exported while it is open, and for `ENDED` seconds after its end, so
    that its last figures are scraped, and no rule waits for a crawl that is over. Of
    more than `MOST`, those are that were created last; ``frontier_crawls_left_out``
    counts the others.
2.  Counts are those of all nodes together, also of those that are gone. They never
    shrink while a crawl lasts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from frontier.metrics.exposition import Metric, Samples, families
from frontier.metrics.figures import FIGURES
from frontier.store.client import Call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from prometheus_client.core import Metric as Family

    from frontier.status.figures import Figures
    from frontier.status.views import CrawlSnapshot, CrawlSummary
    from frontier.store.client import BlockingStore

MOST = 8
"""Crawls that are exported."""
ENDED = 900.0
"""Seconds after its end for which a crawl is."""
NODE_STATES = ("live", "leaving", "silent", "lost", "left")
CRAWL_STATES = ("open", "finished", "canceled", "limit", "damaged")


@dataclass(frozen=True, slots=True)
class StoreMemory:
    """What the servers of the store say of their memory, in bytes."""

    used: int
    limit: int
    """Their ``maxmemory``; 0 if one has none."""

    @classmethod
    def look(cls, store: BlockingStore) -> StoreMemory:
        """What they say now.

        Raises:
            StoreError: The store does not answer, or with an error.
        """
        return cls.of(store.call(Call.command("INFO", "memory")))

    @classmethod
    def of(cls, reply: bytes | Mapping[str, Any]) -> StoreMemory:
        """The same out of their ``INFO memory``."""
        if isinstance(reply, bytes):
            lines = reply.decode("utf-8", "replace").splitlines()
            reply = dict(line.split(":", 1) for line in lines if ":" in line)
        return cls(_size(reply.get("used_memory")), _size(reply.get("maxmemory")))


def _size(value: Any) -> int:
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0


@dataclass(frozen=True, slots=True)
class Reading:
    """What there is to export."""

    crawls: Sequence[CrawlSnapshot]
    left_out: int = 0
    """Crawls that are not among these: there are too many, or they cannot be read."""
    memory: StoreMemory | None = None
    """`None` if the store has not said so."""


CrawlMetric = Metric[Reading]


def exported(
    crawls: Iterable[CrawlSummary], now_ms: float
) -> tuple[list[CrawlSummary], int]:
    """Those of *crawls* that are to be exported, and how many more would be."""
    wanted = [
        crawl
        for crawl in sorted(crawls, key=lambda each: each.created_ms, reverse=True)
        if crawl.kind == "crawl"
        and (crawl.state == "open" or now_ms - crawl.finished_ms < ENDED * 1000)
    ]
    return wanted[:MOST], max(0, len(wanted) - MOST)


def exposition(reading: Reading, accept: str = "") -> tuple[bytes, str]:
    """The metrics of *reading* in the format that *accept* names, and its media type.

    *accept* is the header ``Accept`` of who asks; without it, it is the text format.
    """
    from prometheus_client import CollectorRegistry
    from prometheus_client.exposition import choose_encoder

    registry = CollectorRegistry()
    registry.register(_Collector(reading))
    encode, media_type = choose_encoder(accept[:1000])
    return encode(registry), media_type


class _Collector:
    """What prometheus_client asks."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def describe(self) -> Iterable[Family]:
        return ()

    def collect(self) -> Iterator[Family]:
        return families(CRAWL, self._reading)


def _each(read: Callable[[CrawlSnapshot], float]) -> Callable[[Reading], Samples]:
    """A figure of each crawl."""
    return lambda reading: {(crawl.crawl_id,): read(crawl) for crawl in reading.crawls}


def _split(
    read: Callable[[CrawlSnapshot], Mapping[str, float]],
) -> Callable[[Reading], Samples]:
    """Figures of each crawl, by one more label."""
    return lambda reading: {
        (crawl.crawl_id, name): value
        for crawl in reading.crawls
        for name, value in read(crawl).items()
    }


def _sum(metric: Metric[Figures]) -> CrawlMetric:
    """The *metric* of what all nodes of a crawl have counted together."""
    return CrawlMetric(
        f"frontier_crawl_{metric.name}",
        metric.about,
        lambda reading: {
            (crawl.crawl_id, *labels): value
            for crawl in reading.crawls
            for labels, value in metric.samples(crawl.totals).items()
        },
        ("crawl", *metric.labels),
    )


def _nodes(crawl: CrawlSnapshot) -> dict[str, float]:
    states = [node.state for node in crawl.nodes]
    return {state: states.count(state) for state in NODE_STATES}


def _queue(crawl: CrawlSnapshot) -> dict[str, float]:
    scan = crawl.queue
    return {"ready": scan.ready, "reserved": scan.reserved, "waiting": scan.waiting}


_CRAWLS: tuple[CrawlMetric, ...] = (
    CrawlMetric(
        "frontier_crawls_left_out",
        f"Crawls that are not exported: those after {MOST}, or that cannot be read.",
        lambda reading: reading.left_out,
    ),
    CrawlMetric(
        "frontier_store_memory_used_bytes",
        "Memory that the servers of the store use.",
        lambda reading: reading.memory.used if reading.memory else None,
    ),
    CrawlMetric(
        "frontier_store_memory_limit_bytes",
        "Memory that they may use (maxmemory); none if one of them has no limit.",
        lambda reading: reading.memory.limit or None if reading.memory else None,
    ),
    CrawlMetric(
        "frontier_crawl_state",
        "1 for the state that the crawl has, 0 for others.",
        _split(lambda crawl: {state: crawl.state == state for state in CRAWL_STATES}),
        ("crawl", "state"),
    ),
    CrawlMetric(
        "frontier_crawl_paused",
        "1 while an operator has paused the crawl, else 0.",
        _each(lambda crawl: crawl.controls.paused is not None),
        ("crawl",),
    ),
    CrawlMetric(
        "frontier_crawl_start_time_seconds",
        "When the crawl was created, in seconds since the Unix epoch.",
        _each(lambda crawl: crawl.created_ms / 1000),
        ("crawl",),
    ),
    CrawlMetric(
        "frontier_crawl_nodes",
        "Nodes by state; of those that are gone, the last few.",
        _split(_nodes),
        ("crawl", "state"),
    ),
    CrawlMetric(
        "frontier_crawl_partitions",
        "Partitions of the crawl.",
        _each(lambda crawl: crawl.partitions),
        ("crawl",),
    ),
    CrawlMetric(
        "frontier_crawl_damaged_keys",
        "Keys of the crawl that are damaged: a node that meets one stops.",
        _each(lambda crawl: len(crawl.harmed)),
        ("crawl",),
    ),
    CrawlMetric(
        "frontier_crawl_partitions_lost",
        "Partitions of which the store has lost what was in them.",
        _each(lambda crawl: crawl.lost),
        ("crawl",),
    ),
    CrawlMetric(
        "frontier_crawl_queue_urls",
        "URLs that are queued: ready, reserved, or waiting until they are due.",
        _split(_queue),
        ("crawl", "state"),
    ),
    CrawlMetric(
        "frontier_crawl_urls_queued_total",
        "URLs that were ever queued.",
        _each(lambda crawl: crawl.queue.pushed),
        ("crawl",),
    ),
    CrawlMetric(
        "frontier_crawl_urls_done_total",
        "URLs that were fetched, parsed and archived, or failed for good.",
        _each(lambda crawl: crawl.queue.acked),
        ("crawl",),
    ),
    CrawlMetric(
        "frontier_crawl_dead_letters",
        "Requests that were given up, and not requeued.",
        _each(lambda crawl: crawl.queue.dead),
        ("crawl",),
    ),
    CrawlMetric(
        "frontier_crawl_hosts_left_alone",
        "Hosts that are left alone now.",
        _each(lambda crawl: crawl.back_offs.hosts),
        ("crawl",),
    ),
)
_SUMS: tuple[CrawlMetric, ...] = (
    CrawlMetric(
        "frontier_crawl_requests_refused_total",
        "Requests that were not sent: out of scope, or to an address that is not "
        "connected to.",
        _each(lambda crawl: crawl.totals.refused),
        ("crawl",),
    ),
    CrawlMetric(
        "frontier_crawl_memory_bytes",
        "Resident memory of the nodes.",
        _each(lambda crawl: crawl.totals.memory_bytes),
        ("crawl",),
    ),
)
CRAWL = (*_CRAWLS, *_SUMS, *map(_sum, FIGURES))
"""All of them, by topic, in the order of docs/figures.md."""
