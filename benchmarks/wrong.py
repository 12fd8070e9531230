"""The part of ``seen`` that needs many URLs: errors, tiers, one big site.

What is measured here is the server, so URLs take the shortest way to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.bulk import ERROR_RATE, Bulk
from benchmarks.harness import alternate, rounded
from benchmarks.server import ServerTime

if TYPE_CHECKING:
    from benchmarks.harness import Figures
    from benchmarks.server import Server

PARTITIONS = 1024
CAPACITY = 1_000_000
"""The default of ``FRONTIER_BLOOM_CAPACITY``."""
ITEM = b"i" * 120
"""As long as the item of a link usually is."""
TIERS = {
    "server_queue_only": "",
    "server_bloom": "bloom",
    "server_set": "set",
    "server_bloom_set": "bloom,set",
}


STEPS = 4


@dataclass(frozen=True, slots=True)
class Sizes:
    """URLs per measurement."""

    rounds: int
    tiers: int
    one_partition: int
    false_seen_set: int
    bloom_capacity: int
    """Of a filter that is filled four times over."""
    bloom_partitions: int
    """So few that each has a thousand URLs or more: a small filter has much room."""


FULL = Sizes(3, 200_000, 2_000_000, 10_000_000, 2_500_000, 1024)
QUICK = Sizes(3, 10_000, 60_000, 100_000, 25_000, 25)


def measure(server: Server, figures: Figures, *, quick: bool) -> dict[str, float]:
    """Add to *figures* what was measured and return its ratios."""
    sizes = QUICK if quick else FULL
    tiers = {
        name: partial(_server_time, server, tiers, sizes.tiers)
        for name, tiers in TIERS.items()
    }
    for name, metrics in alternate(sizes.rounds, tiers):
        figures.add(name, metrics)
    cost = _one_partition(server, figures, sizes.one_partition)
    return {"one_partition_cost": cost, **_false_seen(server, sizes)}


def _server_time(server: Server, tiers: str, count: int) -> dict[str, float]:
    server.empty()
    bulk = Bulk(server, tiers, capacity=CAPACITY, partitions=PARTITIONS)
    spent = ServerTime(server)
    spent.start()
    bulk.push(count, ITEM)
    bulk.close()
    return spent.per_url(count)


def _one_partition(server: Server, figures: Figures, count: int) -> float:
    """Fill one partition and all of them by turns; return the ratio.

    It is that of CPU time: time in commands also passes while something
    else has the CPU.
    """
    server.empty()
    capacity = max(CAPACITY, count)
    sites = {
        name: Bulk(server, "bloom,set", capacity=capacity, partitions=PARTITIONS)
        for name in ("all_partitions", "one_partition")
    }
    sites["one_partition"].confine(1)
    commands, cpu = dict.fromkeys(sites, 0.0), dict.fromkeys(sites, 0.0)
    for _ in range(STEPS):
        for name, bulk in sites.items():
            spent = ServerTime(server)
            spent.start()
            bulk.push(count // STEPS, ITEM)
            commands[name] += spent.commands() / count
            cpu[name] += spent.cpu() / count
    for name, bulk in sites.items():
        bulk.close()
        figures.add(
            name,
            {"server_us_per_new": commands[name], "server_cpu_us_per_new": cpu[name]},
        )
    return rounded(cpu["one_partition"] / cpu["all_partitions"])


def _false_seen(server: Server, sizes: Sizes) -> dict[str, float]:
    """Wrong verdicts: a count for the set, shares of the URLs for Bloom."""
    server.empty()
    count = sizes.false_seen_set
    bulk = Bulk(server, "set", capacity=count, partitions=PARTITIONS)
    verdicts = bulk.push(count)
    bulk.close()
    wrong_by_set = verdicts.total() - verdicts["n"]
    server.empty()
    capacity = sizes.bloom_capacity
    partitions = sizes.bloom_partitions
    bulk = Bulk(server, "bloom", capacity=capacity, partitions=partitions)
    once = bulk.push(capacity)["b"]
    four_times = once + bulk.push(3 * capacity)["b"]
    bulk.close()
    return {
        "false_seen_set": wrong_by_set,
        "false_seen_bloom_1x": once / capacity,
        "false_seen_bloom_4x": four_times / (4 * capacity),
        "bloom_rate_asked": ERROR_RATE,
    }
