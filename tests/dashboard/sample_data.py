"""A crawl that nobody does: what its nodes would have put into the store."""

import json
import random
import time

from frontier.cluster.ring import Ring
from frontier.model import Member
from frontier.store.client import Call

GB = 10**9


def report(number, machine="worker", **more):
    """What node *number* says of itself."""
    chance = random.Random(number)
    pages = 12_000 + chance.randrange(9_000)
    hosts = {f"host-{chance.randrange(400)}.example": 0 for _ in range(12)}
    return {
        "pages": pages,
        "requests": round(pages * 1.1),
        "bytes": pages * 41_300,
        "errors": chance.randrange(400),
        "new": pages * 2,
        "opened": time.time() - 1800,
        "seconds": 1800.0,
        "lately": {"pages": round(pages / 1800, 3)},
        "lately_seconds": 60.0,
        "seen": {"recent": pages * 5, "bloom": 0, "set": pages * 3},
        "archive": {
            "originals": pages * 7 // 10,
            "revisits": pages * 3 // 10,
            "original_bytes": pages * 30_000,
            "revisit_bytes": pages * 11_000,
            "written_bytes": pages * 9_000,
            "files": 3,
        },
        "statuses": {"200": pages, "301": pages // 20, "404": pages // 30, "503": 17},
        "memory_bytes": 180_000_000 + chance.randrange(500_000_000),
        "memory_limit_bytes": 800_000_000,
        "disk_free_bytes": 40 * GB + chance.randrange(300) * GB,
        "disk_total_bytes": 500 * GB,
        "cpu_seconds": 900.0,
        "in_flight": chance.randrange(16),
        "inbox": chance.randrange(200),
        "lag_ms": chance.choice([1, 2, 4, 9, 30]),
        "machine": f"{machine}-{number // 4 + 1}",
        "pid": 4000 + number,
        "error_kinds": {"timeout": 40, "dns": 3, "http_5xx": 17, "http_429": 5},
        "host_errors": {h: {"timeout": 3, "http_5xx": 2} for h in list(hosts)[:4]},
        "host_seconds": {h: [40, 3.0 * n + 8] for n, h in enumerate(hosts)},
        **more,
    }


def fill(store, keys, names, partitions=1024, **reports):
    """Have the crawl of *keys* be that of nodes *names*; *reports* by name differ."""
    now = int(store.call(Call.command("TIME"))[0]) * 1000
    calls = []
    for number, name in enumerate(names):
        told = report(number) | reports.get(name, {})
        calls.append(Call.command("HSET", keys.nodes, name, f"{now + 10**7} 1 1 p"))
        calls.append(Call.command("HSET", keys.reports, name, json.dumps(told)))
    ring = Ring([Member(name, 1) for name in names], partitions)
    for number in range(partitions):
        part = keys.partition(number)
        chance = random.Random(number)
        calls.append(
            Call.command("HSET", part.lease, "token", 7, "holder", ring.owner(number))
        )
        levels = ("ready", chance.randrange(900), "pushed", 4000, "acked", 2000)
        calls.append(Call.command("HSET", part.counts, *levels))
        for host in range(3):
            queue = f"0:host-{number * 3 + host}.example"
            calls.append(Call.command("ZADD", part.queues, 0, queue))
            urls = [b"x"] * chance.randrange(1, 30)
            calls.append(Call.command("RPUSH", part.ready(queue), *urls))
    for first in range(0, len(calls), 500):
        store.run(calls[first : first + 500])
