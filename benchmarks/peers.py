"""The competitors: Scrapy's own dupefilter, the Redis plug-ins', crawlee's queue."""

from __future__ import annotations

import asyncio
import importlib
import json
import time
import warnings
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import redis
import redis.asyncio
import redis.asyncio.client
from scrapy.dupefilters import RFPDupeFilter as MemoryDupeFilter
from scrapy.settings import Settings
from scrapy_redis.dupefilter import RFPDupeFilter as RedisDupeFilter
from scrapy_redis.queue import PriorityQueue
from typing_extensions import override

from benchmarks.harness import Pace, Stopwatch, collected
from benchmarks.links import LinkSpider, requests

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from scrapy import Request

BLOOM_MODULE = "scrapy_redis_bloomfilter.dupefilter"
BLOOM_BITS = 24
"""2**24 bits, 2 MB: its default of 2**30 would be zeroed within the measurement."""
CRAWLEE_MODULE = "crawlee.storage_clients"
CRAWLEE_TASKS = 10
"""Pages whose links are added at a time. More make it no faster."""
LIMIT_BATCH = 500
SPIDER = LinkSpider()


def scrapy_memory() -> Callable[[Request], bool]:
    """Scrapy's default: fingerprints in a Python set."""
    return MemoryDupeFilter().request_seen


def scrapy_redis(url: str) -> Callable[[Request], bool]:
    """scrapy-redis: one SADD per request."""
    made = RedisDupeFilter.from_settings(Settings({"REDIS_URL": url}))
    return made.request_seen  # type: ignore[no-any-return]


def scrapy_redis_whole(url: str) -> Callable[[Request], bool]:
    """scrapy-redis's scheduler: its dupefilter and, if new, its queue."""
    seen = scrapy_redis(url)
    queue = PriorityQueue(redis.Redis.from_url(url), SPIDER, "bench:queue")

    def enqueue(request: Request) -> bool:
        if seen(request):
            return True
        queue.push(request)
        return False

    return enqueue


def bloom_plugin() -> Any:
    """scrapy-redis-bloomfilter's dupefilter class, or ``None``."""
    try:
        return importlib.import_module(BLOOM_MODULE).RFPDupeFilter
    except ImportError:
        return None


def scrapy_redis_bloomfilter(url: str) -> Callable[[Request], bool]:
    """scrapy-redis-bloomfilter: a GETBIT and a SETBIT per hash function."""
    settings = Settings({"REDIS_URL": url, "BLOOMFILTER_BIT": BLOOM_BITS})
    made = bloom_plugin().from_settings(settings)
    return made.request_seen  # type: ignore[no-any-return]


def pace(
    request_seen: Callable[[Request], bool], pages: list[list[str]], *, seen: bool
) -> Pace:
    """The pace of *request_seen*, which answers *seen* for nearly all URLs."""
    made = requests(pages, SPIDER)
    count = wrong = 0
    with collected():
        watch = Stopwatch()
        for page in made:
            for request in page:
                wrong += bool(request_seen(request)) is not seen
                count += 1
        measured = watch.pace(count)
    if wrong > count / 100:
        raise AssertionError(f"{wrong} of {count} URLs got the wrong answer")
    return measured


def pipelined_sadd(url: str, count: int) -> float:
    """New members per second that one client can add, `LIMIT_BATCH` per trip."""
    client: Any = redis.Redis.from_url(url)
    members = [f"{number:040x}" for number in range(count)]
    start = time.perf_counter()
    for first in range(0, count, LIMIT_BATCH):
        pipeline = client.pipeline(transaction=False)
        for member in members[first : first + LIMIT_BATCH]:
            pipeline.sadd("limit", member)
        pipeline.execute()
    seconds = time.perf_counter() - start
    client.close()
    return count / seconds


def crawlee_module() -> Any:
    """The storage clients of crawlee, or ``None`` if they, or Redis's, are missing."""
    try:
        module = importlib.import_module(CRAWLEE_MODULE)
        return module if hasattr(module, "RedisStorageClient") else None
    except ImportError:
        return None


def knows_json(client: Any) -> bool:
    """Whether the server has the JSON commands, which crawlee's client uses."""
    return "json.set" in client.command()


class _CountersInHash:
    """The three JSON commands that crawlee uses, on a hash."""

    def __init__(self, client: Any) -> None:
        self._run = client.execute_command

    async def get(self, name: str) -> Any:
        """What was set first, as a whole."""
        found = await self._run("HGET", name, "$")
        return None if found is None else json.loads(found)

    def set(self, name: str, path: str, value: Any, **_: bool) -> Any:
        """Set what is at *path*."""
        return self._run("HSET", name, path, json.dumps(value))

    def numincrby(self, name: str, path: str, by: int) -> Any:
        """Add *by* to what is at *path*."""
        return self._run("HINCRBY", name, path, by)


class _Pipeline(redis.asyncio.client.Pipeline):
    @override
    def json(self, *_: Any, **__: Any) -> Any:
        return _CountersInHash(self)


class _RedisWithoutJson(redis.asyncio.Redis):
    """A client that keeps crawlee's counters where the server has no JSON."""

    @override
    def json(self, *_: Any, **__: Any) -> Any:
        return _CountersInHash(self)

    @override
    def pipeline(
        self, transaction: bool = True, shard_hint: str | None = None
    ) -> redis.asyncio.client.Pipeline:
        return _Pipeline(
            self.connection_pool, self.response_callbacks, transaction, shard_hint
        )


class CrawleeQueue:
    """The request queue of crawlee on Redis: its client's batch add, a page a call."""

    def __init__(self, client: Any, make: Callable[[str], Any]) -> None:
        self._client = client
        self._make = make

    async def pace(self, pages: list[list[str]], *, seen: bool) -> Pace:
        """The pace of adding *pages*, of which all, or none, are *seen*."""
        made = deque([self._make(url) for url in page] for page in pages)
        count = sum(map(len, pages))
        wrong = 0

        async def add() -> None:
            nonlocal wrong
            while made:
                page = made.popleft()
                done = await self._client.add_batch_of_requests(page)
                found = done.processed_requests
                wrong += len(page) - len(found)
                wrong += sum(each.was_already_present is not seen for each in found)

        with collected():
            watch = Stopwatch()
            await asyncio.gather(*(add() for _ in range(CRAWLEE_TASKS)))
            measured = watch.pace(count)
        if wrong > count / 100:
            raise AssertionError(f"{wrong} of {count} URLs got the wrong answer")
        return measured


@asynccontextmanager
async def crawlee_queue(url: str, *, has_json: bool) -> AsyncIterator[CrawleeQueue]:
    """A new request queue with crawlee's own defaults."""
    cls = redis.asyncio.Redis if has_json else _RedisWithoutJson
    client = cls.from_url(url)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that it is experimental
            storage = crawlee_module().RedisStorageClient(redis=client)
        queue = await storage.create_rq_client(name="bench")
        request = importlib.import_module("crawlee").Request
        yield CrawleeQueue(queue, request.from_url)
    finally:
        await client.aclose()
