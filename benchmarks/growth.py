"""``growth``: what a new URL costs the store as the crawl grows.

New URLs go through the real push, `Pusher` to the script `queue_push`, and their
queues are drained as they go: reserved and acked, as nodes do. What is left is
what a crawl keeps of a URL. ``site`` is one host, 100 URLs a call; ``broad`` has
20,000 hosts on 1,024 partitions, so that a call has about one URL of each;
``sites`` has a host on each partition, and 100 URLs of it a call.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scrapy import Request

from benchmarks.harness import Figures, Report, environment, rounded
from benchmarks.memory import emptied, settled
from benchmarks.path import seen_path
from benchmarks.plots import Panel, lines
from benchmarks.server import ServerTime
from frontier.cluster.lease import acquire_call
from frontier.model import Lease, Order
from frontier.node.outbox import MAX_PER_FLIGHT
from frontier.queue.push import NEW, TEST, Push, Pusher
from frontier.queue.reserve import ack_calls, reserve_call, reserved
from frontier.seen.config import MAX_URLS, joined, seen_config
from frontier.settings.config import Config
from frontier.store.client import BlockingStore, Call
from frontier.store.keys import CrawlKeys
from frontier.urls.fingerprint import LEAST_MARK
from frontier.urls.partition import partition_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.harness import Options
    from benchmarks.server import Server

HOSTS, PAGES = 20_000, 3
CHUNK = 10_000
ITEM = b"0" + b"x" * 99
"""A queued URL; what is in it does not matter to the store."""
SLOW_US = 100
"""Microseconds; shorter calls are not in the slow log."""
ROUNDS = 3
"""How often the first step is measured, as it is short."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Where new URLs go."""

    hosts: int
    partitions: int
    per_flight: int
    """URLs of a round trip."""
    together: int = MAX_URLS
    """URLs of a host in a row."""
    flights: int = 1
    """Connections, each with hosts of its own."""
    chunk: int = CHUNK
    """URLs that are pushed before the queues are drained."""

    def places(self) -> list[tuple[int, str]]:
        """The partition and the queue of each host."""
        if self.hosts == self.partitions:
            return [(n, f"0:host-{n}.example") for n in range(self.hosts)]
        keys = [f"host-{n}.example" for n in range(self.hosts)]
        return [(partition_of(key, self.partitions), f"0:{key}") for key in keys]


SITE = Workload(1, 1, MAX_URLS)
BROAD = Workload(HOSTS, 1024, MAX_PER_FLIGHT, together=1)
SITES = Workload(1024, 1024, 10 * MAX_URLS, flights=3, chunk=1024 * MAX_URLS)


def run(server: Server, options: Options) -> Report:
    """Let crawls grow, one after the other."""
    sizes = {"site": (SITE, 3_000_000), "broad": (BROAD, 3_000_000)}
    if options.quick:
        sizes = {name: (load, 300_000) for name, (load, _) in sizes.items()}
    if options.full:
        sizes = {"sites": (SITES, 100_000_000), "broad": (BROAD, 10_000_000)}
    figures = Figures()
    ratios: dict[str, float] = {}
    curves: dict[str, dict[str, list[tuple[float, float]]]] = defaultdict(dict)
    for name, (load, most) in sizes.items():
        found = grow(server, figures, name, load, steps(most), show=not options.quick)
        first, last = f"{name} {steps(most)[0]:,}", f"{name} {steps(most)[-1]:,}"
        ratios[f"growth_{name}"] = rounded(
            figures.value(last, CPU) / figures.value(first, CPU)
        )
        for metric in (CPU, USED):
            curves[metric][name] = [(count, row[metric]) for count, row in found]
    ratios["bytes_per_host"] = rounded(_bytes_per_host(server))
    if options.plot is not None:
        cost = Panel("store, us CPU per new URL", curves[CPU], across_log=True)
        size = Panel("bytes per URL", curves[USED], across_log=True)
        lines(options.plot, "URLs", cost, size)
    return Report("growth", environment(server.info()), figures.results(), ratios)


