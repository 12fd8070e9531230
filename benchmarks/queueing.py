"""``queue``: what a queued URL costs: memory, time to push it, time of the server.

A URL of 70 characters, no meta, no headers: the request of a spider that follows
links. Its hash in the default seen tiers is included, as there is none without. The
same is put into scrapy-redis's queue and dupefilter.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import redis
from scrapy import Request

from benchmarks import peers
from benchmarks.harness import Figures, Report, alternate, environment
from benchmarks.links import urls as distinct
from benchmarks.memory import emptied, settled
from benchmarks.path import seen_path
from frontier.cluster.lease import acquire_call
from frontier.model import Lease, Order
from frontier.queue.reserve import (
    Blame,
    ack_calls,
    entries_in,
    list_reserved,
    requeue_calls,
    reserve_call,
    reserved,
)
from frontier.store.client import BlockingStore
from frontier.store.keys import CrawlKeys

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from benchmarks.harness import Options
    from benchmarks.server import Server
    from frontier.store.keys import PartitionKeys

HOSTS = 100
LENGTH = 70
SLOWLOG = 100_000
MOST = 128
"""URLs that a node reserves at once: twice `CONCURRENT_REQUESTS` of 64."""
DEEP = 1_000
"""Reservations that a dead node leaves in one partition."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    urls: int
    links: int
    rounds: int


FULL = Sizes(urls=300_000, links=300_000, rounds=3)
QUICK = Sizes(urls=60_000, links=50_000, rounds=3)


def run(server: Server, options: Options) -> Report:
    """Measure memory, pace, and the longest call of each script."""
    sizes = QUICK if options.quick else FULL
    competitors: dict[str, Callable[[], Mapping[str, float]]] = {
        "frontier": lambda: _frontier(server, sizes),
        "scrapy_redis": lambda: _scrapy_redis(server, sizes),
    }
    figures = Figures()
    for name, metrics in alternate(sizes.rounds, competitors):
        figures.add(name, metrics)
    for name, worst in _scripts(server).items():
        figures.add(name, {"script_ms_max": worst})
    ratios = {
        "bytes_per_queued_url": figures.value("frontier", "bytes_per_url"),
        "bytes_per_queued_url_scrapy_redis": figures.value(
            "scrapy_redis", "bytes_per_url"
        ),
        "links_per_second": figures.value("frontier", "links_per_s"),
        "links_vs_scrapy_redis": figures.ratio(
            ("frontier", "links_per_s"), ("scrapy_redis", "links_per_s")
        ),
        "script_ms_max": max(
            metrics["script_ms_max"]
            for metrics in figures.results().values()
            if "script_ms_max" in metrics
        ),
    }
    about = environment(server.info())
    about |= {"urls": sizes.urls, "links": sizes.links, "rounds": sizes.rounds}
    return Report("queue", about, figures.results(), ratios)


def _requests(count: int, spider: Any, hosts: int = HOSTS) -> list[Request]:
    dice = random.Random(5)
    made = []
    for number in range(count):
        head = f"https://host-{number % hosts}.example/{number}/"
        tail = f"{dice.getrandbits(320):080x}"[: LENGTH - len(head)]
        made.append(Request(head + tail, callback=spider.parse))
    return made


def _frontier(server: Server, sizes: Sizes) -> dict[str, float]:
    before = emptied(server)

    async def fill() -> tuple[float, int]:
        settings = {"FRONTIER_BLOOM_CAPACITY": sizes.urls}
        async with seen_path(server.url, settings, queues=True) as path:
            await path.push(_requests(sizes.urls, path.spider))
            used = await asyncio.to_thread(settled, server)
            pace = await path.pace(distinct(sizes.links), new=True)
            return pace.per_second, used

    per_second, used = asyncio.run(fill())
    return {"bytes_per_url": (used - before) / sizes.urls, "links_per_s": per_second}


def _scrapy_redis(server: Server, sizes: Sizes) -> dict[str, float]:
    before = emptied(server)
    enqueue = peers.scrapy_redis_whole(server.url)
    few = sizes.urls // 10
    made = _requests(few, peers.SPIDER)
    begin = time.perf_counter()
    for request in made:
        enqueue(request)
    pace = few / (time.perf_counter() - begin)
    return {"bytes_per_url": (settled(server) - before) / few, "links_per_s": pace}


def _scripts(server: Server) -> dict[str, float]:
    """The longest call of every kind, in milliseconds of the server's time.

    Each call gets the most that it is ever given, in a partition whose holder has
    died with `DEEP` reservations. The times are from the server's slow log.
    """
    server.empty()
    client: Any = redis.Redis.from_url(server.url)
    client.config_set("slowlog-max-len", SLOWLOG)
    client.config_set("slowlog-log-slower-than", 0)
    longest: dict[str, float] = {}

    def note(kind: str) -> None:
        entries = client.slowlog_get(SLOWLOG)
        times = [e["duration"] for e in entries if b"EVALSHA" in e["command"]]
        longest[kind] = max(longest.get(kind, 0.0), max(times, default=0) / 1000)
        client.slowlog_reset()

    async def push() -> None:
        settings = {"FRONTIER_PARTITIONS": 1, "FRONTIER_BLOOM_CAPACITY": 1_000}
        async with seen_path(server.url, settings, queues=True) as path:
            client.slowlog_reset()
            await path.push(_requests(20_000, path.spider))
            note("queue_push")

    asyncio.run(push())
    store = BlockingStore.from_settings({"REDIS_URL": server.url})
    keys = CrawlKeys("frontier", "bench").partition(0)
    first = acquire(store, keys)
    names = client.zrange(keys.queues, 0, -1)
    found: list[Any] = []
    while len(found) < DEEP:
        wanted = {name.decode(): max(1, MOST // len(names)) for name in names}
        reply = store.call(reserve_call(keys, first, Order.BFS, wanted))
        found += reserved(reply, first, wanted)[0]
    note("queue_reserve")
    acked = [one.id for one in found[: DEEP // 2]]
    store.run(ack_calls(keys, first, acked))
    note("queue_ack")
    client.delete(keys.lease)
    second = acquire(store, keys)
    note("lease_acquire")
    found = entries_in(store.call(list_reserved(keys)))
    entries = [(one.id, one.queue) for one in found]
    store.run(requeue_calls(keys, second, Order.BFS, entries, Blame.FULL))
    note("queue_requeue")
    store.close()
    client.close()
    return longest


def acquire(store: BlockingStore, keys: PartitionKeys, number: int = 0) -> Lease:
    """Take the partition *number*, whose keys are *keys*."""
    _, _, token, *_ = store.call(acquire_call(keys, "bench"))
    return Lease(number, int(token))
