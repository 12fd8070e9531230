"""What Scrapy's own tests expect of a duplicate filter, and what the store adds."""

import hashlib
import json
import logging
import threading
import time
from types import SimpleNamespace

import pytest
from scrapy import Request, Spider, signals
from scrapy.core.scheduler import Scheduler as ScrapysScheduler
from scrapy.dupefilters import RFPDupeFilter
from scrapy.utils.test import get_crawler

from frontier.cluster.shared_settings import crawl_settings
from frontier.dupefilter import BlockingSeenTest, RedisDupeFilter
from frontier.errors import StoreUnavailable
from frontier.node.ends import REFUSED
from frontier.session.session import session_of
from frontier.store.client import Call
from frontier.store.keys import SCHEMA, CrawlKeys

PATH = "frontier.dupefilter.RedisDupeFilter"
SHARED = ["set", "bloom", "bloom,set"]


class ByHeader:
    """A fingerprinter that looks at nothing but a header."""

    def fingerprint(self, request):
        return hashlib.sha1(request.headers.get("X-Id", b"")).digest()


@pytest.fixture
def crawler(server, unique):
    """Make crawlers of one crawl."""

    def crawler(**settings):
        given = {
            "REDIS_URL": server.url,
            "FRONTIER_CRAWL_ID": unique,
            "FRONTIER_PARTITIONS": 16,
            "DUPEFILTER_CLASS": PATH,
            "LOG_LEVEL": "DEBUG",
            **settings,
        }
        made = get_crawler(Spider, given)
        made.spider = made._create_spider("foo")
        return made

    return crawler


@pytest.fixture
def opened(crawler):
    """Make open filters; they are closed at the end."""
    made = []

    def opened(**settings):
        each = RedisDupeFilter.from_crawler(crawler(**settings))
        each.open()
        made.append(each)
        return each

    yield opened
    for each in made:
        each.close("finished")


def test_scrapys_scheduler_builds_it_from_the_crawler(crawler):
    scheduler = ScrapysScheduler.from_crawler(crawler(DUPEFILTER_DEBUG=True))

    assert isinstance(scheduler.df, RedisDupeFilter)
    assert isinstance(scheduler.df, RFPDupeFilter)
    assert scheduler.df.debug is True


@pytest.mark.parametrize("tiers", ["recent,bloom,set", *SHARED, "recent", "recent,set"])
def test_only_the_first_request_of_a_url_is_new(opened, tiers):
    dupefilter = opened(FRONTIER_SEEN_TIERS=tiers)
    r1 = Request("http://scrapytest.org/1")
    r2 = Request("http://scrapytest.org/2")
    r3 = Request("http://scrapytest.org/2")

    assert not dupefilter.request_seen(r1)
    assert dupefilter.request_seen(r1)
    assert not dupefilter.request_seen(r2)
    assert dupefilter.request_seen(r3)


def test_duplicates_are_those_of_scrapys_fingerprint(opened):
    dupefilter, form = opened(), "http://a.example/form"
    verbatim = {"verbatim_url": True}
    first = [
        Request("http://a.example/?b=1&a=2"),
        Request("http://a.example/?b=1&a=2", meta=verbatim),
        Request(form),
        Request(form, method="POST"),
        Request(form, method="POST", body="a=1"),
        *map(Request, ("http:///x", "http://xn--/", "data:,x", "file:///x")),
    ]

    assert not any(map(dupefilter.request_seen, first))
    assert all(map(dupefilter.request_seen, first))
    assert dupefilter.request_seen(Request("http://A.example/?a=2&b=1#there"))
    for url in ("http://a.example/", "http://a.example/?b&a", "http://a.example/%7e"):
        expected = RFPDupeFilter().request_fingerprint(Request(url))
        assert dupefilter.request_fingerprint(Request(url)) == expected


@pytest.mark.parametrize("tiers", ["recent,bloom,set", "set"])
def test_fingerprints_of_the_project_decide_on_any_host(opened, tiers):
    dupefilter = opened(REQUEST_FINGERPRINTER_CLASS=ByHeader, FRONTIER_SEEN_TIERS=tiers)
    first, other = {"X-Id": "1"}, {"X-Id": "2"}

    assert not dupefilter.request_seen(Request("http://a.example/", headers=first))
    assert dupefilter.request_seen(Request("http://b.example/x", headers=first))
    assert not dupefilter.request_seen(Request("http://a.example/", headers=other))


@pytest.mark.parametrize("tiers", [*SHARED, "recent,bloom,set"])
def test_seen_set_is_shared_and_survives_a_restart(opened, unique, tiers):
    first = opened(FRONTIER_SEEN_TIERS=tiers)
    second = opened(FRONTIER_SEEN_TIERS=tiers)
    request = Request("http://a.example/")

    assert not first.request_seen(request)
    assert second.request_seen(request)
    first.close("finished")
    second.close("finished")
    assert opened(FRONTIER_SEEN_TIERS=tiers).request_seen(request)
    assert not opened(FRONTIER_CRAWL_ID=f"{unique}-b").request_seen(request)


def test_a_crawl_without_an_id_has_the_name_of_its_spider(crawler):
    session = session_of(made := crawler(FRONTIER_CRAWL_ID=""))

    seen_test = BlockingSeenTest(session.config, dict(made.settings), spider="foo")

    assert seen_test.crawl_id == "foo-dupefilter"


