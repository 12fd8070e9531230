"""``simulate``: what was measured here, carried to 1,000 nodes and 10^10 URLs.

Measured, on a real server: the cost of a heartbeat among N members, of renewing
and acquiring the leases that the ring gives to one of them, of a URL pushed,
reserved and acked, of an empty look; memory per URL seen and queued. The ring,
`Membership`, `Leases` and the scripts are the crawl's own.

Computed: these costs, multiplied by how often `ASSUMED` says that they occur, and
memory by `frontier.seen.capacity_plan`. Nothing here runs 1,000 processes.
"""

from __future__ import annotations

import asyncio
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.bulk import QUEUE, Bulk
from benchmarks.harness import Report, environment, rounded
from benchmarks.server import ServerTime
from frontier.cluster.lease import Leases
from frontier.cluster.membership import Membership
from frontier.cluster.ring import Ring
from frontier.model import Lease, Member, Order
from frontier.node.end_of_crawl import INTERVAL
from frontier.node.heartbeat import BEAT
from frontier.node.inbox import POLL
from frontier.queue.push import FORCE, Push, push_call
from frontier.queue.reserve import ack_calls, reserve_call, reserved, scan_call
from frontier.seen.capacity_plan import forecast
from frontier.seen.config import SeenConfig, SeenLayout, seen_config
from frontier.settings.config import Config
from frontier.store.client import Call, Store
from frontier.store.keys import CrawlKeys

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.harness import Options
    from benchmarks.server import Server

NODES = (1, 3, 10, 30, 100, 300, 1000)
URLS = (10**6, 10**7, 10**8, 10**9, 10**10)
PARTITIONS = 1024
MANY_PARTITIONS = 16_384
MANY_NODES = 300
"""From here on the crawl has `MANY_PARTITIONS`."""
TTL = 15.0
ITEM = 120
"""Bytes of a queue item."""
BATCH = 16
"""URLs that a reserve or an ack has at a time."""
ASSUMED = {
    "pages_per_s": 50.0,
    "new_per_page": 1.0,
    "seen_per_page": 1.0,
    "queued_share": 0.1,
}
"""Pages per second of a node; of the links of a page, how many are new to the crawl
and how many are seen but reach the store, as the recent tier does not have them;
how much of all URLs is queued at a time."""
DOCS = Path(__file__).parents[1] / "docs"
BEGIN, END = "<!-- simulate: begin -->\n", "<!-- simulate: end -->\n"


class Costs(NamedTuple):
    """CPU time of the server, in microseconds, and bytes."""

    push_new: float
    push_seen: float
    reserve: float
    ack: float
    look: float
    """For hints, when there is none."""
    scan: float
    """Of one partition, at the end of a crawl."""
    queued_bytes: float
    """Memory of a queued URL."""
    seen_bytes: float
    """Memory of a seen URL, default tiers."""


class Crowd(NamedTuple):
    """What was measured among *nodes* members."""

    nodes: int
    partitions: int
    max_over_mean: float
    moved_over_ideal_join: float
    ring_ms: float
    sweep_us: float
    """For the beat that reads the whole map, one in a second."""
    beat_us: float
    beat_bytes: float
    renew_us: float
    """For one lease."""
    renew_bytes: float
    held: int
    acquire_ms: float
    """To take all its partitions, after a join."""


def run(server: Server, options: Options) -> Report:
    """Measure, compute, and without ``--quick`` write ``docs/scaling.*``."""
    size = 20_000 if options.quick else 400_000
    costs = _costs(server, size)
    chosen = [n for n in NODES if n <= 100] if options.quick else NODES
    crowds = [asyncio.run(_crowd(server, nodes)) for nodes in chosen]
    results: dict[str, dict[str, float]] = {
        "costs": {name: rounded(value) for name, value in costs._asdict().items()}
    }
    for crowd in crowds:
        row = {k: float(v) for k, v in crowd._asdict().items()} | reckoned(crowd, costs)
        row |= {k: rounded(v) for k, v in row.items() if k != "partitions"}
        results[f"nodes_{crowd.nodes}"] = row
    for urls in URLS:
        results[f"urls_{urls:.0e}".replace("+", "")] = memory(urls, costs)
    last = results[f"nodes_{chosen[-1]}"]
    ratios = {
        f"redis_cores_{chosen[-1]}_nodes": last["cores"],
        f"redis_cores_{chosen[-1]}_nodes_idle": last["cores_idle"],
        f"lease_kb_per_s_{chosen[-1]}_nodes": last["lease_kb_per_s"],
        "store_gb_1e10_urls": results["urls_1e10"]["store_gb"],
    }
    about = environment(server.info()) | {"assumed": ASSUMED}
    report = Report("simulate", about, results, ratios)
    if not options.quick:
        page = DOCS / "scaling.md"
        text = page.read_text("utf-8")
        before, rest = text.split(BEGIN)
        _, after = rest.split(END)
        page.write_text(before + BEGIN + _tables(results) + END + after, "utf-8")
        _draw(DOCS / "scaling.svg", results)
    return report


