"""Plug-ins that people use, as they are: two nodes yield what plain Scrapy yields.

Each test makes a project of its own with the plug-in's own documented settings,
runs it with plain Scrapy, adds the add-on's line, and runs it on two nodes.
"""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import textwrap
import urllib.parse
import urllib.request
from functools import partial
from pathlib import Path

import pytest

from frontier.testing.server import SiteServer
from frontier.testing.site import Site
from tests import topologies
from tests.certificates import certify
from tests.topologies import free_ports
from tests.warc.judges import read_warcio

pytestmark = pytest.mark.compat
SCRAPY = [sys.executable, "-m", "scrapy"]
DEADLINE = 240
wait_for = partial(topologies.until, deadline=DEADLINE)
HELD = 3600.0
"""The delay of a site that answers nothing for now."""
PAGES = 11
"""Pages of the site that the spider below makes items of."""
ADDON = 'ADDONS["frontier.addon.Addon"] = 100\n'
SETTINGS = """
SPIDER_MODULES = ["shop.spiders"]
ADDONS = {}
DOWNLOAD_DELAY = 0
CONCURRENT_REQUESTS_PER_DOMAIN = 4
TELNETCONSOLE_ENABLED = False
"""
SPIDER = """
import scrapy


class Shop(scrapy.Spider):
    name = "shop"

    async def start(self):
        for base in self.bases.split(","):
            yield scrapy.Request(base + "about")

    def parse(self, response):
        yield {"url": response.url}
        for n in range(6):
            yield response.follow(f"/post/{n}", self.parse_post)

    def parse_post(self, response):
        yield {"url": response.url, "size": len(response.body)}
        yield response.follow("/post/3", self.parse_post)
"""


