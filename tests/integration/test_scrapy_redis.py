"""A project made for scrapy-redis, to which nothing was added but one line."""

import json

import pytest
from conftest import after, until

from frontier.status.snapshot import snapshot
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


class OrderSpider(scrapy.Spider):
    name = "order"
    custom_settings = {"CONCURRENT_REQUESTS": 1, "SCHEDULER_FLUSH_ON_START": False}

    def parse(self, response):
        yield {"url": response.url}
        if response.url.endswith("/about"):
            # A node has two requests of this host at most: the others wait in the
            # store, all of them, as the first is answered only then.
            yield response.follow("/slow", priority=1000)
            yield response.follow("/empty", priority=900)
            for number, priority in ((0, 100), (1, 50), (2, 200), (3, 50)):
                yield response.follow(f"/post/{number}", priority=priority)
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


def pushed(cluster):
    return snapshot(cluster.store, "frontier", "order-1").queue.pushed


@pytest.mark.parametrize(
    ("queue", "order"),
    [
        ("PriorityQueue", [2, 0, 1, 3]),
        ("LifoQueue", [2, 0, 3, 1]),
    ],
)
def test_requests_come_in_the_order_of_the_queue(
    cluster, start, ask, serve, tmp_path, queue, order
):
    site = serve(urls=130, hosts=1, calendar_months=12, until=after(1))
    (tmp_path / "project" / "own.py").write_text(
        SPIDERS + f'    start_urls = ["{site.seeds[0]}about"]\n'
    )
    start(
        "node-1",
        spider="order",
        SCHEDULER_QUEUE_CLASS=f"scrapy_redis.queue.{queue}",
        CONCURRENT_REQUESTS_PER_DOMAIN="1",
        FRONTIER_SEEN_TIERS="set",
    )
    cluster.join()
    until(lambda: pushed(cluster) == 1 + 2 + 4, "all links in the store")
    site.go_on()
    cluster.finish()

    # The order of the requests; two items in a row may be scraped in the other one.
    urls = list(site.requests().fetched())
    assert [url.rpartition("/")[2] for url in urls[:3]] == ["about", "slow", "empty"]
    posts = [int(url[-1]) for url in urls[3:]]
    assert posts == order
