"""What `Spider.start` may do, on one of the nodes."""

import json

import pytest
from conftest import HELD

from tests.harness.project import scrapy_project
from tests.warc.judges import read_warcio

SPIDER = """
import asyncio

import scrapy


class StartSpider(scrapy.Spider):
    name = "start"
    custom_settings = {"ROBOTSTXT_OBEY": False, "COOKIES_ENABLED": False}
    fails = waits = ""

    async def start(self):
        yield {"from": "start"}
        for url in self.base.split(","):
            yield scrapy.Request(f"{url}/about", meta={"archive": False})
            yield scrapy.Request(f"{url}/empty")
            yield scrapy.Request(f"{url}/empty")
        if self.fails:
            raise RuntimeError("no more seeds")
        if self.waits:
            await asyncio.Event().wait()

    def parse(self, response):
        yield {"from": response.url}
"""


@pytest.fixture
def project(tmp_path):
    return scrapy_project(tmp_path / "project", SPIDER)


def crawl(cluster, project, server, nodes, fails=""):
    base = ",".join(seed.rstrip("/") for seed in server.seeds)
    for node in nodes:
        output = str(cluster.directory / f"{node}.jsonl")
        arguments = ("-a", f"base={base}", "-a", f"fails={fails}", "-o", output)
        lease = {"FRONTIER_LEASE_TTL": "600"}  # nobody waits for its end
        cluster.start(node, *arguments, spider="start", cwd=project, **lease)
    if server.delay:
        cluster.join(*nodes)
        server.delay = 0
    codes = cluster.wait(*nodes)
    lines = [
        json.loads(line)["from"]
        for node in nodes
        for line in (cluster.directory / f"{node}.jsonl").read_text().splitlines()
    ]
    return codes, sorted(lines)


def test_start_runs_on_one_node_and_its_items_come_once(serve, cluster, project):
    server = serve(urls=130, hosts=3, calendar_months=12, delay=HELD)
    codes, items = crawl(cluster, project, server, ["node-1", "node-2"])
    pages = [
        seed.rstrip("/") + path
        for seed in server.seeds
        for path in ("/about", "/empty")
    ]

    assert codes == [0, 0]
    assert items == sorted([*pages, "start"])
    assert sorted(server.requests().fetched().elements()) == sorted(pages)
    uris = [
        headers.get("WARC-Target-URI", "")
        for path in cluster.warc_dir.glob("*.warc.gz")
        for _, headers, *_ in read_warcio(path)
    ]
    assert any(uri.endswith("/empty") for uri in uris)
    assert not any(uri.endswith("/about") for uri in uris), "it asks for no archive"


def test_a_start_that_fails_ends_the_crawl_with_what_was_queued(
    serve, cluster, project
):
    server = serve(urls=130, hosts=2, calendar_months=12, delay=HELD)
    both = ["node-1", "node-2"]
    codes, items = crawl(cluster, project, server, both, fails="yes")

    assert codes == [1, 1]
    assert len(items) == 6  # the first of each start, and the pages
    for node in both:
        assert "lacks the others" in cluster.text_of(node)
        assert "Spider closed (start_error)" in cluster.text_of(node)
