"""Archives sites: follows links and page requisites from seeds, within a scope.

``scrapy crawl site -a seeds=URL|FILE [-a scope=host|domain|prefix|all]
[-a sitemaps=1|URL]``
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import scrapy

from frontier.download.hops import SITEMAP
from frontier.download.pages import Document
from frontier.download.sitemaps import Sitemaps, sitemaps_of
from frontier.seeds.read import read_seeds
from frontier.session.session import one_message
from frontier.urls.scope import Scope
from frontier.urls.split import split
from frontier.urls.traps import ON_FOR_SITE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import Self

    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.settings import BaseSettings
    from twisted.python.failure import Failure


class SiteSpider(scrapy.Spider):
    """One item per HTML page; everything in scope is fetched and archived."""

    name = "site"
    seeds_argument: ClassVar[str] = "seeds"
    """The argument that is not compared by its name: the start URLs are its content."""
    reader: Sitemaps

    def __init__(
        self, seeds: str = "", scope: str = "host", sitemaps: str = "", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        with one_message():
            self.start_urls = read_seeds(seeds)
            self.scope = Scope(scope, self.start_urls)
            self.robots, self.sitemaps = sitemaps_of(sitemaps, self.start_urls)

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        """Build the spider, which reads sitemaps if ``-a sitemaps=`` says so."""
        spider = super().from_crawler(crawler, *args, **kwargs)
        if spider.robots or spider.sitemaps:
            spider.reader = Sitemaps(crawler)
        return spider

    @classmethod
    def update_settings(cls, settings: BaseSettings) -> None:
        """Limit traps and floods, where neither project nor operator says how."""
        super().update_settings(settings)
        for name, limit in ON_FOR_SITE.items():
            if name not in settings:
                settings.set(name, limit, priority="spider")

    async def start(self) -> AsyncIterator[Any]:
        """Yield the seeds, and where their sitemaps are named."""
        async for request in super().start():
            yield request
        for url in self.robots:
            yield scrapy.Request(
                url,
                callback=self.parse_robots,
                errback=self.sitemap_failed,
                meta={"dont_obey_robotstxt": True},  # RFC 9309, 2.2.2
            )
        for url in self.sitemaps:
            yield self._sitemap(url, [split(url).authority], 0)

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        """Yield what the page leads to, and the page itself, if it is one."""
        document = Document(self.crawler, response)
        async for url in document.links():
            if self.scope.allows(url):
                yield response.follow(url)
        if isinstance(response, scrapy.http.HtmlResponse):
            title = document.title
            yield {"url": response.url, "status": response.status, "title": title}

    async def parse_robots(self, response: Response) -> AsyncIterator[Any]:
        """Yield the sitemaps that a robots.txt names, which speak for its host."""
        for url in self.reader.of_robots(response):
            yield self._sitemap(url, [split(response.url).authority], 0)

    async def parse_sitemap(
        self, response: Response, hosts: list[str], level: int
    ) -> AsyncIterator[Any]:
        """Yield the pages and the sitemaps that a sitemap names."""
        async for found in self.reader.found(response, hosts, level):
            if found.is_sitemap:
                yield self._sitemap(found.url, hosts, level + 1)
            elif self.scope.allows(found.url):
                # A visit beside those of the schedule, if the page has changed.
                yield scrapy.Request(found.url, dont_filter=found.is_changed)

    def sitemap_failed(self, failure: Failure) -> None:
        """Say that a sitemap, or a robots.txt, could not be fetched."""
        request: scrapy.Request = failure.request  # type: ignore[attr-defined]
        self.reader.failed(request.url, failure.getErrorMessage())

    def _sitemap(self, url: str, hosts: list[str], level: int) -> scrapy.Request:
        return scrapy.Request(
            url,
            callback=self.parse_sitemap,
            errback=self.sitemap_failed,
            cb_kwargs={"hosts": hosts, "level": level},
            meta={SITEMAP: True},
        )
