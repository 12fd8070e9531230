"""The metrics of crawls as wholes: the sums over their nodes, and what is queued.

What always holds:

1.  A crawl is exported while it is open, and for `ENDED` seconds after its end, so
    that its last figures are scraped, and no rule waits for a crawl that is over. If
    there are more than `MOST`, the newest are exported; ``frontier_crawls_left_out``
    counts the others.
2.  Counts are those of all nodes together, including those that are gone. They never
    shrink while a crawl lasts.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from frontier.metrics.exposition import Families, Metric, Samples, families
from frontier.metrics.figures import FIGURES
from frontier.model import frozen
from frontier.status.validate import whole
from frontier.store.client import BlockingStore, infos

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from frontier.status.figures import Figures
    from frontier.status.views import CrawlSnapshot, CrawlSummary

MOST = 8
"""Crawls that are exported."""
ENDED = 900.0
"""Seconds after its end for which a crawl is exported."""
QUEUED = ("ready", "reserved", "waiting")
NODE_STATES = ("live", "leaving", "silent", "lost", "left")
CRAWL_STATES = ("open", "finished", "canceled", "limit", "damaged", "deleting")


@frozen
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
        found = infos(store.command("INFO", "memory"))
        limits = [whole(one.get("maxmemory")) for one in found]
        used = sum(whole(one.get("used_memory")) for one in found)
        return cls(used, sum(limits) if all(limits) else 0)


@frozen
class Reading:
    """What there is to export."""

    crawls: Sequence[CrawlSnapshot]
    left_out: int = 0
    """Crawls that are not among these: there are too many, or they cannot be read."""
    memory: StoreMemory | None = None
    """`None` if the store has not told it."""


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

    *accept* is the client's header ``Accept``; without it, the format is text.
    """
    from prometheus_client import CollectorRegistry
    from prometheus_client.exposition import choose_encoder

    registry = CollectorRegistry()
    registry.register(Families(lambda: families(CRAWL, reading)))
    encode, media_type = choose_encoder(accept[:1000])
    return encode(registry), media_type


def _total(metric: Metric[Figures], crawl: CrawlSnapshot) -> Samples:
    return metric.samples(crawl.totals)


def _rows(metric: Metric[CrawlSnapshot], reading: Reading) -> Samples:
    """The samples of *metric* for each crawl."""
    return {
        (crawl.crawl_id, *labels): value
        for crawl in reading.crawls
        for labels, value in metric.samples(crawl).items()
    }


def _states(names: Sequence[str], there: Iterable[str]) -> Samples:
    """How many of *there* are in each of the states *names*."""
    counts = Counter(there)
    return {(name,): counts[name] for name in names}


_CRAWLS: tuple[Metric[CrawlSnapshot], ...] = (
    Metric(
        "state",
        "1 for the state that the crawl has, 0 for others.",
        lambda crawl: _states(CRAWL_STATES, [crawl.state]),
        ("state",),
    ),
    Metric(
        "paused",
        "1 while an operator has paused the crawl, else 0.",
        lambda crawl: crawl.controls.paused is not None,
    ),
    Metric(
        "start_time_seconds",
        "When the crawl was created, in seconds since the Unix epoch.",
        lambda crawl: crawl.created_ms / 1000,
    ),
    Metric(
        "nodes",
        "Nodes by state; of those that are gone, the last few.",
        lambda crawl: _states(NODE_STATES, (node.state for node in crawl.nodes)),
        ("state",),
    ),
    Metric("partitions", "Partitions of the crawl.", "partitions"),
    Metric(
        "damaged_keys",
        "Keys of the crawl that are damaged: a node that meets one stops.",
        lambda crawl: len(crawl.harmed),
    ),
    Metric(
        "partitions_lost",
        "Partitions whose contents the store has lost.",
        "lost",
    ),
    Metric(
        "queue_urls",
        "URLs that are queued: ready, reserved, or waiting until they are due.",
        lambda crawl: {(name,): getattr(crawl.queue, name) for name in QUEUED},
        ("state",),
    ),
    Metric("urls_queued_total", "URLs that were ever queued.", "queue.pushed"),
    Metric(
        "urls_done_total",
        "URLs that were fetched, parsed and archived, or failed for good.",
        "queue.acked",
    ),
    Metric(
        "dead_letters",
        "Requests that were given up, and not requeued.",
        "queue.dead",
    ),
    Metric("hosts_left_alone", "Hosts that are left alone now.", "back_offs.hosts"),
    Metric("memory_bytes", "Resident memory of the nodes.", "totals.memory_bytes"),
    *(Metric(m.name, m.about, partial(_total, m), m.labels) for m in FIGURES),
)
CRAWL: tuple[Metric[Reading], ...] = (
    Metric(
        "frontier_crawls_left_out",
        f"Crawls that are not exported: those after {MOST}, or that cannot be read.",
        "left_out",
    ),
    Metric(
        "frontier_store_memory_used_bytes",
        "Memory that the servers of the store use.",
        lambda reading: reading.memory.used if reading.memory else None,
    ),
    Metric(
        "frontier_store_memory_limit_bytes",
        "Memory that the servers of the store may use (maxmemory); none if one has "
        "no limit.",
        lambda reading: reading.memory.limit or None if reading.memory else None,
    ),
    *(
        Metric(
            f"frontier_crawl_{m.name}", m.about, partial(_rows, m), ("crawl", *m.labels)
        )
        for m in _CRAWLS
    ),
)
"""All of them, by topic, in the order of docs/figures.md."""
