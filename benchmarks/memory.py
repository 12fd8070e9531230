"""``memory``: bytes of server memory for a URL that was seen.

The share of the queues does not count: they are deleted before memory is read.
What is left is what a finished crawl keeps, keys and tables included.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import redis

from benchmarks.bulk import Bulk
from benchmarks.harness import Figures, Report, alternate, environment
from benchmarks.peers import LIMIT_BATCH

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from benchmarks.harness import Options
    from benchmarks.server import Server

TIERS = {
    "frontier_default": "set",
    "frontier_bloom_and_set": "bloom,set",
    "frontier_bloom": "bloom",
}
SETTLE = 0.3
"""Seconds in which the server ends the resizing of its tables."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    urls: int
    partitions: int
    rounds: int


FULL = Sizes(urls=1_000_000, partitions=1024, rounds=3)
QUICK = Sizes(urls=60_000, partitions=61, rounds=1)
"""As many URLs in a partition as `FULL` has; the figures hardly scatter."""


def run(server: Server, options: Options) -> Report:
    """Measure every competitor."""
    sizes = QUICK if options.quick else FULL
    competitors: dict[str, Callable[[], Mapping[str, float]]] = {
        name: lambda tiers=tiers: _frontier(server, tiers, sizes)  # type: ignore[misc]
        for name, tiers in TIERS.items()
    }
    competitors["scrapy_redis"] = lambda: _scrapy_redis(server, sizes)
    figures = Figures()
    _frontier(server, "bloom,set", Sizes(1000, 1, 1))  # so scripts and tables exist
    for name, metrics in alternate(sizes.rounds, competitors):
        figures.add(name, metrics)
    about = environment(server.info())
    about |= {"urls": sizes.urls, "partitions": sizes.partitions}
    about["rounds"] = sizes.rounds
    return Report("memory", about, figures.results(), _ratios(figures))


def _ratios(figures: Figures) -> dict[str, float]:
    metric = "bytes_per_url"
    ratios = {
        "bytes_per_url_default": figures.value("frontier_default", metric),
        "bytes_per_url_bloom_and_set": figures.value("frontier_bloom_and_set", metric),
        "bytes_per_url_bloom": figures.value("frontier_bloom", metric),
        "bytes_per_url_scrapy_redis": figures.value("scrapy_redis", metric),
    }
    ratios["scrapy_redis_over_default"] = figures.ratio(
        ("scrapy_redis", metric), ("frontier_default", metric)
    )
    return ratios


def _frontier(server: Server, tiers: str, sizes: Sizes) -> dict[str, float]:
    before = emptied(server)
    bulk = Bulk(server, tiers, capacity=sizes.urls, partitions=sizes.partitions)
    bulk.push(sizes.urls)
    bulk.close()
    with_queues = server.used_memory()
    bulk.drop_queues()
    return {
        "bytes_per_url": (settled(server) - before) / sizes.urls,
        "bytes_per_url_with_queues": (with_queues - before) / sizes.urls,
    }


def _scrapy_redis(server: Server, sizes: Sizes) -> dict[str, float]:
    """Fill its set as it does, with hexadecimal SHA-1, but in batches."""
    before = emptied(server)
    client: Any = redis.Redis.from_url(server.url)
    for first in range(0, sizes.urls, LIMIT_BATCH):
        pipeline = client.pipeline(transaction=False)
        for number in range(first, min(first + LIMIT_BATCH, sizes.urls)):
            digest = hashlib.sha1(b"%d" % number, usedforsecurity=False)
            pipeline.sadd("bench:dupefilter", digest.hexdigest())
        pipeline.execute()
    client.close()
    return {"bytes_per_url": (settled(server) - before) / sizes.urls}


def emptied(server: Server) -> int:
    """Empty *server*; return the memory that it uses then."""
    server.empty()
    return settled(server)


def settled(server: Server) -> int:
    """The memory that *server* uses once its tables have their final size."""
    time.sleep(SETTLE)
    return server.used_memory()
