"""``operate``: what it costs to look at a large crawl, and to be looked at.

A store is filled with what a crawl of 200 nodes, 1,024 partitions and 20,000 hosts has.
Times are CPU time: of this process, or of the server as ``INFO cpu`` has it.
"""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from benchmarks.harness import Report, environment, rounded
from frontier.cluster.ring import Ring
from frontier.cluster.shared_settings import crawl_settings
from frontier.dashboard.app import Source, application
from frontier.metrics.exposition import families
from frontier.metrics.node import NODE, Reading
from frontier.model import Member
from frontier.queue.item import encode
from frontier.session.request_stats import KINDS, Outcomes
from frontier.settings.config import Config
from frontier.status.document import watch_document
from frontier.status.snapshot import snapshot
from frontier.status.watch import ROUND_S, Watch
from frontier.store.client import BlockingStore
from frontier.store.keys import SCHEMA, CrawlKeys, RegistryKeys
from frontier.urls.partition import partition_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, MutableMapping

    from benchmarks.harness import Options
    from benchmarks.server import Server

    Message = MutableMapping[str, Any]

NODES, PARTITIONS, HOSTS = 200, 1024, 20_000
VIEWERS = 10
KEYS = CrawlKeys("frontier", "site-1")
LOOKS = 15
"""Looks, a second apart by the watch's clock: each partition is seen again once."""
WATCHED_S = {True: 12.0, False: 60.0}
"""Seconds for which viewers watch; with --quick, and without."""
SCRAPE_S = 15.0
"""Seconds between two scrapes, as Prometheus's own examples have it."""
PAGE_MS = 2.4
"""CPU time of a node for a page: the least that `crawl` has measured. The less it is,
the larger is the share of the metrics. The node is always busy."""
SCRAPES = {True: 30, False: 200}
COUNTED = 50_000


class Clock:
    """Tells the time that it is set to."""

    now = 1_000.0

    def __call__(self) -> float:
        """The time, in seconds."""
        return self.now


def run(server: Server, options: Options) -> Report:
    """Fill the store, look at it, and be looked at."""
    server.empty()
    fill(server)
    store = BlockingStore.from_settings({"REDIS_URL": server.url})
    results = {
        "look": looks(store, server),
        "page": asyncio.run(_page(store)),
        "viewers": asyncio.run(_viewers(store, server, WATCHED_S[options.quick])),
        "metrics": metrics(SCRAPES[options.quick]),
    }
    store.close()
    page, watched = results["page"], results["look"]
    ratios = {
        "page_cpu_ms": rounded(watched["cpu_ms"] + page["render_and_answer_cpu_ms"]),
        "api_cpu_ms": rounded(watched["cpu_ms"] + watched["json_cpu_ms"]),
        "metrics_cpu_share": rounded(results["metrics"]["share"]),
        "store_share_10_viewers": rounded(results["viewers"]["core_share"]),
        "store_share_of_snapshots": rounded(watched["snapshot_server_ms"] / 1000),
    }
    notes = [
        f"{NODES} nodes, {PARTITIONS:,} partitions, {HOSTS:,} hosts; {VIEWERS} viewers",
        f"metrics: a scrape in {SCRAPE_S:.0f} s, and {PAGE_MS:g} ms of CPU for a page",
        "store_share_of_snapshots: if each look were at everything, once a second",
    ]
    return Report("operate", environment(server.info()), results, ratios, notes)


def fill(server: Server) -> None:
    """Put the crawl into the store."""
    dice = random.Random(18)
    pipe = server.client.pipeline(transaction=False)
    now = int(time.time() * 1000)
    pipe.sadd(RegistryKeys("frontier").crawls(), KEYS.crawl_id)
    shape = json.dumps(crawl_settings(Config(partitions=PARTITIONS)))
    about = {"state": "open", "spider": "site", "schema": SCHEMA, "shape": shape}
    about |= {"created_ms": now - 3_600_000, "born": "b", "marked": 1, "fetched": 1}
    pipe.hset(KEYS.meta(), mapping=about)
    names = [f"node-{n}" for n in range(1, NODES + 1)]
    hosts = [f"www.host-{n}.example" for n in range(HOSTS)]
    for name in names:
        pipe.hset(KEYS.nodes(), name, f"{now + 3_600_000} 1 1 p")
        pipe.hset(KEYS.reports(), name, json.dumps(_report(dice, hosts)))
    pipe.hset(KEYS.spent(), mapping={"pages": 5_000_000, "active_ms": 3_600_000})
    ring = Ring([Member(name, 1) for name in names], PARTITIONS)
    queued = _queued(dice, hosts)
    for number in range(PARTITIONS):
        _fill_partition(pipe, number, ring.owner(number), queued.get(number, {}), now)
    pipe.execute()


