"""A crawl that begins with what an earlier one saw fetches its seeds, each once."""

from collections import Counter
from functools import partial

import pytest
from conftest import HELD

from tests.harness.project import scrapy_project

SPIDER = """
import asyncio

import scrapy


class StartSpider(scrapy.Spider):
    name = "start"
    custom_settings = {"ROBOTSTXT_OBEY": False, "COOKIES_ENABLED": False}

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.start_urls = crawler.settings.get("URLS", "").split(",")
        return spider

    async def start(self):
        for url in getattr(self, "urls", "").split(",") + self.start_urls:
            if not url:
                continue
            yield scrapy.Request(url, meta={"link": True})
            yield scrapy.Request(url)
            await asyncio.sleep(self.settings.getfloat("PAUSE", 0))

    def parse(self, response):
        if self.links and response.meta.get("link"):
            for url in self.links.split(","):
                yield scrapy.Request(url)
"""


@pytest.fixture
def project(tmp_path):
    return scrapy_project(tmp_path / "project", SPIDER)


@pytest.fixture
def frontier(cluster):
    """Run ``frontier seen`` on the cluster's store."""
    return partial(cluster.do, "seen")


def fetched(server, since=0):
    """What was fetched after the first *since* requests, but for robots.txt."""
    entries = server.requests().entries[since:]
    return Counter(e.url for e in entries if not e.url.endswith("/robots.txt"))


def test_nodes_whose_seeds_overlap_fetch_each_once_and_follow_its_redirect(
    serve, cluster, frontier, project, tmp_path
):
    server = serve(urls=130, hosts=2, calendar_months=6)
    one, other = (seed.rstrip("/") for seed in server.seeds)
    first = f"{one}/about,{one}/old,{other}/empty"
    links = f"{one}/about,{other}/empty,{one}/gzip"

    def start(node, urls, links="", **settings):
        chosen = {"URLS": urls, **settings}
        words = ("-a", f"links={links}")
        cluster.start(node, *words, spider="start", cwd=project, **chosen)

    start("a", first)
    cluster.finish()
    before = len(server.requests().entries)
    frontier("export", str(tmp_path / "one.seen"), cwd=project)
    frontier("import", str(tmp_path / "one.seen"), "--new", "two", cwd=project)
    chosen = {"FRONTIER_CRAWL_ID": "two"}
    server.delay = HELD
    # One that is started with fewer seeds has another list, and loads it too.
    start("b", first, links, **chosen)
    start("c", f"{one}/old,{other}/chunked,{other}/empty", links, **chosen)
    cluster.join("b", "c")
    server.delay = 0

    cluster.finish("b", "c")
    found = fetched(server, before)
    assert found.pop(f"{one}/about") == 2  # as a seed, and where /old leads
    seeds = [f"{one}/old", f"{other}/empty", f"{other}/chunked"]
    assert found == Counter([*seeds, f"{one}/gzip"])
