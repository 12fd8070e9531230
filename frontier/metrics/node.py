"""The metrics of one node: what it has counted since its start, and how it is now.

Counts of the crawl's report and Scrapy's stats are counters; all begin with 0 when the
node starts. docs/figures.md has the same list.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from frontier.metrics.exposition import Metric, Samples, most, number
from frontier.metrics.figures import FIGURES, OTHER
from frontier.status.figures import ERROR_KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from frontier.status.figures import Figures

TOP_HOSTS = 20
"""Hosts that have a label: those with most errors, and the slowest."""


@dataclass(frozen=True, slots=True)
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


NodeMetric = Metric[Reading]


def _of_figures(metric: Metric[Figures]) -> NodeMetric:
    """The *metric* of this node's figures."""
    return NodeMetric(
        f"frontier_{metric.name}",
        metric.about,
        lambda reading: metric.read(reading.figures),
        metric.labels,
    )


def _figure(name: str) -> Callable[[Reading], float]:
    """The figure *name*."""
    return lambda reading: float(getattr(reading.figures, name))


def _stat(name: str) -> Callable[[Reading], float]:
    """The stat *name*."""
    return lambda reading: number(reading.stats.get(name))


def _stats(names: Mapping[str, str]) -> Callable[[Reading], Samples]:
    """Several stats, by the value of a label."""
    return lambda reading: {
        (label,): number(reading.stats.get(name)) for label, name in names.items()
    }


def _now(name: str) -> Callable[[Reading], float | None]:
    """How it is now; nothing if that is not known."""
    return lambda reading: reading.moment.get(name)


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


def _slowest(reading: Reading) -> list[str]:
    means = {host: one.mean for host, one in reading.figures.host_seconds.items()}
    return most(means, TOP_HOSTS)


def _host_requests(reading: Reading) -> Samples:
    hosts = reading.figures.host_seconds
    return {(host,): hosts[host].requests for host in _slowest(reading)}


def _host_seconds(reading: Reading) -> Samples:
    hosts = reading.figures.host_seconds
    return {(host,): hosts[host].seconds for host in _slowest(reading)}


def _about(reading: Reading) -> Samples:
    return {tuple(reading.about[name] for name in ABOUT): 1}


ABOUT = ("crawl", "node", "spider", "machine", "version", "scrapy_version")

