"""Hosts that want to be left alone for long do not keep a node from the others."""

import itertools
import signal
import threading
import time
from collections import defaultdict
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from conftest import until

from tests.harness.project import scrapy_project

DELAYS = {"127.1.0": 300.0, "127.2.0": 1.5, "127.3.0": None}
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

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            host = self.headers["Host"].partition(":")[0]
            body = b"page"
            if self.path == "/robots.txt":
                delay = DELAYS[host.rpartition(".")[0]]
                asks = f"Crawl-delay: {delay}\n" if delay else ""
                body = f"User-agent: *\n{asks}".encode()
            asked[host].append((self.path, time.monotonic()))
            self.send_response(200)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("0.0.0.0", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield asked, server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


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
    assert cluster.wait() == [0]
    for host in of("127.1.0"):
        assert [path for path, _ in asked[host]] == ["/robots.txt"]
    for host in others:
        assert len({path for path, _ in asked[host]}) == len(asked[host])
    for host in of("127.2.0"):
        times = [at for _, at in asked[host]]
        gaps = [b - a for a, b in itertools.pairwise(times)]
        assert min(gaps) >= DELAYS["127.2.0"] - LATER
