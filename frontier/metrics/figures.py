"""The metrics of what nodes count: of one node, or of all nodes of a crawl."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from http import HTTPStatus

from frontier.metrics.exposition import Metric, Samples
from frontier.status.figures import ERROR_KINDS, Figures
from frontier.urls.traps import SETTINGS as TRAPS

OTHER = "other"
"""Stands for any value that is not among those that a label may have."""
CODES = frozenset(str(status.value) for status in HTTPStatus)
"""HTTP statuses that have a label of their own: those that are registered."""
TIERS = ("recent", "bloom", "set", "imported")
PAYLOADS = {"new": "new_payloads", "exact_url": "", "canonical_url": "", "digest": ""}
"""Results of a lookup, and the name of each one's figure if it is another."""
CDX = {name: f"cdx_{name}" for name in ("asked", "found", "failed")}


def _codes(figures: Figures) -> Samples:
    """Responses by status; unregistered ones are counted together."""
    found: Samples = {}
    for code, count in figures.statuses.items():
        label = (code if code in CODES else OTHER,)
        found[label] = found.get(label, 0) + count
    return found


def _each(counts: Mapping[str, int], names: Iterable[str]) -> Samples:
    """The counts of *names*, 0 where there is none."""
    return {(name,): counts.get(name, 0) for name in names}


def _archive(figures: Figures, names: Mapping[str, str], end: str = "") -> Samples:
    """Some counts of the archive, by the value of a label."""
    had = asdict(figures.archive)
    return {(label,): had[f"{name or label}{end}"] for label, name in names.items()}


_ROWS = (
    (
        "pages_total",
        "pages",
        "Responses that were not redirects, those for robots.txt included.",
    ),
    (
        "requests_total",
        "requests",
        "Requests that were sent, redirects and retries included.",
    ),
    (
        "response_bytes_total",
        "bytes",
        "Bytes of responses, as they came over the network.",
    ),
    ("items_total", "items", "Items that spiders have made."),
    (
        "requests_in_flight",
        "in_flight",
        "Requests that are being fetched or parsed.",
    ),
    (
        "requests_forbidden_total",
        "forbidden",
        "Requests that robots.txt does not allow, and that were not sent.",
    ),
    (
        "requests_refused_total",
        "refused",
        "Requests not sent: out of scope, excluded, or to addresses not allowed.",
    ),
    (
        "inbox_requests",
        "inbox",
        "Requests that are reserved on the node and not started.",
    ),
    ("urls_new_total", "new", "URLs that were new and therefore queued."),
    (
        "urls_excluded_total",
        "excluded",
        "Links, and queued requests, that an operator has excluded.",
    ),
    (
        "requests_local_total",
        "local",
        "Requests that cannot be stored and are fetched by this process alone.",
    ),
    (
        "requests_reclaimed_total",
        "reclaimed",
        "Reservations that were put back, as no node had them any more.",
    ),
    (
        "backoff_given_up_total",
        "given_up",
        "Requests that were not sent because their host was left alone too often.",
    ),
    (
        "archive_originals_total",
        "archive.originals",
        "Payloads that may become revisits and were stored in full.",
    ),
    (
        "archive_original_bytes_total",
        "archive.original_bytes",
        "Bytes of payloads that were stored in full, before compression.",
    ),
    (
        "archive_revisits_total",
        "archive.revisits",
        "Payloads that became revisits.",
    ),
    (
        "archive_revisit_bytes_total",
        "archive.revisit_bytes",
        "Bytes of payloads that were not stored again, before compression.",
    ),
    (
        "archive_written_bytes_total",
        "archive.written_bytes",
        "Bytes of the WARC files.",
    ),
)
_LABELED = (
    Metric[Figures](
        "responses_total",
        "Responses by HTTP status; those that are not registered are `other`.",
        _codes,
        ("code",),
    ),
    Metric[Figures](
        "errors_total",
        "Requests without an answer, and answers 429 and 5xx, by kind; each try "
        "counts.",
        lambda f: _each(f.error_kinds, ERROR_KINDS),
        ("kind",),
    ),
    Metric[Figures](
        "urls_seen_total",
        "URLs that were seen before, by the tier that said so.",
        lambda f: _each(asdict(f.seen), TIERS),
        ("tier",),
    ),
    Metric[Figures](
        "links_trapped_total",
        "Links that were left out because they look like a trap, by kind.",
        lambda f: _each(f.traps, TRAPS),
        ("trap",),
    ),
    Metric[Figures](
        "archive_payloads_total",
        "Payloads that were looked up, by what was found.",
        lambda f: _archive(f, PAYLOADS),
        ("result",),
    ),
    Metric[Figures](
        "archive_payload_bytes_total",
        "Their bytes.",
        lambda f: _archive(f, {**PAYLOADS, "new": ""}, "_bytes"),
        ("result",),
    ),
    Metric[Figures](
        "archive_lookup_seconds_total",
        "Seconds that the writer waited for the index.",
        lambda f: f.archive.lookup_us / 1e6,
    ),
    Metric[Figures](
        "archive_cdx_lookups_total",
        "Payloads that CDX servers were asked for, found there, or not answered.",
        lambda f: _archive(f, CDX),
        ("result",),
    ),
    Metric[Figures](
        "archive_cdx_seconds_total",
        "Seconds that the writer waited for CDX servers.",
        lambda f: f.archive.cdx_us / 1e6,
    ),
)
FIGURES = (*(Metric[Figures](n, about, of) for n, of, about in _ROWS), *_LABELED)
"""Their names come after ``frontier_`` for a node, ``frontier_crawl_`` for a crawl."""
