"""Requests that only one process can make: each once, politely, and none is lost."""

import contextlib
import itertools
import signal
import threading
from collections import Counter
from functools import partial

import pytest
from conftest import DEADLINE, HELD, until

from frontier.status.snapshot import snapshot
from tests.chaos.oracle import overlaps
from tests.harness.project import scrapy_project
from tests.rawsite import RawSite, answer, page

SPIDER = """
from functools import partial
from itertools import chain

import scrapy
from scrapy.http import HtmlResponse, TextResponse

from frontier.urls.links import read_links


class LocalSpider(scrapy.Spider):
    name = "local"

    def __init__(self, seeds="", starts="", **kwargs):
        super().__init__(**kwargs)
        self.seeds = seeds.split(",")
        self.hosts = tuple(seed.rstrip("/") + "/" for seed in self.seeds)
        self.starts = starts

    async def start(self):
        for seed in self.seeds:
            callback = (lambda r: self.page(r)) if self.starts else self.page
            yield scrapy.Request(seed, callback)

    def page(self, response, link=""):
        if not isinstance(response, TextResponse):
            return
        is_html = isinstance(response, HtmlResponse)
        *parts, _ = read_links(response.text, response.url, is_html=is_html)
        for url in chain(*parts):
            if url.startswith(self.hosts):
                is_local = self.starts or "/a" in url
                callback = partial(self.page, link=url) if is_local else self.page
                yield response.follow(url, callback)
"""
DELAY = 0.5
POLITE = {"DOWNLOAD_DELAY": str(DELAY), "DOWNLOAD_DELAY_JITTER": "0"}
SLACK = 0.4
"""Seconds that requests take longer or shorter from the node to the log."""


@pytest.fixture
def project(tmp_path):
    """A project whose spider has a partial for each link."""
    return scrapy_project(tmp_path / "project", SPIDER, "ROBOTSTXT_OBEY = True\n")


@pytest.fixture
def crawl(serve, cluster, project):
    """Serve a site, and start nodes on it."""

    class Crawl:
        def __init__(self, **site):
            self.server = serve(
                **{"urls": 220, "hosts": 8, "calendar_months": 2, **site}
            )
            self._args = ["-a", f"seeds={','.join(self.server.seeds)}"]

        def start(self, node_id, **settings):
            return cluster.start(
                node_id, *self._args, spider="local", cwd=project, **settings
            )

        def has(self, count):
            log = self.server.requests()
            return bool(log) and log.fetched().total() >= count

        @property
        def by_node(self):
            """The nodes that have fetched, with their counts, the busiest first."""
            log = self.server.requests()
            entries = log.entries if log else ()
            return Counter(entry.node for entry in entries).most_common()

        def complete(self):
            """The log, in which nothing is missing and hosts had one node at a time."""
            log = self.server.requests()
            assert log.fetched().keys() == self.server.expected
            assert overlaps(log) == []
            seen = snapshot(cluster.store, "frontier", "local-1")
            assert (seen.state, seen.queue.dead) == ("finished", 0)
            return log

    return Crawl


def gaps(log):
    starts = {}
    for entry in log.entries:
        if not entry.url.endswith("/robots.txt"):
            starts.setdefault(entry.host, []).append(entry.start)
    for times in starts.values():
        yield from (b - a for a, b in itertools.pairwise(sorted(times)))


def test_two_nodes_fetch_each_url_once_and_keep_the_delay_of_each_host(cluster, crawl):
    made = crawl(urls=172, nodes=("node-1", "node-2"), least=3, delay=HELD)
    for node in ("node-1", "node-2"):
        made.start(node, **POLITE)
    cluster.share("local-1")
    made.server.delay = 0

    cluster.finish()
    log = made.complete()
    assert log.repeated() == {}
    assert min(gaps(log)) > DELAY - SLACK - made.server.late
    # More than robots.txt of its hosts; the other may have claimed much of the rest.
    assert len([node for node, count in made.by_node if count > 5]) == 2
    # One line from each node that keeps any; the other may have claimed all before.
    texts = [cluster.text_of(node) for node in ("node-1", "node-2")]
    told = [text.count("the first is http") for text in texts]
    assert 1 in told
    assert max(told) == 1
    seen = snapshot(cluster.store, "frontier", "local-1")
    local = [url for url in made.server.expected if "/a" in url]
    assert seen.totals.local >= len(local)  # and what these redirect to
    said = cluster.ask("crawl", "status", "--crawl", "local-1").stdout
    assert f"{seen.totals.local} could not be stored" in said