class Project:
    """A Scrapy project in a folder, run by plain Scrapy or on two nodes."""

    def __init__(self, root, site):
        self.root = root
        self._site = site
        self._runs = 0
        self.bases = ",".join(site.seeds)
        (root / "shop" / "spiders").mkdir(parents=True)
        (root / "scrapy.cfg").write_text(
            "[settings]\ndefault = shop.settings\n\n[deploy]\nproject = shop\n"
        )
        (root / "shop" / "__init__.py").write_text("")
        (root / "shop" / "spiders" / "__init__.py").write_text("")
        self.settings(SETTINGS)
        self.spider(SPIDER)

    def settings(self, text):
        """Add *text* to the project's settings."""
        with (self.root / "shop" / "settings.py").open("a") as file:
            file.write(textwrap.dedent(text))

    def spider(self, text):
        """Have the spider ``shop`` be *text*."""
        path = self.root / "shop" / "spiders" / "shop.py"
        path.write_text(textwrap.dedent(text))

    def module(self, name, text):
        """Add a module to the project."""
        (self.root / "shop" / f"{name}.py").write_text(textwrap.dedent(text))

    def start(self, node, feed, *options):
        """Start one Scrapy process that writes items to *feed*."""
        log = (self.root / f"{node}.log").open("wb")
        with log:
            return subprocess.Popen(
                [
                    *SCRAPY,
                    "crawl",
                    "shop",
                    "-a",
                    f"bases={self.bases}",
                    "-o",
                    str(feed),
                    *options,
                ],
                cwd=self.root,
                env={
                    **os.environ,
                    "PYTHONPATH": str(self.root),
                    # One that comes when the others have ended fetches nothing again.
                    "FRONTIER_RUN_ID": f"run {self._runs}",
                },
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def start_all(self, feeds, *options):
        """Start a process for each of *feeds*, by node.

        Where there are several, the site answers when they are in the crawl.
        """
        self._runs += 1
        self._site.delay = HELD if len(feeds) > 1 else 0
        started = {n: self.start(n, feed, *options) for n, feed in feeds.items()}
        if len(feeds) > 1:
            wait_for(lambda: all(map(self._is_in, started.items())), "all nodes")
        self._site.delay = 0
        return list(started.values())

    def _is_in(self, node):
        name, process = node
        return " is in crawl " in self.log(name) or process.poll() is not None

    def run(self, *nodes, options=()):
        """Run to the end; return all items, sorted, as JSON."""
        outputs = [self.root / f"{node}.jsonl" for node in nodes]
        for output in outputs:
            output.unlink(missing_ok=True)
        processes = self.start_all({o.stem: o for o in outputs}, *options)
        for process, output in zip(processes, outputs, strict=True):
            assert process.wait(DEADLINE) == 0, self.log(output.stem)
        lines = [ln for o in outputs if o.exists() for ln in o.read_text().splitlines()]
        return sorted(json.dumps(json.loads(line), sort_keys=True) for line in lines)

    def fail(self, node):
        """Run *node*, which has to end with an error; what it logged."""
        assert self.start(node, self.root / f"{node}.jsonl").wait(DEADLINE) != 0
        return self.log(node)

    def records(self):
        """The responses and revisits that were archived."""
        return [
            (kind, headers, body)
            for path in sorted((self.root / "warcs").glob("*.warc.gz"))
            for kind, headers, body, *_ in read_warcio(path)
            if kind in ("response", "revisit", "resource")
        ]

    def log(self, node):
        """What *node* logged."""
        return (self.root / f"{node}.log").read_text("utf-8", "replace")

    def distribute(self):
        """Add the one line that makes it distributed."""
        self.settings(ADDON)

    def compare(self, *options):
        """Items of plain Scrapy, and of two nodes."""
        alone = self.run("alone", options=options)
        self.distribute()
        return alone, self.run("node-1", "node-2", options=options)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built-in site, and its log."""
    log = tmp_path_factory.mktemp("site") / "requests.jsonl"
    with SiteServer(Site(urls=60, hosts=2, calendar_months=0), log=log) as server:
        server.log_path = log
        yield server


@pytest.fixture
def project(tmp_path, site):
    """A project whose spider takes 2 * 7 pages of the site."""
    return Project(tmp_path / "project", site)


def test_scrapy_deltafetch(project):
    """Pages that gave items are skipped the next time, as `deltafetch` says."""
    from scrapy_deltafetch import DeltaFetch

    project.settings("""
        SPIDER_MIDDLEWARES = {"scrapy_deltafetch.DeltaFetch": 100}
        DELTAFETCH_ENABLED = True
        DELTAFETCH_DIR = "delta"
    """)
    if not hasattr(DeltaFetch, "process_spider_output_async"):
        # Since 2.14 Scrapy refuses it by itself; the add-on changes nothing of that.
        refusal = "DeltaFetch doesn't support asynchronous spider output"
        assert refusal in project.fail("alone")
        project.distribute()
        assert refusal in project.fail("node-1")
        return
    first = project.run("alone")
    again = project.run("alone")
    shutil.rmtree(project.root / ".scrapy")
    project.distribute()

    assert project.run("node-1") == first
    assert project.run("node-1") == again
    assert len(first) == PAGES
    assert len(again) == 2  # the start requests, which it never skips


def test_scrapy_poet(project):
    """A page object is injected on both nodes."""
    project.module(
        "pages",
        """
        import attrs
        from web_poet import WebPage, field, handle_urls


        @attrs.define
        class Post:
            url: str
            size: int


        @handle_urls("")
        class PostPage(WebPage[Post]):
            @field
            def url(self):
                return str(self.response.url)

            @field
            def size(self):
                return len(self.response.body)
        """,
    )
    project.settings("""
        ADDONS["scrapy_poet.Addon"] = 300
        SCRAPY_POET_DISCOVER = ["shop.pages"]
    """)
    project.spider(
        SPIDER.replace("import scrapy", "import scrapy\nfrom shop.pages import Post")
        .replace("parse_post(self, response)", "parse_post(self, response, post: Post)")
        .replace('{"url": response.url, "size": len(response.body)}', "post")
    )

    alone, together = project.compare()

    assert together == alone
    assert len(alone) == PAGES


def test_spidermon(project):
    """Monitors run when a node closes, and see its stats."""
    project.module(
        "monitors",
        """
        from spidermon import Monitor, MonitorSuite


        class Items(Monitor):
            def test_it_fetched(self):
                assert self.data.stats.get("downloader/exception_count", 0) == 0
                assert self.data.stats["finish_reason"] == "finished"


        class Suite(MonitorSuite):
            monitors = [Items]
        """,
    )
    project.settings("""
        SPIDERMON_ENABLED = True
        EXTENSIONS = {"spidermon.contrib.scrapy.extensions.Spidermon": 500}
        SPIDERMON_SPIDER_CLOSE_MONITORS = ("shop.monitors.Suite",)
    """)

    alone, together = project.compare()

    assert together == alone
    for node in ("alone", "node-1", "node-2"):
        assert "Items/test_it_fetched... OK" in project.log(node)


def test_scrapy_inline_requests(project):
    """What a callback waits for is fetched by its own process, once."""
    project.spider("""
        import scrapy
        from inline_requests import inline_requests


        class Shop(scrapy.Spider):
            name = "shop"

            async def start(self):
                for base in self.bases.split(","):
                    yield scrapy.Request(base + "about")

            @inline_requests
            def parse(self, response):
                sizes = []
                for n in range(3):
                    page = yield response.follow(f"/post/{n}")
                    sizes.append(len(page.body))
                yield {"url": response.url, "sizes": sizes}
                yield response.follow("/hub", self.parse_hub)

            def parse_hub(self, response):
                yield {"url": response.url}
    """)

    alone, together = project.compare()

    assert together == alone
    assert len(alone) == 4
    assert sum(kind in ("response", "revisit") for kind, *_ in project.records()) == 10
    logs = project.log("node-1") + project.log("node-2")
    assert "fetched by this process alone: its callback functools.partial" in logs


def test_files_pipeline(project):
    """Files of items are fetched by the node that scraped the item, and archived."""
    project.settings("""
        ITEM_PIPELINES = {"scrapy.pipelines.files.FilesPipeline": 1}
        FILES_STORE = "files"
    """)
    project.spider(
        SPIDER.replace(
            '"size": len(response.body)',
            '"file_urls": [response.urljoin(f"/post/{n}") for n in (1, 2)]',
        )
    )

    alone, together = project.compare()

    def paths(items):
        return sorted(
            file["path"] for item in items for file in json.loads(item).get("files", ())
        )

    assert len(paths(alone)) == 18
    assert paths(together) == paths(alone)
    assert len(list((project.root / "files" / "full").iterdir())) == 4


def answers(port):
    """Whether something listens on *port*."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def test_http_2(project, tmp_path):
    """Scrapy's HTTP/2 handler stays in place; what it fetches is archived."""
    (tmp_path / "app.py").write_text(
        textwrap.dedent("""
        async def app(scope, receive, send):
            if scope["type"] != "http":
                return
            body = b"".join(b'<a href="/%d">x</a>' % n for n in range(5))
            headers = [(b"content-type", b"text/html")]
            start = {"type": "http.response.start", "status": 200, "headers": headers}
            await send(start)
            version = scope["http_version"].encode()
            await send({"type": "http.response.body", "body": version + body})
        """)
    )
    certificate = certify(tmp_path)
    (port,) = free_ports(1)
    hypercorn = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "hypercorn",
            "app:app",
            "--bind",
            f"127.0.0.1:{port}",
            "--certfile",
            str(certificate),
            "--keyfile",
            str(tmp_path / "key.pem"),
        ],
        cwd=tmp_path,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(lambda: answers(port), "the start of hypercorn")
        project.bases = f"https://127.0.0.1:{port}/"
        project.settings("""
            DOWNLOAD_HANDLERS = {
                "https": "scrapy.core.downloader.handlers.http2.H2DownloadHandler",
            }
            CONCURRENT_REQUESTS = 1  # more than one stream, and hypercorn closes
        """)
        project.spider("""
            import scrapy


            class Shop(scrapy.Spider):
                name = "shop"

                async def start(self):
                    yield scrapy.Request(self.bases)

                def parse(self, response):
                    yield {"url": response.url, "version": response.text[:1]}
                    for link in response.css("a"):
                        yield response.follow(link)
        """)

        alone, together = project.compare()
    finally:
        hypercorn.kill()
        hypercorn.wait()

    assert together == alone
    assert len(alone) == 6
    assert all(json.loads(item)["version"] == "2" for item in alone)
    urls = {headers["WARC-Target-URI"] for kind, headers, _ in project.records()}
    assert urls == {json.loads(item)["url"] for item in alone}


