"""Counts what became of requests, by kind of error and by host, in bounded memory.

What always holds:

1.  Every error is counted once under one of `ERROR_KINDS`; their sum is what the report
    calls errors.
2.  At most `MOST` hosts are known for their errors and times. If more come, the host
    whose last request is longest ago is forgotten.
3.  A report has at most `SHOWN` hosts, and at most `MAX_NAMES` characters of their
    names.

The second half counts for Scrapy's limits, and ours, as those of the whole crawl.

``CLOSESPIDER_PAGECOUNT``, ``_ITEMCOUNT``, ``_ERRORCOUNT`` and ``_TIMEOUT`` end a
spider of plain Scrapy. Here they end the crawl, on all its nodes: what Scrapy's
`CloseSpider` counts is counted for all nodes together (`frontier.node.crawl_limits`).
Scrapy's extension still counts on each node, and finds the same or less.
``CLOSESPIDER_PAGECOUNT_NO_ITEM`` and ``_TIMEOUT_NO_ITEM`` keep their meaning: they are
about one node, which leaves while the crawl stays open.
"""

from __future__ import annotations

import heapq
import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scrapy import Request, signals
from scrapy.downloadermiddlewares.stats import get_header_size, get_status_size

from frontier.node.crawl_limits import Limits, Spending
from frontier.node.ends import LIMITS, TIME
from frontier.queue.due import META as DUE_META
from frontier.status.figures import ERROR_KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.settings import BaseSettings

    from frontier.node.hosts import Hosts
    from frontier.queue.reserve import Reservation
    from frontier.settings.config import Config

logger = logging.getLogger("frontier.scheduler")

MOST = 2_000
"""Most hosts that are known."""
SHOWN = 50
"""Most hosts that a report names for their errors, or for their times."""
MAX_NAMES = 6_000
"""Most characters that the names of either have in a report."""
MAX_HOST = 255


@dataclass(slots=True)
class _Host:
    kinds: Counter[str] = field(default_factory=Counter)
    """Its errors."""
    requests: int = 0
    seconds: float = 0.0
    """What its requests took together."""


class Outcomes:
    """Counts errors, and how long hosts took, on one node."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        """How many errors there were of each kind."""
        self._hosts: dict[str, _Host] = {}
        """The one that was asked last comes last."""

    def failed(self, kind: str, host: str) -> None:
        """Count an error of *kind* of *host*, which is empty if it is of none."""
        self.kinds[kind] += 1
        if host:
            self._of(host).kinds[kind] += 1

    def took(self, host: str, seconds: float) -> None:
        """Note that a request to *host* took *seconds*, answered or not."""
        known = self._of(host)
        known.requests += 1
        known.seconds += max(0.0, seconds)

    def _of(self, host: str) -> _Host:
        host = host[:MAX_HOST]
        known = self._hosts.pop(host) if host in self._hosts else _Host()
        self._hosts[host] = known
        if len(self._hosts) > MOST:
            del self._hosts[next(iter(self._hosts))]
        return known

    @property
    def errors(self) -> int:
        """How many errors there were."""
        return self.kinds.total()

    def report(self) -> dict[str, Any]:
        """What a node reports about this."""
        errors = {h: one.kinds.total() for h, one in self._hosts.items() if one.kinds}
        times = {
            host: one.seconds / one.requests
            for host, one in self._hosts.items()
            if one.requests
        }
        return {
            "error_kinds": {kind: self.kinds[kind] for kind in ERROR_KINDS},
            "host_errors": {h: dict(self._hosts[h].kinds) for h in _most(errors)},
            "host_seconds": {
                host: [self._hosts[host].requests, round(self._hosts[host].seconds, 3)]
                for host in _most(times)
            },
        }


def _most(figures: Mapping[str, float]) -> list[str]:
    """The hosts with the largest of *figures*, as many as a report may name."""
    most, room = [], MAX_NAMES
    for host in heapq.nlargest(SHOWN, figures, key=lambda host: (figures[host], host)):
        room -= len(host)
        if room < 0:
            break
        most.append(host)
    return most


def limits_of(settings: BaseSettings, config: Config) -> Limits:
    """The limits of the crawl in *settings* and *config*."""
    found = {}
    for name in ("pages", "items", "errors"):
        found[name] = max(0, settings.getint(LIMITS[name].setting))
    seconds = max(0.0, settings.getfloat(LIMITS[TIME].setting))
    return Limits(**found, bytes=config.crawl_max_bytes, seconds=seconds)


def size_of(response: Response) -> int:
    """The bytes of *response* as it came, as Scrapy's stats count them."""
    head = get_header_size(response.headers) + get_status_size(response.status) + 4
    return getattr(response, "archived_bytes", len(response.body)) + head


