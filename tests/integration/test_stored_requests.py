"""What a stored request may steer, and that projects with a proxy run as they are."""

import contextlib
from collections import Counter

import pytest
from conftest import until

from frontier.queue.dead_letters import counted, letters
from frontier.queue.item import encode
from frontier.queue.push import TEST, Push
from frontier.seeds.seeder import Seeder
from frontier.seen.config import seen_config
from frontier.seen.seen_set import stored_crawl
from frontier.status.snapshot import snapshot
from tests.harness.project import scrapy_project
from tests.rawsite import RawSite, answer, page, redirect

HOST = "http://site.example"
PAGES = 12
SPIDER = """
import scrapy


class ProxySetter:
    def process_request(self, request, spider=None):
        request.meta.setdefault("proxy", "{proxy}")


class ProxiedSpider(scrapy.Spider):
    name = "proxied"
    custom_settings = {{
        "ROBOTSTXT_OBEY": False,
        "DOWNLOADER_MIDDLEWARES": {{ProxySetter: 100}} if not {own} else {{}},
    }}

    async def start(self):
        yield scrapy.Request("{host}/0", meta={{"proxy": "{proxy}"}} if {own} else {{}})

    def parse(self, response):
        yield {{"url": response.url}}
        for url in response.css("a::attr(href)").getall():
            yield response.follow(url, meta=response.meta)
"""


class Proxy(RawSite):
    """A proxy that is all of one site: what it is asked for has a host."""

    def __init__(self):
        self.asked = Counter()
        super().__init__({}, answer=self._say)

    def _say(self, url, _):
        self.asked[url] += 1
        number = int(url.rpartition("/")[2])
        said = page(*(f"/{n}" for n in range(number, min(number + 4, PAGES))))
        if number % 4 == 1 and self.asked[url] == 1:
            said = answer(status="503 Busy")
        elif number % 4 == 2 and "/to/" not in url:
            said = redirect(f"/to/{number}")
        return said


@pytest.fixture
def proxy():
    with contextlib.closing(Proxy()) as made:
        yield made


@pytest.fixture
def start(cluster, proxy, tmp_path):
    def start(*, own, **settings):
        address = proxy.origin
        text = SPIDER.format(proxy=address, own=own, host=HOST)
        scrapy_project(tmp_path, text)
        quick = {"FRONTIER_BACKOFF_MIN": "0.05", **settings}
        cluster.start("node-1", spider="proxied", cwd=tmp_path, **quick)
        return cluster

    return start


def asked(proxy):
    """What it was asked for: a copy, as its threads go on."""
    return Counter(dict(proxy.asked))


def everything():
    """What is asked of the proxy, and how often."""
    expected = Counter({f"{HOST}/{n}": 1 + (n % 4 == 1) for n in range(PAGES)})
    return expected + Counter({f"{HOST}/to/{n}": 1 for n in range(2, PAGES, 4)})


def test_spider_that_sets_its_proxy_is_warned_of_stored_meta_setting(start, proxy):
    cluster = start(own=True)

    cluster.finish()
    assert asked(proxy) == everything()
    assert "FRONTIER_STORED_META" in cluster.text_of("node-1")
    seen = snapshot(cluster.store, "frontier", "proxied-1")
    assert seen.totals.local > 0
    assert seen.queue.dead == 0


def test_hostile_stored_requests_become_dead_letters_and_are_not_sent(
    start, cluster, proxy
):
    """While a project with a middleware that sets a proxy runs as it is."""
    start(own=False, FRONTIER_KEEP_ALIVE="True")
    until(lambda: asked(proxy) == everything(), "the whole site")
    seen = snapshot(cluster.store, "frontier", "proxied-1")
    assert (seen.totals.local, seen.queue.dead) == (0, 0)
    crawl = stored_crawl(cluster.store, "frontier", "proxied-1")
    hostile = [
        {"url": "file:///etc/hostname"},
        {"url": f"{HOST}/a", "callback": "__init__", "cb_kwargs": {"parse": "gone"}},
        {"url": f"{HOST}/b", "errback": "update_settings"},
        {"url": f"{HOST}/c", "meta": {"proxy": "http://127.0.0.1:1"}},
        {"url": f"{HOST}/d", "meta": {"bindaddress": ["127.0.0.2", 0]}},
    ]
    pushes = [
        (n, Push(TEST, 2**63 + n, "0:site.example", 0, encode(record)))
        for n, record in enumerate(hostile)
    ]
    seeder = Seeder(cluster.store, crawl.keys, seen_config(crawl.config))
    seeder.push(pushes)

    def dead():
        counts = counted(cluster.store, crawl.keys, crawl.config.partitions)
        found = letters(cluster.store, crawl.keys, counts)
        return sorted(letter.reason.decode().rpartition(": ")[2] for letter in found)

    until(lambda: len(dead()) == len(hostile), "dead letters")
    assert dead() == sorted(
        [
            "its scheme 'file' is not one of FRONTIER_SCHEMES",
            "its meta bindaddress is not one of FRONTIER_STORED_META",
            "its meta proxy is not one of FRONTIER_STORED_META",
            "its callback '__init__' is not a callback of the spider",
            "its errback 'update_settings' is not a callback of the spider",
        ]
    )
    assert asked(proxy) == everything()


SUBCLASSES = """
import scrapy


class WaitingRequest(scrapy.Request):
    def __init__(self, *args, wait=0, **kwargs):
        self.wait = wait
        super().__init__(*args, **kwargs)


class PageRequest(scrapy.Request):
    def __init__(self, site, number, **kwargs):
        super().__init__(f"{site}page/{number}", **kwargs)


class Waits:
    def process_request(self, request):
        if isinstance(request, WaitingRequest):
            request.headers["X-Wait"] = str(request.wait)


class SubclassSpider(scrapy.Spider):
    name = "subclass"
    custom_settings = {"DOWNLOADER_MIDDLEWARES": {Waits: 100}}

    async def start(self):
        yield WaitingRequest(self.site, wait=3)
        yield WaitingRequest(self.site + "none")
        yield PageRequest(self.site, 7)
"""


def test_what_a_class_of_requests_has_beside_its_attributes_reaches_its_middleware(
    cluster, tmp_path
):
    scrapy_project(tmp_path / "project", SUBCLASSES)
    with contextlib.closing(RawSite({}, answer=lambda *_: page())) as site:
        own = ("-a", f"site={site.url('/')}")
        cluster.start("a", *own, spider="subclass", cwd=tmp_path / "project")

        cluster.finish()
        assert b"X-Wait: 3\r\n" in site.requests["/"]
        assert b"X-Wait: 0\r\n" in site.requests["/none"]
        assert "/page/7" in site.requests
    assert "its class WaitingRequest would lose wait" in cluster.text_of("a")
