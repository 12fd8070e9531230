"""A crawl of scrapy-redis that is stopped in its middle, and goes on with nodes."""

import json
from collections import Counter

import pytest
from conftest import PARTITIONS, after, until

from frontier.status.snapshot import snapshot
from tests.harness.project import scrapy_project

pytestmark = pytest.mark.one_server("scrapy-redis itself connects to one server")

SETTINGS = """
ROBOTSTXT_OBEY = False
SCHEDULER = "scrapy_redis.scheduler.Scheduler"
DUPEFILTER_CLASS = "scrapy_redis.dupefilter.RFPDupeFilter"
SCHEDULER_PERSIST = True
FRONTIER_ALLOW_ADDRESSES = "loopback"
ITEM_PIPELINES = {"scrapy_redis.pipelines.RedisPipeline": 400}
"""
SPIDERS = """
import scrapy
from scrapy.linkextractors import LinkExtractor

links = LinkExtractor(
    tags=("a", "link", "img", "script"), attrs=("href", "src"), deny_extensions=()
)


class ShopSpider(scrapy.Spider):
    name = "shop"

    def __init__(self, seeds="", **kwargs):
        super().__init__(**kwargs)
        self.seeds = seeds.split()

    async def start(self):
        for url in self.seeds:
            yield scrapy.Request(url)

    def parse(self, response, came="start"):
        yield {"url": response.url, "by": "parse", "came": came}
        if isinstance(response, scrapy.http.HtmlResponse):
            yield from self.follow(response)

    def parse_post(self, response, came):
        item = {"url": response.url, "by": "parse_post", "came": came}
        yield {**item, "meta": response.meta["from"]}
        if isinstance(response, scrapy.http.HtmlResponse):
            yield from self.follow(response)

    def follow(self, response):
        for link in links.extract_links(response):
            url = str(link.url)
            if "/post/" in url:
                yield scrapy.Request(
                    url,
                    self.parse_post,
                    errback=self.failed,
                    priority=5,
                    meta={"from": ["a", 1, None]},
                    cb_kwargs={"came": "link"},
                )
            else:
                yield scrapy.Request(url, priority=-1, cb_kwargs={"came": "link"})

    def failed(self, failure):
        yield {"url": failure.request.url, "by": "failed", "came": "error"}
"""
OLD = {"FRONTIER_ENABLED": "False"}


@pytest.fixture
def project(cluster, own_server, tmp_path):
    cluster.url = own_server.url
    settings = f"{SETTINGS}FRONTIER_PARTITIONS = {PARTITIONS}\n"
    return scrapy_project(tmp_path / "project", SPIDERS, settings)


@pytest.fixture
def ask(cluster):
    return cluster.db


@pytest.fixture
def migrate(cluster, project):
    def migrate(*words, spider="shop"):
        words = ("migrate", "scrapy-redis", "--spider", spider, *words, "--json")
        done = cluster.ask(*words, cwd=project)
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout), done.stderr

    return migrate


def items(ask, spider="shop"):
    return [json.loads(one) for one in ask("LRANGE", f"{spider}:items", 0, -1)]


@pytest.mark.long
def test_a_crawl_of_scrapy_redis_goes_on_with_two_nodes(
    cluster, project, migrate, ask, serve
):
    """Its queue is that of priorities; `tests/cli/test_migrate.py` has lists."""
    site = serve(urls=130, hosts=3, calendar_months=12, until=after(50))
    arguments = ["-a", f"seeds={' '.join(site.seeds)}"]
    chosen = {"SCHEDULER_QUEUE_CLASS": "scrapy_redis.queue.PriorityQueue"}
    old = cluster.start("old", *arguments, spider="shop", cwd=project, **OLD, **chosen)
    until(lambda: len(site.holds) and len(items(ask)) > 20, "its middle")
    old.terminate()
    line = "Closing spider (shutdown)"
    until(lambda: line in cluster.text_of("old"), "its end")
    site.go_on()
    assert old.wait() == 0
    finished = set(site.requests().fetched())
    waiting = ask("ZCARD", "shop:requests")
    assert waiting > 10

    code, said, _ = migrate()
    assert (code, said["crawl_id"]) == (0, "shop-1")
    assert said["queue"]["source"] == said["queue"]["queued"] == waiting
    assert ask("ZCARD", "shop:requests") == waiting
    filtered = ask("SCARD", "shop:dupefilter")
    assert said["dupefilter"]["imported"] == said["dupefilter"]["source"] == filtered
    code, again, _ = migrate()
    assert (code, again["queue"]["seen_already"]) == (0, waiting)
    assert again["dupefilter"]["added"] == 0
    assert ask("SCARD", "shop:dupefilter") == filtered

    for node in ("node-1", "node-2"):
        cluster.start(node, *arguments, spider="shop", cwd=project)
    cluster.finish("node-1", "node-2")

    fetched = Counter(site.requests().fetched())
    robots = {f"{seed}robots.txt" for seed in site.seeds}
    assert not site.requests().missing(site.expected - robots)
    assert {url: n for url, n in fetched.items() if n > 1 and url in finished} == {}
    assert snapshot(cluster.store, "frontier", "shop-1").totals.seen.imported > 10
    for item in items(ask):
        by_link = "/post/" in item["url"] and item["came"] == "link"
        assert item["by"] == ("parse_post" if by_link else "parse"), item
        assert item.get("meta") == (["a", 1, None] if by_link else None)
