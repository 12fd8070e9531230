"""Archives sites: follows links and page requisites from seeds, within a scope.

``scrapy crawl site -a seeds=URL|FILE [-a scope=host|domain|prefix|all]``
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import scrapy

from frontier.download.pages import Document
from frontier.seeds.read import read_seeds
from frontier.session.session import one_message
from frontier.urls.scope import Scope
from frontier.urls.traps import ON_FOR_SITE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy.http import Response
    from scrapy.settings import BaseSettings


class SiteSpider(scrapy.Spider):
    """One item per HTML page; everything in scope is fetched and archived."""

    name = "site"

    def __init__(self, seeds: str = "", scope: str = "host", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with one_message():
            self.start_urls = read_seeds(seeds)
            self.scope = Scope(scope, self.start_urls)

    @classmethod
    def update_settings(cls, settings: BaseSettings) -> None:
        """Limit traps and floods, where neither project nor operator says how."""
        super().update_settings(settings)
        for name, limit in ON_FOR_SITE.items():
            if name not in settings:
                settings.set(name, limit, priority="spider")

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        """Yield what the page leads to, and the page itself, if it is one."""
        document = Document(self.crawler, response)
        async for url in document.links():
            if self.scope.allows(url):
                yield response.follow(url)
        if isinstance(response, scrapy.http.HtmlResponse):
            title = document.title
            yield {"url": response.url, "status": response.status, "title": title}