def reckoned(crowd: Crowd, costs: Costs) -> dict[str, float]:
    """Load of the server by all nodes of *crowd* together."""
    beats = crowd.nodes / BEAT
    renewals = crowd.partitions / (TTL / 3)
    looks = crowd.nodes / POLL
    lease = beats * crowd.beat_us + crowd.sweep_us + renewals * crowd.renew_us
    idle = lease + looks * costs.look
    page = costs.reserve + costs.ack
    page += ASSUMED["new_per_page"] * costs.push_new
    page += ASSUMED["seen_per_page"] * costs.push_seen
    pages = crowd.nodes * ASSUMED["pages_per_s"]
    wire = beats * crowd.beat_bytes + renewals * crowd.renew_bytes
    looks_in_turn = sum(1 / rank**2 for rank in range(1, crowd.nodes + 1))
    scans = crowd.partitions / INTERVAL * looks_in_turn
    return {
        "lease_calls_per_s": beats + renewals,
        "lease_kb_per_s": wire / 1000,
        "cores_leases": lease / 1e6,
        "cores_idle": idle / 1e6,
        "cores": (idle + pages * page) / 1e6,
        "cores_end_scans": scans * costs.scan / 1e6,
        "pages_per_s": pages,
    }


def memory(urls: int, costs: Costs) -> dict[str, float]:
    """Memory of the store for *urls*, in GB, all partitions alike."""
    row = {}
    for name, tiers, bits in (
        ("set64", ("bloom", "set"), 64),
        ("set32", ("set",), 32),
        ("bloom", ("bloom",), 64),
    ):
        partitions = PARTITIONS if urls < 10**9 else MANY_PARTITIONS
        config = Config(
            seen_tiers=tiers,
            seen_set_bits=bits,
            bloom_capacity=urls,
            partitions=partitions,
        )
        shape = seen_config(config)
        made = forecast(tiers, shape.generation, shape.space, urls, partitions, 0)
        row[f"seen_{name}_gb"] = rounded(made.store_bytes / 1e9)
    row["seen_measured_gb"] = rounded(costs.seen_bytes * urls / 1e9)
    row["queued_gb"] = rounded(
        costs.queued_bytes * urls * ASSUMED["queued_share"] / 1e9
    )
    row["store_gb"] = rounded(row["seen_set64_gb"] + row["queued_gb"])
    return row


