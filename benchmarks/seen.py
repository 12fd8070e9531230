"""``seen``: how fast seen and new URLs are told apart, at what cost, how often wrongly.

``frontier_default`` and ``frontier_bloom_and_set`` are the seen test alone, against a
dupefilter alone; ``frontier_whole`` queues what is new, as does the peer's
``whole``. They differ only in what is done with the verdict.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import redis

from benchmarks import peers, wrong
from benchmarks.harness import Figures, Report, alternate, environment
from benchmarks.links import PER_PAGE, urls
from benchmarks.path import seen_path
from benchmarks.proxy import delayed
from benchmarks.server import ServerTime

if TYPE_CHECKING:
    from benchmarks.harness import Options
    from benchmarks.server import Server

LATENCY = 0.001
"""Seconds that are added to a round trip between node and server."""
DEFAULT, BOTH = "recent,set", "recent,bloom,set"
TRIAL = PER_PAGE

Part = Callable[[int], Mapping[str, float]]
"""Measures a competitor with a number of URLs; the first metric is the pace."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    rounds: int
    seconds: float
    """Of a pass over new URLs: their number follows from a competitor's pace."""
    most: int
    """URLs of a pass, at most."""


FULL = Sizes(rounds=5, seconds=3.0, most=100_000)
QUICK = Sizes(rounds=3, seconds=0.2, most=8_000)


def run(server: Server, options: Options) -> Report:
    """Measure every competitor, then errors and the cost of one big site."""
    sizes = QUICK if options.quick else FULL
    figures = Figures()
    with delayed(server, LATENCY) as far:
        round_trip = _round_trip(far)
        competitors = {
            name: _sized(parts, sizes) for name, parts in _parts(server, far).items()
        }
        for name, metrics in alternate(sizes.rounds, competitors):
            figures.add(name, metrics)
    errors = wrong.measure(server, figures, quick=options.quick)
    about = environment(server.info())
    about |= {"rounds": sizes.rounds, "ms_round_trip_1ms": round_trip}
    notes = []
    if peers.bloom_plugin() is None:
        notes.append("scrapy-redis-bloomfilter is not installed (extra `bench`)")
    if peers.crawlee_module() is None:
        notes.append("crawlee[redis] is not installed (extra `bench`)")
    elif not peers.knows_json(server.client):
        notes.append("crawlee's counters are in a hash: the server has no JSON")
    ratios = {**_ratios(figures), **errors}
    return Report("seen", about, figures.results(), ratios, notes)


def _parts(server: Server, far: str) -> dict[str, list[Part]]:
    near_and_far: dict[str, Callable[[str], Part]] = {
        "scrapy_redis": lambda url: partial(_peer, server, peers.scrapy_redis, url),
        "frontier_default": lambda url: partial(_frontier, server, url, DEFAULT),
        "frontier_bloom_and_set": lambda url: partial(_frontier, server, url, BOTH),
        "frontier_whole": lambda url: partial(
            _frontier, server, url, DEFAULT, queues=True
        ),
        "scrapy_redis_whole": lambda url: partial(
            _peer, server, peers.scrapy_redis_whole, url
        ),
    }
    parts: dict[str, list[Part]] = {
        name: [make(server.url), _renamed(make(far))]
        for name, make in near_and_far.items()
    }
    if peers.bloom_plugin() is not None:  # far away, it makes 60 URLs per second
        plugin = peers.scrapy_redis_bloomfilter
        parts["scrapy_redis_bloomfilter"] = [partial(_peer, server, plugin, server.url)]
    if peers.crawlee_module() is not None:
        near, away = (partial(_crawlee, server, url) for url in (server.url, far))
        parts["crawlee_queue"] = [near, _renamed(away)]
    parts["scrapy_memory"] = [_memory]
    parts["pipelined_sadd"] = [partial(_limit, server)]
    return parts


def _sized(parts: list[Part], sizes: Sizes) -> Callable[[], Mapping[str, float]]:
    """A measurement of all *parts*, each with as many URLs as its pace allows."""
    counts = []
    for part in parts:
        pace = next(iter(part(TRIAL).values()))
        pages = max(1, round(pace * sizes.seconds / PER_PAGE))
        counts.append(min(pages * PER_PAGE, sizes.most))

    def measure() -> Mapping[str, float]:
        pairs = zip(parts, counts, strict=True)
        metrics = (part(count).items() for part, count in pairs)
        return dict(itertools.chain.from_iterable(metrics))

    return measure


def _renamed(part: Part) -> Part:
    """*part* behind the proxy: only its paces are kept, with names of their own."""

    def measure(count: int) -> Mapping[str, float]:
        return {
            name.replace("_per_s", "_1ms_per_s"): value
            for name, value in part(count).items()
            if name.endswith("_per_s")
        }

    return measure