class Scrapyd:
    """A scrapyd server of its own."""

    def __init__(self, directory):
        directory.mkdir()
        (self.port,) = free_ports(1)
        (directory / "scrapyd.conf").write_text(
            f"[scrapyd]\nhttp_port = {self.port}\nbind_address = 127.0.0.1\n"
            "poll_interval = 0.2\n"
        )
        self._log = (directory / "log").open("wb")
        self.process = subprocess.Popen(
            [str(Path(sys.executable).with_name("scrapyd"))],
            cwd=directory,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        wait_for(lambda: answers(self.port), "the start of scrapyd")

    def ask(self, path, **fields):
        """Call its web service."""
        data = urllib.parse.urlencode(fields, doseq=True).encode() if fields else None
        url = f"http://127.0.0.1:{self.port}/{path}"
        with urllib.request.urlopen(url, data, timeout=DEADLINE) as answer:
            return json.load(answer)

    def close(self):
        self.process.terminate()
        self.process.wait()
        self._log.close()


def test_scrapyd(project, tmp_path):
    """A project deployed to two scrapyd servers, one job on each: one crawl."""
    project.distribute()
    project.settings(f"""
        FRONTIER_STORE_DIR = {str(tmp_path / "store")!r}
        FRONTIER_WARC_DIR = {str(tmp_path / "warcs")!r}
    """)
    egg = tmp_path / "shop.egg"
    subprocess.run(
        [str(Path(sys.executable).with_name("scrapyd-deploy")), "--build-egg", egg],
        cwd=project.root,
        check=True,
        capture_output=True,
    )
    servers = [Scrapyd(tmp_path / name) for name in ("one", "two")]

    def feed_of(server):
        return str(tmp_path / f"{server.port}.jsonl")

    try:
        for server in servers:
            upload(server, egg)
            server.ask(
                "schedule.json",
                project="shop",
                spider="shop",
                bases=project.bases,
                setting=[
                    f"FRONTIER_RUN_ID={tmp_path.name}",
                    "FEEDS=" + json.dumps({feed_of(server): {"format": "jsonlines"}}),
                ],
            )
        for server in servers:
            wait_for(
                lambda server=server: server.ask("listjobs.json?project=shop")[
                    "finished"
                ],
                "the end of the job",
            )
    finally:
        for server in servers:
            server.close()
    items = [
        json.loads(line)["url"]
        for server in servers
        for line in Path(feed_of(server)).read_text().splitlines()
    ]
    assert len(items) == len(set(items))
    assert len(items) == PAGES


def upload(server, egg):
    """Deploy *egg* as a user of scrapyd's web service would."""
    boundary = "x" * 30
    parts = {"project": b"shop", "version": b"1", "egg": egg.read_bytes()}
    body = b""
    for name, value in parts.items():
        file = '; filename="shop.egg"' if name == "egg" else ""
        body += (
            (
                f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{file}'
                "\r\n\r\n"
            ).encode()
            + value
            + b"\r\n"
        )
    body += f"--{boundary}--\r\n".encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{server.port}/addversion.json",
        body,
        {"Content-Type": f"multipart/form-data; boundary={boundary}"},
    )
    with urllib.request.urlopen(request, timeout=DEADLINE) as answer:
        assert json.load(answer)["status"] == "ok"
