"""A spider that ends itself: as in plain Scrapy, that is the end of the whole job."""

import contextlib
import json
import signal

import pytest
from conftest import HELD, says

from frontier.status.snapshot import snapshot
from tests.harness.project import scrapy_project
from tests.rawsite import RawSite, answer

SPIDERS = '''
import asyncio
from pathlib import Path

import scrapy
from scrapy.exceptions import CloseSpider
from scrapy.linkextractors import LinkExtractor


class DailySpider(scrapy.Spider):
    """Newest first; it stops at what it knows."""

    name = "daily"

    def __init__(self, url="", known="", **kwargs):
        super().__init__(**kwargs)
        self.start_urls, self.known = [url], Path(known)

    def parse(self, response):
        self.known.touch()
        known = {"0", *self.known.read_text().split()}
        for link in response.css("a.next"):
            yield response.follow(link)
        for number in response.css("li::text").getall():
            if number in known:
                raise CloseSpider("reached known")
            with self.known.open("a") as file:
                file.write(number + "\\n")
            yield {"number": number}


class EnoughSpider(scrapy.Spider):
    name = "enough"

    def __init__(self, seeds="", **kwargs):
        super().__init__(**kwargs)
        self.start_urls = seeds.split(",")

    def parse(self, response):
        for link in LinkExtractor().extract_links(response):
            yield response.follow(link)
        is_first = self.settings["FRONTIER_NODE_ID"] == "node-1"
        if is_first and not response.url.endswith("/"):
            raise CloseSpider("enough")


class StartSpider(scrapy.Spider):
    name = "start"
    whole = True

    async def start(self):
        yield scrapy.Request("data:,x")
        while self.whole != "True":
            await asyncio.sleep(0.01)

    def parse(self, response):
        self.logger.info("the page is parsed")
        if self.whole == "True":
            raise CloseSpider("done")


class SlowPipeline:
    async def close_spider(self):
        await asyncio.sleep(0.5)
'''
CONF = """
import os
ROBOTSTXT_OBEY = False
ADDONS = {} if os.environ.get("PLAIN") else {"frontier.addon.Addon": 100}
"""


@pytest.fixture
def project(tmp_path):
    return scrapy_project(tmp_path / "project", SPIDERS, CONF)


def look(cluster, crawl_id):
    return snapshot(cluster.store, "frontier", crawl_id)


class News(RawSite):
    """Numbers, the newest first, five a page."""

    def __init__(self):
        super().__init__({}, answer=self._send)
        self.newest = 0

    def _send(self, path, _):
        number = int(path.strip("/") or 1)
        last = self.newest - 5 * (number - 1)
        rows = "".join(f"<li>{n}</li>" for n in range(last, max(last - 5, -1), -1))
        link = f'<a class="next" href="/{number + 1}">next</a>' if last > 4 else ""
        return answer(f"<ul>{rows}</ul>{link}", "Content-Type: text/html")


def test_a_daily_job_that_stops_at_what_it_knows_has_the_items_of_plain_scrapy(
    cluster, project, tmp_path, monkeypatch
):
    def day(name):
        items = tmp_path / f"{name}-{site.newest}.jsonl"
        words = ["-a", f"url={site.url('/')}", "-a", f"known={tmp_path / name}"]
        words += ["-o", str(items)]
        with monkeypatch.context() as patch:
            if name == "plain":
                patch.setenv("PLAIN", "1")
            cluster.start(name, *words, spider="daily", cwd=project)
            cluster.finish(name)
        assert "Spider closed (reached known)" in cluster.text_of(name)
        return [json.loads(line)["number"] for line in items.read_text().splitlines()]

    with contextlib.closing(News()) as site:
        for site.newest, new in ((15, 15), (18, 3)):
            plain = day("plain")
            assert day("ours") == plain == [str(site.newest - n) for n in range(new)]
    for number in (1, 2):
        seen = look(cluster, f"daily-{number}")
        assert seen.state == "limit"
        assert "its spider has raised CloseSpider('reached known')" in seen.ended_at
    assert seen.queue.ready == 1
    left = "1 queued requests of daily-2 are not fetched"
    assert left in cluster.text_of("ours")


def node_1_closes(cluster):
    """For `Held.until`: the spider of the first node has raised, as its log says."""
    log = cluster.log_of("node-1")
    return lambda *_: log.exists() and "Closing spider (enough)" in log.read_text()


@pytest.mark.parametrize(
    "scope", ["crawl", pytest.param("node", marks=pytest.mark.long)]
)
def test_close_spider_on_one_node_ends_the_crawl_or_the_node_as_set(
    serve, cluster, project, scope
):
    nodes = ("node-1", "node-2", "node-3")
    site = {"urls": 260, "hosts": 12, "calendar_months": 6, "delay": HELD}
    server = serve(**site, nodes=nodes, until=node_1_closes(cluster), spared=["/"])
    words = ["-a", f"seeds={','.join(server.seeds)}"]
    for node in nodes:
        options = {"spider": "enough", "cwd": project, "FRONTIER_CLOSE_SPIDER": scope}
        cluster.start(node, *words, **options)
    cluster.share("enough-1")
    server.delay = 0
    for node in nodes if scope == "crawl" else nodes[:1]:
        says(cluster, "Closing spider (enough)", node)
    server.go_on()

    cluster.finish()
    seen = look(cluster, "enough-1")
    if scope == "node":
        assert seen.state == "finished"
        assert seen.queue.ready == 0
        return
    assert seen.state == "limit"
    assert seen.queue.ready > 0
    texts = [cluster.text_of(node) for node in nodes]
    assert all("Spider closed (enough)" in text for text in texts)
    left = f"{seen.queue.ready} queued requests of enough-1 are not fetched"
    assert sum(left in text for text in texts) == 1
    assert "CloseSpider('enough')" in cluster.ask("crawl", "status").stdout


def test_a_crawl_whose_start_requests_were_not_all_made_stays_open(cluster, project):
    options = {"spider": "start", "cwd": project, "FRONTIER_CLOSE_SPIDER": "node"}
    cluster.start(
        "node-1",
        "-a",
        "whole=False",
        **options,
        ITEM_PIPELINES='{"own.SlowPipeline": 1}',
    )
    says(cluster, "the page is parsed")
    cluster.nodes["node-1"].send_signal(signal.SIGTERM)
    cluster.finish()
    assert look(cluster, "start-1").state == "open"


def test_a_node_warns_that_nothing_is_left_in_the_crawl_that_it_joins(cluster, project):
    options = {"spider": "start", "cwd": project, "FRONTIER_CLOSE_SPIDER": "node"}
    cluster.start("node-1", "-a", "whole=True", **options, FRONTIER_KEEP_ALIVE="True")
    cluster.finish()
    assert look(cluster, "start-1").state == "open"

    cluster.start("node-2", "-a", "whole=True", **options)
    cluster.finish("node-2")
    line = "WARNING: the crawl start-1, which this node has joined, has nothing left"
    assert line in cluster.text_of("node-2")
    assert look(cluster, "start-1").state == "finished"
