"""Follows feeds: fetches what is new in them, again and again, in rounds per site.

``scrapy crawl feeds -a feeds=feeds.toml``
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import scrapy

from frontier.feeds.answers import Answers
from frontier.feeds.sources import source_of
from frontier.session.session import one_message, session_of
from frontier.urls.traps import ON_FOR_SITE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import Self

    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.settings import BaseSettings

    from frontier.feeds.model import Sites


class FeedsSpider(scrapy.Spider):
    """One item per page that a feed led to; everything of a round is archived."""

    name = "feeds"
    feed_sites: Sites
    """Where the sites are configured; `frontier.feeds.rounds` reads it."""
    answers: Answers
    handle_httpstatus_list: ClassVar[list[int]] = [304, *range(400, 600)]
    """A feed that answers so is noted; redirects are followed as ever."""

    @classmethod
    def update_settings(cls, settings: BaseSettings) -> None:
        """Limit traps and floods, where neither project nor operator says how."""
        super().update_settings(settings)
        for name, limit in ON_FOR_SITE.items():
            if name not in settings:
                settings.set(name, limit, priority="spider")

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        """Build the spider, which reads the sites that ``-a feeds=`` names."""
        spider = super().from_crawler(crawler, *args, **kwargs)
        with one_message():
            given = kwargs.get("feeds") or session_of(crawler).config.feeds
            spider.feed_sites = source_of(str(given))
            spider.answers = Answers(crawler, spider.parse, spider.feed_failed)
        return spider

    async def start(self) -> AsyncIterator[Any]:
        """Nothing: rounds begin when sites are due."""
        nothing: tuple[Any, ...] = ()
        for each in nothing:
            yield each

    async def parse_feed(self, response: Response) -> AsyncIterator[Any]:
        """Yield what is new in a feed."""
        async for request in self.answers.of_feed(response):
            yield request

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        """Yield what the page embeds, and the page itself, if it is one."""
        async for request in self.answers.of_page(response):
            yield request
        if isinstance(response, scrapy.http.HtmlResponse) and response.status < 400:
            yield {"url": response.url, "status": response.status}

    async def feed_failed(self, failure: Any) -> None:
        """Note that a feed, or the page of an item, could not be fetched."""
        await self.answers.failed(failure.request, failure.value)