def _queued(dice: random.Random, hosts: list[str]) -> dict[int, dict[str, int]]:
    """Hosts and the lengths of their queues, by partition: few are long."""
    found: dict[int, dict[str, int]] = {}
    for host in hosts:
        number = partition_of(host, PARTITIONS)
        length = min(2_000, int(2 * dice.paretovariate(0.9)))
        found.setdefault(number, {})[host] = length
    return found


def _fill_partition(
    pipe: Any, number: int, holder: str, queues: dict[str, int], now: int
) -> None:
    part = KEYS.partition(number)
    ready = sum(queues.values())
    counts = {"born": "b", "ready": ready, "pushed": 5_000 + ready, "acked": 5_000}
    pipe.hset(
        part.counts, mapping={**counts, "seq": 5_000, "dead": int(number % 50 == 0)}
    )
    pipe.hset(part.lease, mapping={"token": 1, "holder": holder})
    pipe.hset(part.seen, mapping={"buckets": 32, "count": 5_000 + ready})
    for host, length in queues.items():
        pipe.zadd(part.queues, {f"0:{host}": 0})
        pipe.rpush(part.ready(f"0:{host}"), *["x" * 60] * length)
        pipe.hset(part.next_allowed, host, f"1 {now} 500")
    for host in list(queues)[:2]:
        until = now + 3_600_000
        pipe.hset(part.back_off, host, f"{until} {now} 3 throttled")
    if number % 50 == 0:
        item = encode({"url": f"http://www.host-{number}.example/lost"}, "0:h")
        pipe.rpush(part.dead, b"no callback\n0:h\n" + item)


def _report(dice: random.Random, hosts: list[str]) -> dict[str, Any]:
    """What a node of a crawl that is an hour old reports."""
    pages = dice.randrange(10_000, 40_000)
    some = dice.sample(hosts, 50)
    shares = {host: [dice.randrange(10**6) for _ in range(4)] for host in some[:20]}
    counts = ("requests", "bytes", "items", "errors", "new", "cpu_seconds", "in_flight")
    return {
        **{name: dice.randrange(10**6) for name in counts},
        "pages": pages,
        "opened": time.time() - 3_600,
        "seconds": 3_600.0,
        "memory_bytes": 200_000_000,
        "disk_free_bytes": 10**11,
        "disk_total_bytes": 10**12,
        "machine": "a-machine.example",
        "holds": "1,77,300,511,900",
        "statuses": {"200": pages, "301": 100, "404": 1000, "503": 50},
        "seen": {"recent": pages, "bloom": 0, "set": pages},
        "archive": {"originals": pages, "revisits": 500, "revisit_bytes": 10**8},
        "shares": {"hosts": shares, "mimes": {"text/html": [1, 2, 3, 4]}},
        "error_kinds": dict.fromkeys(KINDS, 5),
        "host_errors": {h: {"timeout": dice.randrange(1, 99)} for h in some},
        "host_seconds": {h: [3, dice.uniform(1, 60)] for h in dice.sample(hosts, 50)},
        "own": {"CLOSESPIDER_PAGECOUNT": "9000000"},
    }


def looks(store: BlockingStore, server: Server) -> dict[str, float]:
    """What looks cost who looks, and the server: those after the first."""
    clock = Clock()
    watch = Watch(store, KEYS.namespace, KEYS.crawl_id, clock=clock)
    first, server_first = _cost(server, watch.look, 1)

    def look() -> None:
        clock.now += ROUND_S / LOOKS
        watch.look()

    each, server_each = _cost(server, look, LOOKS)
    watched = watch.look()
    in_json, _ = _cost(server, lambda: json.dumps(watch_document(watched)), 10)
    whole, server_whole = _cost(server, lambda: _snapshot(store), 3)
    return {
        "cpu_ms": each,
        "server_cpu_ms": server_each,
        "first_cpu_ms": first,
        "first_server_cpu_ms": server_first,
        "json_cpu_ms": in_json,
        "json_kb": len(json.dumps(watch_document(watched))) / 1000,
        "snapshot_cpu_ms": whole,
        "snapshot_server_ms": server_whole,
    }


def _snapshot(store: BlockingStore) -> None:
    snapshot(store, KEYS.namespace, KEYS.crawl_id)


def _cost(
    server: Server, what: Callable[[], object], count: int
) -> tuple[float, float]:
    """Milliseconds of CPU that *what* takes here, and takes the server, each time."""
    before, begun = _server_cpu(server), time.process_time()
    for _ in range(count):
        what()
    spent = time.process_time() - begun
    return spent * 1000 / count, (_server_cpu(server) - before) * 1000 / count


def _server_cpu(server: Server) -> float:
    cpu = server.info("cpu")
    return float(cpu["used_cpu_user"]) + float(cpu["used_cpu_sys"])


