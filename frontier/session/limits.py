"""Scrapy's limits, and ours, as those of the whole crawl.

``CLOSESPIDER_PAGECOUNT``, ``_ITEMCOUNT``, ``_ERRORCOUNT`` and ``_TIMEOUT`` end a
spider of plain Scrapy. Here they end the crawl, on all its nodes: what Scrapy's
`CloseSpider` counts is counted for all nodes together (`frontier.node.crawl_limits`).
Scrapy's extension goes on to count on each node, which finds the same or less.
``CLOSESPIDER_PAGECOUNT_NO_ITEM`` and ``_TIMEOUT_NO_ITEM`` stay what they are: about
one node, which leaves; the crawl stays open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.downloadermiddlewares.stats import get_header_size, get_status_size

from frontier.errors import ConfigurationError
from frontier.node.crawl_limits import LIMITS, TIME, Limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.settings import BaseSettings

    from frontier.node.crawl_limits import Spending
    from frontier.node.host_quotas import Quotas
    from frontier.queue.reserve import Reservation
    from frontier.settings.config import Config


def limits_of(settings: BaseSettings, config: Config) -> Limits:
    """The limits of the crawl in *settings* and *config*.

    Raises:
        ConfigurationError: One of Scrapy's is not a number.
    """
    found = {}
    for name in ("pages", "items", "errors"):
        found[name] = int(_number(settings.getint, LIMITS[name].setting))
    seconds = _number(settings.getfloat, LIMITS[TIME].setting)
    return Limits(**found, bytes=config.crawl_max_bytes, seconds=seconds)


def size_of(response: Response) -> int:
    """The bytes of *response* as it came, as Scrapy's stats count them."""
    head = get_header_size(response.headers) + get_status_size(response.status) + 4
    return len(response.body) + head


def _number(get: Callable[[str], float], name: str) -> float:
    try:
        return max(0, get(name))
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{name}: {error}") from None


class Charged:
    """Has the quotas of hosts count what one crawler's requests bring."""

    def __init__(
        self,
        crawler: Crawler,
        quotas: Quotas,
        reservation_of: Callable[[Request], Reservation | None],
    ) -> None:
        self._quotas = quotas
        self._reservation_of = reservation_of
        crawler.signals.connect(self.page, signal=signals.response_received)
        crawler.signals.connect(self.bytes, signal=signals.response_downloaded)

    def page(self, request: Request) -> None:
        """A response has come that is no redirect."""
        reservation = self._reservation_of(request)
        if reservation is not None:
            self._quotas.add(reservation, 1, 0)

    def bytes(self, response: Response, request: Request) -> None:
        """A response has come over the network."""
        reservation = self._reservation_of(request)
        if reservation is not None:
            self._quotas.add(reservation, 0, size_of(response))


class Counted:
    """Has *spending* count what one crawler does."""

    def __init__(self, crawler: Crawler, spending: Spending) -> None:
        self._spending = spending
        for handler, signal in (
            (self.page, signals.response_received),
            (self.item, signals.item_scraped),
            (self.error, signals.spider_error),
            (self.bytes, signals.response_downloaded),
        ):
            crawler.signals.connect(handler, signal=signal)

    def page(self) -> None:
        """A response has come that is not a redirect."""
        self._spending.add("pages")

    def item(self) -> None:
        """An item has passed all pipelines."""
        self._spending.add("items")

    def error(self) -> None:
        """A callback has raised an exception."""
        self._spending.add("errors")

    def bytes(self, response: Response) -> None:
        """A response has come over the network."""
        self._spending.add("bytes", size_of(response))

    def closing(self, reason: str) -> None:
        """Note that Scrapy has found on this node that a limit is reached."""
        for name, limit in LIMITS.items():
            if reason == limit.reason:
                self._spending.reach(name)
