"""Pages that a real browser renders: what the archive says of them."""

import gzip
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from frontier.download.browser import AS_TEXT
from tests.rawsite import RawSite
from tests.warc.judges import assert_sound, read_fastwarc, read_warcio

pytestmark = pytest.mark.compat
CHROMIUM = Path("/usr/bin/chromium")
DEADLINE = 240
HANDLER = "scrapy_playwright.handler.ScrapyPlaywrightDownloadHandler"
SCRIPT = b"document.getElementById('made').textContent = 'made by ' + 'a script';"
LATIN = "/* \u00e9 */".encode("latin-1")
IMAGE = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
CODED = "fetch('/told', {method: 'POST', body: 'a=1'}); // \u00e9".encode()
RENDERED = "made by a script"
LINKS = 4


def answer(kind, body, status=b"200 OK", more=b""):
    head = b"HTTP/1.1 %b\r\nContent-Type: %b\r\nContent-Length: %d\r\n%b\r\n"
    return head % (status, kind, len(body), more) + body


def page(number):
    links = b"".join(b'<a href="/page/%d">x</a>' % n for n in range(LINKS))
    return answer(
        b"text/html",
        b"<!doctype html><title>Page %d</title><p id=made></p>%b"
        b"<link rel=stylesheet href=/latin.css><img src=/image.png>"
        b"<script src=/script.js></script><script src=/coded.js></script>"
        % (number, links),
    )


PAGES = {
    **{f"/page/{n}": page(n) for n in range(LINKS)},
    "/robots.txt": answer(b"text/plain", b"User-agent: *\nDisallow: /forbidden\n"),
    "/script.js": answer(b"text/javascript", SCRIPT),
    "/latin.css": answer(b"text/css; charset=iso-8859-1", LATIN),
    "/image.png": answer(b"image/png", IMAGE),
    "/coded.js": answer(
        b"text/javascript; charset=utf-8",
        gzip.compress(CODED),
        more=b"Content-Encoding: gzip\r\nX-oDD: 1\r\nX-oDD: 2\r\n",
    ),
    "/told": answer(b"application/json", b"{}"),
    "/plain": answer(b"text/html", b"<p>sent by a server</p>"),
    "/moved": answer(b"text/html", b"", b"302 Found", b"Location: /page/0\r\n"),
    "/forbidden": answer(b"text/html", b"<p>not for robots</p>"),
}
SETTINGS = f"""
SPIDER_MODULES = ["settings"]
ROBOTSTXT_OBEY = True
DOWNLOAD_DELAY = 0
TELNETCONSOLE_ENABLED = False
ADDONS = {{}}
TWISTED_REACTOR = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"
DOWNLOAD_HANDLERS = {{"http": "{HANDLER}", "https": "{HANDLER}"}}
PLAYWRIGHT_DEFAULT_NAVIGATION_TIMEOUT = {DEADLINE * 1000}
PLAYWRIGHT_LAUNCH_OPTIONS = {{
    "executable_path": "{CHROMIUM}",
    "args": ["--no-sandbox", "--disable-gpu", "--disable-background-networking",
             "--disable-component-update", "--disable-sync", "--no-first-run"],
}}

import scrapy


class Rendered(scrapy.Spider):
    name = "rendered"

    async def start(self):
        yield scrapy.Request(self.base + "/page/0", meta={{
            "playwright": True,
            "playwright_page_init_callback": self.prepare,
            "playwright_page_event_handlers": {{"response": "heard"}},
        }})
        yield scrapy.Request(self.base + "/plain")
        yield scrapy.Request(self.base + "/moved", meta={{"playwright": True}})

    heard_of = 0

    async def prepare(self, page, request):
        assert request.url.endswith("/page/0")
        self.prepared = True

    def heard(self, response):
        self.heard_of += 1

    def parse(self, response):
        if "playwright_page_event_handlers" in response.meta:
            assert self.prepared and self.heard_of >= 4
            assert response.meta["playwright_page_init_callback"] == self.prepare
            yield {{"heard": True}}
        text = "".join(response.css("p::text").getall())
        yield {{"url": response.url, "text": text}}
        if response.url.endswith("/plain"):  # plain Scrapy knows the rules only now
            yield response.follow("/forbidden", meta={{"playwright": True}})
        for link in response.css("a"):
            yield response.follow(link, meta={{"playwright": True}})
"""