class Later:
    """A host that says 429 when it is asked for the first time, by what *is_first* is.

    *asked* has the paths that were answered otherwise.
    """

    def __init__(self, is_first, seconds):
        self._is_first, self.has_refused = is_first, False
        self._refusal = answer(b"", f"Retry-After: {seconds}", status="429 Later")
        self.asked = Counter()
        self._site = RawSite({}, answer=self._answer)
        self.seed, self.close = self._site.url("/"), self._site.close

    def _answer(self, path, received):
        said = page(*(range(20) if path == "/" else ()))
        if not self.has_refused and self._is_first(path):
            self.has_refused, said = True, self._refusal
        elif path == "/robots.txt":
            said = answer(status="404 Not Found")
        else:
            self.asked[path] += 1
        return said


def test_local_request_that_waits_for_its_host_is_fetched(cluster, project):
    pages = dict.fromkeys(["/", *(f"/{number}" for number in range(20))])
    robots = Later(lambda path: path == "/robots.txt", 3)
    page = Later(lambda path: path == "/7", 3600)
    with contextlib.closing(robots), contextlib.closing(page):
        seeds = ["-a", f"seeds={robots.seed},{page.seed}", "-a", "starts=1"]
        start = partial(
            cluster.start,
            spider="local",
            cwd=project,
            FRONTIER_RUN_ID="1",
        )
        node = start("node-1", *seeds)
        until(lambda: page.has_refused, "its refusal")
        until(
            lambda: robots.asked.keys() == pages.keys(),
            "what waited for the rules of its host",
        )
        node.send_signal(signal.SIGTERM)
        assert node.wait(DEADLINE) == 0
        assert page.asked.keys() != pages.keys()
        start("node-2", *seeds)
        cluster.join("node-2")
        cluster.do("crawl", "retry", page.seed.split("/")[2])

        cluster.finish("node-2")
        assert page.asked.keys() == pages.keys()


def test_a_kill_loses_nothing_that_one_process_alone_could_send(cluster, crawl):
    made = crawl(delay=0.02)
    lease = {"FRONTIER_LEASE_TTL": "8"}
    for node in ("node-1", "node-2"):
        made.start(node, **lease)
    cluster.join()
    until(partial(made.has, 60), "pages")
    cluster.kill("node-1")

    cluster.finish("node-2")
    made.complete()


IDLE = """
import scrapy
from scrapy import signals
from scrapy.exceptions import DontCloseSpider


class IdleSpider(scrapy.Spider):
    name = "local"

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        if crawler.settings.getbool("ASKS_WHEN_IDLE"):
            crawler.signals.connect(spider.ask, signals.spider_idle)
        return spider

    async def start(self):
        yield scrapy.Request(self.seed)

    def ask(self):
        self.crawler.signals.disconnect(self.ask, signals.spider_idle)
        self.crawler.engine.crawl(scrapy.Request(self.seed + "both", lambda r: None))
        raise DontCloseSpider

    def parse(self, response):
        for url in map(response.urljoin, response.css("a::attr(href)").getall()):
            wait = {"frontier_due": 8.0} if url.endswith("/later") else {}
            yield response.follow(url, meta=wait)
"""


def test_a_kill_loses_no_link_to_what_the_process_had_asked_for_by_itself(
    cluster, tmp_path
):
    """Its idle handler had; nothing that is delivered again leads there."""
    pages = {"/": page("/later"), "/later": page("/both")}
    pages["/both"] = lambda connection: asked.set() or connection.recv(1)
    project = scrapy_project(tmp_path / "project", IDLE)
    asked = threading.Event()
    with contextlib.closing(RawSite(pages)) as site:
        start = partial(
            cluster.start, spider="local", cwd=project, FRONTIER_LEASE_TTL="4"
        )
        seed = f"seed={site.url('/')}"
        start("node-1", "-a", seed, ASKS_WHEN_IDLE="1")
        assert asked.wait(DEADLINE)
        cluster.kill("node-1")
        asked.clear()
        pages["/both"] = lambda connection: asked.set() or connection.sendall(page())
        start("node-2", "-a", seed)

        cluster.finish("node-2")
        assert asked.is_set()
