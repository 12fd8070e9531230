"""Items of a crawl of several nodes: none twice, one file of all, counts of all."""

import ast
import gzip
import json
import os
import re
import signal
from collections import Counter
from zlib import crc32

import pytest
from conftest import HELD, SHORT, says, until

from tests.embedded_store import server_in
from tests.harness.project import scrapy_project
from tests.rawsite import RawSite, page

SPIDERS = """
import asyncio
from pathlib import Path
from zlib import crc32

import scrapy
from scrapy.linkextractors import LinkExtractor


class PagesSpider(scrapy.Spider):
    name = "pages"

    def __init__(self, seeds="", held="", **kwargs):
        super().__init__(**kwargs)
        self.start_urls = seeds.split(",")
        self.held = held and Path(held)

    async def parse(self, response):
        for link in LinkExtractor().extract_links(response):
            yield response.follow(link)
        number = crc32(response.url.encode())
        yield {"id": number % 40, "url": response.url, "n": 0}
        yield {"id": number % 40, "url": response.url, "n": 1}
        yield {"id": f"page {number}", "url": response.url}
        node = self.settings["FRONTIER_NODE_ID"]
        if self.held and node == "node-1" and response.url not in self.start_urls:
            if not self.held.exists():
                self.held.write_text(response.url)
            if self.held.read_text() == response.url:
                await asyncio.sleep(3600)
        yield {"id": f"end of {number}", "url": response.url}

    def closed(self, reason):
        self.logger.info("at closed: %r", {
            name: value for name, value in self.crawler.stats.get_stats().items()
            if isinstance(value, int)
        })
"""
LOCAL = """
import scrapy


class LocalSpider(scrapy.Spider):
    name = "local"

    def __init__(self, start_urls="", **kwargs):
        super().__init__(start_urls=[start_urls], **kwargs)

    def parse(self, response):
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link, lambda answer: self.item_of(answer))

    def item_of(self, response):
        yield {"id": "all have it", "url": response.url}
        yield {"id": response.url, "url": response.url}
"""
CONF = """
ROBOTSTXT_OBEY = False
ITEM_PIPELINES = {"frontier.pipelines.UniqueItemsPipeline": 900}
FRONTIER_ITEM_ORIGIN_FIELD = "frontier_origin"
FEEDS = {
    "items-%(frontier_node)s.gz": {
        "format": "jsonlines",
        "postprocessing": ["scrapy.extensions.postprocessing.GzipPlugin"],
    },
    "items-%(frontier_node)s.jsonl": {"format": "jsonlines"},
}
"""
NODES = ("node-1", "node-2")


@pytest.fixture
def project(tmp_path):
    return scrapy_project(tmp_path / "project", SPIDERS, CONF)


def ids_of(urls):
    numbers = {url: crc32(url.encode()) for url in urls}
    common = {number % 40 for number in numbers.values()}
    own = {f"{what} {n}" for what in ("page", "end of") for n in numbers.values()}
    return common | own


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.one_server("it is the embedded one that stands still")
def test_items_of_two_nodes_a_kill_and_an_outage_are_joined_without_doubles(
    serve, cluster, project, tmp_path
):
    held = tmp_path / "held"
    feeds = {node: project / f"items-{node}.jsonl" for node in NODES}

    def is_in_the_file():
        page = held.exists() and held.read_text()
        file = feeds["node-1"]
        return page and file.exists() and page in file.read_text()

    def is_over(answered, node):
        """The other node is to have pages left then, however slow this one is."""
        others = sum(by == "node-2" for by, _ in answered)
        return (node == "node-2" and others >= 4) or is_in_the_file()

    site = {"urls": 150, "hosts": 4, "calendar_months": 0}
    server = serve(**site, delay=HELD, until=is_over, nodes=NODES)
    words = ["-a", f"seeds={','.join(server.seeds)}", "-a", f"held={held}"]
    for node in NODES:
        cluster.start(node, *words, spider="pages", cwd=project, **SHORT)
    cluster.share("pages-1")
    server.delay = 0
    until(is_in_the_file, "the first items of a page that is not done with")
    until(lambda: "node-2" in server.holds, "requests of the other")
    cluster.kill("node-1")
    packed = (project / "items-node-1.gz").read_bytes()
    assert gzip.decompress(packed) == feeds["node-1"].read_bytes()
    with feeds["node-1"].open("a") as file:
        file.write('{"id": "half')
    store = server_in(cluster.store_dir).pid
    os.kill(store, signal.SIGSTOP)
    server.go_on()  # pages come, whose items cannot be asked for
    until(lambda: "; waiting for it" in cluster.text_of("node-2"), "the outage")
    os.kill(store, signal.SIGCONT)
    cluster.finish("node-2")

    log = cluster.text_of("node-2")
    dropped = int(re.search(r"'frontier/items/doubles': (\d+)", log)[1])
    assert int(re.search(r"'item_dropped_count': (\d+)", log)[1]) == dropped > 0
    words = ["crawl", "items", "items-%(frontier_node)s.jsonl", "--out", "all.jsonl"]
    done = cluster.ask(*words, "--json", cwd=project)
    assert done.returncode == 6, done.stderr
    (cut,) = re.findall(r".*was cut", done.stderr)
    assert f"line {len(feeds['node-1'].read_text().splitlines())}" in cut
    told = json.loads(done.stdout)
    assert told["doubles"] > 0
    assert told["without_origin"] == 0

    items = lines(project / "all.jsonl")
    urls = {item["url"] for item in items}
    assert len(urls) > 100
    assert Counter(item["id"] for item in items) == Counter(ids_of(urls))
    feeds["node-1"].unlink()
    again = cluster.ask(*words, "--force", cwd=project)
    assert again.returncode == 6
    assert "items-node-1.jsonl is missing" in again.stderr


