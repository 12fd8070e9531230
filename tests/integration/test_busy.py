"""A callback that keeps its node busy for longer than a lease, or ends it."""

import signal
import threading
import time
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from conftest import DEADLINE, PARTITIONS, until

from frontier.queue.dead_letters import counted, letters
from frontier.store.keys import CrawlKeys
from tests.harness.project import scrapy_project
from tests.rawsite import RawSite, answer, page

TTL = 6.0
"""Seconds; so long that a node on a busy machine is not lost before its time."""
PAGES = 12
HOSTS = 8
NODES = ("node-1", "node-2")
SPIDER = """
import os
import pathlib
import re
import signal
import time

import scrapy
from scrapy.resolver import CachingThreadedResolver


class BusySpider(scrapy.Spider):
    name = "busy"

    def __init__(self, sites="", seconds="0", local="", **kwargs):
        super().__init__(**kwargs)
        self.sites, self.seconds = sites.split(","), float(seconds)
        self.local = local

    async def start(self):
        for site in self.sites:
            yield scrapy.Request(site + "/")
            if self.local:
                yield scrapy.Request(site + self.local, lambda r: self.page(r))

    def parse(self, response):
        for path in response.css("a::attr(href)").getall():
            yield response.follow(path, self.page)

    def page(self, response):
        end = time.monotonic() + self.seconds
        while "/poison" in response.url and time.monotonic() < end:
            re.search("a*a*b", "a" * 800)  # the GIL is held for a whole match
        first = pathlib.Path("first")
        if "/sleepy" in response.url and not first.exists():
            first.touch()
            while not pathlib.Path("go").exists():
                time.sleep(0.02)
        if "/deadly" in response.url:
            os.kill(os.getpid(), signal.SIGKILL)
        yield {"url": response.url}


class Stopping(CachingThreadedResolver):
    # Stops its process as it looks a host up: between its lease and its request.

    def getHostByName(self, name, timeout=()):
        first = pathlib.Path("first")
        if not first.exists():
            first.touch()
            os.kill(os.getpid(), signal.SIGSTOP)
        return super().getHostByName(name, timeout)
"""


class Site(RawSite):
    """Hosts with a page of links, and one page of the first that is not like them."""

    def __init__(self, special, hosts=HOSTS, local=""):
        self.paths = [f"/{n}" for n in range(PAGES)]
        self.special = special
        self.local = local
        """Whether the special page is a start request, and nothing links to it."""
        self.open = threading.Event()
        """Set when pages of links may be answered."""
        self.neighbours = threading.Event()
        """Set when the other pages of the first host may be."""
        self.neighbours.set()
        self.asked = []
        super().__init__({}, answer=self._reply, address="0.0.0.0")
        self.hosts = [f"127.0.0.{n}:{self.port}" for n in range(1, hosts + 1)]

    def _reply(self, path, received):
        lines = received.decode("latin-1").split("\r\n")
        fields = dict(line.split(": ", 1) for line in lines[1:] if ": " in line)
        host = fields["Host"]
        if path == "/robots.txt":
            return answer()
        self.asked.append((host, path, fields["X-Frontier-Node"], time.monotonic()))
        paths = list(self.paths)
        if host == self.hosts[0] and not self.local:
            paths.insert(2, self.special)
        if path == "/":
            self.open.wait(DEADLINE)
        elif path != self.special and host == self.hosts[0]:
            self.neighbours.wait(DEADLINE)
        elif path == self.special and not self.neighbours.is_set():
            until(lambda: self._beside(host), "its neighbours")
        return page(*(paths if path == "/" else ()))

    def _beside(self, host):
        """Whether all of its neighbours were asked for as often as the special page."""
        counts = self.counts
        least = counts[host, self.special]
        return all(counts[host, path] >= least for path in self.paths)

    @property
    def every(self):
        """All pages there are."""
        found = {(host, path) for host in self.hosts for path in [*self.paths, "/"]}
        return found | {(self.hosts[0], self.special)}

    @property
    def counts(self):
        return Counter((host, path) for host, path, *_ in list(self.asked))

    def answered(self, path):
        return [one for one in self.asked if one[1] == path]


