"""Hosts that want to be left alone for long do not keep a node from the others."""

import contextlib
import itertools
import re
import signal
import statistics
import time
from collections import defaultdict
from functools import partial

import pytest
from conftest import until

from tests.harness.project import scrapy_project
from tests.rawsite import RawSite, answer

DELAYS = {"127.1.0": 1e308, "127.2.0": 1.5, "127.3.0": None}
"""Crawl-delays of three kinds of hosts, by what their addresses begin with."""
HOSTS = {"127.1.0": 60, "127.2.0": 6, "127.3.0": 2}
PAGES = {"127.1.0": 5, "127.2.0": 4, "127.3.0": 100}
LATER = 0.3
"""Seconds that the first of two requests may take longer to the log."""

SPIDER = """
import scrapy


class SlowHostsSpider(scrapy.Spider):
    name = "slow-hosts"

    async def start(self):
        for url in self.urls.split(","):
            yield scrapy.Request(url)
"""


@pytest.fixture
def site():
    """Hosts on loopback, and when which page of each was asked for."""
    asked = defaultdict(list)

    def say(path, received):
        host = re.search(rb"(?i)host: ([^:]+)", received)[1].decode()
        body = "page"
        if path == "/robots.txt":
            delay = DELAYS[host.rpartition(".")[0]]
            body = "User-agent: *\n" + (f"Crawl-delay: {delay}\n" if delay else "")
        asked[host].append((path, time.monotonic()))
        return answer(body, "Content-Type: text/plain")

    with contextlib.closing(RawSite({}, answer=say, address="0.0.0.0")) as made:
        yield asked, made.port


def of(kind):
    return [f"{kind}.{number}" for number in range(1, HOSTS[kind] + 1)]


def test_hosts_with_a_long_crawl_delay_take_no_slot_while_they_wait(
    cluster, site, tmp_path
):
    asked, port = site
    root = scrapy_project(tmp_path / "project", SPIDER, "ROBOTSTXT_OBEY = True\n")
    urls = [
        f"http://{host}:{port}/{number}"
        for kind in HOSTS
        for number in range(PAGES[kind])
        for host in of(kind)
    ]
    words = ("-a", f"urls={','.join(urls)}")
    node = cluster.start("a", *words, spider="slow-hosts", cwd=root)
    others = [host for kind in ("127.2.0", "127.3.0") for host in of(kind)]
    wanted = {h: PAGES[h.rpartition(".")[0]] + 1 for h in others}

    def are_done(hosts):
        return all(len(asked[host]) >= wanted[host] for host in hosts)

    until(partial(are_done, others), "the pages of the other hosts")
    node.send_signal(signal.SIGTERM)
    cluster.finish()
    for host in of("127.1.0"):
        assert [path for path, _ in asked[host]] == ["/robots.txt"]
    for host in others:
        assert len({path for path, _ in asked[host]}) == len(asked[host])
    times = [[at for _, at in asked[host]] for host in of("127.2.0")]
    gaps = [
        later - sooner for each in times for sooner, later in itertools.pairwise(each)
    ]
    # One that is late to the log makes one gap shorter and another longer.
    assert statistics.median(gaps) >= DELAYS["127.2.0"] - LATER
