"""Plug-ins that people use, as they are: two nodes yield what plain Scrapy yields.

Each test makes a project of its own with the plug-in's own documented settings,
runs it with plain Scrapy, adds the add-on's line, and runs it on two nodes.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import textwrap
import time
import urllib.parse
import urllib.request
from pathlib import Path

import boto3
import pytest
from moto.server import ThreadedMotoServer

from frontier.testing.server import SiteServer
from frontier.testing.site import Site

pytestmark = pytest.mark.compat
ROOT = Path(__file__).parents[2]
SCRAPY = [sys.executable, "-m", "scrapy"]
CHROMIUM = "/usr/bin/chromium"
DEADLINE = 120
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

    def __init__(self, root, seeds):
        self.root = root
        self.bases = ",".join(seeds)
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

    def start(self, output, *options):
        """Start one Scrapy process that writes items to *output*."""
        log = output.with_suffix(".log").open("wb")
        with log:
            return subprocess.Popen(
                [*SCRAPY, "crawl", "shop", "-a", f"bases={self.bases}"]
                + ["-o", str(output), *options],
                cwd=self.root,
                env={**os.environ, "PYTHONPATH": str(self.root)},
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def run(self, *nodes, options=()):
        """Run to the end; return all items, sorted, as JSON."""
        outputs = [self.root / f"{node}.jsonl" for node in nodes]
        for output in outputs:
            output.unlink(missing_ok=True)
        processes = [self.start(output, *options) for output in outputs]
        for process, output in zip(processes, outputs, strict=True):
            assert process.wait(DEADLINE) == 0, self.log(output.stem)
        lines = [line for o in outputs if o.exists() for line in o.open()]
        return sorted(json.dumps(json.loads(line), sort_keys=True) for line in lines)

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
    return Project(tmp_path / "project", site.seeds)


def test_scrapy_deltafetch(project):
    """Pages that gave items are skipped the next time, as `deltafetch` says."""
    project.settings("""
        SPIDER_MIDDLEWARES = {"scrapy_deltafetch.DeltaFetch": 100}
        DELTAFETCH_ENABLED = True
        DELTAFETCH_DIR = "delta"
    """)
    project.distribute()

    first = project.run("node-1")
    second = project.run("node-1")

    assert len(first) == 14
    assert len(second) == 2  # the start requests, which it never skips
    assert "'deltafetch/skipped': 12" in project.log("node-1")


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
    assert len(alone) == 14


def test_spidermon(project):
    """Monitors run when a node closes, and see its stats."""
    project.module(
        "monitors",
        """
        from spidermon import Monitor, MonitorSuite


        class Items(Monitor):
            def test_it_fetched(self):
                assert self.data.stats["downloader/request_count"] >= 0
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


def test_files_pipeline(project, site):
    """Files of items are fetched by the node that scraped the item, and archived."""
    project.settings("""
        ITEM_PIPELINES = {"scrapy.pipelines.files.FilesPipeline": 1}
        FILES_STORE = "files"
    """)
    project.spider(
        SPIDER.replace(
            '"size": len(response.body)',
            '"file_urls": [response.urljoin(f"/post/{n}") for n in (20, 21)]',
        )
    )

    alone, together = project.compare()

    def paths(items):
        return sorted(
            file["path"] for item in items for file in json.loads(item).get("files", ())
        )

    assert len(paths(alone)) == 24
    assert paths(together) == paths(alone)
    assert len(list((project.root / "files" / "full").iterdir())) == 4


def test_feeds_to_object_storage(project):
    """Each node stores its part of a feed in a bucket, at its own name."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        s3 = boto3.client(
            "s3",
            endpoint_url=endpoint,
            region_name="us-east-1",
            aws_access_key_id="a",
            aws_secret_access_key="b",  # noqa: S106 (moto takes any)
        )
        s3.create_bucket(Bucket="feeds")
        project.settings(f"""
            AWS_ENDPOINT_URL = "{endpoint}"
            AWS_ACCESS_KEY_ID = "a"
            AWS_SECRET_ACCESS_KEY = "b"
            AWS_REGION_NAME = "us-east-1"
            FEEDS = {{"s3://feeds/%(name)s-%(node)s.jsonl": {{"format": "jsonlines"}}}}
        """)
        project.spider(
            SPIDER.replace('name = "shop"', 'name = "shop"\n    node = "x"')
        )
        alone, together = project.compare()
        assert together == alone
    finally:
        server.stop()
