"""The scheduler in a real crawler, with a real engine, node, site and store."""

import contextlib
import json
import sys

import pytest
import warm

from frontier.status.snapshot import snapshot
from frontier.store.client import BlockingStore
from tests.rawsite import RawSite, page

SCRIPT = """
import asyncio, json, os, signal, sys
import scrapy
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.exceptions import CloseSpider

from frontier.node.outbox import MAX_PENDING

site, store, pid, namespace = sys.argv[1:]
CEILING = 60


async def until(condition):
    async with asyncio.timeout(CEILING):
        while not condition():
            await asyncio.sleep(0.002)


class Filling(scrapy.Spider):
    name = "filling"
    start_urls = [f"{site}/start"]
    told = {}

    async def parse(self, response):
        engine = self.crawler.engine
        scheduler = engine._slot.scheduler
        node, told = scheduler._node, self.told
        engine._slot.heartbeat.stop()  # it would look every 5 s, whoever wakes it
        engine.pause()
        for number in range(4):
            engine.crawl(scrapy.Request(f"{site}/{number}", self.arrived))
        await until(lambda: len(node.inbox) == 4)
        told["length"] = len(scheduler)
        os.kill(int(pid), signal.SIGSTOP)
        try:
            for _ in range(MAX_PENDING + 1):
                engine.crawl(scrapy.Request(f"{site}/start"))  # seen: none is started
            engine.unpause()
            engine._slot.nextcall.schedule()
            for _ in range(100):
                await asyncio.sleep(0)  # in which the engine has its turn
            told["pending"] = node.outbox.pending - MAX_PENDING
            told["started"] = 4 - len(node.inbox)
        finally:
            os.kill(int(pid), signal.SIGCONT)
        self.all_are_here = asyncio.Event()
        async with asyncio.timeout(CEILING):
            await self.all_are_here.wait()
        engine.crawl(scrapy.Request(f"{site}/late"))
        raise CloseSpider("enough")

    def arrived(self, response):
        pages = self.told["pages"] = self.told.get("pages", 0) + 1
        if pages == 4:
            self.all_are_here.set()


process = AsyncCrawlerProcess({
    "ADDONS": {"frontier.addon.Addon": 0},
    "REDIS_URL": store,
    "FRONTIER_NAMESPACE": namespace,
    "FRONTIER_PARTITIONS": 4,
    "FRONTIER_LEASE_TTL": 600,
    "FRONTIER_SEEN_TIERS": "set",  # each URL goes to the store
    "FRONTIER_WARC_ENABLED": False,
    "LOG_LEVEL": "ERROR",
    "ROBOTSTXT_OBEY": False,
    "TELNETCONSOLE_ENABLED": False,
    "DOWNLOAD_DELAY": 0,
})
crawler = process.create_crawler(Filling)
process.crawl(crawler)
process.start()
stats = crawler.stats.get_stats()
names = ("dupefilter/filtered", "scheduler/enqueued", "scheduler/dequeued")
told = {**Filling.told, **{name: stats.get(name) for name in names}}
print(json.dumps({**told, "reason": stats.get("finish_reason")}))
"""


@pytest.fixture
def site():
    """A page for each path."""
    said = page(text="<title>page</title>")
    with contextlib.closing(RawSite({}, answer=lambda *_: said)) as made:
        yield made.origin


@pytest.mark.one_server("it stops the process of that server")
def test_full_outbox_stops_new_requests(site, own_server, unique):
    pid = str(own_server._process.pid)
    words = [sys.executable, "-c", SCRIPT, site, own_server.url, pid, unique]
    done = warm.run(words, check=False, capture_output=True, text=True, timeout=300)

    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert (told["pending"], told["started"]) == (1, 0), done.stderr
    assert told["length"] == 4
    assert told["pages"] == 4, "when less waits, the engine is woken"
    address = {"REDIS_URL": own_server.url}
    with contextlib.closing(BlockingStore.from_settings(address)) as store:
        crawl = snapshot(store, unique, "filling-1")
    assert crawl.totals.new == crawl.queue.pushed == 6, "with what is stored last"
    assert (told["scheduler/enqueued"], told["scheduler/dequeued"]) == (6, 5)
    assert told["dupefilter/filtered"] == 10_001
    assert told["reason"] == "enough"
