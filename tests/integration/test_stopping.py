"""What a node that is stopped by a signal still does, and what it leaves."""

import contextlib
import json
import os
import re
import signal
import sys
from pathlib import Path

import pytest
from conftest import says

from tests.embedded_store import server_in
from tests.harness.project import scrapy_project
from tests.rawsite import RawSite, page

SPIDERS = """
import scrapy


class FilesSpider(scrapy.Spider):
    name = "files"
    custom_settings = {
        "ROBOTSTXT_OBEY": False,
        "ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 1},
    }

    def __init__(self, url="", **kwargs):
        super().__init__(**kwargs)
        self.start_urls = [url]

    def parse(self, response):
        yield {"url": response.url, "file_urls": [response.urljoin("/file")]}
        yield response.follow("/next", self.parse_next)
        self.logger.info("the page is parsed")

    def parse_next(self, response):
        yield {"url": response.url}
"""


@pytest.fixture
def site():
    pages = {"/": page(), "/next": page(), "/file": page(text="its file")}
    with contextlib.closing(RawSite(pages)) as site:
        yield site


@pytest.fixture
def project(tmp_path):
    return scrapy_project(tmp_path / "project", SPIDERS)


def test_a_page_that_was_fetched_gets_its_files_before_the_node_stops(
    cluster, project, site, tmp_path
):
    items, files = tmp_path / "items.jsonl", tmp_path / "files"
    words = ["-a", f"url={site.url('/')}", "-o", str(items)]
    options = {"cwd": project, "spider": "files", "FILES_STORE": str(files)}
    cluster.start("node-1", *words, **options, DOWNLOAD_DELAY="30")
    says(cluster, "the page is parsed")
    cluster.nodes["node-1"].send_signal(signal.SIGTERM)
    says(cluster, "Closing spider (shutdown)")
    cluster.do("crawl", "set", "DOWNLOAD_DELAY=0", "--crawl", "files-1")
    cluster.finish()

    (item,) = map(json.loads, items.read_text().splitlines())
    assert [each["status"] for each in item["files"]] == ["downloaded"]
    assert "/next" not in site.requests


@pytest.mark.one_server("the embedded one ends with its node")
@pytest.mark.parametrize(
    ("line", "reason"),
    [("Spider opened", "shutdown"), ("Closing spider (finished)", "finished")],
)
def test_a_signal_while_the_spider_opens_or_closes_leaves_nothing_open(
    cluster, project, site, tmp_path, line, reason
):
    items, files = tmp_path / "items.json", tmp_path / "files"
    words = ["-a", f"url={site.url('/')}", "-o", str(items)]
    options = {
        "cwd": project,
        "spider": "files",
        "FILES_STORE": str(files),
    }
    cluster.start("node-1", *words, **options)
    says(cluster, line)
    cluster.nodes["node-1"].send_signal(signal.SIGTERM)
    cluster.finish()

    assert f"Spider closed ({reason})" in cluster.text_of("node-1")
    assert not server_in(cluster.store_dir).running
    assert not list(tmp_path.rglob("*.open"))
    if reason == "finished":
        assert len(json.loads(items.read_text())) == 2


@pytest.mark.parametrize("pipeline", ["WarcPipeline", "UniqueItemsPipeline"])
def test_a_node_whose_store_is_silent_leaves_and_says_what_it_waited_for(
    cluster, project, site, own_server, pipeline
):
    def fall_silent(connection):
        own_server.pause()
        connection.sendall(page(text="word " * 1000))

    site.pages["/"] = fall_silent
    cluster.url = f"unix://{own_server.socket}"
    node = cluster.start(
        "node-1",
        "-a",
        f"url={site.url('/')}",
        cwd=project,
        spider="files",
        ITEM_PIPELINES=json.dumps({f"frontier.pipelines.{pipeline}": 1}),
        FRONTIER_ITEM_ID_FIELD="url",
    )
    says(cluster, "the page is parsed")
    node.send_signal(signal.SIGTERM)
    codes = cluster.wait()
    own_server.resume()

    assert codes == [1]
    text = cluster.text_of("node-1")
    assert text.count(": this node waits for that for 30 s, and then leaves") == 1
    store = f"the store at {cluster.url} does not answer"
    assert re.search(f"{store}.*; what this node had in flight will be fetched", text)
    assert "Traceback" not in text


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
def test_no_terminal_of_a_node_reaches_its_watchdog(cluster, project, site):
    """However soon a signal comes: the watchdog ends when the node wants it to."""
    words = ["-a", f"url={site.url('/')}"]
    options = {"cwd": project, "spider": "files", "FRONTIER_LEASE_TTL": "60"}
    node = cluster.start("node-1", *words, **options, DOWNLOAD_DELAY="30").pid
    says(cluster, "the page is parsed")

    (watchdog,) = Path(f"/proc/{node}/task/{node}/children").read_text().split()
    assert os.getsid(int(watchdog)) == int(watchdog)


def test_a_node_whose_feed_is_not_stored_says_so_and_fails(cluster, project, site):
    words = ["-a", f"url={site.url('/')}", "-o", "ftp://127.0.0.1:1/items.jsonl"]
    options = {"cwd": project, "spider": "files", "ITEM_PIPELINES": "{}"}
    cluster.start("node-1", *words, **options)

    assert cluster.wait() == [1]
    assert cluster.text_of("node-1").count("feeds were not stored whole (1)") == 1


@pytest.mark.one_server("it asks no server that there is")
@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"REDIS_URL": "redis://127.0.0.1:1"}, "FRONTIER_STORE_WAIT"),
        ({"FRONTIER_JOIN_ONLY": "1"}, "FRONTIER_JOIN_ONLY"),
    ],
    ids=["the store", "a crawl"],
)
def test_a_node_that_waits_for_what_is_not_there_heeds_a_signal(
    cluster, project, options, line
):
    waits = {"FRONTIER_STORE_WAIT": "3600", **options}
    node = cluster.start("node-1", cwd=project, spider="files", **waits)
    says(cluster, f"waits for {'it' if 'STORE' in line else 'one'}")
    node.send_signal(signal.SIGTERM)
    cluster.finish()

    text = cluster.text_of("node-1")
    assert "Spider closed (shutdown)" in text
    assert "Traceback" not in text