def test_dupefilter_queues_nothing(opened, db, names_like, unique):
    dupefilter = opened()
    for number in range(50):
        dupefilter.request_seen(Request(f"http://a.example/{number}"))

    names = names_like(f"{{frontier:{unique}:*")
    kinds = {name.split(b"}:")[1].split(b":")[0] for name in names}
    assert kinds == {b"seen", b"set", b"counts"}
    counts = [name for name in names if name.endswith(b":counts")]
    assert {tuple(db("HKEYS", name)) for name in counts} == {(b"born",)}


def test_scrapy_redis_flush_clears_the_dupefilter(opened, db, names_like, unique):
    dupefilter = opened(FRONTIER_PARTITIONS=1, FRONTIER_BLOOM_CAPACITY=10)
    requests = [Request(f"http://a.example/{number}") for number in range(1_500)]
    for request in requests:
        dupefilter.request_seen(request)

    dupefilter.clear()

    assert names_like(f"*:{unique}*") == []
    assert not db("SISMEMBER", "frontier:crawls", unique)
    assert not any(dupefilter.request_seen(request) for request in requests)
    assert db("SISMEMBER", "frontier:crawls", unique)


def refusal(dupefilter, caplog):
    """What is said of a filter that cannot work; its spider is told to close."""
    closed, crawler = [], dupefilter._crawler
    crawler.engine = SimpleNamespace(
        close_spider_async=lambda reason: closed.append(reason)
    )
    dupefilter.open()
    assert not dupefilter.request_seen(Request("http://a.example/"))
    (line,) = [r for r in caplog.records if r.levelno >= logging.ERROR]
    crawler.signals.send_catch_log(signals.engine_started)
    assert closed == [REFUSED.reason]
    return line.getMessage()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"FRONTIER_SEEN_TIER": "set"}, "did you mean FRONTIER_SEEN_TIERS?"),
        ({"REDIS_URL": "redis://127.0.0.1:1/0"}, "127.0.0.1:1 does not answer"),
    ],
)
def test_a_wrong_setting_is_one_message(crawler, caplog, settings, said):
    dupefilter = RedisDupeFilter.from_crawler(crawler(**settings))

    assert said in refusal(dupefilter, caplog)


def test_settings_that_differ_from_the_crawls_are_refused(opened, crawler, caplog):
    opened()
    other = RedisDupeFilter.from_crawler(crawler(FRONTIER_PARTITIONS=8))

    assert "FRONTIER_PARTITIONS = 8, but the crawl" in refusal(other, caplog)


def test_a_crawl_that_is_queued_by_host_is_not_joined(
    crawler, caplog, blocking, unique
):
    made = crawler()
    shape = json.dumps(crawl_settings(session_of(made).config))
    keys = CrawlKeys("frontier", unique)
    blocking().call(Call.to("crawl_open", [keys.meta], [shape, "foo", "", SCHEMA]))

    said = refusal(RedisDupeFilter.from_crawler(made), caplog)
    assert "FRONTIER_QUEUE_KEY = 'fingerprint', but the crawl" in said


# A store that goes away.


def when_it_waits(caplog, act):
    """Have a thread *act* once it is said that the store is waited for."""

    def wait():
        while not any("waiting for it" in r.getMessage() for r in list(caplog.records)):
            time.sleep(0.01)
        act()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def test_dupefilter_waits_for_an_unavailable_store_and_logs_once(
    crawler, own_server, caplog
):
    dupefilter = RedisDupeFilter.from_crawler(crawler(REDIS_URL=own_server.url))
    dupefilter.open()
    known = Request("http://a.example/1")
    assert not dupefilter.request_seen(known)
    own_server.kill()
    starting = when_it_waits(caplog, own_server.start)

    assert not dupefilter.request_seen(Request("http://a.example/2"))
    starting.join()

    messages = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    first, last = messages
    assert first.endswith("waiting for it")
    assert "answers again" in last
    assert dupefilter.request_seen(known)
    assert dupefilter.request_seen(Request("http://a.example/2"))
    dupefilter.close("finished")


def test_long_store_outage_ends_the_crawl_without_loss(
    crawler, own_server, monkeypatch
):
    dupefilter = RedisDupeFilter.from_crawler(crawler(REDIS_URL=own_server.url))
    dupefilter.open()
    dupefilter._seen_test.patience = 0.3
    ends = []
    monkeypatch.setattr(session_of(dupefilter._crawler), "on_end", ends.append)
    own_server.kill()

    assert not dupefilter.request_seen(Request("http://a.example/1"))
    assert not dupefilter.request_seen(Request("http://a.example/2"))
    assert dupefilter._seen_test is None, "nothing is asked, or waited for, any more"
    assert not dupefilter.request_seen(Request("http://a.example/3"))

    (end,) = ends
    assert isinstance(end.error, StoreUnavailable)
    assert end.code == 1


def test_a_url_with_a_lost_verdict_is_new(crawler, wire):
    made = crawler(REDIS_URL=wire.url, FRONTIER_SEEN_TIERS="set")
    dupefilter = RedisDupeFilter.from_crawler(made)
    dupefilter.open()
    wire.loses = b"EVALSHA"
    request = Request("http://a.example/1")

    assert dupefilter.request_seen(request) is False
    assert wire.lost == 1
    assert dupefilter.request_seen(request)
    dupefilter.close("finished")


def test_scrapy_shell_uses_scrapys_own_dupefilter(crawler, monkeypatch):
    monkeypatch.setattr("frontier.dupefilter.developing", lambda: "shell")
    made = RedisDupeFilter.from_crawler(crawler())
    made.open()

    assert not made.request_seen(Request("http://a.example/"))
    assert made.request_seen(Request("http://a.example/"))
