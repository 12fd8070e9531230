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
from twisted.internet.defer import Deferred

from frontier.connection import connection_of
from frontier.scrapy_internals import BaseRobots, Slots, crawl_delay

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
        self._counts: Any = crawler.stats
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
        delay = crawl_delay(rp, self.agent_of(request) or b"*")
        if delay is not None and delay > 0:
            self._keep(delay, request)

    def _keep(self, delay: float, request: Request) -> None:
        """Leave the slot of *request* alone for at least *delay* seconds each time."""
        slots = Slots(self.crawler)
        key = slots.key(request)
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
        usual = slots.chosen_delay(key)
        if usual is None:
            usual = self.crawler.settings.getfloat("DOWNLOAD_DELAY")
        if key in self._floors or delay <= usual:
            return
        if not self._floors:  # now, so that it comes after AutoThrottle's
            self.crawler.signals.connect(self._raise, signals.response_downloaded)
        self._floors[key] = delay
        self._counts.inc_value("frontier/robots/crawl_delays")
        slots.slow_down(key, delay)

    def _raise(self, request: Request) -> None:
        """Have the slot of *request* keep its least delay, whatever lowered it."""
        slots = Slots(self.crawler)
        key = slots.key(request)
        now, floor = slots.delay(key), self._floors.get(key)
        if now is not None and floor is not None and now < floor:
            slots.slow_down(key, floor)

    async def robot_parser(self, request: Request) -> RobotParser | None:
        """The rules for *request*'s host, fetched once; ``None`` if there are none."""
        pending = self.fetching(request)
        if pending is None:
            return await super().robot_parser(request)
        mine: Deferred[RobotParser | None] = Deferred()

        def hand_on(rules: RobotParser | None) -> RobotParser | None:
            mine.callback(rules)
            return rules

        pending.addCallback(hand_on)
        return await maybe_deferred_to_future(mine)