_OF_THE_NODE: tuple[NodeMetric, ...] = (
    NodeMetric("frontier_node_info", "What the node is; always 1.", _about, ABOUT),
    NodeMetric(
        "frontier_node_start_time_seconds",
        "When the node was started, in seconds since the Unix epoch.",
        _figure("opened"),
    ),
    NodeMetric(
        "frontier_figures_age_seconds",
        "How old these figures are: more than 1 if a callback blocks the node.",
        lambda reading: max(0.0, time.monotonic() - reading.taken),
    ),
    NodeMetric(
        "frontier_node_lag_seconds",
        "The most that the node's event loop was late in the last five seconds.",
        lambda reading: reading.figures.lag_ms / 1000,
    ),
    NodeMetric(
        "frontier_node_memory_limit_bytes",
        "Resident memory at which the node is stopped; 0 for no limit.",
        _figure("memory_limit_bytes"),
    ),
    NodeMetric(
        "frontier_partitions_held",
        "Partitions that the node has the lease of.",
        _figure("partitions"),
    ),
    NodeMetric(
        "frontier_lease_seconds",
        "Until the node counts on its leases no more, without another heartbeat.",
        _now("lease_seconds"),
    ),
    NodeMetric(
        "frontier_membership_epoch",
        "The epoch of the membership that the node knows.",
        _now("epoch"),
    ),
    NodeMetric(
        "frontier_membership_nodes",
        "Live nodes of the crawl, as this one knows it.",
        _now("nodes"),
    ),
    NodeMetric(
        "frontier_node_paused",
        "1 while an operator has paused the crawl, else 0.",
        _now("paused"),
    ),
    NodeMetric(
        "frontier_store_outages_total",
        "How often the store did not answer, or had no memory.",
        _now("outages"),
    ),
    NodeMetric(
        "frontier_store_available",
        "0 while the store does not answer or has no memory, else 1.",
        _now("available"),
    ),
    NodeMetric(
        "frontier_blocked_callbacks_total",
        "Callbacks and pipelines that blocked the node for longer than a lease.",
        _stat("frontier/busy/callbacks"),
    ),
    NodeMetric(
        "frontier_blocked_longest_seconds",
        "How long the longest of them took.",
        _stat("frontier/busy/longest"),
    ),
)
_FETCHED: tuple[NodeMetric, ...] = (
    NodeMetric(
        "frontier_host_errors_total",
        f"The same of the {TOP_HOSTS} hosts with most of them.",
        _host_errors,
        ("host", "kind"),
    ),
    NodeMetric(
        "frontier_host_requests_total",
        f"Requests that were answered by the {TOP_HOSTS} slowest hosts.",
        _host_requests,
        ("host",),
    ),
    NodeMetric(
        "frontier_host_request_seconds_total",
        "Seconds that these took.",
        _host_seconds,
        ("host",),
    ),
    NodeMetric(
        "frontier_requests_refused_total",
        "Requests that were not sent: out of scope, excluded, too long, or to an "
        "address that is not connected to.",
        _stats(
            {
                "scope": "frontier/refused/scope",
                "excluded": "frontier/refused/excluded",
                "length": "frontier/refused/length",
                "public": "frontier/refused/public",
                "private": "frontier/refused/private",
                "loopback": "frontier/refused/loopback",
                "link_local": "frontier/refused/link_local",
                "metadata": "frontier/refused/metadata",
                "reserved": "frontier/refused/reserved",
            }
        ),
        ("reason",),
    ),
)
_QUEUE: tuple[NodeMetric, ...] = (
    NodeMetric(
        "frontier_outbox_requests",
        "Requests that wait to be stored.",
        _now("outbox"),
    ),
    NodeMetric(
        "frontier_requests_retried_total",
        "Requests that were queued again, to be tried once more.",
        _stat("frontier/queue/retried"),
    ),
    NodeMetric(
        "frontier_seen_set_given_up_urls_total",
        "URLs of sets that were given up (FRONTIER_SEEN_SET_MAX_BYTES); one node "
        "counts.",
        _stat("frontier/seen/given_up"),
    ),
    NodeMetric(
        "frontier_seen_lost_expected",
        "New URLs that the shared tiers are expected to have called seen; one node "
        "counts.",
        _stat("frontier/seen/lost_expected"),
    ),
    NodeMetric(
        "frontier_requests_lost_total",
        "Requests that were not sent because another node has their partition now.",
        _stat("frontier/queue/lost"),
    ),
    NodeMetric(
        "frontier_dead_letters_total",
        "Dead letters that the node made of items that make no request.",
        _figure("dead"),
    ),
    NodeMetric(
        "frontier_urls_due_total",
        "URLs that waited until they were due, and were made ready.",
        _stat("frontier/queue/due"),
    ),
    NodeMetric(
        "frontier_due_refused_total",
        "Requests that were crawled at once, as their due time is no time.",
        _stat("frontier/queue/due_refused"),
    ),
    NodeMetric(
        "frontier_canon_refused_total",
        "Requests whose URL the canonicalization rules refuse.",
        _stat("frontier/canon/refused"),
    ),
)
_HOSTS: tuple[NodeMetric, ...] = (
    NodeMetric(
        "frontier_hosts_left_alone",
        "Hosts that are left alone now, as far as the node knows.",
        _now("left_alone"),
    ),
    NodeMetric(
        "frontier_uplink_pause_seconds",
        "For how long the node has paused, as no host answers it; 0 if one does.",
        _now("uplink_pause"),
    ),
    NodeMetric(
        "frontier_backoff_retry_after_total",
        "Answers 429 and 503 with a Retry-After that could be read.",
        _stat("frontier/backoff/retry_after"),
    ),
    NodeMetric(
        "frontier_backoff_put_back_total",
        "Requests that went back to the store because their host is left alone.",
        _stat("frontier/backoff/put_back"),
    ),
    NodeMetric(
        "frontier_backoff_retried_total",
        "Requests that are tried again because of their host.",
        _stat("frontier/backoff/retried"),
    ),
    NodeMetric(
        "frontier_robots_cut_total",
        "Files robots.txt of more than 500 KiB; the rest is not read.",
        _stat("frontier/robots/cut"),
    ),
    NodeMetric(
        "frontier_robots_stale_total",
        "Files robots.txt that could not be fetched again; older rules are used.",
        _stat("frontier/robots/stale"),
    ),
    NodeMetric(
        "frontier_robots_unreachable_total",
        "Files robots.txt that could not be fetched, each time.",
        _stat("frontier/robots/unreachable"),
    ),
    NodeMetric(
        "frontier_robots_crawl_delays_total",
        "Hosts whose Crawl-delay is longer than Scrapy's own delay.",
        _stat("frontier/robots/crawl_delays"),
    ),
    NodeMetric(
        "frontier_cookie_jars_total",
        "Jars of cookies that were read or written, and cookies that are not shared.",
        _stats(
            {
                "read": "frontier/cookies/read",
                "written": "frontier/cookies/written",
                "local": "frontier/cookies/local",
            }
        ),
        ("action",),
    ),
)
_ARCHIVE: tuple[NodeMetric, ...] = (
    NodeMetric(
        "frontier_archive_left_out_total",
        "Exchanges that are not archived, by reason.",
        _stats(
            {
                "excluded": "frontier/archive/excluded",
                "too_long": "frontier/archive/too_long",
            }
        ),
        ("reason",),
    ),
    NodeMetric(
        "frontier_archive_truncated_total",
        "Exchanges that were archived with a body that was cut.",
        _stat("frontier/archive/truncated"),
    ),
    NodeMetric(
        "frontier_archive_only_total",
        "Bodies that went to the archive alone, or that no callback had asked for so.",
        _stats(
            {
                "archived": "frontier/archive/only",
                "refused": "frontier/archive/only_refused",
            }
        ),
        ("result",),
    ),
    NodeMetric(
        "frontier_archive_browser_total",
        "A browser's answers that are archived.",
        _stat("frontier/archive/browser"),
    ),
    NodeMetric(
        "frontier_archive_browser_lost_total",
        "A browser's answers of which no record could be made.",
        _stat("frontier/archive/browser_lost"),
    ),
    NodeMetric(
        "frontier_archive_resources_total",
        "Documents that no server sent.",
        _stat("frontier/archive/resources"),
    ),
    NodeMetric(
        "frontier_archive_unmodified_total",
        "Answers 304 that the node asked for.",
        _stat("frontier/archive/unmodified"),
    ),
    NodeMetric(
        "frontier_archive_unreadable_total",
        "Answers 304 where the stored response could not be read.",
        _stat("frontier/archive/unreadable"),
    ),
    NodeMetric(
        "frontier_archive_not_followed_total",
        "Requests of duplicate pages that are not followed.",
        _stat("frontier/archive/not_followed"),
    ),
    NodeMetric(
        "frontier_archive_waiting",
        "1 while the node starts nothing because the archive has to catch up, else 0.",
        _now("archive_full"),
    ),
    NodeMetric(
        "frontier_archive_disk_free_bytes",
        "Free bytes of the disk of the WARC files.",
        _figure("disk_free_bytes"),
    ),
    NodeMetric(
        "frontier_archive_disk_size_bytes",
        "Size of that disk.",
        _figure("disk_total_bytes"),
    ),
)
_SOURCES: tuple[NodeMetric, ...] = (
    NodeMetric(
        "frontier_start_entries_total",
        "Entries of scrapy-redis's start URLs that the node took.",
        _stat("frontier/feed/entries"),
    ),
    NodeMetric(
        "frontier_start_entries_faulty_total",
        "Those of them that made no request.",
        _stat("frontier/feed/faulty"),
    ),
    NodeMetric(
        "frontier_feeds_rounds_total",
        "Rounds of sites of feeds that the node began.",
        _stat("frontier/feeds/rounds"),
    ),
    NodeMetric(
        "frontier_feeds_items_total",
        "New items in the feeds that it read.",
        _stat("frontier/feeds/items"),
    ),
    NodeMetric(
        "frontier_feeds_read_total",
        "Feeds that were not read to new items, by what became of them.",
        _stats(
            {
                "unchanged": "frontier/feeds/unchanged",
                "failed": "frontier/feeds/failed",
                "left_out": "frontier/feeds/left_out",
            }
        ),
        ("result",),
    ),
    NodeMetric(
        "frontier_feeds_pages_failed_total",
        "Pages of items that failed, and are asked for again.",
        _stat("frontier/feeds/pages_failed"),
    ),
    NodeMetric(
        "frontier_recrawl_visits_total",
        "Visits of the schedule, by what they found.",
        _stats(
            {
                "first": "frontier/recrawl/first",
                "changed": "frontier/recrawl/changed",
                "unchanged": "frontier/recrawl/unchanged",
                "failed": "frontier/recrawl/failed",
                "gone": "frontier/recrawl/gone",
            }
        ),
        ("result",),
    ),
    NodeMetric(
        "frontier_recrawl_pages_total",
        "Pages that are not in the schedule, or left it, by reason.",
        _stats(
            {
                "left": "frontier/recrawl/left",
                "off": "frontier/recrawl/off",
                "local": "frontier/recrawl/local",
                "unreadable": "frontier/recrawl/unreadable",
            }
        ),
        ("reason",),
    ),
    NodeMetric(
        "frontier_sitemaps_total",
        "Sitemaps that were read, had faults, or could not be fetched.",
        _stats(
            {
                "read": "frontier/sitemaps/read",
                "faults": "frontier/sitemaps/faults",
                "failed": "frontier/sitemaps/failed",
            }
        ),
        ("result",),
    ),
    NodeMetric(
        "frontier_pages_unread_total",
        "Pages of the spider `site` that were not read to their end.",
        _stat("frontier/pages/unread"),
    ),
    NodeMetric(
        "frontier_pages_no_base_total",
        "Bases and meta refreshes that are no URL.",
        _stat("frontier/pages/no_base"),
    ),
)
NODE = (
    *_OF_THE_NODE,
    *map(_of_figures, FIGURES),
    *_FETCHED,
    *_QUEUE,
    *_HOSTS,
    *_ARCHIVE,
    *_SOURCES,
)
"""All of them, by topic, in the order of docs/figures.md."""
