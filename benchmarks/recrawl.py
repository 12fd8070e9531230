"""``recrawl``: what a schedule costs the store, and what it gains.

The cost is that of pages that wait: URLs of 70 characters with the state of their
schedules, due in ten minutes to three months. A tenth of them are due soon, and when
the time has come they are made ready and reserved, as nodes do it.

The gain is simulated: a site whose pages change at Zipf-like rates is visited by an
adaptive schedule, and by a fixed one with as many visits.

The delay is that of two real nodes: one visits pages again, one follows feeds, each
every `WAIT` seconds.
"""

from __future__ import annotations

import math
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness import Figures, Report, environment
from benchmarks.memory import emptied, settled
from benchmarks.queueing import acquire
from benchmarks.server import ServerTime
from benchmarks.visits import (
    DAY,
    best_captured,
    fixed_at_equal_visits,
    simulate,
    zipf_rates,
)
from frontier.model import Lease, Order
from frontier.queue.due import PART, due_call, moved
from frontier.queue.item import RECRAWL, encode
from frontier.queue.push import FORCE, Push, push_plan, pushed
from frontier.queue.reserve import reserve_call, reserved
from frontier.recrawl.schedule import DIGEST_BYTES, Mark, Schedule, State
from frontier.seen.config import SeenConfig, SeenLayout, joined
from frontier.store.calls import milliseconds
from frontier.store.client import BlockingStore
from frontier.store.keys import CrawlKeys
from frontier.testing.oracle import Entry
from frontier.testing.server import SiteServer
from frontier.testing.site import Site
from frontier.urls.partition import partition_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.harness import Options
    from benchmarks.server import Server

WEIGHTED = (
    "freshness_adaptive_vs_fixed weights each page by how often it changes: it is the "
    "share of versions that were captured (docs/decisions/feeds.md); ..._best_... is "
    "the bound of any schedule, as of one that knows all rates"
)
SEEDS = (1, 2, 3)
"""Random seeds of the changes, one for each round."""