CPU, USED = "server_cpu_us_per_new", "bytes_per_url"


def steps(most: int) -> list[int]:
    """Where a crawl is measured: 10,000, 30,000, 100,000 and so on, up to *most*."""
    powers = [10**power for power in range(4, 9)]
    return [n for ten in powers for n in (ten, 3 * ten) if n <= most]


def grow(
    server: Server,
    figures: Figures,
    name: str,
    load: Workload,
    counts: list[int],
    *,
    show: bool = False,
) -> list[tuple[int, dict[str, float]]]:
    """Note what a new URL costs until the crawl has each of *counts* URLs.

    Return the same, for the last round.
    """
    for _ in range(ROUNDS - 1):
        ((count, row),) = _grown(server, load, counts[:1])
        figures.add(f"{name} {count:,}", row)
    found = []
    for count, row in _grown(server, load, counts):
        figures.add(f"{name} {count:,}", row)
        found.append((count, row))
        if show:
            told = ", ".join(f"{key} {rounded(value):g}" for key, value in row.items())
            sys.stderr.write(f"{name} {count:,}: {told}\n")
    return found


def _grown(
    server: Server, load: Workload, counts: list[int]
) -> Iterator[tuple[int, dict[str, float]]]:
    before, resident = emptied(server), _resident(server)
    begin = time.monotonic()
    crawl = Growing(server, load)
    try:
        done = 0
        for count in counts:
            cpu, longest = crawl.push(count - done)
            used = settled(server)
            row = {CPU: cpu / (count - done), "call_ms_max": longest}
            row[USED] = (used - before) / count
            row["rss_bytes_per_url"] = (_resident(server) - resident) / count
            row["used_memory_mb"] = used / 1e6
            row["seconds"] = time.monotonic() - begin
            done = count
            yield count, row
    finally:
        crawl.close()


def _resident(server: Server) -> int:
    return int(server.info("memory")["used_memory_rss"])


class Growing:
    """A crawl that gets new URLs, and loses them from its queues by acks."""

    def __init__(self, server: Server, load: Workload) -> None:
        self._server = server
        self._load = load
        places = load.places()
        self._flights = [
            Flight(
                server,
                load,
                number,
                [p for p in places if p[0] % load.flights == number],
            )
            for number in range(load.flights)
        ]
        self._threads = ThreadPoolExecutor(load.flights)

    def push(self, count: int) -> tuple[float, float]:
        """Push *count* new URLs, and drain their queues.

        Returns the CPU time of the server for the pushes, in microseconds, and its
        time for the longest call, in milliseconds.
        """
        client, spent = self._server.client, ServerTime(self._server)
        cpu, longest, left = 0.0, SLOW_US, count
        while left:
            size = min(left, self._load.chunk)
            share, more = divmod(size, len(self._flights))
            shares = [share + (n < more) for n in range(len(self._flights))]
            client.config_set("slowlog-log-slower-than", longest)
            client.slowlog_reset()
            spent.start()
            new = sum(self._threads.map(Flight.push, self._flights, shares))
            cpu += spent.cpu()
            if new != size:
                raise AssertionError(f"{size - new} of {size} new URLs were seen")
            slow = [entry["duration"] for entry in client.slowlog_get(1000)]
            longest = max([longest, *slow])
            client.config_set("slowlog-log-slower-than", -1)
            list(self._threads.map(Flight.drain, self._flights))
            left -= size
        return cpu, longest / 1000

    def close(self) -> None:
        """Disconnect."""
        self._threads.shutdown()
        for flight in self._flights:
            flight.close()


