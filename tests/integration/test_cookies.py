"""Logins: what one node was given, all nodes send, on the hosts it is for."""

import contextlib
import threading

import pytest
from conftest import DEADLINE, home_of, owned, until

from frontier.status.snapshot import snapshot
from tests.harness.project import scrapy_project
from tests.rawsite import RawSite, answer

SITES = 12
"""So many that a login of one node is for another."""
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


class Site(RawSite):
    """Pages for those who have logged in, as many as a test allows.

    *asked* has by which node, of which host, for what and with which cookie.
    """

    def __init__(self):
        self.asked = []
        self.members = threading.Event()
        """Set when pages may be answered."""
        super().__init__({}, answer=self._say)

    def _say(self, connection, received):
        head = received.decode().partition("\r\n\r\n")[0].split("\r\n")
        path = head[0].split(" ")[1]
        fields = dict(line.split(": ", 1) for line in head[1:])
        cookies = []
        if path.startswith("/login?"):
            domain = fields["Host"].partition(":")[0].partition(".")[2]
            cookies = [f"Set-Cookie: session={path[7:]}; Domain={domain}; Path=/"]
        else:
            self.members.wait(DEADLINE)
        node = fields["X-Frontier-Node"]
        self.asked.append((node, fields["Host"], path, fields.get("Cookie")))
        connection.sendall(answer("ok", "Content-Type: text/html", *cookies))


class Login:
    """The site, and a project with a spider of it."""

    def __init__(self, server, root, cluster):
        self.server, self.root, self.cluster = server, root, cluster

    def project(self, jars, pages, **settings):
        chosen = {"DOWNLOAD_DELAY_JITTER": 0, **settings}
        lines = [f"{name} = {value!r}\n" for name, value in chosen.items()]
        spider = SPIDER.format(
            sites=SITES, pages=pages, jars=jars, port=self.server.port
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
    with contextlib.ExitStack() as sites:
        server = sites.enter_context(contextlib.closing(Site()))
        while not is_divided(server.port):
            server = sites.enter_context(contextlib.closing(Site()))
        yield Login(server, tmp_path / "project", cluster)
        server.members.set()


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
    login.server.members.set()

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
