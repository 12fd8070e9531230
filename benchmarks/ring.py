"""``ring``: balance and moves of the ring, and what a take-over costs the store.

Balance and moves need no server: they are computed over many memberships whose
nodes have other names, and there is a median and a worst of each figure. A
take-over is measured on a real server, an idle node is a real node.
"""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from uhashring import HashRing

from benchmarks.harness import Report, environment, rounded
from benchmarks.server import ServerTime, stop
from frontier.cluster.lease import Leases
from frontier.cluster.ring import Ring
from frontier.model import Member, Order
from frontier.queue.push import FORCE, Push, push_call
from frontier.queue.reserve import (
    list_reserved,
    older,
    requeue_calls,
    reserve_call,
    reserved,
)
from frontier.seen.config import SeenConfig, SeenLayout
from frontier.store.client import Call, Store
from frontier.store.keys import CrawlKeys

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.harness import Options
    from benchmarks.server import Server
    from frontier.store.keys import PartitionKeys

PARTITIONS = 1024
SIZES = {3: 200, 10: 200, 100: 20}
"""How many nodes, and over how many memberships; a fifth of them with --quick."""
MOVED = ("moved_over_ideal_join", "moved_over_ideal_leave")
WEIGHTS = (1, 2, 4)
QUEUED = (1_000, 10_000, 100_000, 1_000_000)
"""URLs of the partitions whose take-over is measured."""
LEFT_BEHIND = 16
"""Reservations that the dead holder of a partition leaves: what a node has in
flight by default, all in one partition."""
ITEM = b"0" * 120
IDLE = """
from scrapy import Spider

class Idle(Spider):
    name = "idle"

    async def start(self):
        for nothing in ():
            yield nothing
"""

Owners = tuple[str, ...]


class Moves(NamedTuple):
    """Figures of one membership, each against its ideal."""

    balance: float
    """Partitions of the node that has most of them for its weight, by its share."""
    join: float
    leave: float


