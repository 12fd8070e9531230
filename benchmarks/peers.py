"""The competitors: Scrapy's own dupefilter and those of the Redis plug-ins."""

from __future__ import annotations

import importlib
import time
from typing import TYPE_CHECKING, Any

import redis
from scrapy.dupefilters import RFPDupeFilter as MemoryDupeFilter
from scrapy.settings import Settings
from scrapy_redis.dupefilter import RFPDupeFilter as RedisDupeFilter
from scrapy_redis.queue import PriorityQueue

from benchmarks.harness import Pace, Stopwatch, collected
from benchmarks.links import LinkSpider, requests

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request

BLOOM_MODULE = "scrapy_redis_bloomfilter.dupefilter"
BLOOM_BITS = 24
"""2**24 bits, 2 MB: its default of 2**30 would be zeroed within the measurement."""
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
    """The pace of *request_seen*, which says *seen* of nearly all."""
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
