"""The metrics of one node: what it has counted since its start, and how it is now.

Counts of the crawl's report and Scrapy's stats are counters; all begin with 0 when the
node starts. docs/figures.md has the same list.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import field
from functools import partial
from typing import Any

from frontier.metrics.exposition import Metric, Samples, most
from frontier.metrics.figures import FIGURES, OTHER
from frontier.model import frozen
from frontier.status.figures import ERROR_KINDS, Figures
from frontier.status.validate import real

TOP_HOSTS = 20
"""Hosts that have a label: those with most errors, and the slowest."""
ABOUT = ("crawl", "node", "spider", "machine", "version", "scrapy_version")
STATS = "frontier/"
"""The prefix of the stats that are exported."""


@frozen
class Reading:
    """What a node knows of itself at one time."""

    about: Mapping[str, str]
    """Its names, and the versions of what it runs."""
    figures: Figures
    """What it reports to the crawl."""
    stats: Mapping[str, Any]
    """Scrapy's stats."""
    moment: Mapping[str, float]
    """How it is at this time; see `Node.moment`."""
    taken: float = field(default_factory=time.monotonic)


def _figure(metric: Metric[Figures], reading: Reading) -> Samples:
    return metric.samples(reading.figures)


def _moment(what: str, reading: Reading) -> float | None:
    return reading.moment.get(what)


def _host_errors(reading: Reading) -> Samples:
    """Errors of the hosts with most of them, by kind."""
    hosts = reading.figures.host_errors
    sums = {host: sum(kinds.values()) for host, kinds in hosts.items()}
    found: Samples = {}
    for host in most(sums, TOP_HOSTS):
        for kind, count in hosts[host].items():
            label = (host, kind if kind in ERROR_KINDS else OTHER)
            found[label] = found.get(label, 0) + count
    return found


def _slowest(reading: Reading, what: str) -> Samples:
    hosts = reading.figures.host_seconds
    means = {host: one.mean for host, one in hosts.items()}
    return {(host,): getattr(hosts[host], what) for host in most(means, TOP_HOSTS)}


def _stats(reading: Reading) -> Samples:
    """Our own stats, by their names without ``frontier/``."""
    return {
        (name.removeprefix(STATS),): real(value)
        for name, value in reading.stats.items()
        if name.startswith(STATS) and type(value) in (int, float)
    }


_MOMENT = (
    (
        "lease_seconds",
        "lease_seconds",
        (
            "For how long the node still relies on its leases if no heartbeat is "
            "answered."
        ),
    ),
    ("epoch", "membership_epoch", "The epoch of the membership that the node knows."),
    ("nodes", "membership_nodes", "Live nodes of the crawl, as this one knows it."),
    ("paused", "node_paused", "1 while an operator has paused the crawl, else 0."),
    (
        "outages",
        "store_outages_total",
        "How often the store did not answer, or had no memory.",
    ),
    (
        "available",
        "store_available",
        "0 while the store does not answer or has no memory, else 1.",
    ),
    ("outbox", "outbox_requests", "Requests that wait to be stored."),
    (
        "left_alone",
        "hosts_left_alone",
        "Hosts that are left alone now, as far as the node knows.",
    ),
    (
        "uplink_pause",
        "uplink_pause_seconds",
        "For how long the node has paused because no host answers it; else 0.",
    ),
    (
        "archive_full",
        "archive_waiting",
        "1 while the node starts nothing because the archive has to catch up, else 0.",
    ),
)
"""How a node is now: the name in `Node.moment`, and its metric; none if unknown."""
NODE: tuple[Metric[Reading], ...] = (
    Metric(
        "frontier_node_info",
        "What the node is; always 1.",
        lambda reading: {tuple(reading.about[name] for name in ABOUT): 1},
        ABOUT,
    ),
    Metric(
        "frontier_node_start_time_seconds",
        "When the node was started, in seconds since the Unix epoch.",
        "figures.opened",
    ),
    Metric(
        "frontier_figures_age_seconds",
        "How old these figures are: more than 1 if a callback blocks the node.",
        lambda reading: max(0.0, time.monotonic() - reading.taken),
    ),
    Metric(
        "frontier_node_lag_seconds",
        "The most that the node's event loop was late in the last five seconds.",
        lambda reading: reading.figures.lag_ms / 1000,
    ),
    Metric(
        "frontier_node_memory_limit_bytes",
        "Resident memory at which the node is stopped; 0 for no limit.",
        "figures.memory_limit_bytes",
    ),
    Metric(
        "frontier_partitions_held",
        "Partitions that the node has the lease of.",
        "figures.partitions",
    ),
    Metric(
        "frontier_archive_disk_free_bytes",
        "Free bytes of the disk of the WARC files.",
        "figures.disk_free_bytes",
    ),
    Metric(
        "frontier_archive_disk_size_bytes",
        "Size of the disk of the WARC files.",
        "figures.disk_total_bytes",
    ),
    *(
        Metric(f"frontier_{name}", about, partial(_moment, what))
        for what, name, about in _MOMENT
    ),
    *(
        Metric(f"frontier_{m.name}", m.about, partial(_figure, m), m.labels)
        for m in FIGURES
    ),
    Metric(
        "frontier_host_errors_total",
        f"Errors of the {TOP_HOSTS} hosts with most of them, by kind.",
        _host_errors,
        ("host", "kind"),
    ),
    Metric(
        "frontier_host_requests_total",
        f"Requests that were answered by the {TOP_HOSTS} slowest hosts.",
        lambda reading: _slowest(reading, "requests"),
        ("host",),
    ),
    Metric(
        "frontier_host_request_seconds_total",
        f"Seconds that requests to the {TOP_HOSTS} slowest hosts took.",
        lambda reading: _slowest(reading, "seconds"),
        ("host",),
    ),
    Metric(
        "frontier_stat",
        "Each of Scrapy's stats whose name begins with frontier/, by the rest of it.",
        _stats,
        ("stat",),
    ),
)
"""All of them."""