def run(server: Server, options: Options) -> Report:
    """Measure all of it."""
    results: dict[str, dict[str, float]] = {}
    ratios: dict[str, float] = {}
    for size, rounds in SIZES.items():
        for name, owners in PEERS.items():
            for weighted in (False, True) if name != "mod_n" else (False,):
                seeds = range(max(5, rounds // 5) if options.quick else rounds)
                found = [moves(owners, size, seed, weighted) for seed in seeds]
                label = f"{name}{'_weighted' if weighted else ''}_{size}"
                results[label] = _summary(found)
        for metric in ("max_over_mean", *MOVED):
            for worst in ("", "_worst"):
                value = results[f"frontier_{size}"][metric + worst]
                ratios[f"{metric}_{size}{worst}"] = value
    taken = asyncio.run(take_overs(server, 10 if options.quick else 50))
    results |= {f"takeover_{queued}": row for queued, row in taken.items()}
    times = [taken[queued]["takeover_ms"] for queued in (QUEUED[0], QUEUED[-1])]
    ratios["takeover_1e6_over_1e3"] = rounded(times[1] / times[0])
    moved = max(row["queue_bytes_moved"] for row in taken.values())
    ratios["queue_bytes_moved_by_join"] = moved
    idle = idle_node(server, 10.0 if options.quick else 60.0)
    results["idle_node"] = idle
    ratios["idle_redis_core_percent"] = idle["redis_core_percent_of_node"]
    about = environment(server.info()) | {"partitions": PARTITIONS}
    return Report("ring", about, results, ratios)


def moves(
    owners: Callable[[Sequence[Member], int], Owners],
    size: int,
    seed: int,
    weighted: bool,
) -> Moves:
    """Balance of a membership of *size*, and what one that joins or leaves moves."""
    draw = random.Random(f"{size} {seed}")
    every = [
        Member(
            f"host{draw.randrange(10**4)}-{draw.randrange(2**16)}-{number:x}",
            draw.choice(WEIGHTS) if weighted else 1,
        )
        for number in range(size + 1)
    ]
    here = every[:size]
    total = sum(member.weight for member in here)
    before = owners(here, PARTITIONS)
    counts = Counter(before)
    balance = max(
        counts[member.node_id] * total / member.weight / PARTITIONS for member in here
    )
    after = owners(every, PARTITIONS)
    newcomer = every[size].weight
    join = _moved(before, after) * (total + newcomer) / newcomer / PARTITIONS
    gone = here[draw.randrange(size)]
    rest = owners([member for member in here if member is not gone], PARTITIONS)
    leave = _moved(before, rest) * total / gone.weight / PARTITIONS
    return Moves(balance, join, leave)


def _moved(before: Owners, after: Owners) -> int:
    return sum(a != b for a, b in zip(before, after, strict=True))


def _summary(found: list[Moves]) -> dict[str, float]:
    row = {}
    for name, values in zip(
        ("max_over_mean", *MOVED), zip(*found, strict=True), strict=True
    ):
        row[name] = rounded(statistics.median(values))
        row[f"{name}_worst"] = rounded(max(values))
    return row


def _frontier(members: Sequence[Member], partitions: int) -> Owners:
    return Ring(members, partitions).owners


def _uhashring(members: Sequence[Member], partitions: int) -> Owners:
    """The library as it comes: hashed partitions, 160 points, no bound."""
    ring = HashRing({member.node_id: member.weight for member in members})
    return tuple(ring.get_node(f"p{number}") for number in range(partitions))


def _mod_n(members: Sequence[Member], partitions: int) -> Owners:
    names = sorted(member.node_id for member in members)
    return tuple(names[number % len(names)] for number in range(partitions))


PEERS: dict[str, Callable[[Sequence[Member], int], Owners]] = {
    "frontier": _frontier,
    "uhashring_alone": _uhashring,
    "mod_n": _mod_n,
}


async def take_overs(server: Server, rounds: int) -> dict[int, dict[str, float]]:
    """What it takes until a new holder has first URLs, by how many are queued."""
    server.empty()
    store = Store.from_settings({"REDIS_URL": server.url})
    crawl = CrawlKeys("bench", "takeover")
    found: dict[int, list[float]] = {queued: [] for queued in QUEUED}
    moved: dict[int, list[float]] = {queued: [] for queued in QUEUED}
    try:
        for partition, queued in enumerate(QUEUED):
            await _fill(store, crawl.partition(partition), queued)
        for number in range(rounds + 1):
            for partition, queued in enumerate(QUEUED):
                change = _Change(store, crawl, partition)
                beyond = await change.join(server)
                seconds = await change.death()
                if number:  # the first one has loaded the scripts
                    moved[queued].append(beyond)
                    found[queued].append(seconds * 1000)
    finally:
        await store.close()
    server.empty()
    return {
        queued: {
            "takeover_ms": rounded(statistics.median(values)),
            "takeover_ms_worst": rounded(max(values)),
            # The digits of INFO's own figures change once in a while.
            "queue_bytes_moved": statistics.median(moved[queued]),
        }
        for queued, values in found.items()
    }


async def _fill(store: Store, keys: PartitionKeys, count: int) -> None:
    """Queue *count* URLs of 50 hosts; none is remembered as seen."""
    shape = SeenConfig(False, False, count, 0.001)
    pushes = [Push(FORCE, 0, f"0:host{n % 50}", 0, ITEM) for n in range(200)]
    call = push_call(keys, shape, SeenLayout(), pushes)
    for first in range(0, count, 10_000):
        await store.run([call] * (min(10_000, count - first) // 200))


class _Change:
    """A partition that changes hands."""

    def __init__(self, store: Store, crawl: CrawlKeys, partition: int) -> None:
        self._store, self._crawl, self._partition = store, crawl, partition
        self._keys = crawl.partition(partition)

    async def join(self, server: Server) -> float:
        """Hand over as to a node that joins; the bytes that this sends too many.

        That is, beyond what the same sends where nothing is queued, but for the
        digits of the number of ready URLs.
        """
        spent, numbers = [], []
        for partition in (self._partition, len(QUEUED)):
            leases = Leases(self._store.run, self._crawl, "joined", ttl=60.0)
            before = _wire_bytes(server)
            (taken,) = await leases.acquire([partition])
            spent.append(_wire_bytes(server) - before)
            numbers += [f"{taken.lease.token}{taken.ready}{partition}"]
            await leases.release([partition])
        return float(spent[0] - spent[1] - len(numbers[0]) + len(numbers[1]))

    async def death(self) -> float:
        """Take over from a node that died; the time until the first URLs."""
        victim = Leases(self._store.run, self._crawl, "victim", ttl=60.0)
        (held,) = await victim.acquire([self._partition])
        wanted = {"0:host1": LEFT_BEHIND}
        left = reserve_call(self._keys, held.lease, Order.BFS, wanted)
        await self._store.call(left)
        # The store's part of a death: the lease has expired.
        await self._store.call(Call.command("DEL", self._keys.lease))
        begin = time.perf_counter()
        leases = Leases(self._store.run, self._crawl, "heir", ttl=60.0)
        (taken,) = await leases.acquire([self._partition])
        lease = taken.lease
        listed = await self._store.call(list_reserved(self._keys))
        entries = older(listed, lease)
        back = requeue_calls(self._keys, lease, Order.BFS, entries, delivered=False)
        await self._store.run(back)
        look = Call.command("ZRANGE", self._keys.queues, 0, 999)
        queues = {name.decode(): 1 for name in await self._store.call(look)}
        first = dict(list(queues.items())[:LEFT_BEHIND])
        reply = await self._store.call(
            reserve_call(self._keys, lease, Order.BFS, first)
        )
        seconds = time.perf_counter() - begin
        made, _ = reserved(reply, lease, first)
        if len(entries) != LEFT_BEHIND or len(made) != LEFT_BEHIND:
            raise RuntimeError("the partition was not taken over")
        undo = [(one.id, one.queue) for one in made]
        await self._store.run(
            requeue_calls(self._keys, lease, Order.BFS, undo, delivered=False)
        )
        await leases.release([self._partition])
        return seconds


def _wire_bytes(server: Server) -> int:
    stats = server.info("stats")
    return int(stats["total_net_input_bytes"]) + int(stats["total_net_output_bytes"])


def idle_node(server: Server, seconds: float) -> dict[str, float]:
    """CPU time of the store for a real node that has nothing to do."""
    server.empty()
    baseline = _core_percent(server, seconds / 2)
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        spider = Path(directory) / "idle.py"
        spider.write_text(IDLE, "utf-8")
        settings = {
            "ADDONS": json.dumps({"frontier.addon.Addon": 100}),
            "REDIS_URL": server.url,
            "FRONTIER_KEEP_ALIVE": "yes",
            "FRONTIER_WARC_ENABLED": "no",
            "FRONTIER_PARTITIONS": str(PARTITIONS),
            "FRONTIER_CRAWL_ID": "idle",
            "LOG_ENABLED": "False",
            "TELNETCONSOLE_ENABLED": "False",
        }
        words = [sys.executable, "-m", "scrapy", "runspider", str(spider)]
        words += [f"-s{name}={value}" for name, value in settings.items()]
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL)
        try:
            _wait_for_leases(server, process)
            percent = _core_percent(server, seconds)
        finally:
            stop(process)
    return {
        "redis_core_percent": rounded(percent),
        "redis_core_percent_of_node": rounded(max(0.0, percent - baseline)),
        "redis_core_percent_without_node": rounded(baseline),
        "partitions_held": float(PARTITIONS),
    }


def _wait_for_leases(server: Server, process: subprocess.Popen[Any]) -> None:
    crawl = CrawlKeys("frontier", "idle")
    names = [crawl.partition(number).lease for number in range(PARTITIONS)]
    while server.client.exists(*names) < PARTITIONS:
        if process.poll() is not None:
            raise RuntimeError("the idle node has ended")
        time.sleep(0.05)


def _core_percent(server: Server, seconds: float) -> float:
    watch = ServerTime(server)
    watch.start()
    begin = time.perf_counter()
    time.sleep(seconds)
    return watch.cpu() / (time.perf_counter() - begin) / 1e4
