"""robots.txt for all: Scrapy's middleware without its fault, with Crawl-delay.

Scrapy 2.19 lets every request but the first through, unchecked, that waits for
a robots.txt which is still being fetched: awaiting a Deferred consumes its
result (`Deferred.asFuture`), so the second one to await it gets None, "no
rules". A node that takes over a busy host starts many requests at once.

A Crawl-delay, which Scrapy leaves alone, becomes the least delay of the host's
downloader slot, without jitter. AutoThrottle may raise it and not lower it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.httpobj import urlparse_cached
from twisted.internet.defer import Deferred

from frontier.connection import connection_of
from frontier.scrapy_internals import BaseRobots, crawl_delay

if TYPE_CHECKING:
    from typing import Self

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.robotstxt import RobotParser

logger = logging.getLogger(__name__)


class RobotsTxtMiddleware(BaseRobots):
    """Takes the place of Scrapy's, and does what its documentation says."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._most = connection_of(crawler).config.crawl_delay_max
        self._floors: dict[str, float] = {}
        self._capped: set[str] = set()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build the middleware of *crawler*'s node."""
        return cls(crawler)

    def process_request_2(self, rp: RobotParser | None, request: Request) -> None:
        """Keep the Crawl-delay of *request*'s host.

        Raises:
            IgnoreRequest: The rules forbid it.
        """
        super().process_request_2(rp, request)
        if rp is None or self._most <= 0:
            return
        agent = self._robotstxt_useragent or request.headers.get(
            b"User-Agent", self._default_useragent
        )
        delay = crawl_delay(rp, agent or b"*")
        if delay is not None and delay > 0:
            self._keep(delay, request)

    def _keep(self, delay: float, request: Request) -> None:
        """Leave the slot of *request* alone for at least *delay* seconds each time."""
        downloader: Any = (
            self.crawler.engine.downloader if self.crawler.engine else None
        )
        key = downloader.get_slot_key(request)
        if delay > self._most:
            if key not in self._capped:
                self._capped.add(key)
                logger.warning(
                    "robots.txt of %s asks for a delay of %g s; "
                    "FRONTIER_CRAWL_DELAY_MAX allows %g s",
                    key,
                    delay,
                    self._most,
                )
            delay = self._most
        own = downloader.per_slot_settings.get(key, {})
        usual = own.get("delay", self.crawler.settings.getfloat("DOWNLOAD_DELAY"))
        if key in self._floors or delay <= usual:
            return
        if not self._floors:  # now, so that it comes after AutoThrottle's
            self.crawler.signals.connect(self._raise, signals.response_downloaded)
        self._floors[key] = delay
        self._stats.inc_value("frontier/robots/crawl_delays")
        # For a slot that does not exist yet, and for one that does.
        downloader.per_slot_settings[key] = {**own, "delay": delay, "jitter": 0.0}
        if key in downloader.slots:
            downloader.slots[key].jitter = 0.0
        self._raise(request)

    def _raise(self, request: Request) -> None:
        """Have the slot of *request* keep its least delay, whatever lowered it."""
        downloader: Any = (
            self.crawler.engine.downloader if self.crawler.engine else None
        )
        key = downloader.get_slot_key(request)
        slot, floor = downloader.slots.get(key), self._floors.get(key)
        if slot is not None and floor is not None and slot.delay < floor:
            slot.delay = floor

    async def robot_parser(self, request: Request) -> RobotParser | None:
        """The rules for *request*'s host, fetched once; ``None`` if there are none."""
        pending = self._parsers.get(urlparse_cached(request).netloc)
        if not isinstance(pending, Deferred):
            return await super().robot_parser(request)
        mine: Deferred[RobotParser | None] = Deferred()

        def hand_on(rules: RobotParser | None) -> RobotParser | None:
            mine.callback(rules)
            return rules

        pending.addCallback(hand_on)
        return await maybe_deferred_to_future(mine)
