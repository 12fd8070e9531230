"""Every request that waits for a robots.txt obeys it."""

import contextlib
import gc
import json
import sys
import threading
import time
import tracemalloc
from types import SimpleNamespace

import pytest
import warm
from scrapy import Request
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.robotstxt import ProtegoRobotParser

from frontier.download.outcomes import Excluded
from frontier.download.robots import (
    Known,
    RobotsTxtMiddleware,
    _Cache,
)
from frontier.errors import WorkerFailed
from frontier.workers.pool import WorkerPool
from tests.rawsite import RawSite, answer

SCRIPT = """
import json, sys, urllib.request
import scrapy
from scrapy.crawler import AsyncCrawlerProcess

base, middleware, more = sys.argv[1:]


class Asking:
    asked = 0

    def process_request(self, request):
        Asking.asked += "/private/" in request.url
        if Asking.asked == 6:
            urllib.request.urlopen(base + "/all-wait")


class Eager(scrapy.Spider):
    name = "eager"
    fetched = []
    sent = []  # the delay of the slot as each left it

    @classmethod
    def from_crawler(cls, crawler):
        made = super().from_crawler(crawler)
        crawler.signals.connect(made.watch, scrapy.signals.spider_opened)
        return made

    def watch(self):
        downloader = self.crawler.engine.downloader
        handlers = downloader.handlers
        send = handlers.download_request_async

        def note(request):
            if not request.url.endswith("/robots.txt"):
                slot = downloader.slots[request.meta["download_slot"]]
                self.sent.append(slot.delay)
            return send(request)

        handlers.download_request_async = note

    async def start(self):
        for n in range(6):
            yield scrapy.Request(f"{base}/private/{n}", dont_filter=True)

    def parse(self, response):
        self.fetched.append(response.url)


process = AsyncCrawlerProcess({
    "ROBOTSTXT_OBEY": True, "LOG_LEVEL": "INFO", "COOKIES_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False, "TELNETCONSOLE_ENABLED": False,
    "DOWNLOADER_MIDDLEWARES": {
        "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware": None,
        Asking: 50,
        middleware: 100,
    },
    **json.loads(more),
})
process.crawl(Eager)
process.start()
print(json.dumps([len(Eager.fetched), Eager.sent]))
"""


@contextlib.contextmanager
def site_with(rule):
    """The address of a site whose robots.txt comes once all requests wait for it."""
    all_wait = threading.Event()

    def robots(connection):
        all_wait.wait(240)
        connection.sendall(answer(f"User-agent: *\n{rule}\n"))

    def told(connection):
        all_wait.set()
        connection.sendall(answer())

    pages = {"/robots.txt": robots, "/all-wait": told}
    site = RawSite(pages, answer=lambda *_: answer("x"))
    with contextlib.closing(site):
        yield site.origin


def run_with(rule, middleware, **settings):
    """How many pages came, and which delays before the next their slot had."""
    with site_with(rule) as base:
        words = ["-c", SCRIPT, base, middleware, json.dumps(settings)]
        done = warm.run([sys.executable, *words], check=True, capture_output=True)
    return json.loads(done.stdout)


OURS = "frontier.download.robots.RobotsTxtMiddleware"
NOBODY, SLOW = "Disallow: /private", "Crawl-delay: 0.25"


def test_requests_that_wait_for_robots_txt_obey_it():
    assert run_with(NOBODY, OURS) == [0, []]


def test_scrapys_own_middleware_still_needs_ours():
    """Say so in docs/decisions/urls.md when this fails: Scrapy has mended it."""
    scrapys = "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware"
    assert run_with(NOBODY, scrapys)[0] > 0


def test_a_crawl_delay_is_kept_whatever_autothrottle_thinks():
    throttled = {"AUTOTHROTTLE_ENABLED": True, "AUTOTHROTTLE_START_DELAY": 0}
    count, delays = run_with(SLOW, OURS, **throttled)
    assert (count, min(delays) >= 0.25) == (6, True)


