"""The scheduler alone: a real node and a real store, and no engine."""

import asyncio
from types import SimpleNamespace

import pytest
from scrapy import Request, Spider
from scrapy.crawler import Crawler

from frontier.scheduler import MAX_PENDING, Scheduler


class Idle(Spider):
    name = "idle"

    def parse(self, response):
        raise NotImplementedError


@pytest.fixture
def woken():
    return asyncio.Event()


@pytest.fixture
def scheduler(own_server, unique, woken, monkeypatch):
    for part in ("scheduler.LeaseGuard", "session.session.SpiderOutput"):
        # nothing is downloaded, nothing parsed
        monkeypatch.setattr(f"frontier.{part}", lambda *_: None)
    crawler = Crawler(
        Idle,
        {
            "REDIS_URL": own_server.url,
            "FRONTIER_NAMESPACE": unique,
            "FRONTIER_PARTITIONS": 4,
            "FRONTIER_LEASE_TTL": 600,
            "FRONTIER_WARC_ENABLED": False,
            "CONCURRENT_REQUESTS_PER_DOMAIN": 2,
            "TWISTED_REACTOR_ENABLED": False,
        },
    )
    crawler._apply_settings()
    crawler.spider = Idle()
    nextcall = SimpleNamespace(schedule=woken.set)
    slot = SimpleNamespace(inprogress=set(), closing=None, nextcall=nextcall)
    crawler.engine = SimpleNamespace(_slot=slot, running=True)
    return Scheduler.from_crawler(crawler)


async def test_while_too_much_waits_for_the_store_nothing_is_started(
    scheduler, own_server, woken, until
):
    await scheduler._open(scheduler._crawler.spider)
    node = scheduler._node
    for number in range(4):
        scheduler.enqueue_request(Request(f"https://a.example/{number}"))
    await until(lambda: len(node.inbox) == 4, "URLs to start")
    own_server.pause()

    for number in range(MAX_PENDING):
        scheduler.enqueue_request(Request(f"https://b.example/{number}"))
    assert scheduler.next_request() is not None, "so many may wait"
    scheduler.enqueue_request(Request("https://b.example/more"))
    assert node.outbox.pending == MAX_PENDING + 1
    assert scheduler.next_request() is None
    woken.clear()
    own_server.resume()

    await until(lambda: node.outbox.pending <= MAX_PENDING)
    await asyncio.wait_for(woken.wait(), 30)
    assert scheduler.next_request() is not None
    await node.outbox.flush()
    assert node.verdicts["n"] == MAX_PENDING + 5
    await scheduler._close()