class Flight:
    """A connection that pushes to hosts of its own, *places*, and drains them."""

    def __init__(
        self, server: Server, load: Workload, number: int, places: list[tuple[int, str]]
    ) -> None:
        self._places = places
        self._next = 0
        self._together, self._per_flight = load.together, load.per_flight
        self._dice = random.Random(number)
        self._store = BlockingStore.from_settings({"REDIS_URL": server.url})
        self._keys = CrawlKeys("bench", "growth")
        self._pusher = Pusher(self._keys, seen_config(Config.from_settings({})))
        self._leases: dict[int, Lease] = {}
        self._queued: dict[int, Counter[str]] = defaultdict(Counter)

    def push(self, count: int) -> int:
        """Push *count* URLs that nobody has seen; return how many were new."""
        new = 0
        for first in range(0, count, self._per_flight):
            batches = self._batches(min(self._per_flight, count - first))
            while batches:
                plans = [self._pusher.plan(*batch) for batch in batches]
                calls = joined(plans, alone=True)
                replies = [one for some in self._store.run(calls) for one in some]
                again = []
                for batch, reply in zip(batches, replies, strict=True):
                    done = self._pusher.pushed(batch[0], reply, batch[1])
                    if done is None:
                        again.append(batch)
                    else:
                        new += done.verdicts.count(NEW)
                batches = again
        return new

    def _batches(self, count: int) -> list[tuple[int, list[Push]]]:
        """New URLs by partition, at most a call for each; those of a host in a row."""
        made: dict[int, list[Push]] = defaultdict(list)
        draw, left = self._dice.getrandbits, count
        while left:
            partition, queue = self._place()
            room = min(self._together, left, MAX_URLS - len(made[partition]))
            made[partition] += [
                Push(TEST, draw(62) | LEAST_MARK, queue, 0, ITEM) for _ in range(room)
            ]
            self._queued[partition][queue] += room
            left -= room
        return list(made.items())

    def _place(self) -> tuple[int, str]:
        """The next host: all take turns, in random order."""
        if self._next == 0:
            self._dice.shuffle(self._places)
        place = self._places[self._next]
        self._next = (self._next + 1) % len(self._places)
        return place

    def drain(self) -> None:
        """Reserve and ack all that is queued."""
        queued = list(self._queued.items())
        self._queued.clear()
        for first in range(0, len(queued), 32):
            self._drain(queued[first : first + 32])

    def _drain(self, queued: list[tuple[int, Counter[str]]]) -> None:
        self._acquire([partition for partition, _ in queued])
        while queued:
            calls, left = [], []
            for partition, waiting in queued:
                wanted, room = dict[str, int](), MAX_URLS
                for queue, count in waiting.items():
                    if room:
                        wanted[queue] = min(count, room)
                        room -= wanted[queue]
                keys, lease = self._keys.partition(partition), self._leases[partition]
                calls.append(reserve_call(keys, lease, Order.BFS, wanted))
                waiting.subtract(wanted)
                left.append((partition, +waiting, wanted))
            acks: list[Call] = []
            for (partition, _, wanted), reply in zip(
                left, self._store.run(calls), strict=True
            ):
                keys, lease = self._keys.partition(partition), self._leases[partition]
                found, _ = reserved(reply, lease, wanted)
                if len(found) != sum(wanted.values()):
                    raise AssertionError(f"{len(found)} of {wanted} were reserved")
                acks += ack_calls(keys, lease, [one.id for one in found])
            self._store.run(acks)
            queued = [(partition, some) for partition, some, _ in left if some]

    def _acquire(self, partitions: list[int]) -> None:
        wanted = [number for number in partitions if number not in self._leases]
        calls = [acquire_call(self._keys.partition(n), "bench") for n in wanted]
        for number, reply in zip(wanted, self._store.run(calls), strict=True):
            self._leases[number] = Lease(number, int(reply[2]))

    def close(self) -> None:
        """Disconnect."""
        self._store.close()


def _bytes_per_host(server: Server) -> float:
    """Memory of a host with a few queued pages."""
    before = emptied(server)

    async def fill() -> int:
        async with seen_path(server.url, {}, queues=True) as path:
            parse: Any = path.spider.parse
            await path.push(
                [
                    Request(f"https://host-{n}.example/page-{page}", callback=parse)
                    for page in range(PAGES)
                    for n in range(HOSTS)
                ]
            )
            return await asyncio.to_thread(settled, server)

    return (asyncio.run(fill()) - before) / HOSTS
