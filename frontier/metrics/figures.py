"""The metrics of what nodes count: of one node, or of all nodes of a crawl."""

from __future__ import annotations

from dataclasses import asdict
from http import HTTPStatus
from typing import TYPE_CHECKING

from frontier.metrics.exposition import Metric, Samples
from frontier.status.figures import ERROR_KINDS, Figures
from frontier.urls.traps import SETTINGS as TRAPS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

OTHER = "other"
"""What is none of the values that a label may have."""
CODES = frozenset(str(status.value) for status in HTTPStatus)
"""HTTP statuses that have a label of their own: those that are registered."""
TIERS = ("recent", "bloom", "set", "imported")
HITS = ("exact_url", "canonical_url", "digest")
PAYLOADS = {"new": "new_payloads", **{name: name for name in HITS}}
"""Results of a lookup, and the figure of each."""
PAYLOAD_BYTES = {name: f"{name}_bytes" for name in ("new", *HITS)}
CDX = {"asked": "cdx_asked", "found": "cdx_found", "failed": "cdx_failed"}

_Figure = Metric[Figures]


def _codes(figures: Figures) -> Samples:
    """Responses by status; those that nobody has registered together."""
    found: Samples = {}
    for code, count in figures.statuses.items():
        label = (code if code in CODES else OTHER,)
        found[label] = found.get(label, 0) + count
    return found


def _each(counts: Mapping[str, int], names: Iterable[str]) -> Samples:
    """The counts of *names*, 0 where there is none."""
    return {(name,): counts.get(name, 0) for name in names}


def _archive(figures: Figures, names: Mapping[str, str]) -> Samples:
    """Some counts of the archive, by the value of a label."""
    archive = figures.archive
    return {(label,): getattr(archive, name) for label, name in names.items()}


FIGURES: tuple[_Figure, ...] = (
    _Figure(
        "pages_total",
        "Responses that were not redirects, those for robots.txt included.",
        lambda f: f.pages,
    ),
    _Figure(
        "requests_total",
        "Requests that were sent, redirects and retries included.",
        lambda f: f.requests,
    ),
    _Figure(
        "response_bytes_total",
        "Bytes of responses, as they came over the network.",
        lambda f: f.bytes,
    ),
    _Figure(
        "responses_total",
        "Responses by HTTP status; those that are not registered are `other`.",
        _codes,
        ("code",),
    ),
    _Figure("items_total", "Items that spiders have made.", lambda f: f.items),
    _Figure(
        "errors_total",
        "Requests without an answer, and answers 429 and 5xx, by kind; each try "
        "counts.",
        lambda f: _each(f.error_kinds, ERROR_KINDS),
        ("kind",),
    ),
    _Figure(
        "requests_in_flight",
        "Requests that are being fetched or parsed.",
        lambda f: f.in_flight,
    ),
    _Figure(
        "requests_forbidden_total",
        "Requests that robots.txt does not allow, and that were not sent.",
        lambda f: f.forbidden,
    ),
    _Figure(
        "inbox_requests",
        "Requests that are reserved on the node and not started.",
        lambda f: f.inbox,
    ),
    _Figure(
        "urls_new_total", "URLs that were new and therefore queued.", lambda f: f.new
    ),
    _Figure(
        "urls_seen_total",
        "URLs that were seen before, by the tier that said so.",
        lambda f: _each(asdict(f.seen), TIERS),
        ("tier",),
    ),
    _Figure(
        "links_trapped_total",
        "Links that were left out because they look like a trap, by kind.",
        lambda f: _each(f.traps, TRAPS),
        ("trap",),
    ),
    _Figure(
        "urls_excluded_total",
        "Links, and queued requests, that an operator has excluded.",
        lambda f: f.excluded,
    ),
    _Figure(
        "requests_local_total",
        "Requests that cannot be stored and are fetched by this process alone.",
        lambda f: f.local,
    ),
    _Figure(
        "requests_reclaimed_total",
        "Requests of dead nodes that were put back.",
        lambda f: f.reclaimed,
    ),
    _Figure(
        "backoff_given_up_total",
        "Requests that were not sent because their host was left alone too often.",
        lambda f: f.given_up,
    ),
    _Figure(
        "archive_originals_total",
        "Payloads that may become revisits and were stored in full.",
        lambda f: f.archive.originals,
    ),
    _Figure(
        "archive_original_bytes_total",
        "Their bytes, before compression.",
        lambda f: f.archive.original_bytes,
    ),
    _Figure(
        "archive_revisits_total",
        "Payloads that became revisits.",
        lambda f: f.archive.revisits,
    ),
    _Figure(
        "archive_revisit_bytes_total",
        "Their bytes, before compression: what was not stored again.",
        lambda f: f.archive.revisit_bytes,
    ),
    _Figure(
        "archive_written_bytes_total",
        "Bytes of the WARC files.",
        lambda f: f.archive.written_bytes,
    ),
    _Figure(
        "archive_payloads_total",
        "Payloads that were looked up, by what was found.",
        lambda f: _archive(f, PAYLOADS),
        ("result",),
    ),
    _Figure(
        "archive_payload_bytes_total",
        "Their bytes.",
        lambda f: _archive(f, PAYLOAD_BYTES),
        ("result",),
    ),
    _Figure(
        "archive_lookup_seconds_total",
        "Seconds that the writer waited for the index.",
        lambda f: f.archive.lookup_us / 1e6,
    ),
    _Figure(
        "archive_cdx_lookups_total",
        "Payloads that CDX servers were asked for, found there, or not answered.",
        lambda f: _archive(f, CDX),
        ("result",),
    ),
    _Figure(
        "archive_cdx_seconds_total",
        "Seconds that the writer waited for these servers.",
        lambda f: f.archive.cdx_us / 1e6,
    ),
)
"""Each with its name behind ``frontier_`` for a node, and ``frontier_crawl_``."""