async def _page(store: BlockingStore) -> dict[str, float]:
    """What it costs to make all parts of a page, and to answer with it."""
    from frontier.dashboard.history import CrawlHistory
    from frontier.dashboard.page import Pages

    watch = Watch(store, KEYS.namespace, KEYS.crawl_id)
    watched = watch.look()
    pages, history = Pages("a store"), CrawlHistory()
    pages.crawl_parts(history, watched, None)  # loads the templates
    renders = []
    for _ in range(5):
        watched = watch.look()
        begun = time.process_time()
        pages.crawl_parts(history, watched, None)
        renders.append((time.process_time() - begun) * 1000)
    async with application(Source(lambda: store, KEYS.namespace, "a store")) as app:
        path = f"/crawls/{KEYS.crawl_id}"
        await _ask(app, path)
        begun = time.thread_time()  # another thread looks meanwhile
        body = await _ask(app, path)
        answer = (time.thread_time() - begun) * 1000
    render = statistics.median(renders)
    return {
        "render_cpu_ms": render,
        "answer_cpu_ms": answer,
        "render_and_answer_cpu_ms": render + answer,
        "page_kb": len(body) / 1000,
    }


def _scope(path: str) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"localhost")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }


async def _ask(app: Any, path: str) -> bytes:
    """The whole answer for *path*."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(_scope(path), receive, send)
    if sent[0]["status"] != 200:
        raise RuntimeError(f"{path} is answered with {sent[0]['status']}")
    return b"".join(message.get("body", b"") for message in sent[1:])


async def _viewers(
    store: BlockingStore, server: Server, seconds: float
) -> dict[str, float]:
    """The share of a core of the server's CPU that viewers of events take it."""
    idle_from, begun = _server_cpu(server), time.monotonic()
    await asyncio.sleep(seconds / 3)
    idle = (_server_cpu(server) - idle_from) / (time.monotonic() - begun)
    events: Counter[int] = Counter()
    async with application(Source(lambda: store, KEYS.namespace, "a store")) as app:
        path = f"/crawls/{KEYS.crawl_id}"
        await _ask(app, path)  # the first look, at everything
        viewing = [
            asyncio.create_task(_view(app, f"{path}/events", events, number))
            for number in range(VIEWERS)
        ]
        await asyncio.sleep(1)
        server_from, cpu_from = _server_cpu(server), time.process_time()
        begun = time.monotonic()
        await asyncio.sleep(seconds)
        took = time.monotonic() - begun
        server_cpu = (_server_cpu(server) - server_from) / took
        cpu = (time.process_time() - cpu_from) / took
        for task in viewing:
            task.cancel()
        await asyncio.gather(*viewing, return_exceptions=True)
    if len(events) < VIEWERS:
        raise RuntimeError(f"only {len(events)} of {VIEWERS} viewers were sent events")
    return {
        "core_share": max(0.0, server_cpu - idle),
        "idle_core_share": idle,
        "page_process_core_share": cpu,
        "events_per_viewer": statistics.mean(events.values()),
    }


async def _view(app: Any, path: str, events: Counter[int], number: int) -> None:
    async def receive() -> Message:
        await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        events[number] += b"data:" in message.get("body", b"")

    await app(_scope(path), receive, send)


def metrics(scrapes: int) -> dict[str, float]:
    """What counting takes a node for each page, and scrapes; and their share."""
    from prometheus_client import CollectorRegistry, generate_latest

    dice = random.Random(18)
    hosts = [f"www.host-{n}.example" for n in range(HOSTS)]
    outcomes = Outcomes()
    drawn = [(dice.choice(hosts), dice.random()) for _ in range(COUNTED)]
    begun = time.process_time()
    for host, seconds in drawn:
        outcomes.took(host, seconds)
        if seconds < 0.05:
            outcomes.failed("timeout", host)
    counted_us = (time.process_time() - begun) * 1e6 / COUNTED
    begun = time.process_time()
    for _ in range(scrapes):
        outcomes.report()
    report_ms = (time.process_time() - begun) * 1000 / scrapes
    registry = CollectorRegistry()
    registry.register(_Scraped({**_report(dice, hosts), **outcomes.report()}))
    begun = time.process_time()
    for _ in range(scrapes):
        generate_latest(registry)
    scrape_ms = (time.process_time() - begun) * 1000 / scrapes
    pages_per_s = 1000 / PAGE_MS
    per_page_ms = counted_us / 1000 + (report_ms + scrape_ms / SCRAPE_S) / pages_per_s
    return {
        "count_us_per_page": counted_us,
        "report_ms": report_ms,
        "scrape_ms": scrape_ms,
        "share": per_page_ms / PAGE_MS,
    }


class _Scraped:
    """A node's metrics, for prometheus_client."""

    def __init__(self, report: dict[str, Any]) -> None:
        about = dict.fromkeys(
            ("crawl", "node", "spider", "machine", "version", "scrapy_version"), "x"
        )
        self._reading = Reading(about, report, {}, {})

    def describe(self) -> list[Any]:
        """Nothing: what it collects is known only then."""
        return []

    def collect(self) -> Iterator[Any]:
        """The metrics."""
        yield from families(NODE, self._reading)
