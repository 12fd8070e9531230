"""What `spiders.site` does, as a plain spider of scrapy-redis."""

import scrapy

from frontier.download.pages import links_of
from frontier.seeds.read import read_seeds
from frontier.urls.scope import Scope


class PeerSpider(scrapy.Spider):
    """Follows links and requisites on the hosts of *seeds*."""

    name = "peer"
    custom_settings = {  # noqa: RUF012 (Scrapy's own way)
        "ADDONS": {},
        "ITEM_PIPELINES": {},
        "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
        "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
    }

    def __init__(self, seeds="", **kwargs):
        super().__init__(**kwargs)
        self.seeds = read_seeds(seeds)
        self.scope = Scope("host", self.seeds)

    async def start(self):
        """Yield the seeds, which the first node has and all others have seen."""
        for url in self.seeds:
            yield scrapy.Request(url)

    def parse(self, response):
        """Yield what the page leads to."""
        for url in links_of(response):
            if self.scope.allows(url):
                yield response.follow(url)
