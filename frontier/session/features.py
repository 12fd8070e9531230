"""The features that see Scrapy's requests: the one module that knows them all.

Those of a node are in `frontier.node.parts`. They are in the order in which the hooks
of `frontier.node.context.Part` are called, after those of the node. What few crawls
have is imported when one has it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from frontier.download.cookies import Cookies
from frontier.download.hops import Hops
from frontier.download.politeness import LeaseGuard
from frontier.requests.discovery import noting_of
from frontier.requests.left_out import LeftOut
from frontier.requests.spider_output import Marks, SpiderOutput
from frontier.scrapy_internals import stand_before_spider_errors
from frontier.session.live_settings import LiveSettings
from frontier.session.session import one_message, session_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request, Spider
    from scrapy.crawler import Crawler

    from frontier.queue.item import Codec
    from frontier.requests.recrawls import Recrawls

logger = logging.getLogger(__name__)


class SpiderFeatures:
    """The features that the crawl of one spider has besides the kernel."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._session = session_of(crawler)
        self._recrawls: Recrawls | None = None
        if self._session.config.recrawl != "off":
            from frontier.requests.recrawls import Recrawls

            with one_message():
                self._recrawls = Recrawls(crawler)

    def open(
        self, spider: Spider, codec: Codec, drop: Callable[[Request], bool] | None
    ) -> None:
        """Hang them on the node, which has entered its crawl.

        *drop*, if any, is asked of each link as soon as the spider has made it.
        """
        crawler, session, node = self._crawler, self._session, self._session.node
        if session.took_over:
            logger.warning(
                "the frontier takes over from scrapy-redis's scheduler and filter, and "
                "leaves what they have on the server to `frontier migrate scrapy-redis`"
            )
        session.component(LeftOut).open()
        node.parts.add(Cookies(node), LiveSettings(crawler))
        self._stand_between(drop)
        key = getattr(spider, "redis_key", None)
        if key := key or crawler.settings.get("REDIS_START_URLS_KEY"):
            from frontier.seeds.redis_feed import StartFeed

            StartFeed(crawler, node, spider, str(key))
        # Last, and only one of the two: what it does before an ack covers all others.
        sites: Any = getattr(spider, "feed_sites", None)
        if sites is not None:
            from frontier.feeds.rounds import Rounds

            session.component(Rounds).open(node, spider, sites)
            if self._recrawls is not None:
                logger.warning(
                    "FRONTIER_RECRAWL has no effect on a spider that follows feeds: "
                    "the waits of their sites say when its pages are fetched"
                )
        elif self._recrawls is not None:
            self._recrawls.open(codec)

    def _stand_between(self, drop: Callable[[Request], bool] | None) -> None:
        """Stand between the spider's code, the engine and the download handlers."""
        crawler, session = self._crawler, self._session
        session.component(LeaseGuard).open()
        stand_before_spider_errors(crawler, session.end_by_spider)
        watchdog, requests = session.node.watchdog, session.requests
        session.output = SpiderOutput(
            crawler,
            drop,
            noting_of(session),
            session.component(Hops).of_errback,
            None if watchdog is None else Marks(requests.ran, watchdog),
            requests.show_slot,
        )
