"""robots.txt for all: Scrapy's middleware without its fault under load.

Scrapy 2.19 lets every request but the first through, unchecked, that waits for
a robots.txt which is still being fetched: awaiting a Deferred consumes its
result (`Deferred.asFuture`), so the second one to await it gets None, "no
rules". A node that takes over a busy host starts many requests at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.downloadermiddlewares.robotstxt import (
    RobotsTxtMiddleware as ScrapysRobotsTxtMiddleware,
)
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.httpobj import urlparse_cached
from twisted.internet.defer import Deferred

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.robotstxt import RobotParser


class RobotsTxtMiddleware(ScrapysRobotsTxtMiddleware):
    """Takes the place of Scrapy's, and does what its documentation says."""

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