class Counts:
    """Counts what one crawler does, for the crawl's limits and the hosts' quotas."""

    def __init__(
        self,
        crawler: Crawler,
        spending: Spending,
        hosts: Hosts,
        reservation_of: Callable[[Request], Reservation | None],
    ) -> None:
        self._spending = spending
        self._hosts = hosts
        self._reservation_of = reservation_of
        for handler, signal in (
            (self.page, signals.response_received),
            (self.item, signals.item_scraped),
            (self.error, signals.spider_error),
            (self.bytes, signals.response_downloaded),
        ):
            crawler.signals.connect(handler, signal=signal)

    def page(self, request: Request) -> None:
        """Count a response that is not a redirect."""
        self._spending.add("pages")
        self._charge(request, 1, 0)

    def item(self) -> None:
        """Count an item that has passed all pipelines."""
        self._spending.add("items")

    def error(self) -> None:
        """Count an exception that a callback has raised."""
        self._spending.add("errors")

    def bytes(self, response: Response, request: Request) -> None:
        """Count the bytes of a response that has come over the network."""
        size = size_of(response)
        self._spending.add("bytes", size)
        self._charge(request, 0, size)

    def _charge(self, request: Request, pages: int, size: int) -> None:
        reservation = self._reservation_of(request)
        if self._hosts.has_quotas and reservation is not None:
            self._hosts.add(reservation, pages, size)

    def closing(self, reason: str) -> None:
        """Note that a limit is reached, if Scrapy closes this node for *reason*."""
        for name, limit in LIMITS.items():
            if reason == limit.reason:
                self._spending.reach(name)


class RequestStats:
    """Keeps counts for the stats of *crawler*, as counting in those is slow."""

    def __init__(self, crawler: Crawler) -> None:
        self._settings = crawler.settings
        self._stats = crawler.stats
        self._logs_dropped = logger.isEnabledFor(logging.DEBUG)
        self._told_due = False
        self.counts: Counter[str] = Counter()
        """What was counted since the last `publish`, by the name of the stat."""

    def filtered(self, request: Request) -> None:
        """Count *request* as one that was seen before."""
        self.counts["dupefilter/filtered"] += 1
        if self._logs_dropped:
            self._log_dropped(request)

    def _log_dropped(self, request: Request) -> None:
        """Log as Scrapy does: the first, or all if ``DUPEFILTER_DEBUG`` is set."""
        more = ""
        if not self._settings.getbool("DUPEFILTER_DEBUG"):
            more = " (no more will be shown; DUPEFILTER_DEBUG shows all)"
            self._logs_dropped = False
        logger.debug("Filtered a request that was seen: %s%s", request, more)

    def refuse_due(self, request: Request, error: ValueError) -> None:
        """Count *request* as one whose due time cannot be used; log the first."""
        self.counts["frontier/queue/due_refused"] += 1
        if not self._told_due:
            self._told_due = True
            logger.error(
                "%s is fetched at once: its meta[%r] %s (shown once; the stat "
                "frontier/queue/due_refused counts them)",
                request.url[:200],
                DUE_META,
                error,
            )

    def publish(self, refused: int) -> None:
        """Add what was counted to the stats; *refused* are the rules' refusals."""
        for name, count in self.counts.items():
            if count:
                self._stats.inc_value(name, count)
        self.counts.clear()
        if refused:
            self._stats.set_value("frontier/canon/refused", refused)
