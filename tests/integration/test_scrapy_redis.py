"""A project made for scrapy-redis, to which nothing was added but one line."""

import json

import pytest
from conftest import after, until

from tests.harness.project import scrapy_project

pytestmark = pytest.mark.one_server("scrapy-redis itself connects to one server")

SETTINGS = """
ROBOTSTXT_OBEY = False
SCHEDULER = "scrapy_redis.scheduler.Scheduler"
DUPEFILTER_CLASS = "scrapy_redis.dupefilter.RFPDupeFilter"
SCHEDULER_PERSIST = True
SCHEDULER_QUEUE_CLASS = "scrapy_redis.queue.SpiderPriorityQueue"
SCHEDULER_FLUSH_ON_START = True
ITEM_PIPELINES = {"scrapy_redis.pipelines.RedisPipeline": 400}
"""
SPIDERS = """
import scrapy
from scrapy.linkextractors import LinkExtractor
from scrapy_redis.spiders import RedisSpider

links = LinkExtractor(
    tags=("a", "link", "img", "script"), attrs=("href", "src"), deny_extensions=()
)


class FedSpider(RedisSpider):
    name = "fed"

    def parse(self, response):
        yield {"url": response.url}
        if isinstance(response, scrapy.http.HtmlResponse):
            for link in links.extract_links(response):
                yield scrapy.Request(str(link.url), priority=-response.meta["depth"])
"""
KEY = "fed:start_urls"


@pytest.fixture
def start(cluster, own_server, tmp_path):
    root = scrapy_project(tmp_path / "project", SPIDERS, SETTINGS)
    cluster.url = own_server.url

    def start(node, *args, spider="fed", **settings):
        return cluster.start(node, *args, spider=spider, cwd=root, **settings)

    return start


@pytest.fixture
def ask(cluster):
    return cluster.db


def scraped(ask, spider="fed"):
    found = ask("LRANGE", f"{spider}:items", 0, -1)
    return [json.loads(item)["url"] for item in found]


def test_two_nodes_share_the_pages_and_go_on_after_a_stop(cluster, start, ask, serve):
    site = serve(urls=130, hosts=3, calendar_months=12, until=after(60))
    for seed in site.seeds:
        ask("LPUSH", KEY, json.dumps({"url": seed, "meta": {"job": 1}}))
    for node in ("node-1", "node-2"):
        start(node, DOWNLOAD_DELAY="0.05")
    cluster.join()
    until(lambda: len(scraped(ask)) > 20, "the first pages")
    for node in ("node-1", "node-2"):
        cluster.nodes[node].terminate()
    for node in ("node-1", "node-2"):
        line = "Closing spider (shutdown)"
        until(lambda n=node, line=line: line in cluster.text_of(n), "its end")
    site.go_on()
    cluster.finish()
    before = len(scraped(ask))
    assert ask("LLEN", KEY) == 0

    for node in ("node-3", "node-4"):
        start(node, MAX_IDLE_TIME_BEFORE_CLOSE="1")
    cluster.finish("node-3", "node-4")

    log = site.requests()
    # As with scrapy-redis: an entry is fetched and not marked, so a link back is new.
    assert set(log.repeated()) <= set(site.seeds)
    assert not log.missing(site.expected - {f"{s}robots.txt" for s in site.seeds})
    assert len(set(scraped(ask))) > before
    text = cluster.text_of("node-1")
    assert "on the server to `frontier migrate scrapy-redis`" in text
    assert "SCHEDULER_FLUSH_ON_START is ignored" in text
    assert "no start URL came for long enough" in cluster.text_of("node-3")
    assert "Traceback" not in "".join(map(cluster.text_of, cluster.nodes))