def test_a_crawl_delay_is_cut_to_what_is_allowed():
    count, delays = run_with(SLOW, OURS, FRONTIER_CRAWL_DELAY_MAX=0.02)
    assert (count, {*delays}) == (6, {0.02})  # more, if one was sent again


async def test_long_rules_are_applied_in_a_thread():
    threads = []

    class Rules:
        def __init__(self, body):
            self.body = body

        def allowed(self, url, agent):
            threads.append(threading.current_thread())
            return False

        def crawl_delay(self, agent):
            return None

    async def rules_of(size):
        return Known(Rules(b""), 0.0, size)

    counts = SimpleNamespace(inc_value=lambda _: None)
    crawler = SimpleNamespace(spider=None, stats=counts)
    middleware = object.__new__(RobotsTxtMiddleware)
    vars(middleware).update(
        crawler=crawler, _stats=crawler.stats, _robotstxt_useragent="a", _most=0
    )
    for size in (100, 100_000):
        middleware._known = lambda _, size=size: rules_of(size)
        with pytest.raises(IgnoreRequest, match=r"^Forbidden by robots\.txt$"):
            await middleware.process_request(Request("http://host/"))

    assert [each is threading.main_thread() for each in threads] == [True, False]


def test_the_host_that_was_not_asked_for_longest_is_forgotten(monkeypatch):
    monkeypatch.setattr("frontier.download.robots.MOST_HOSTS", 2)
    cache = _Cache()
    for host in ("a", "b", "a", "c"):
        cache.get(host) or cache.put(host, Known(None, 0.0))

    assert [host for host in "abc" if cache.get(host)] == ["a", "c"]


SITEMAPS = b"".join(b"Sitemap:%d\n" % number for number in range(3_000))


@pytest.mark.parametrize("texts", ["agents", "long", "sitemaps"])
def test_parsed_rules_take_no_more_memory_than_they_may(monkeypatch, texts):
    monkeypatch.setattr("frontier.download.robots.MOST_BYTES", 1_000_000)
    text = {
        "agents": for_many_agents(600),
        "long": b"User-agent:*\nAllow:" + b"x" * 100_000 + b"/index.html",
        "sitemaps": SITEMAPS,
    }[texts]
    cache = _Cache()
    tracemalloc.start()
    try:
        for number in range(30):
            rules = ProtegoRobotParser(text, None)
            cache.put(str(number), Known(rules, 0.0, len(text)))
            del rules
        gc.collect()
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert size < 3_000_000


async def test_a_host_that_was_excluded_has_not_no_rules_once_it_is_not():
    async def fetch(*_):
        raise Excluded("http://host/robots.txt is excluded")

    counts = SimpleNamespace(inc_value=lambda _: None)
    middleware = object.__new__(RobotsTxtMiddleware)
    middleware._fetch, middleware._counts = fetch, counts
    middleware._cache = _Cache()

    known = await middleware._learn("http://host", Request("http://host/"), None)
    assert isinstance(known.error, Excluded)
    assert known.until <= time.monotonic()


def for_many_agents(size):
    """Rules that Protego copies to each of many agents."""
    names = b"".join(b"User-agent:%d\n" % n for n in range(size // 30))
    return names + b"Allow:a\n" * ((size - len(names)) // 8)


async def test_rules_for_many_agents_do_not_keep_the_node(stack):
    pool = WorkerPool(1, 0.5, 10**9)
    stack.push_async_callback(pool.close)
    middleware = object.__new__(RobotsTxtMiddleware)
    middleware._session = SimpleNamespace(workers=pool)
    middleware.agent_of = lambda _: b"bot"
    middleware.parse = lambda body: pytest.fail(f"{len(body)} bytes were read here")
    given = Response("http://host/robots.txt", body=for_many_agents(20_000))

    with pytest.raises(WorkerFailed):
        await middleware._parsed(given, Request("http://host/"))
