"""Follows links and does little else: what is measured is how pages are shared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import scrapy
from typing_extensions import override

from frontier.download.pages import links_of
from frontier.seeds.read import read_seeds
from frontier.urls.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.http import Response


class LinksSpider(scrapy.Spider):
    """Follows all links and requisites from *seeds*."""

    name = "links"

    def __init__(self, seeds: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.start_urls = read_seeds(seeds)
        self.scope = Scope("host", self.start_urls)

    @override
    def parse(self, response: Response) -> Iterator[Any]:
        """Yield what the page leads to."""
        for url in links_of(response):
            if self.scope.allows(url):
                yield scrapy.Request(url)
