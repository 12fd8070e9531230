"""Spiders of Scrapy's and scrapy-redis's classes, on two nodes and on plain Scrapy.

All three fetch the same site; a request says which of them sent it. The nodes have
shared the partitions before the spider starts.
"""

import contextlib
import gzip
import json
import os
import subprocess
import sys
import textwrap
from collections import Counter

import pytest
import warm
from conftest import DEADLINE, Cluster, has_shares, home_of, owned, until

from frontier.testing.oracle import RequestLog
from frontier.testing.server import SiteServer
from frontier.testing.site import Site, failure, html, ok

HOSTS = 16
"""So many that two nodes have some each, but for one time in 30,000."""
PAGES = 3
NODES = ("node-1", "node-2")


class Shop(Site):
    """A shop on each host: lists of products, feeds, sitemaps, and a login."""

    pages = PAGES

    def resource(self, host, target, method="GET", body=b""):
        path = target.partition("?")[0]
        other = self.bases[(host + 1) % self.hosts]
        match path.split("/")[1:]:
            case ["start"]:
                return links("/list/0", *(f"{base}/list/0" for base in self.bases))
            case ["list", number]:
                n = int(number)
                last = n + 1 == self.pages
                more = [f"{other}/list/0"] if last else [f"/list/{n + 1}"]
                return links(*more, f"/product/{n}?sid={n}", f"/skipped/{n}", "/gone")
            case ["product" | "detail" | "special", number]:
                return html(f"<h1>Product {number} of host {host}</h1>")
            case ["gone"]:
                return failure(404, "gone")
            case ["robots.txt"]:
                return ok("text/plain", f"Sitemap: {self.bases[0]}/all.xml.gz".encode())
            case ["all.xml.gz"]:
                maps = [f"{base}/map.xml" for base in self.bases]
                return zipped("sitemapindex", "sitemap", maps)
            case ["map.xml"]:
                kinds = ("product", "special", "other")
                urls = [f"{self.bases[host]}/{kind}/0" for kind in kinds]
                return ok("application/xml", sitemap("urlset", "url", urls))
            case ["feed.xml"]:
                rows = "".join(
                    f"<product><name>p{n}</name></product>" for n in range(PAGES)
                )
                return ok("application/xml", f"<all>{rows}</all>".encode())
            case ["login"] if method == "POST":
                cookie = b"session=%s; Path=/" % body
                return html("Welcome").with_headers((b"Set-Cookie", cookie))
        return failure(404, "nothing")


def links(*urls):
    anchors = [f"<a href='{url}'>to <b>{n}</b></a>" for n, url in enumerate(urls)]
    return html("".join(anchors))


def sitemap(outer, inner, urls):
    urls = "".join(f"<{inner}><loc>{url}</loc></{inner}>" for url in urls)
    space = "http://www.sitemaps.org/schemas/sitemap/0.9"
    return f"<{outer} xmlns='{space}'>{urls}</{outer}>".encode()


def zipped(*words):
    return ok("application/gzip", gzip.compress(sitemap(*words), mtime=0))