def test_items_of_requests_that_cannot_be_stored_are_of_their_own_pages(
    cluster, tmp_path
):
    """Each is a page: its items are no earlier delivery of another's, or crawl's.

    Items of the other crawl in the same file are left out if one is asked for.
    """
    project = scrapy_project(tmp_path / "project", LOCAL, CONF)
    site = RawSite({f"/{name}": page(text=name) for name in "abc"})
    site.pages["/"] = page("/a", "/b", "/c")
    for _ in range(2):  # the second crawl appends its items
        cluster.start(
            "node-1", "-a", f"start_urls={site.url('/')}", spider="local", cwd=project
        )
        cluster.finish("node-1")
    site.close()

    words = ["crawl", "items", "--out", "all.jsonl", "--force", "--json"]
    urls = {site.url(f"/{name}") for name in "abc"}
    for times, named in (
        (2, ["items-node-1.jsonl"]),
        (1, ["items-node-1.jsonl", "--crawl", "local-1"]),
        (1, ["items-%(frontier_node)s.jsonl"]),
    ):
        done = cluster.do(*words, *named, cwd=project)

        items = lines(project / "all.jsonl")
        ids = [item["id"] for item in items]
        assert sorted(ids) == sorted(["all have it", *urls] * times)
        assert json.loads(done.stdout)["of_other_crawls"] == (2 - times) * 4
    done = cluster.ask(*words, "items-node-1.jsonl", "--crawl", "lcoal-1", cwd=project)
    assert (done.returncode, lines(project / "all.jsonl")) == (2, items), done.stderr
    assert "none of 8 items is of the crawl lcoal-1" in done.stderr


def test_nodes_sharing_a_feed_are_warned_and_the_last_sums_the_counts(
    serve, cluster, project, monkeypatch
):
    server = serve(urls=90, hosts=4, calendar_months=0, delay=HELD, nodes=NODES)
    words = ["-a", f"seeds={','.join(server.seeds)}", "-O", "all.jsonl"]
    (project / "all.jsonl").write_text("before")
    with monkeypatch.context() as patch:
        patch.setenv("FRONTIER_JOIN_ONLY", "1")
        cluster.start("node-2", *words, spider="pages", cwd=project)
    until(lambda: "waits for one (FRONTIER_JOIN" in cluster.text_of("node-2"), "it")
    cluster.start("node-1", *words, spider="pages", cwd=project)
    cluster.share("pages-1")
    server.go_on()
    server.delay = 0
    cluster.finish()

    logs = {node: cluster.text_of(node) for node in NODES}
    assert sum("writes the feed all.jsonl, too" in log for log in logs.values()) == 1
    assert all("all.jsonl, which has 6 bytes, is" in log for log in logs.values())
    stats = [
        ast.literal_eval(re.search(r"at closed: (.*)", log)[1]) for log in logs.values()
    ]
    (last,) = [one for one in stats if "frontier/job/nodes" in one]
    assert last["frontier/job/nodes"] == 2
    for name in (
        "item_scraped_count",
        "downloader/request_count",
        "downloader/response_status_count/200",
        "scheduler/dequeued",
    ):
        each = [one[name] for one in stats]
        assert last[f"frontier/job/{name}"] == sum(each)
        assert all(each)


def test_a_node_waits_until_it_can_write_its_items_file_and_loses_none(
    cluster, project, tmp_path
):
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    out.touch()  # where a directory was to be
    items = out / "items.jsonl"

    def move(connection):
        until(lambda: items.exists() and items.stat().st_size, "items")
        items.rename(elsewhere)
        connection.sendall(page("/late"))

    site = RawSite({"/": page("/move"), "/move": move, "/late": page()})
    words = ["-a", f"seeds={site.url('/')}", "-o", str(items)]
    cluster.start("node-1", *words, cwd=project, spider="pages")
    says(cluster, "of a feed cannot be written: [Errno 20] Not a directory: ")
    out.unlink()
    says(cluster, "cannot be written: [Errno 2] it is not there any more; put it back")
    elsewhere.rename(items)

    cluster.finish()
    found = [json.loads(line) for line in items.read_text().splitlines()]
    ends = [item["url"] for item in found if str(item["id"]).startswith("end")]
    assert sorted(ends) == sorted(map(site.url, site.pages))