@pytest.fixture
def crawled(tmp_path):
    """The items of plain Scrapy and of two nodes, and the site."""
    pytest.importorskip("scrapy_playwright")
    (tmp_path / "settings.py").write_text(SETTINGS)
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = settings\n")
    site = RawSite(PAGES)

    def is_in(process, node):
        text = (tmp_path / f"{node}.log").read_text()
        return " is in crawl " in text or process.poll() is not None

    def run(*nodes):
        site.open.clear()
        processes = [start(tmp_path, site.origin, node) for node in nodes]
        while len(nodes) > 1 and not all(map(is_in, processes, nodes)):
            time.sleep(0.01)
        site.open.set()
        for process, node in zip(processes, nodes, strict=True):
            log = tmp_path / f"{node}.log"
            assert process.wait(DEADLINE) == 0, log.read_text()[-5000:]
        paths = [tmp_path / f"{node}.jsonl" for node in nodes]
        lines = [x for p in paths if p.exists() for x in p.read_text().splitlines()]
        return sorted(json.dumps(json.loads(line), sort_keys=True) for line in lines)

    alone = run("alone")
    with (tmp_path / "settings.py").open("a") as file:
        file.write('ADDONS["frontier.addon.Addon"] = 100\n')
    together = run("node-1", "node-2")
    yield alone, together, site
    site.close()


def start(directory, base, node):
    """Start one Scrapy process."""
    words = ["crawl", "rendered", "-a", f"base={base}", "-o", f"{node}.jsonl"]
    with (directory / f"{node}.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "scrapy", *words],
            cwd=directory,
            env={**os.environ, "PYTHONPATH": f"{Path(__file__).parents[2]}"},
            stdout=log,
            stderr=subprocess.STDOUT,
        )


@pytest.mark.skipif(not CHROMIUM.exists(), reason="Debian's chromium is not there")
def test_scrapy_playwright(crawled, tmp_path):
    """The DOM is a resource, what Scrapy fetched itself a response; same items."""
    alone, together, site = crawled

    assert together == alone
    assert sum(RENDERED in item for item in alone) == LINKS + 1
    assert "/forbidden" not in site.requests
    records = {}
    for path in sorted((tmp_path / "warcs").glob("*.warc.gz")):
        assert_sound(path)
        assert read_fastwarc(path)
        for kind, headers, http, body in read_warcio(path):
            if kind in ("response", "revisit", "resource", "request"):
                target = headers["WARC-Target-URI"].removeprefix(site.origin)
                records.setdefault(target, []).append((kind, headers, http, body))

    for number in range(LINKS):
        found = records.pop(f"/page/{number}")
        kinds = {kind for kind, *_ in found}  # /moved leads to one that is stored
        assert kinds - {"revisit"} == {"resource", "response", "request"}
        for kind, headers, _, body in found:
            if kind == "resource":
                assert headers["Content-Type"] == "text/html"
                assert headers["X-Frontier-Made-By"] == HANDLER
                assert RENDERED.encode() in body
            elif kind == "response":  # the bytes of the server
                assert body == PAGES[f"/page/{number}"].partition(b"\r\n\r\n")[2]
                assert headers["WARC-IP-Address"] == "127.0.0.1"
    originals = {}
    for path in ("/script.js", "/image.png", "/coded.js"):
        found = records.pop(path)
        kinds = [kind for kind, *_ in found if kind != "request"]
        assert len(kinds) == kinds.count("response") + kinds.count("revisit")
        assert len(kinds) == len(found) / 2 >= LINKS + 1
        originals[path] = [each for each in found if each[0] == "response"]
    assert {each[3] for each in originals["/image.png"]} == {IMAGE}
    assert {each[3] for each in originals["/script.js"]} == {SCRIPT}
    for _, headers, http, body in originals["/coded.js"]:
        assert body == CODED
        assert headers["X-Frontier-Framing"] == AS_TEXT
        assert ("X-Archive-Orig-Content-Encoding", "gzip") in http
        assert ("Content-Length", str(len(CODED))) in http
        assert [each for each in http if each[0] == "X-oDD"] == [
            ("X-oDD", "1"),
            ("X-oDD", "2"),
        ]
    for kind, headers, _, body in records.pop("/latin.css"):
        assert kind == "resource"  # of text of which the bytes are gone
        assert headers["Content-Type"] == "text/css; charset=utf-8"
        assert body == LATIN.decode("latin-1").encode()
    told = records.pop("/told")
    assert b"a=1" in {body for kind, *_, body in told if kind == "request"}
    for kind, headers, http, body in records.pop("/moved"):
        assert kind in ("response", "request")
        if kind == "response":
            assert ("Location", "/page/0") in http
            assert body == b""  # it was empty, as its length says
            assert "WARC-Truncated" not in headers
    for path in ("/plain", "/robots.txt"):
        kinds = {kind for kind, *_ in records.pop(path)}
        assert {"response", "request"} <= kinds <= {"response", "revisit", "request"}
    records.pop("/favicon.ico", None)
    assert not records
