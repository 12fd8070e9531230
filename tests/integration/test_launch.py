"""One job on several machines, of which one is slow to start; and one run twice."""

import json

import pytest
from conftest import after

from frontier.status.snapshot import list_crawls
from tests.harness.project import scrapy_project


def crawls(cluster):
    return sorted(crawl.crawl_id for crawl in list_crawls(cluster.store, "frontier"))


def test_a_node_that_comes_when_the_crawl_of_its_run_has_ended_fetches_nothing(
    serve, cluster, monkeypatch
):
    server = serve(urls=50, hosts=2, calendar_months=1)
    seeds = f"seeds={','.join(server.seeds)}"
    monkeypatch.setenv("FRONTIER_RUN_ID", "deploy 1")
    cluster.start("node-1", "-a", seeds)
    cluster.finish("node-1")
    fetched = len(server.requests().entries)

    cluster.start("node-2", "-a", seeds, LOG_LEVEL="WARNING")
    cluster.finish("node-2")
    assert len(server.requests().entries) == fetched
    assert crawls(cluster) == ["site-1"]
    (line,) = cluster.text_of("node-2").strip().splitlines()
    assert "the crawl site-1 of the run 'deploy 1' has ended (finished)" in line

    cluster.start("node-3", "-a", seeds)
    monkeypatch.delenv("FRONTIER_RUN_ID")
    cluster.finish("node-3")
    assert "Spider closed (frontier_run_over)" in cluster.text_of("node-3")
    cluster.start("node-4", "-a", seeds)  # a person, who starts again at once
    cluster.finish("node-4")
    assert len(server.requests().entries) == 2 * fetched
    assert crawls(cluster) == ["site-1", "site-2"]


ARGS = """
import time
import scrapy

class Args(scrapy.Spider):
    name = "args"
    start_urls = {seeds!r}

    def __init__(self, cat="", *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.cat, self.began = cat, time.time()

    def parse(self, response):
        yield {{"cat": self.cat, "url": response.url}}
        for link in response.css("a::attr(href)").getall():
            if "/article/" in link:
                yield response.follow(link, self.parse)
"""


@pytest.fixture
def start(cluster, tmp_path):
    """Start a node of a spider with an argument ``cat``, whose items go to a file."""

    def start(node_id, *args, seeds, **settings):
        scrapy_project(tmp_path, ARGS.format(seeds=seeds))
        words = [word for text in args for word in ("-a", text)]
        feed = f"{node_id}.jsonl"
        started = cluster.start(
            node_id, *words, "-o", feed, spider="args", cwd=tmp_path, **settings
        )
        cluster.join(node_id)
        return started

    return start


@pytest.fixture
def items(tmp_path):
    """The items of some nodes: how many, of how many URLs, and whose they are."""

    def items(*node_ids):
        files = [tmp_path / f"{node_id}.jsonl" for node_id in node_ids]
        lines = [line for file in files for line in file.read_text().splitlines()]
        found = [json.loads(line) for line in lines]
        urls = {item["url"] for item in found}
        return len(found), len(urls), {item["cat"] for item in found}

    return items


def test_jobs_with_other_arguments_have_their_own_items(serve, cluster, start, items):
    server = serve(urls=120, hosts=3, calendar_months=1, until=after(0))
    seeds = server.seeds
    for node in ("a-1", "a-2", "a-3"):
        start(node, "cat=a", "_job=" + node, seeds=seeds)
    start("b-1", "cat=b", seeds=seeds)
    server.go_on()

    cluster.finish()
    total = items("b-1")
    assert total[0] == total[1] > 30
    assert total[2] == {"b"}
    assert items("a-1", "a-2", "a-3") == (total[0], total[0], {"a"})
    assert crawls(cluster) == ["args-1", "args-2"]
    said = [ln for ln in cluster.text_of("b-1").splitlines() if "args-1" in ln]
    assert "cat = 'b' here, 'a' there" in said[0]
    assert "args-1" not in cluster.text_of("a-1").replace("in crawl args-1", "")
