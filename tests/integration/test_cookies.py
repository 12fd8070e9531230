"""Logins: what one node was given, all nodes send, on the hosts it is for."""

import contextlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from conftest import DEADLINE, home_of, owned, until

from frontier.status.snapshot import snapshot
from tests.harness.project import scrapy_project

SITES = 12
"""So many that a login of one node is for another."""
ALL = 10**6
SPIDER = """
import asyncio
from pathlib import Path

import scrapy
from scrapy.resolver import dnscache

for n in range({sites}):
    for host in ("accounts", "www"):
        dnscache[f"{{host}}.site{{n}}.test"] = "127.0.0.1"


class LoginSpider(scrapy.Spider):
    name = "login"

    async def start(self):
        while not Path("go").exists():
            await asyncio.sleep(0.02)
        for n in range({sites}):
            for jar, user in {jars}:
                meta = {{"cookiejar": jar}} if jar else {{}}
                yield scrapy.Request(
                    f"http://accounts.site{{n}}.test:{port}/login?{{user}}",
                    self.logged_in,
                    meta={{**meta, "page": f"site{{n}}.test:{port}/page/{{user}}"}},
                )

    def logged_in(self, response):
        meta = {{k: v for k, v in response.meta.items() if k == "cookiejar"}}
        for n in range({pages}):
            yield scrapy.Request(
                f"http://www.{{response.meta['page']}}/{{n}}", self.done, meta=meta
            )

    def done(self, response):
        pass
"""


class Members(BaseHTTPRequestHandler):
    """Pages for those who have logged in, and what each was asked for with."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        cookie = None
        if self.path.startswith("/login?"):
            domain = self.headers["Host"].partition(":")[0].partition(".")[2]
            cookie = f"session={self.path[7:]}; Domain={domain}; Path=/"
        else:
            self.server.let_in()
        sent = self.headers["Cookie"]
        node = self.headers["X-Frontier-Node"]
        self.server.asked.append((node, self.headers["Host"], self.path, sent))
        self.send_response(200)
        if cookie:
            self.send_header("Set-Cookie", cookie)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_):
        """Say nothing."""


class Site(ThreadingHTTPServer):
    """Answers as many requests for pages as a test allows."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Members)
        self.asked = []
        self._change = threading.Condition()
        self._allowed = self._answered = 0

    def allow(self, count):
        """Answer up to so many, of those that wait and those that come."""
        with self._change:
            self._allowed = count
            self._change.notify_all()

    def let_in(self):
        with self._change:
            is_allowed = lambda: self._answered < self._allowed  # noqa: E731
            assert self._change.wait_for(is_allowed, DEADLINE)
            self._answered += 1


class Login:
    """The site, and a project with a spider of it."""

    def __init__(self, server, root, cluster):
        self.server, self.root, self.cluster = server, root, cluster

    def project(self, jars, pages, **settings):
        chosen = {"DOWNLOAD_DELAY_JITTER": 0, **settings}
        lines = [f"{name} = {value!r}\n" for name, value in chosen.items()]
        spider = SPIDER.format(
            sites=SITES, pages=pages, jars=jars, port=self.server.server_port
        )
        scrapy_project(self.root, spider, "".join(lines))

    def start(self, node, **settings):
        self.cluster.start(node, spider="login", cwd=self.root, **settings)

    def go(self):
        (self.root / "go").touch()

    def share(self):
        """Return when each node has its share of the hosts."""
        self.cluster.share("login-1")

    def pages(self):
        return [entry for entry in self.server.asked if "/page/" in entry[2]]

    def logged_out(self):
        """Pages that were asked for by nobody, or by another than they are for."""
        return [e for e in self.pages() if e[3] != f"session={e[2].split('/')[2]}"]


def is_divided(port):
    """Whether each node will have some hosts of either kind."""
    nodes = ("node-1", "node-2")
    shares = [
        owned(
            (home_of(f"http://{kind}.site{n}.test:{port}") for n in range(SITES)), nodes
        )
        for kind in ("accounts", "www")
    ]
    return all(share[node] >= 3 for share in shares for node in nodes)


@pytest.fixture
def login(tmp_path, cluster):
    with contextlib.ExitStack() as others:
        server = Site()
        while not is_divided(server.server_port):
            others.callback(server.server_close)
            server = Site()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield Login(server, tmp_path / "project", cluster)
    server.allow(ALL)
    server.shutdown()
    thread.join()
    server.server_close()


def test_jars_do_not_mix_and_outlive_the_node_that_has_logged_in(login, cluster):
    login.project([("a", "alice"), (2, "bob")], 2)
    for node in ("node-1", "node-2"):
        login.start(node)
    login.share()
    login.go()
    until(lambda: acked(cluster) == 2 * SITES, "acks of the logins")
    by = {host: node for node, host, path, _ in login.server.asked if "/login" in path}
    cluster.kill("node-1")
    assert cluster.ask("node", "remove", "node-1", "--force").returncode == 0
    login.server.allow(ALL)

    assert cluster.wait("node-2") == [0]
    assert login.logged_out() == []
    assert set(by.values()) == {"node-1", "node-2"}, "one node has logged in everywhere"
    fetched = {(host, path) for _, host, path, _ in login.pages()}
    assert len(fetched) == SITES * 2 * 2
    own = {
        node
        for node, host, *_ in login.pages()
        if by[host.replace("www", "accounts")] != node
    }
    assert own, "each node has fetched only where it has logged in itself"


def acked(cluster):
    return snapshot(cluster.store, "frontier", "login-1").queue.acked
