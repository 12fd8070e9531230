"""scrapy-redis's start URLs, taken by the nodes of a crawl that runs."""

import json

import pytest
from conftest import until

from tests.harness.project import scrapy_project

SPIDER = """
import scrapy


class FedSpider(scrapy.Spider):
    name = "fed"
    start_urls = []
    custom_settings = {"ROBOTSTXT_OBEY": False}

    def parse(self, response):
        yield {
            "url": response.url,
            "method": response.request.method,
            "job": response.meta.get("job"),
        }
"""
OWN = """
import scrapy
from scrapy_redis.spiders import RedisSpider


class OwnSpider(RedisSpider):
    name = "fed"
    redis_key = "fed:start_urls"
    custom_settings = {"ROBOTSTXT_OBEY": False}

    def make_request_from_data(self, data):
        return scrapy.Request(data.decode()[1:], dont_filter=True)

    def parse(self, response):
        yield {"url": response.url, "method": response.request.method, "job": None}
"""
KEY = "fed:start_urls"
PROXY = '{"proxy": "http://127.0.0.1:1"}'


@pytest.fixture
def feed(cluster, serve, tmp_path):
    """Start nodes of a spider; return the addresses of a site's hosts."""

    def feed(nodes, spider=SPIDER, **settings):
        root = scrapy_project(tmp_path / "project", spider)
        feed.start = lambda node: cluster.start(
            node,
            *("-o", str(tmp_path / f"{node}.jsonl")),
            spider="fed",
            cwd=root,
            FRONTIER_KEEP_ALIVE="True",
            **settings,
        )
        for node in nodes:
            feed.start(node)
        feed.server = serve(urls=130, hosts=2, calendar_months=12)
        return [seed.rstrip("/") for seed in feed.server.seeds]

    return feed


@pytest.fixture
def put(cluster):
    return cluster.db


def fetched(feed):
    log = feed.server.requests()
    return sorted(entry.url for entry in log.entries) if log else []


def stop(cluster, *nodes):
    cluster.join(*nodes)
    for node in nodes:
        cluster.nodes[node].terminate()
    cluster.finish(*nodes)


@pytest.mark.parametrize("kind", ["list", "set", "zset"])
def test_entries_are_fetched_once_while_the_crawl_runs(cluster, feed, put, kind):
    settings = {"list": {}, "set": {"AS_SET": "1"}, "zset": {"AS_ZSET": "1"}}[kind]
    bases = feed(
        ["node-1", "node-2"],
        REDIS_START_URLS_KEY="%(name)s:start_urls",
        **{f"REDIS_START_URLS_{name}": value for name, value in settings.items()},
    )
    urls = [f"{base}/post/{n}" for base in bases for n in range(12)]
    entries = [*urls[2:], "nonsense"]
    entries.append(json.dumps({"url": urls[0], "meta": {"job": "7"}}))
    entries.append(json.dumps({"url": urls[1], "method": "post", "a": "b"}))
    entries += ["file:///etc/hostname", f'{{"url": "{urls[0]}", "meta": {PROXY}}}']
    for entry in entries:
        if kind == "zset":
            put("ZADD", KEY, 1, entry)
        else:
            put("LPUSH" if kind == "list" else "SADD", KEY, entry)
    until(lambda: len(fetched(feed)) >= len(urls), "the pages")
    until(lambda: not put("EXISTS", KEY), "the removal")
    stop(cluster, "node-1", "node-2")

    assert fetched(feed) == sorted(urls)
    text = cluster.text_of("node-1") + cluster.text_of("node-2")
    assert text.count("makes no request and is skipped: 'nonsense'") == 1
    assert text.count("its scheme 'file' is not one of FRONTIER_SCHEMES") == 1
    assert text.count("its meta proxy is not one of FRONTIER_STORED_META") == 1
    lines = [
        json.loads(line)
        for node in ("node-1", "node-2")
        if (path := cluster.directory / f"{node}.jsonl").exists()
        for line in path.read_text().splitlines()
    ]
    by_url = {line["url"]: line for line in lines}
    assert by_url[urls[0]]["job"] == "7"
    posted = [e.url for e in feed.server.requests().entries if e.method == "POST"]
    assert posted == [urls[1]]


@pytest.mark.chaos
def test_no_entry_is_lost_when_nodes_are_killed_while_they_take_them(
    cluster, feed, put
):
    bases = feed(["node-1"], REDIS_START_URLS_KEY=KEY, REDIS_START_URLS_BATCH_SIZE="10")
    urls = [f"{base}/post/{n}" for base in bases for n in range(60)]
    for url in urls:
        put("RPUSH", KEY, url)
    for number in range(1, 4):
        left = put("LLEN", KEY)
        until(lambda left=left: put("LLEN", KEY) < left or not left, "a batch")
        cluster.join(f"node-{number}")
        cluster.kill(f"node-{number}")
        cluster.do("node", "remove", f"node-{number}", "--force")
        feed.start(f"node-{number + 1}")
    until(lambda: set(urls) <= set(fetched(feed)), "the pages")
    stop(cluster, "node-4")

    assert put("LLEN", KEY) == 0


@pytest.mark.one_server("scrapy-redis's spider connects by itself, to no other")
def test_a_spider_of_scrapy_redis_makes_its_own_requests(cluster, feed, put):
    bases = feed(["node-1"], spider=OWN)
    put("RPUSH", KEY, f"+{bases[0]}/empty", f"+{bases[1]}/empty")
    until(lambda: len(fetched(feed)) >= 2, "the pages")
    until(lambda: not put("EXISTS", KEY), "the removal")
    stop(cluster, "node-1")

    assert fetched(feed) == sorted(f"{base}/empty" for base in bases)
