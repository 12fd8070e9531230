"""The metrics of one node: what it has counted since its start, and how it is now.

Counts of the crawl's report and Scrapy's stats are counters; all begin with 0 when the
node starts. docs/metrics.md has the same list.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from frontier.metrics.exposition import Metric, Samples, most, number, numbers
from frontier.status.figures import ERROR_KINDS
from frontier.urls.traps import STATS as TRAPS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

TOP_HOSTS = 20
"""Hosts that have a label: those with most errors, and the slowest."""
OTHER = "other"
"""What is none of the values that a label may have."""
CODES = frozenset(str(status.value) for status in HTTPStatus)
"""HTTP statuses that have a label of their own: those that are registered."""
TIERS = ("recent", "bloom", "set", "imported")


@dataclass(frozen=True, slots=True)
class Reading:
    """What a node knows of itself at one time."""

    about: Mapping[str, str]
    """Its names, and the versions of what it runs."""
    report: Mapping[str, Any]
    """Its figures for the crawl's report; see `Node.report`."""
    stats: Mapping[str, Any]
    """Scrapy's stats."""
    moment: Mapping[str, float]
    """How it is at this time; see `Node.moment`."""
    taken: float = field(default_factory=time.monotonic)


NodeMetric = Metric[Reading]


def _figure(name: str) -> Callable[[Reading], float]:
    """What the report has under *name*."""
    return lambda reading: number(reading.report.get(name))


def _archive(name: str, divisor: float = 1) -> Callable[[Reading], float]:
    """What the report has of the archive under *name*."""
    return lambda reading: _of_archive(reading, name) / divisor


def _of_archive(reading: Reading, name: str) -> float:
    return number(reading.report.get("archive", {}).get(name))


def _archives(names: Mapping[str, str]) -> Callable[[Reading], Samples]:
    """Several of them, by the value of a label."""
    return lambda reading: {
        (label,): _of_archive(reading, name) for label, name in names.items()
    }


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


def _codes(reading: Reading) -> Samples:
    """Responses by status; those that nobody has registered together."""
    found: Samples = {}
    statuses = reading.report.get("statuses", {})
    for code, count in statuses.items():
        label = (code if code in CODES else OTHER,)
        found[label] = found.get(label, 0) + number(count)
    return found


def _errors(reading: Reading) -> Samples:
    return numbers(reading.report.get("error_kinds"), ERROR_KINDS)


def _host_errors(reading: Reading) -> Samples:
    """Errors of the hosts with most of them, by kind."""
    hosts = reading.report.get("host_errors", {})
    sums = {host: sum(map(number, kinds.values())) for host, kinds in hosts.items()}
    found: Samples = {}
    for host in most(sums, TOP_HOSTS):
        for kind, count in hosts[host].items():
            label = (host, kind if kind in ERROR_KINDS else OTHER)
            found[label] = found.get(label, 0) + number(count)
    return found


def _host_times(place: int) -> Callable[[Reading], Samples]:
    """Of the slowest hosts, their requests (0) or the seconds of those (1)."""

    def read(reading: Reading) -> Samples:
        hosts: dict[str, Any] = reading.report.get("host_seconds", {})
        means = {
            host: number(seconds) / max(1, number(requests))
            for host, (requests, seconds) in hosts.items()
        }
        return {(host,): number(hosts[host][place]) for host in most(means, TOP_HOSTS)}

    return read


def _about(reading: Reading) -> Samples:
    return {tuple(reading.about[name] for name in ABOUT): 1}