def _costs(server: Server, size: int) -> Costs:
    partitions = max(1, size // 1000)  # as many URLs in each as 10^6 in 1,024
    server.empty()
    warm = Bulk(server, "bloom,set", capacity=200, partitions=1)
    warm.push(200)  # scripts and buffers exist
    warm.close()
    server.empty()
    before = server.used_memory()
    bulk = Bulk(server, "bloom,set", capacity=size, partitions=partitions)
    watch = ServerTime(server)
    watch.start()
    bulk.push(size, bytes(ITEM))
    push_new = watch.cpu() / size
    whole = server.used_memory()
    bulk.drop_queues()
    time.sleep(0.3)
    seen_bytes = (server.used_memory() - before) / size
    queued_bytes = (whole - before) / size - seen_bytes
    bulk.rewind()
    watch.start()
    bulk.push(size, bytes(ITEM))
    push_seen = watch.cpu() / size
    bulk.close()
    reserve, ack, look, scan = asyncio.run(_queue_costs(server))
    return Costs(
        push_new, push_seen, reserve, ack, look, scan, queued_bytes, seen_bytes
    )


async def _queue_costs(server: Server) -> tuple[float, float, float, float]:
    server.empty()
    store = Store.from_settings({"REDIS_URL": server.url})
    crawl = CrawlKeys("bench", "queue")
    keys = crawl.partition(0)
    count = 32_000
    pushes = [Push(FORCE, 0, QUEUE, 0, bytes(ITEM)) for _ in range(200)]
    call = push_call(keys, SeenConfig(False, False, 1, 0.001), SeenLayout(), pushes)
    await store.run([call] * (count // 200))
    (taken,) = await Leases(store.run, crawl, "node", ttl=3600.0).acquire([0])
    lease: Lease = taken.lease
    watch = ServerTime(server)
    wanted = {QUEUE: BATCH}
    calls = [reserve_call(keys, lease, Order.BFS, wanted)] * 20
    ids = []
    watch.start()
    for _ in range(count // BATCH // 20):
        for reply in await store.run(calls):
            ids += [one.id for one in reserved(reply, lease, wanted)[0]]
    reserve = watch.cpu() / count
    watch.start()
    for first in range(0, len(ids), 20 * BATCH):
        some = ids[first : first + 20 * BATCH]
        parts = [some[i : i + BATCH] for i in range(0, len(some), BATCH)]
        await store.run([c for part in parts for c in ack_calls(keys, lease, part)])
    ack = watch.cpu() / count
    costs = []
    look = Call.command("LPOP", crawl.hints("node"), 1000)
    for calls in ([look], [scan_call(keys)] * 64):  # one comes alone, the other not
        watch.start()
        for _ in range(2000 // len(calls) + 50):
            await store.run(calls)
        costs.append(watch.cpu() / (2000 // len(calls) + 50) / len(calls))
    await store.close()
    return reserve, ack, costs[0], costs[1]


async def _crowd(server: Server, nodes: int) -> Crowd:
    server.empty()
    store = Store.from_settings({"REDIS_URL": server.url})
    crawl = CrawlKeys("bench", "crowd")
    partitions = PARTITIONS if nodes < MANY_NODES else MANY_PARTITIONS
    members = [Member(f"host-{n:04}-12345-abcd", 1) for n in range(nodes + 1)]
    begin = time.perf_counter()
    ring = Ring(members[:nodes], partitions)
    ring_ms = (time.perf_counter() - begin) * 1000
    joined = Ring(members, partitions)
    moved = sum(a != b for a, b in zip(ring.owners, joined.owners, strict=True))
    far = 10**14  # the beat of members that never die
    pairs = [part for m in members[:nodes] for part in (m.node_id, f"{far} 1 0")]
    await store.call(Call.command("HSET", crawl.nodes(), *pairs))
    me = members[0]
    membership = Membership(store.run, crawl, me, partitions, ttl=TTL)
    report = {"pages": 123456, "errors": 12, "bytes": 12345678, "partitions": 100}
    await store.call(Call.command("HSET", crawl.meta(), "state", "open"))
    await membership.beat(busy=False, report=report)  # loads scripts, builds the ring
    watch = ServerTime(server)
    rounds = 200
    beats = _Beat(membership, report)
    sweep = await _spent(server, watch, rounds, _Sweep(store, crawl, beats))
    beat = await _spent(server, watch, rounds, beats)
    leases = Leases(store.run, crawl, me.node_id, ttl=3600.0)
    owned = membership.ring.owned_by(me.node_id)
    await leases.acquire(owned)
    await leases.release(owned)
    begin = time.perf_counter()
    await leases.acquire(owned)
    acquire_ms = (time.perf_counter() - begin) * 1000
    rounds = max(5, 2000 // len(owned))
    renew = await _spent(server, watch, rounds, leases)
    await store.close()
    return Crowd(
        nodes,
        partitions,
        max(ring.shares().values()) * nodes / partitions,
        moved * (nodes + 1) / partitions,
        ring_ms,
        sweep[0],
        *beat,
        renew[0] / len(owned),
        renew[1] / len(owned),
        len(owned),
        acquire_ms,
    )


class _Beat:
    """Beats where `Leases` renews."""

    def __init__(self, membership: Membership, report: Mapping[str, Any]) -> None:
        self._membership, self._report = membership, report

    async def renew(self) -> object:
        return await self._membership.beat(busy=False, report=self._report)


class _Sweep:
    """Beats that each look for the dead, as one does in a second."""

    def __init__(self, store: Store, crawl: CrawlKeys, beats: _Beat) -> None:
        self._store, self._beats = store, beats
        self._forget = Call.command("HSET", crawl.meta(), "swept_ms", 0)

    async def renew(self) -> object:
        await self._store.call(self._forget)
        return await self._beats.renew()


async def _spent(
    server: Server, watch: ServerTime, rounds: int, what: _Beat | _Sweep | Leases
) -> tuple[float, float]:
    """Microseconds of the server and bytes on the wire, for each round."""
    watch.start()
    first = _wire_bytes(server)
    before = _wire_bytes(server)
    for _ in range(rounds):
        await what.renew()
    spent = _wire_bytes(server) - before
    asking = before - first  # what it takes to ask for it
    return watch.cpu() / rounds, (spent - asking) / rounds


def _wire_bytes(server: Server) -> int:
    stats = server.info("stats")
    return int(stats["total_net_input_bytes"]) + int(stats["total_net_output_bytes"])


def _tables(results: Mapping[str, Mapping[str, float]]) -> str:
    costs = results["costs"]
    lines = ["Measured, CPU time of the server and memory:", ""]
    lines += ["| what | cost |", "|---|---|"]
    lines += [
        f"| {label} | {costs[name]:.3g} {unit} |"
        for name, label, unit in (
            ("push_new", "a new URL pushed and queued", "µs"),
            ("push_seen", "a seen URL pushed", "µs"),
            ("reserve", f"a URL reserved, {BATCH} at a time", "µs"),
            ("ack", f"a URL acked, {BATCH} at a time", "µs"),
            ("look", "a look for hints, alone on its round trip", "µs"),
            ("scan", "a scan of one partition", "µs"),
            ("seen_bytes", "a seen URL, tiers bloom and set", "bytes"),
            ("queued_bytes", f"a queued URL, item of {ITEM} bytes", "bytes"),
        )
    ]
    lines += ["", "By nodes; the ring, heartbeats and leases are measured:", ""]
    columns = {
        "nodes": "nodes",
        "partitions": "partitions",
        "max_over_mean": "max/mean",
        "moved_over_ideal_join": "moved by a join, by the ideal",
        "ring_ms": "ring, ms",
        "beat_us": "heartbeat, µs",
        "renew_us": "renewal of a lease, µs",
        "acquire_ms": "its leases acquired, ms",
        "lease_calls_per_s": "lease calls/s",
        "lease_kb_per_s": "lease traffic, kB/s",
        "cores_leases": "cores for leases",
        "cores_idle": "cores, all idle",
        "pages_per_s": "pages/s",
        "cores": "cores at that",
        "cores_end_scans": "cores asked for by the scans at the end",
    }
    rows = [row for name, row in results.items() if name.startswith("nodes_")]
    lines += _table(columns, rows)
    lines += ["", "By URLs, in GB, computed:", ""]
    by_urls = [
        {"urls": float(name.removeprefix("urls_")), **row}
        for name, row in results.items()
        if name.startswith("urls_")
    ]
    columns = {
        "urls": "URLs",
        "seen_set64_gb": "seen: bloom and set",
        "seen_measured_gb": "the same from measured bytes",
        "seen_set32_gb": "seen: set of 32 bits",
        "seen_bloom_gb": "seen: bloom",
        "queued_gb": "queued",
        "store_gb": "store, default tiers",
    }
    lines += _table(columns, by_urls)
    return "\n".join(lines) + "\n"


def _table(
    columns: Mapping[str, str], rows: Sequence[Mapping[str, float]]
) -> list[str]:
    lines = ["| " + " | ".join(columns.values()) + " |", "|---" * len(columns) + "|"]
    for row in rows:
        cells = " | ".join(_shown(row[name]) for name in columns)
        lines.append(f"| {cells} |")
    return lines


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _draw(path: Path, results: Mapping[str, Mapping[str, float]]) -> None:
    names = {"svg.hashsalt": "frontier", "svg.fonttype": "none"}
    import_module("matplotlib").rcParams.update(names)
    made = import_module("matplotlib.figure")
    figure = made.Figure(figsize=(10, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    rows = [row for name, row in results.items() if name.startswith("nodes_")]
    nodes = [row["nodes"] for row in rows]
    for name, label in (
        ("cores", "all nodes at 50 pages/s"),
        ("cores_idle", "all idle"),
        ("cores_leases", "heartbeats and leases alone"),
    ):
        left.loglog(nodes, [row[name] for row in rows], "o-", label=label)
    left.axhline(1, color="0.4", lw=0.8)
    left.text(1, 1.1, "one core: the limit of one server")
    left.set(xlabel="nodes", ylabel="cores of the store")
    left.legend(fontsize=8)
    rows = [row for name, row in results.items() if name.startswith("urls_")]
    for name, label in (
        ("store_gb", "default tiers, and a tenth queued"),
        ("seen_set64_gb", "seen: bloom and set"),
        ("seen_set32_gb", "seen: set of 32 bits"),
        ("seen_bloom_gb", "seen: bloom"),
    ):
        right.loglog(URLS, [row[name] for row in rows], "o-", label=label)
    right.set(xlabel="URLs", ylabel="memory of the store, GB")
    right.legend(fontsize=8)
    figure.savefig(path, metadata={"Date": None})