ITEMS = """
import scrapy


class Product(scrapy.Item):
    name = scrapy.Field()
    url = scrapy.Field()
"""
IMPORTS = """
import datetime
from pathlib import Path

import scrapy
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import (
    CrawlSpider, Rule, SitemapSpider, Spider, XMLFeedSpider
)
from scrapy_redis.spiders import RedisCrawlSpider, RedisSpider
from shop.items import Product


def fields(response, **more):
    meta = response.meta
    return {"url": response.url, "depth": meta["depth"], **more}
"""
RULES = """
    rules = (
        Rule(LinkExtractor(allow="/list/"), follow=True, process_request="upper"),
        Rule(
            LinkExtractor(allow="/product/"),
            callback="page",
            cb_kwargs={"kind": "book"},
            process_links="shortened",
            process_request=lambda request, response: request.replace(
                meta={**request.meta, "from": response.url, "at": Path("/x")},
                headers={"X-List": response.url},
            ),
        ),
        Rule(LinkExtractor(allow="/skipped/"), process_request=lambda *_: None),
        Rule(LinkExtractor(allow="/gone"), callback="page", errback="failed"),
    )

    def upper(self, request, response):
        request.priority += 1
        return request

    def shortened(self, links):
        for link in links:
            link.url = link.url.partition("?")[0]
        return links

    def page(self, response, kind):
        meta = response.meta
        yield fields(
            response,
            kind=kind,
            rule=meta["rule"],
            text=meta["link_text"],
            came_from=meta["from"],
            at=repr(meta["at"]),
            header=response.request.headers["X-List"].decode(),
        )

    def failed(self, failure):
        yield {"url": failure.request.url, "status": failure.value.response.status}
"""
SPIDERS = {
    "CrawlSpider": """
class One(CrawlSpider):
    def __init__(self, bases="", **kwargs):
        super().__init__(**kwargs)
        self.start_urls = [bases.split(",")[0] + "/start"]

    def parse_start_url(self, response):
        yield {"url": response.url, "start": True}
"""
    + RULES,
    "CrawlSpider, links to start URLs": """
class One(CrawlSpider):
    custom_settings = {"FRONTIER_SEEN_START": False}

    def __init__(self, bases="", **kwargs):
        super().__init__(**kwargs)
        self.start_urls = [base + "/list/0" for base in bases.split(",")]

    rules = [Rule(LinkExtractor(allow="/list/"), callback="listed", follow=True)]

    def listed(self, response):
        yield {"url": response.url, "listed": True}

    def parse_start_url(self, response):
        yield {"url": response.url, "start": True}
""",
    "SitemapSpider": """
class One(SitemapSpider):
    sitemap_rules = [("/product/", "product"), ("/special/", "special")]

    def __init__(self, bases="", **kwargs):
        super().__init__(**kwargs)
        self.sitemap_urls = [bases.split(",")[0] + "/robots.txt"]

    def product(self, response):
        yield fields(response, kind="product")

    def special(self, response):
        yield fields(response, kind="special")
""",
    "XMLFeedSpider": """
class One(XMLFeedSpider):
    itertag = "product"

    def __init__(self, bases="", **kwargs):
        super().__init__(**kwargs)
        self.start_urls = [base + "/feed.xml" for base in bases.split(",")]

    def parse_node(self, response, node):
        item = Product(name=node.xpath("name/text()").get())
        url = response.urljoin("/detail/" + item["name"])
        meta = {"item": item, "when": datetime.timedelta(hours=1)}
        yield scrapy.Request(url, self.detail, meta=meta)

    def detail(self, response):
        item = response.meta["item"]
        item["url"] = response.url
        yield item
""",
    "InitSpider": """
class One(Spider):
    # As InitSpider was: first a login, and what it leads to are the start URLs.
    custom_settings = {"COOKIES_ENABLED": True}

    def __init__(self, bases="", **kwargs):
        super().__init__(**kwargs)
        self.bases = bases.split(",")

    async def start(self):
        for base in self.bases:
            yield scrapy.FormRequest(
                base + "/login",
                formdata={"user": base},
                callback=self.after_login,
                cb_kwargs={"base": base},
            )

    def after_login(self, response, base):
        if b"Welcome" in response.body:
            for n in range(3):
                yield scrapy.Request(f"{base}/detail/{n}")

    def parse(self, response):
        cookie = response.request.headers.get("Cookie", b"").decode()
        yield fields(response, cookie=cookie)
""",
    "all that a request has": """
class One(Spider):
    def __init__(self, bases="", **kwargs):
        super().__init__(**kwargs)
        self.start_urls = [base + "/detail/0" for base in bases.split(",")]

    def parse(self, response):
        yield {"url": response.url, "meta": sorted(response.meta)}
        for n in range(3):
            yield response.follow(
                f"/product/{n}",
                self.product,
                cb_kwargs={"number": n, "tags": ("a", n)},
                meta={"nested": {"list": [1, 2]}},
                priority=n,
            )
        yield response.follow("/gone", self.product, errback=self.failed)
        yield scrapy.FormRequest(
            response.urljoin("/login"),
            formdata={"a": "1", "b": "\\u00e9"},
            callback=self.form,
        )
        yield scrapy.Request("data:,hello", self.text)
        for _ in range(2):
            yield response.follow("/special/0", self.text, dont_filter=True)

    def product(self, response, number, tags):
        meta = response.meta
        yield {
            "url": response.url,
            "given": repr((number, tags)),
            "nested": meta["nested"],
            "meta": sorted(meta),
            "slot": meta["download_slot"],
        }
        url = response.urljoin(f"/product/{number + 3}")
        yield scrapy.Request(url, lambda r: self.text(r, number))

    def form(self, response):
        yield {"url": response.url, "set": response.headers["Set-Cookie"].decode()}

    def text(self, response, number=None):
        meta = [] if number is None else sorted(response.meta)
        yield {"url": response.url, "text": response.text, "n": number, "meta": meta}

    def failed(self, failure):
        status = failure.value.response.status
        slot = failure.request.meta["download_slot"]
        yield {"url": failure.request.url, "status": status, "slot": slot}
""",
    "start requests to one URL": """
class One(Spider):
    def __init__(self, bases="", **kwargs):
        super().__init__(**kwargs)
        self.bases = bases.split(",")

    async def start(self):
        for base in self.bases:
            for n in range(2):
                url = f"{base}/detail/0"
                yield scrapy.Request(url, dont_filter=True, cb_kwargs={"n": n})
                url = f"{base}/detail/1"
                yield scrapy.Request(url, dont_filter=True, meta={"cookiejar": n})
            for callback in (self.parse, self.named):
                yield scrapy.Request(f"{base}/special/0", callback, dont_filter=True)

    def named(self, response):
        yield {"named": response.url}

    def parse(self, response, n=None):
        yield fields(response, n=n, jar=response.meta.get("cookiejar"))
""",
}
RARE = ("CrawlSpider, links to start URLs", "XMLFeedSpider", "InitSpider")
"""Kinds that only `make nightly` tries: they differ from others in what they parse."""
LOCAL = "all that a request has"
TWICE = ("CrawlSpider, links to start URLs", "start requests to one URL", LOCAL)
REDIS_SPIDERS = {
    "RedisSpider": """
class One(RedisSpider):
    def __init__(self, bases="", key="", **kwargs):
        super().__init__(**kwargs)
        self.redis_key = key

    def parse(self, response):
        for n in range(3):
            yield response.follow(f"/detail/{n}", self.detail, meta={"n": n})

    def detail(self, response):
        yield fields(response, n=response.meta["n"])
""",
    "RedisCrawlSpider": """
class One(RedisCrawlSpider):
    def __init__(self, bases="", key="", **kwargs):
        super().__init__(**kwargs)
        self.redis_key = key
"""
    + RULES,
}
SETTINGS = """
SPIDER_MODULES = ["shop.spiders"]
SPIDER_MIDDLEWARES = {"shop.held.Held": 50}
ROBOTSTXT_OBEY = False
COOKIES_ENABLED = False
DOWNLOAD_DELAY = 0
"""
HELD = """
import asyncio
from pathlib import Path


class Held:
    async def process_start(self, start):
        while not Path("go").exists():
            await asyncio.sleep(0.02)
        async for one in start:
            yield one
"""


