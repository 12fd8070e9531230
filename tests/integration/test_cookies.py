"""Logins: what one node was given, others send, on the hosts it is for."""

import contextlib
import threading

from conftest import DEADLINE, until

from frontier.status.snapshot import snapshot
from tests.harness.project import scrapy_project
from tests.rawsite import RawSite, answer

SITES, PAGES = 3, 2
SPIDER = f"""
import scrapy
from scrapy.resolver import dnscache

SITES = [f"site{{n}}.test" for n in range({SITES})]
for site in SITES:
    for host in ("accounts", "www"):
        dnscache[f"{{host}}.{{site}}"] = "127.0.0.1"


class LoginSpider(scrapy.Spider):
    name = "login"
    custom_settings = {{"ROBOTSTXT_OBEY": False}}

    async def start(self):
        for site in SITES:
            for jar, user in (("a", "alice"), (2, "bob")):
                place = f"{{site}}:{{self.port}}"
                yield scrapy.Request(
                    f"http://accounts.{{place}}/login?{{user}}",
                    self.logged_in,
                    meta={{"cookiejar": jar, "page": f"{{place}}/{{user}}"}},
                )

    def logged_in(self, response):
        meta = {{"cookiejar": response.meta["cookiejar"]}}
        for n in range({PAGES}):
            url = f"http://www.{{response.meta['page']}}/{{n}}"
            yield scrapy.Request(url, self.done, meta=meta)

    def done(self, response):
        pass
"""


class Site(RawSite):
    """Pages for those who have logged in, once a test lets them be answered.

    *asked* has by which node, of which host, for what and with which cookie.
    """

    def __init__(self):
        self.asked, self.members = [], threading.Event()
        super().__init__({}, answer=self._say)

    def _say(self, path, received):
        head = received.decode().partition("\r\n\r\n")[0].split("\r\n")
        fields = dict(line.split(": ", 1) for line in head[1:])
        host, cookies = fields["Host"], []
        if path.startswith("/login?"):
            domain = host.partition(":")[0].partition(".")[2]
            cookies = [f"Set-Cookie: session={path[7:]}; Domain={domain}; Path=/"]
        else:
            self.members.wait(DEADLINE)
            node = fields["X-Frontier-Node"]
            self.asked.append((node, host, path, fields.get("Cookie")))
        return answer("ok", "Content-Type: text/html", *cookies)


def test_jars_do_not_mix_and_outlive_the_node_that_has_logged_in(cluster, tmp_path):
    scrapy_project(tmp_path / "project", SPIDER)
    with contextlib.closing(Site()) as site:
        options = {"spider": "login", "cwd": tmp_path / "project"}
        cluster.start("node-1", "-a", f"port={site.port}", **options)

        def acked():
            return snapshot(cluster.store, "frontier", "login-1").queue.acked

        cluster.join()
        until(lambda: acked() == 2 * SITES, "acks of the logins")
        cluster.kill("node-1")
        cluster.do("node", "remove", "node-1", "--force")
        cluster.start("node-2", "-a", f"port={site.port}", **options)
        cluster.join("node-2")
        site.members.set()

        cluster.finish("node-2")
    pages = [entry[1:] for entry in site.asked if entry[0] == "node-2"]
    assert len(set(pages)) == len(pages) == SITES * 2 * PAGES
    for _, path, cookie in pages:
        assert cookie == f"session={path.split('/')[1]}"