LENGTH = 70
"""Characters of a URL."""
PARTITIONS = 1_024
BATCH = 100
"""URLs that one call pushes."""
RESERVED = 64
"""URLs that one call reserves."""
SOON = 0.1
"""Share of the URLs that are due as soon as all are there."""
SHORTEST, LONGEST = 600.0, 90 * DAY
"""Seconds until the others are due; their logarithms are uniform between."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    urls: int
    hosts: int
    pages: int
    """Of the simulated site."""
    seconds: float
    """Time to put the URLs into the store; those due soon wait for this long."""


FULL = Sizes(urls=1_000_000, hosts=100, pages=5_000, seconds=90)
QUICK = Sizes(urls=100_000, hosts=10, pages=2_000, seconds=10)
LONG = Sizes(urls=10_000_000, hosts=1_000, pages=5_000, seconds=600)


def run(server: Server, options: Options) -> Report:
    """Measure what scheduled URLs cost, and the gain of an adaptive schedule."""
    sizes = QUICK if options.quick else LONG if options.full else FULL
    figures = Figures()
    figures.add("schedule", _costs(server, sizes))
    _freshness(figures, sizes.pages)
    figures.add("schedule", _delays(server))
    ratios = figures.results()["schedule"] | {
        "freshness_adaptive_vs_fixed": figures.ratio(
            ("adaptive", "versions_captured"), ("fixed", "versions_captured")
        ),
        "freshness_best_vs_fixed": figures.ratio(
            ("best", "versions_captured"), ("fixed", "versions_captured")
        ),
        "freshness_of_pages_adaptive_vs_fixed": figures.ratio(
            ("adaptive", "freshness"), ("fixed", "freshness")
        ),
    }
    about = environment(server.info())
    about |= {"urls": sizes.urls, "hosts": sizes.hosts, "pages": sizes.pages}
    return Report("recrawl", about, figures.results(), ratios, [WEIGHTED])


def _freshness(figures: Figures, pages: int) -> None:
    """Visit a site for 90 days, by the defaults of the settings."""
    rates = zipf_rates(pages)
    for seed in SEEDS:
        adaptive = simulate(rates, Schedule(), days=90, seed=seed)
        fixed = fixed_at_equal_visits(rates, adaptive, seed)
        for name, done in (("adaptive", adaptive), ("fixed", fixed)):
            figures.add(name, done.figures())
        pace = fixed.visits / (fixed.days * DAY)
        figures.add("best", {"versions_captured": best_captured(rates, pace)})


WAIT, UNTIL, HOSTS = 5, 22, 10
"""Seconds between two visits, and until the last; sites."""


def _delays(server: Server) -> dict[str, float]:
    """How much later than its wait a URL is asked for again, over that wait: the mean.

    The first visit is left out, as what is made by a start waits for the rest of it.
    """
    server.empty()
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        feeds, log = Path(directory, "feeds.toml"), Path(directory, "log")
        with SiteServer(Site(hosts=HOSTS, published=2), log=log) as site:
            bases = site.site.bases
            feed = '[[site]]\nname = "{0}"\nwait = {1}\nfeeds = ["{0}/feed/rss.xml"]\n'
            feeds.write_text("".join(feed.format(one, WAIT) for one in bases))
            seeds = ",".join(f"{one}/files/report.pdf" for one in bases)
            always = (
                f"-m scrapy crawl -s REDIS_URL={server.url} -s DOWNLOAD_DELAY=0 "
                f"-s FRONTIER_WARC_ENABLED=0 -s FRONTIER_RECRAWL_UNTIL={UNTIL} "
            )
            pages = f"site -a seeds={seeds} -s FRONTIER_RECRAWL=fixed "
            nodes = [
                subprocess.Popen(
                    [sys.executable, *(always + more).split()],
                    stderr=subprocess.DEVNULL,
                )
                for more in (
                    f"{pages} -s FRONTIER_RECRAWL_INTERVAL={WAIT}",
                    f"feeds -a feeds={feeds}",
                )
            ]
            codes = [node.wait() for node in nodes]
        if any(codes):
            raise AssertionError(f"a node ended with {max(codes)}")
        times = defaultdict(list)
        for entry in map(Entry.from_line, log.read_text().splitlines()):
            times[entry.url].append(entry.start)
    late: dict[str, list[float]] = defaultdict(list)
    for url, at in times.items():
        kind = "feeds" if "/feed/" in url else "pages"
        late[kind] += [(b - a) / WAIT - 1 for a, b in pairwise(at[1:])]
    return {f"delay_over_wait_{k}": statistics.mean(v) for k, v in late.items()}


def _costs(server: Server, sizes: Sizes) -> dict[str, float]:
    """What URLs cost while they wait, and when they are due."""
    before = emptied(server)
    store = BlockingStore.from_settings({"REDIS_URL": server.url})
    keys = CrawlKeys("frontier", "bench")
    soon = milliseconds(store.command("TIME")) + sizes.seconds * 1000
    begin, length = time.perf_counter(), 0
    for partition, pushes in _batches(sizes, soon):
        plan = push_plan(keys.partition(partition), TIERS, SeenLayout(), pushes)
        (call,) = joined([plan], alone=False)
        pushed(store.call(call)[0], pushes)
        length += sum(len(push.tag) for push in pushes)
    seconds = time.perf_counter() - begin
    used = (settled(server) - before - length) / sizes.urls
    late = sizes.seconds * 1000 / PART + 1000
    time.sleep(max(0.0, soon + late - milliseconds(store.command("TIME"))) / 1000)
    queues: dict[int, list[str]] = {}
    for queue in _queues(sizes):
        queues.setdefault(_partition(queue), []).append(queue)
    leases = {n: acquire(store, keys.partition(n), n) for n in queues}
    spent = ServerTime(server)
    spent.start()
    begin = time.perf_counter()
    due = _made_ready(store, keys, leases)
    taken = _reserved(store, keys, leases, queues)
    both = time.perf_counter() - begin
    if not due == taken > 0:
        raise RuntimeError(f"{due:,} were due, and {taken:,} were reserved")
    server_us = spent.cpu() / due
    store.close()
    return {
        "urls_due": due,
        "due_per_s": due / both,
        "server_us_per_due": server_us,
        "bytes_per_scheduled": used,
        "scheduled_per_s": sizes.urls / seconds,
    }


TIERS = SeenConfig(False, False, 1, 0.01)
"""Pushed URLs are not remembered as seen: only waiting ones take memory."""


def _queues(sizes: Sizes) -> list[str]:
    return [f"0:host-{number}.example" for number in range(sizes.hosts)]


def _partition(queue: str) -> int:
    return partition_of(queue.partition(":")[2], PARTITIONS)


def _batches(sizes: Sizes, soon: float) -> Iterator[tuple[int, list[Push]]]:
    """The URLs of each host in turn, some of which are due *soon*."""
    dice = random.Random(5)
    span = math.log(LONGEST / SHORTEST)
    each = sizes.urls // sizes.hosts
    for queue in _queues(sizes):
        partition, host = _partition(queue), queue.partition(":")[2]
        for first in range(0, each, BATCH):
            pushes = []
            for number in range(first, min(first + BATCH, each)):
                wait = SHORTEST * math.exp(dice.random() * span)
                head = f"https://{host}/{number}/"
                url = head + f"{dice.getrandbits(280):070x}"[: LENGTH - len(head)]
                state = State(wait, Mark(dice.randbytes(DIGEST_BYTES))).packed()
                item = encode({"url": url, RECRAWL: state}, queue)
                at = soon if dice.random() < SOON else soon + wait * 1000
                pushes.append(Push(FORCE, 0, queue, 0, item, url, round(at)))
            yield partition, pushes


def _made_ready(store: BlockingStore, keys: CrawlKeys, leases: dict[int, Lease]) -> int:
    """Move what is due to the ready lists, all partitions in a round trip."""
    known: dict[int, tuple[str, list[str]]] = dict.fromkeys(leases, ("", []))
    count = 0
    while known:
        calls = [
            due_call(keys.partition(partition), leases[partition], *of)
            for partition, of in known.items()
        ]
        asked = list(known)
        for partition, reply in zip(asked, store.run(calls), strict=True):
            found = moved(reply, leases[partition])
            count += found.moved
            if not found.bucket or found.due > found.now:
                del known[partition]
                continue
            lacking = [queue.decode() for queue in found.lacking]
            same = found.bucket.decode() == known[partition][0]
            queues = lacking or (known[partition][1] if same else [])
            known[partition] = (found.bucket.decode(), queues)
    return count


def _reserved(
    store: BlockingStore,
    keys: CrawlKeys,
    leases: dict[int, Lease],
    queues: dict[int, list[str]],
) -> int:
    """Reserve what is ready, all partitions in a round trip."""
    count, left = 0, {p: list(names) for p, names in queues.items()}
    while left:
        wanted = {p: dict.fromkeys(names, RESERVED) for p, names in left.items()}
        calls = [
            reserve_call(keys.partition(p), leases[p], Order.BFS, wanted[p])
            for p in wanted
        ]
        for partition, reply in zip(wanted, store.run(calls), strict=True):
            found, remaining = reserved(reply, leases[partition], wanted[partition])
            count += len(found)
            left[partition] = [name for name, more in remaining.items() if more > 0]
            if not left[partition]:
                del left[partition]
    return count
