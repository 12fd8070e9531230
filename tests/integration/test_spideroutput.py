"""Links that are seen are dropped early, and nobody can tell."""

import contextlib
import json
import sys
from urllib.parse import urlsplit

import pytest
import warm

from tests.rawsite import RawSite, page

SCRIPT = """
import json, sys
from urllib.parse import urlsplit
import scrapy
from scrapy import signals
from scrapy.crawler import AsyncCrawlerProcess

base, kind, more = sys.argv[1:]
witnessed = []


class Witness:
    async def process_spider_output(self, response, result):
        async for made in result:
            witnessed.append(getattr(made, "url", None))
            yield made


class Links(scrapy.Spider):
    name = "links"
    allowed_domains = [urlsplit(base).hostname]

    def __init__(self):
        self.sources = []

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        if kind == "listener":
            crawler.signals.connect(spider.dropped, signals.request_dropped)
        return spider

    def dropped(self, request):
        witnessed.append(request.url)

    async def start(self):
        jars = self.settings.getint("JARS")
        for n in range(jars):
            meta = {"cookiejar": n}
            yield scrapy.Request(base, self.parse, meta=meta, dont_filter=True)
        if not jars:
            yield scrapy.Request(base, self.parse)

    def links(self, response):
        for link in response.css("a::attr(href)").getall():
            if not link.startswith("mailto:"):
                yield response.follow(link, self.parse_slowly)
        if "/article/" in response.url:
            yield scrapy.Request("http://elsewhere.example/")

    def parse(self, response):
        self.sources.append(response.url)
        if isinstance(response, scrapy.http.TextResponse):
            yield from self.links(response)

    async def parse_slowly(self, response):
        self.sources.append(response.url)
        if isinstance(response, scrapy.http.TextResponse):
            for request in self.links(response):
                yield request


settings = {
    "LOG_ENABLED": False, "COOKIES_ENABLED": False, "ROBOTSTXT_OBEY": False,
    "REMOTE_CONTROL_ENABLED": False, "TELNETCONSOLE_ENABLED": False,
    "DOWNLOAD_DELAY": 0, "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
    **json.loads(more),
}
if kind != "plain":
    settings["ADDONS"] = {"frontier.addon.Addon": 100}
if kind == "middleware":
    settings["SPIDER_MIDDLEWARES"] = {Witness: 500}
process = AsyncCrawlerProcess(settings)
crawler = process.create_crawler(Links)
process.crawl(crawler)
process.start()
names = ["request_depth_max", "dupefilter/filtered", "scheduler/enqueued",
    "response_received_count", "offsite/filtered", "request_depth_count/2"]
stats = {name: crawler.stats.get_value(name) for name in names}
print(json.dumps([stats, sorted(crawler.spider.sources), witnessed]))
"""


@pytest.fixture
def two():
    """The address of two pages, each with a link to the other."""
    site = RawSite({"/": page("/b"), "/b": page("/")})
    with contextlib.closing(site):
        yield site.url("/")


