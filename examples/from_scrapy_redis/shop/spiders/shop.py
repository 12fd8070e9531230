"""A spider that knows nothing of the frontier."""

import json
from pathlib import Path

import scrapy
from scrapy.linkextractors import LinkExtractor


class ShopSpider(scrapy.Spider):
    """Reads posts first, and says which link led to a page."""

    name = "shop"
    links = LinkExtractor()
    homes = json.loads(Path("site.json").read_text())["seeds"]

    async def start(self):
        """Yield the home pages of all hosts."""
        for url in self.homes:
            yield scrapy.Request(url)

    def parse(self, response, text=""):
        """Yield what the page is, and what it leads to."""
        yield {"url": response.url, "text": text}
        if isinstance(response, scrapy.http.HtmlResponse):
            for link in self.links.extract_links(response):
                yield scrapy.Request(
                    link.url,
                    priority=1 if "/post/" in link.url else 0,
                    cb_kwargs={"text": link.text.strip()},
                )
