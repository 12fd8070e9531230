"""A spider as any other."""

from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule


class ShopSpider(CrawlSpider):
    """Follows all links of the site and yields an item for each page."""

    name = "shop"
    start_urls = [f"http://127.0.0.{number}:8500/" for number in (2, 3, 4)]
    rules = [Rule(LinkExtractor(), callback="parse_page", follow=True)]

    def parse_page(self, response):
        """Yield what a page is called."""
        yield {"url": response.url, "title": response.css("title::text").get()}