@pytest.fixture
def crawl(serve, tmp_path):
    server = serve(urls=90, hosts=1, calendar_months=3)

    def crawl(kind, base=server.seeds[0], **settings):
        settings |= {
            "FRONTIER_STORE_DIR": str(tmp_path / f"f-{kind}"),
            "FRONTIER_WARC_ENABLED": False,
        }
        if kind == "plain":
            settings = {k: v for k, v in settings.items() if "FRONTIER" not in k}
        script = tmp_path / "script.py"  # Scrapy reads the source of callbacks
        script.write_text(SCRIPT)
        words = [sys.executable, script, base, kind]
        done = warm.run(
            [*words, json.dumps(settings)], capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        return json.loads(done.stdout)

    return crawl


def test_the_stats_are_those_of_plain_scrapy(crawl):
    expected, pages, _ = crawl("plain", DEPTH_LIMIT=2)
    found, fetched, _ = crawl("frontier", DEPTH_LIMIT=2)

    assert fetched == pages
    assert expected["dupefilter/filtered"] > 80
    for stats in expected, found:  # it depends on the order in which pages come
        assert stats.pop("request_depth_max") >= 2
    assert found == expected


def test_a_seen_link_counts_as_deep_as_in_plain_scrapy(crawl, two):
    expected, _, _ = crawl("plain", two)

    assert crawl("frontier", two)[0] == expected
    assert expected["request_depth_max"] == 2


def test_request_dropped_signal_is_sent_for_every_filtered_request(crawl):
    stats, pages, dropped = crawl("listener")

    assert len(dropped) == stats["dupefilter/filtered"] > 100
    paths, fetched = ({urlsplit(url).path for url in some} for some in (dropped, pages))
    assert paths - fetched == {"/loop/a"}, "which redirects for ever"


def test_start_requests_to_one_url_are_not_counted_as_filtered(crawl, two):
    stats, _, dropped = crawl("listener", two, JARS=2)

    assert (stats["scheduler/enqueued"], stats["dupefilter/filtered"]) == (3, 2)
    assert sorted(dropped) == [two, f"{two}b"]


def test_a_middleware_of_the_project_sees_every_link(crawl):
    stats, _, links = crawl("middleware")

    assert len(links) > stats["dupefilter/filtered"] > 100


ITEMS = """
import asyncio, json, sys
from collections import Counter, defaultdict
import scrapy
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.exceptions import DropItem

base, with_frontier, more = sys.argv[1:]
begun, left = defaultdict(list), []
running, most = Counter(), Counter()


class Pipeline:

    @classmethod
    def from_crawler(cls, crawler):
        made = cls()
        made.crawler = crawler
        return made

    async def process_item(self, item):
        url = item["url"]
        begun[url].append(item["number"])
        running[url] += 1
        most[url] = max(most[url], running[url])
        for _ in range(5):
            await asyncio.sleep(0)
        running[url] -= 1
        known = [one.url for one in self.crawler.engine._slot.inprogress]
        left.append(url in known)
        if item["number"] == 3:
            raise DropItem("one of them")
        if item["number"] == 5:
            raise ZeroDivisionError
        return item


class Items(scrapy.Spider):
    name = "items"
    start_urls = [base]

    def parse(self, response):
        for number in range(20):
            yield {"url": response.url, "number": number}
            if number == 8:
                yield None
                yield response.follow("/b")
        if "b" in response.url.rpartition("/")[2]:
            raise ValueError("after its items")


settings = {
    "LOG_ENABLED": False, "ROBOTSTXT_OBEY": False, "CONCURRENT_ITEMS": 4,
    "REMOTE_CONTROL_ENABLED": False, "TELNETCONSOLE_ENABLED": False,
    "DOWNLOAD_DELAY": 0, "ITEM_PIPELINES": {Pipeline: 100},
}
if with_frontier == "yes":
    settings |= json.loads(more) | {"ADDONS": {"frontier.addon.Addon": 100}}
process = AsyncCrawlerProcess(settings)
crawler = process.create_crawler(Items)
process.crawl(crawler)
process.start()
names = ["item_scraped_count", "item_dropped_count", "response_received_count",
    "spider_exceptions/ValueError"]
stats = {name: crawler.stats.get_value(name) for name in names}
print(json.dumps([stats, begun, left, most]))
"""


def test_items_go_through_pipelines_as_in_plain_scrapy(two, tmp_path):
    script = tmp_path / "script.py"  # Scrapy reads the source of callbacks
    script.write_text(ITEMS)
    found = []
    for with_frontier in ("yes", "no"):
        more = {
            "FRONTIER_STORE_DIR": str(tmp_path / "store"),
            "FRONTIER_WARC_ENABLED": False,
        }
        words = [sys.executable, script, two, with_frontier, json.dumps(more)]
        done = warm.run(words, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        found.append(json.loads(done.stdout))

    assert found[0] == found[1]
    stats, begun, left, most = found[0]
    assert begun == {url: list(range(20)) for url in (two, f"{two}b")}
    assert left == [True] * 40, "its request is not done with before"
    assert most == {two: 4, f"{two}b": 4}
    assert stats["item_scraped_count"] == 36
    assert stats["item_dropped_count"] == 2
    assert stats["spider_exceptions/ValueError"] == 1