@pytest.fixture
def project(tmp_path):
    """Make a project with a spider; return its directory."""

    def project(spider):
        root = tmp_path / "project"
        package = root / "shop"
        package.mkdir(parents=True)
        (root / "scrapy.cfg").write_text("[settings]\ndefault = shop.settings\n")
        (package / "__init__.py").write_text("")
        (package / "items.py").write_text(ITEMS)
        (package / "held.py").write_text(HELD)
        (package / "settings.py").write_text(SETTINGS)
        named = textwrap.dedent(spider).replace(
            "Spider):\n", 'Spider):\n    name = "shop"\n', 1
        )
        (package / "spiders.py").write_text(IMPORTS + named)
        return root

    return project


@pytest.fixture
def shop(tmp_path):
    """A server of the shop."""
    log = tmp_path / "requests.jsonl"
    site = Shop(hosts=HOSTS)
    with contextlib.ExitStack() as stack:
        shares = {}
        while not all(shares.get(node) for node in NODES):
            server = stack.enter_context(SiteServer(site, log=log, delay=0.02))
            shares = owned(map(home_of, server.seeds), NODES)
        server.requests = lambda: RequestLog.read(log) if log.exists() else None
        yield server


class Crawls:
    """A spider on two nodes and on plain Scrapy, and what came of it."""

    def __init__(self, directory, root, shop, cluster):
        self.directory = directory
        self.root = root
        self.shop = shop
        self.cluster = cluster

    def run(self, *, alone=(), together=(), then=lambda: None):
        """Run both to their ends, with further words for ``scrapy crawl``.

        *then* is called when the nodes have their shares, before their spiders start.
        """
        for node in NODES:
            output = str(self.directory / f"{node}.jsonl")
            self.start(node, *together, "-o", output)
        words = ["crawl", "shop", *self._bases, *alone, "-o", "alone.jsonl"]
        with (self.directory / "plain.log").open("wb") as log:
            plain = warm.Popen(
                [sys.executable, "-m", "scrapy", *words],
                cwd=self.root,
                env={**os.environ, "PYTHONPATH": str(self.root)},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        until(lambda: has_shares(self.cluster.held("shop-1"), NODES), "the shares")
        then()
        (self.root / "go").touch()
        self.cluster.finish()
        assert plain.wait(DEADLINE) == 0, (self.directory / "plain.log").read_text()

    def start(self, node, *words, **settings):
        """Start a node, with further words for ``scrapy crawl``."""
        addons = '{"frontier.addon.Addon": 100}'
        chosen = {"ADDONS": addons, **settings}
        words = (*self._bases, *words)
        self.cluster.start(node, *words, spider="shop", cwd=self.root, **chosen)

    @property
    def _bases(self):
        return ("-a", f"bases={','.join(self.shop.site.bases)}")

    def items(self):
        """What plain Scrapy yielded, and what the nodes did."""
        paths = [self.directory / f"{node}.jsonl" for node in NODES]
        return items(self.root / "alone.jsonl"), items(*paths)

    def requests(self):
        """How often plain Scrapy asked for what, and each of the nodes."""
        found = {node: Counter() for node in (None, *NODES)}
        for entry in self.shop.requests().entries:
            found[entry.node][entry.method, entry.url] += 1
        return found.values()


def items(*paths):
    return sorted(
        json.dumps(json.loads(line), sort_keys=True)
        for path in paths
        for line in path.read_text().splitlines()
    )


@pytest.fixture
def crawls(shop, project, tmp_path):
    """Prepare crawls of a spider, by nodes that share *cluster*."""
    return lambda spider, cluster: Crawls(tmp_path, project(spider), shop, cluster)


def require_same(crawls, most=1):
    expected, found = crawls.items()
    assert len(expected) >= HOSTS * 2
    assert found == expected
    alone, *each = crawls.requests()
    together = sum(each, Counter())
    assert together == alone
    assert max(together.values()) == most
    assert all(each), "a node had nothing to do"
    return "frontier/queue/local" in "".join(map(crawls.cluster.text_of, NODES))


@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=[pytest.mark.long] * (k in RARE)) for k in SPIDERS]
)
def test_two_nodes_yield_what_plain_scrapy_does(kind, crawls, cluster):
    made = crawls(SPIDERS[kind], cluster)
    made.run()

    has_local = require_same(made, most=2 if kind in TWICE else 1)
    assert has_local == (kind == LOCAL)
    for path in cluster.warc_dir.glob("*.cdxj"):
        assert b"data:" not in path.read_bytes()


@pytest.mark.one_server("scrapy-redis's spider connects by itself, to no other")
@pytest.mark.parametrize("kind", REDIS_SPIDERS)
def test_two_nodes_yield_what_a_spider_of_scrapy_redis_does(
    kind, crawls, own_server, shop, tmp_path
):
    cluster = Cluster(tmp_path, url=own_server.url)
    urls = [f"{base}/detail/9" for base in shop.site.bases]
    if kind == "RedisCrawlSpider":
        urls = [f"{shop.site.bases[0]}/start"]
    entries = [json.dumps({"url": url}) for url in urls]

    def put(key):
        cluster.db("RPUSH", key, *entries)

    put("alone")
    made = crawls(REDIS_SPIDERS[kind], cluster)
    common = [f"-sREDIS_URL={own_server.url}", "-sMAX_IDLE_TIME_BEFORE_CLOSE=1"]
    made.run(
        alone=[*common, "-a", "key=alone"],
        together=[*common, "-a", "key=together"],
        then=lambda: put("together"),
    )
    cluster.close()

    assert not require_same(made)