@pytest.fixture
def crawl(cluster, tmp_path):
    root = scrapy_project(tmp_path / "project", SPIDER)
    sites = []

    class Crawl:
        def __init__(self, special, **options):
            self.site = Site(special, **options)
            self.go = root / "go"
            """Ends the callback of the sleepy page."""
            sites.append(self.site)

        def start(self, node_id, seconds=0.0, **settings):
            args = ["-a", f"seconds={seconds}"]
            args += ["-a", "sites=" + ",".join(f"http://{h}" for h in self.site.hosts)]
            args += ["-a", f"local={self.site.local and self.site.special}"]
            chosen = {"FRONTIER_LEASE_TTL": TTL, **settings}
            return cluster.start(node_id, *args, spider="busy", cwd=root, **chosen)

        def start_both(self, seconds=0.0, **settings):
            for node in NODES:
                self.start(node, seconds, **settings)
            until(
                lambda: all(f"node {n} is in" in cluster.text_of(n) for n in NODES),
                "both nodes",
            )
            self.site.open.set()

        def letters(self):
            keys = CrawlKeys("frontier", "busy-1")
            found = counted(cluster.store, keys, PARTITIONS)
            return {
                one.url: one.reason.decode()
                for one in letters(cluster.store, keys, found)
            }

        def text(self):
            return "".join(map(cluster.text_of, cluster.nodes))

    yield Crawl
    for site in sites:
        site.close()


def state_of(process):
    """The letter that the kernel has for the state of *process*."""
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]


def has_ended(cluster, node):
    return f"node {node} has ended in the callback of" in cluster.text_of(node)


def test_a_node_that_is_stopped_while_it_connects_sends_nothing_of_another_s(
    crawl, cluster
):
    run = crawl("/usual", hosts=2)
    chosen = {"ROBOTSTXT_OBEY": False, "DNS_RESOLVER": "own.Stopping"}
    stopped = run.start("node-1", **chosen)
    until(lambda: state_of(stopped) == "T", "its stop")
    run.start("node-2", ROBOTSTXT_OBEY=False)
    until(lambda: len(run.site.answered("/")) == 2, "the other node's turn")

    stopped.send_signal(signal.SIGCONT)
    until(lambda: "are lost" in cluster.text_of("node-1"), "the loss of its leases")
    run.site.open.set()

    cluster.finish()
    assert dict(run.site.counts) == dict.fromkeys(run.site.every, 1)
    assert run.letters() == {}


def test_a_page_that_keeps_its_node_busy_for_too_long_is_given_up(crawl, cluster):
    run = crawl("/sleepy")
    run.start_both(FRONTIER_BUSY_MAX=1.5 * TTL)
    until(lambda: "it goes to the dead letter" in run.text(), "its end")
    run.go.touch()

    cluster.finish()
    assert set(run.site.counts) == run.site.every
    (sleepy,) = run.site.answered("/sleepy")
    ((url, reason),) = run.letters().items()
    assert url == f"http://{run.site.hosts[0]}/sleepy"
    assert reason.startswith(f"kept node {sleepy[2]} busy for ")
    assert reason.endswith(" s in its callback")


@pytest.mark.parametrize("local", ["", pytest.param("yes", marks=pytest.mark.long)])
def test_requests_in_flight_beside_a_deadly_page_are_not_given_up(
    crawl, cluster, local
):
    """Also beside a start request that cannot be stored, which each node makes."""
    run = crawl("/deadly", hosts=1, local=local)
    run.site.open.set()
    run.site.neighbours.clear()
    for number in range(1, 4):
        more = {"CONCURRENT_REQUESTS_PER_DOMAIN": "16", "FRONTIER_LEASE_TTL": 12}
        node = run.start(f"node-{number}", **more)  # none is lost on a busy machine
        assert node.wait(DEADLINE) == -signal.SIGKILL
        until(
            partial(has_ended, cluster, f"node-{number}"),
            "what its watchdog says once it has noted what ran",
        )
    run.site.neighbours.set()
    run.start("node-4")

    assert cluster.wait("node-4") == [1 if local else 0]
    url = f"http://{run.site.hosts[0]}/deadly"
    assert run.site.counts[run.site.hosts[0], "/deadly"] == 3
    why = "delivered 3 times; node node-3 ended while its callback ran"
    assert run.letters() == ({} if local else {url: why})
    assert (f"{url} is given up" in cluster.text_of("node-4")) is bool(local)
    assert max(run.site.counts[run.site.hosts[0], path] for path in run.site.paths) == 4
    assert set(run.site.counts) == run.site.every