ABOUT = ("crawl", "node", "spider", "machine", "version", "scrapy_version")
RESULTS = ("new", "exact_url", "canonical_url", "digest")

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
        lambda reading: number(reading.report.get("lag_ms")) / 1000,
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
        "frontier_pages_total",
        "Responses that were not redirects, those for robots.txt included.",
        _figure("pages"),
    ),
    NodeMetric(
        "frontier_requests_total",
        "Requests that were sent, redirects and retries included.",
        _figure("requests"),
    ),
    NodeMetric(
        "frontier_response_bytes_total",
        "Bytes of responses, as they came over the network.",
        _figure("bytes"),
    ),
    NodeMetric(
        "frontier_responses_total",
        "Responses by HTTP status; those that are not registered are `other`.",
        _codes,
        ("code",),
    ),
    NodeMetric(
        "frontier_items_total", "Items that spiders have made.", _figure("items")
    ),
    NodeMetric(
        "frontier_errors_total",
        "Requests without an answer, and answers 429 and 5xx, by kind; each try "
        "counts.",
        _errors,
        ("kind",),
    ),
    NodeMetric(
        "frontier_host_errors_total",
        f"The same of the {TOP_HOSTS} hosts with most of them.",
        _host_errors,
        ("host", "kind"),
    ),
    NodeMetric(
        "frontier_host_requests_total",
        f"Requests that were answered by the {TOP_HOSTS} slowest hosts.",
        _host_times(0),
        ("host",),
    ),
    NodeMetric(
        "frontier_host_request_seconds_total",
        "Seconds that these took.",
        _host_times(1),
        ("host",),
    ),
    NodeMetric(
        "frontier_requests_in_flight",
        "Requests that are being fetched or parsed.",
        _figure("in_flight"),
    ),
    NodeMetric(
        "frontier_requests_forbidden_total",
        "Requests that robots.txt does not allow, and that were not sent.",
        _figure("forbidden"),
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
    NodeMetric(
        "frontier_requests_unchecked_total",
        "Requests of a download handler whose address was not known.",
        _stat("frontier/addresses/unchecked"),
    ),
)
_QUEUE: tuple[NodeMetric, ...] = (
    NodeMetric(
        "frontier_inbox_requests",
        "Requests that are reserved on the node and not started.",
        _figure("inbox"),
    ),
    NodeMetric(
        "frontier_outbox_requests",
        "Requests that wait to be stored.",
        _now("outbox"),
    ),
    NodeMetric(
        "frontier_urls_new_total",
        "URLs that were new and therefore queued.",
        _figure("new"),
    ),
    NodeMetric(
        "frontier_requests_retried_total",
        "Requests that were queued again, to be tried once more.",
        _stat("frontier/queue/retried"),
    ),
    NodeMetric(
        "frontier_urls_seen_total",
        "URLs that were seen before, by the tier that said so.",
        lambda reading: numbers(reading.report.get("seen"), TIERS),
        ("tier",),
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
        "frontier_links_trapped_total",
        "Links that were left out because they look like a trap, by kind.",
        _stats(TRAPS),
        ("trap",),
    ),
    NodeMetric(
        "frontier_urls_excluded_total",
        "Links, and queued requests, that an operator has excluded.",
        _stat("frontier/queue/excluded"),
    ),
    NodeMetric(
        "frontier_requests_local_total",
        "Requests that cannot be stored and are fetched by this process alone.",
        _figure("local"),
    ),
    NodeMetric(
        "frontier_requests_reclaimed_total",
        "Requests of dead nodes that were put back.",
        _figure("reclaimed"),
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
        "frontier_backoff_given_up_total",
        "Requests that were not sent because their host was left alone too often.",
        _figure("given_up"),
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
        "frontier_archive_originals_total",
        "Payloads that may become revisits and were stored in full.",
        _archive("originals"),
    ),
    NodeMetric(
        "frontier_archive_original_bytes_total",
        "Their bytes, before compression.",
        _archive("original_bytes"),
    ),
    NodeMetric(
        "frontier_archive_revisits_total",
        "Payloads that became revisits.",
        _archive("revisits"),
    ),
    NodeMetric(
        "frontier_archive_revisit_bytes_total",
        "Their bytes, before compression: what was not stored again.",
        _archive("revisit_bytes"),
    ),
    NodeMetric(
        "frontier_archive_written_bytes_total",
        "Bytes of the WARC files.",
        _archive("written_bytes"),
    ),
    NodeMetric(
        "frontier_archive_payloads_total",
        "Payloads that were looked up, by what was found.",
        _archives({"new": "new_payloads", **{name: name for name in RESULTS[1:]}}),
        ("result",),
    ),
    NodeMetric(
        "frontier_archive_payload_bytes_total",
        "Their bytes.",
        _archives({name: f"{name}_bytes" for name in RESULTS}),
        ("result",),
    ),
    NodeMetric(
        "frontier_archive_lookup_seconds_total",
        "Seconds that the writer waited for the index.",
        _archive("lookup_us", 1e6),
    ),
    NodeMetric(
        "frontier_archive_cdx_lookups_total",
        "Payloads that CDX servers were asked for, found there, or not answered.",
        _archives({"asked": "cdx_asked", "found": "cdx_found", "failed": "cdx_failed"}),
        ("result",),
    ),
    NodeMetric(
        "frontier_archive_cdx_seconds_total",
        "Seconds that the writer waited for these servers.",
        _archive("cdx_us", 1e6),
    ),
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
NODE = (*_OF_THE_NODE, *_FETCHED, *_QUEUE, *_HOSTS, *_ARCHIVE, *_SOURCES)
"""All of them, by topic, in the order of docs/metrics.md."""