def _ratios(figures: Figures) -> dict[str, float]:
    redis_, memory = "scrapy_redis", "scrapy_memory"
    pairs = {
        "new_default_vs_scrapy_redis": ("frontier_default", redis_, "new_per_s"),
        "new_bloom_vs_scrapy_redis": ("frontier_bloom_and_set", redis_, "new_per_s"),
        "recent_vs_scrapy_redis": ("frontier_default", redis_, "seen_per_s"),
        "recent_vs_scrapy_memory": ("frontier_default", memory, "seen_per_s"),
        "new_1ms_vs_scrapy_redis": ("frontier_default", redis_, "new_1ms_per_s"),
        "recent_1ms_vs_scrapy_redis": ("frontier_default", redis_, "seen_1ms_per_s"),
    }
    ratios = {
        name: figures.ratio((over, metric), (under, metric))
        for name, (over, under, metric) in pairs.items()
    }
    ratios["new_whole_vs_scrapy_redis_whole"] = figures.ratio(
        ("frontier_whole", "new_per_s"), ("scrapy_redis_whole", "new_per_s")
    )
    ratios["new_whole_vs_scrapy_redis"] = figures.ratio(
        ("frontier_whole", "new_per_s"), (redis_, "new_per_s")
    )
    if peers.crawlee_module() is not None:
        for metric, name in (("new_per_s", "new"), ("new_1ms_per_s", "new_1ms")):
            ratios[f"{name}_whole_vs_crawlee_queue"] = figures.ratio(
                ("frontier_whole", metric), ("crawlee_queue", metric)
            )
    ratios["shared_vs_scrapy_redis"] = figures.ratio(
        ("frontier_default", "seen_shared_per_s"), (redis_, "seen_per_s")
    )
    return ratios


def _frontier(
    server: Server, url: str, tiers: str, count: int, *, queues: bool = False
) -> dict[str, float]:
    server.empty()
    return asyncio.run(_cascade(server, url, tiers, urls(count), queues=queues))


async def _cascade(
    server: Server, url: str, tiers: str, pages: list[list[str]], *, queues: bool
) -> dict[str, float]:
    count = sum(len(page) for page in pages)
    settings: dict[str, Any] = {"FRONTIER_SEEN_TIERS": tiers}
    async with seen_path(url, settings, queues=queues) as path:
        spent = ServerTime(server)
        spent.start()
        new = await path.pace(pages, new=True)
        metrics = {"new_per_s": new.per_second, "node_us_per_new": new.node_us}
        metrics |= spent.per_url(count)
        recent = await path.pace(pages, new=False)
        metrics["seen_per_s"] = recent.per_second
        metrics["node_us_per_seen"] = recent.node_us
        path.forget_recent()
        shared = await path.pace(pages, new=False)
        metrics["seen_shared_per_s"] = shared.per_second
    return metrics


def _peer(
    server: Server, make: Callable[[str], Any], url: str, count: int
) -> dict[str, float]:
    server.empty()
    request_seen, pages = make(url), urls(count)
    spent = ServerTime(server)
    spent.start()
    new = peers.pace(request_seen, pages, seen=False)
    metrics = {"new_per_s": new.per_second, "node_us_per_new": new.node_us}
    metrics |= spent.per_url(count)
    seen = peers.pace(request_seen, pages, seen=True)
    return {**metrics, "seen_per_s": seen.per_second, "node_us_per_seen": seen.node_us}


def _crawlee(server: Server, url: str, count: int) -> dict[str, float]:
    server.empty()
    return asyncio.run(_crawlee_queue(server, url, urls(count)))


async def _crawlee_queue(
    server: Server, url: str, pages: list[list[str]]
) -> dict[str, float]:
    has_json = peers.knows_json(server.client)
    async with peers.crawlee_queue(url, has_json=has_json) as queue:
        spent = ServerTime(server)
        spent.start()
        new = await queue.pace(pages, seen=False)
        metrics = {"new_per_s": new.per_second, "node_us_per_new": new.node_us}
        metrics["server_cpu_us_per_new"] = spent.cpu() / sum(map(len, pages))
        seen = await queue.pace(pages, seen=True)
    metrics |= {"seen_per_s": seen.per_second, "node_us_per_seen": seen.node_us}
    return metrics


def _memory(count: int) -> dict[str, float]:
    request_seen, pages = peers.scrapy_memory(), urls(count)
    new = peers.pace(request_seen, pages, seen=False)
    seen = peers.pace(request_seen, pages, seen=True)
    return {
        "new_per_s": new.per_second,
        "node_us_per_new": new.node_us,
        "seen_per_s": seen.per_second,
        "node_us_per_seen": seen.node_us,
    }


def _limit(server: Server, count: int) -> dict[str, float]:
    server.empty()
    return {"new_per_s": peers.pipelined_sadd(server.url, count)}


def _round_trip(url: str) -> float:
    """Milliseconds of a PING through the proxy."""
    client: Any = redis.Redis.from_url(url)
    times = []
    for _ in range(50):
        start = time.perf_counter()
        client.ping()
        times.append(time.perf_counter() - start)
    client.close()
    return round(statistics.median(times) * 1000, 3)
