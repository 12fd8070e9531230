"""Garbage in every key of a crawl, one after the other, while two nodes run it.

A few trials in the suite, drawn by a fixed seed, and more by ``make chaos``;
``make damage`` makes all of them.
What holds in each: nobody hangs; where no node stops all pages were fetched;
after `frontier crawl repair` all are, but for what it says is lost.
"""

import asyncio
import contextlib
import os
import random
import re

import pytest
from owner import push

from frontier.errors import CrawlInUse, FrontierError, KeyDamaged, OtherSchema
from frontier.node.crawl_limits import Limits
from frontier.node.repair import Repair
from frontier.store.client import BlockingStore, Call
from frontier.store.keys import CollectionKeys, CrawlKeys, PartitionKeys, RegistryKeys
from tests.test_docs import REFERENCE, patterns

PAGES = 150
BEFORE = 25
"""Pages that are fetched before anything is written."""
SAMPLE = 10
"""Trials in the suite."""
MORE = None if os.environ.get("DAMAGE") == "all" else 50
"""Trials of ``make chaos`` beside those."""
PARTITIONS = 16
SETTINGS = {
    "partitions": PARTITIONS,
    "lease_ttl": 4.0,
    "host_max_pages": 100_000,
    "seen_tiers": ("recent", "bloom", "set"),
}
TYPE = "another type"
VALUES = {
    "text": b"abc",
    "bytes": b"\xff\xfe\x00\n",
    "huge": b"9" * 30,
    "negative": b"-5",
    "empty": b"",
    "plausible": b"7",
}
KINDS = (TYPE, *VALUES)
# Key of a partition: its type, and fields of it that matter.
OF_A_PARTITION = {
    "lease": ("hash", ["token", "holder"]),
    "counts": ("hash", ["born", "ready", "pushed", "seq", "acked", "dead"]),
    "queues": ("zset", []),
    "ready": ("list", []),
    "due": ("zset", []),
    "waiting": ("list", []),
    "reserved": ("hash", ["1", "999"]),
    "started": ("set", []),
    "hosts": ("hash", ["h1.example"]),
    "groups": ("hash", ["x"]),
    "dead": ("list", []),
    "seen": ("hash", ["buckets", "count", "blooms", "last", "era", "claims"]),
    "claimed": ("hash", ["1"]),
    "forced": ("set", []),
    "items": ("hash", []),
    "bloom": ("string", []),
    "bucket": ("set", []),
}
META = [
    "state",
    "shape",
    "schema",
    "swept_ms",
    "ttl_ms",
    "resumed_ms",
    "born",
    "marked",
    "limit",
    "paused",
    "controls",
    "imported",
]
OF_A_CRAWL = {
    "meta": ("hash", META),
    "nodes": ("hash", ["a", "x"]),
    "former": ("hash", ["x"]),
    "ended": ("hash", ["x"]),
    "epoch": ("string", []),
    "membership": ("list", []),
    "reports": ("hash", ["a"]),
    "seed_lists": ("hash", ["x"]),
    "seeding": ("zset", []),
    "start_lock": ("string", []),
    "hints": ("list", []),
    "order": ("string", []),
    "spent": ("hash", ["pages", "bytes"]),
    "allowances": ("hash", ["a", "x"]),
    "controls": ("hash", ["exclude host h1.example", "set DOWNLOAD_DELAY", "x"]),
    "control_log": ("list", []),
    "cookies": ("zset", []),
    "jar": ("hash", ["x"]),
    "sites": ("zset", []),
    "site": ("hash", ["state", "round", "config"]),
    "claimed": ("hash", ["x"]),
    "failed": ("hash", ["x"]),
    "sitemaps": ("hash", ["http://h1.example/sitemap.xml"]),
    "imported": ("set", []),
}
ELSEWHERE = (RegistryKeys, CollectionKeys)
"""Whose keys nodes without an archive do not touch: `tests/integration` has them."""
BY_NOBODY = ("", "shape", "schema", "born")
"""Damage to `meta` that cannot be repaired: of its type, or of these fields."""


def trials():
    for keys in (OF_A_CRAWL, OF_A_PARTITION):
        for what in keys:
            for kind in KINDS:
                yield keys is OF_A_PARTITION, what, kind


EVERY = list(trials())
SURE = [(True, "counts", "text"), (True, "reserved", TYPE), (False, "epoch", "text")]
REST = [one for one in EVERY if one not in SURE]
random.Random(7).shuffle(REST)
DRAWN = SURE + REST[: SAMPLE - len(SURE)]
OTHERS = REST[SAMPLE - len(SURE) :][:MORE]


def test_every_key_that_is_documented_is_written_to():
    ours = {*OF_A_CRAWL, *OF_A_PARTITION}
    known = {CrawlKeys: OF_A_CRAWL, PartitionKeys: OF_A_PARTITION}
    known_names = [n for one in REFERENCE["KEYS"].values() for n in patterns(one)]

    for cls, what in known.items():
        assert sorted(what) == sorted(names_of(cls))
    rest = [name for cls in ELSEWHERE for name in names_of(cls)]
    assert set(known_names) == ours | set(rest)


def names_of(cls):
    fields = set(cls.__dataclass_fields__)
    public = [name for name in vars(cls) if not name.startswith("_")]
    return [n for n in public if n not in {*fields, "partition", "prefix"}]


def children(url):
    """A page has links to five more, on a dozen hosts."""
    if not re.fullmatch(rb"[0-9]+", url):
        return []
    number = int(url)
    return [
        (b"%d" % n, f"h{n % 12}.example")
        for n in range(5 * number + 1, 5 * number + 6)
        if n < PAGES
    ]


async def slowly(node, fetched):
    """Fetch, and give way, so that something is left when garbage is written."""
    owner = node.owner
    while not owner.finished.is_set() and not owner.failures:
        while (reservation := node.take()) is not None:
            url = reservation.item[1:]
            fetched.append(url)
            for child, host in children(url):
                push(node, child, host, 0.3 if child[-1:] in b"37" else 0)
            node.inbox.sent(reservation, 0.001)
            node.acks.complete(reservation)
            await asyncio.sleep(0.002)
        owner.ready.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.02):
                await owner.ready.wait()


def name_of(store, crawl, what, rng):
    """The key *what* of a partition with URLs, or of the crawl."""
    keys, in_partition = crawl
    if not in_partition:
        found = getattr(keys, what)
        argument = "a" if what in {"hints", "order"} else "x"
        return found if isinstance(found, str) else found(argument)
    ready = [
        int(store.call(Call.command("HGET", keys.partition(n).counts, "ready")) or 0)
        for n in range(PARTITIONS)
    ]
    part = keys.partition(ready.index(max(ready)))
    if what == "ready":
        queues = store.call(Call.command("ZRANGE", part.queues, 0, -1))
        return part.ready(queues[0].decode() if queues else "0:h1.example")
    if what == "waiting":
        buckets = store.call(Call.command("ZRANGE", part.due, 0, -1))
        return part.waiting(buckets[0].decode("latin-1") if buckets else "1000")
    if what == "bloom":
        return part.bloom(0)
    return part.bucket(0, 0) if what == "bucket" else getattr(part, what)


def write(store, name, kind, poison, fields, rng):
    """Write garbage to *name*."""
    if poison == TYPE:
        store.call(Call.command("DEL", name))
        other = ("RPUSH", name, "x") if kind == "string" else ("SET", name, "x")
        store.call(Call.command(*other))
        return ""
    value = VALUES[poison]
    if kind == "string":
        store.call(Call.command("SET", name, value))
    elif kind == "hash":
        known = store.call(Call.command("HKEYS", name))
        field = rng.choice([*fields, *fields, *sorted(known), b"\xff\xfe"])
        store.call(Call.command("HSET", name, field, value))
        return field if isinstance(field, str) else field.decode("utf-8", "replace")
    elif kind == "list":
        store.call(Call.command("LPUSH", name, value))
        store.call(Call.command("RPUSH", name, value))
    elif kind == "set":
        store.call(Call.command("SADD", name, value))
    else:
        store.call(Call.command("ZADD", name, 0, value))
    return ""


async def end(node):
    """Wait until the node has finished, or failed; say what it said."""
    owner = node.owner
    while not owner.finished.is_set() and not owner.failures:
        await asyncio.sleep(0.01)
    await node.close()
    assert all(isinstance(error, FrontierError) for error in owner.failures), (
        owner.failures
    )
    return bool(owner.failures)


async def run_crawl(new_node, server, names, fetched, after=lambda keys: None):
    nodes = [
        new_node(server, name, limits=Limits(pages=10**9), **SETTINGS) for name in names
    ]
    for node in nodes:
        node.owner.is_busy = True  # the crawl is not over before it has begun
        await node.open()
    fetching = [asyncio.create_task(slowly(node, fetched)) for node in nodes]
    if len(nodes) > 1:
        push(nodes[0], b"0", "h0.example")
        await nodes[0].outbox.flush()
    for node in nodes:
        node.owner.is_busy = False
    while after and len(fetched) < BEFORE:
        await asyncio.sleep(0.001)
        assert not any(task.done() for task in fetching), fetching
    if after:
        after(nodes[0].keys)
    said = await asyncio.gather(*map(end, nodes))
    await asyncio.gather(*fetching)
    return nodes[0].keys, any(said)


async def repaired(store, keys):
    """What a repair does, once it can be told that no node lives.

    If the map cannot be read, that is a lease after the last heartbeat.
    """
    while True:
        try:
            return Repair(store, keys.namespace, keys.crawl_id).run()
        except CrawlInUse:
            await asyncio.sleep(0.1)


async def trial(new_node, server, in_partition, what, kind):
    rng = random.Random(f"{in_partition} {what} {kind}")
    fetched, written = [], []
    store = BlockingStore.from_settings({"REDIS_URL": server.url})
    table = OF_A_PARTITION if in_partition else OF_A_CRAWL
    type_, fields = table[what]

    def poison(keys):
        name = name_of(store, (keys, in_partition), what, rng)
        written.append((name, write(store, name, type_, kind, fields, rng)))

    try:
        keys, said = await run_crawl(new_node, server, "ab", fetched, poison)
        every = {b"%d" % n for n in range(PAGES)}
        missing = every - set(fetched)
        assert said or not missing, (written, sorted(missing)[:9])
        state = store.run([Call.command("HGET", keys.meta, "state")], tolerant=True)[0]
        assert not (missing and state == b"finished"), written
        if what == "meta" and written[0][1] in BY_NOBODY:
            with pytest.raises((KeyDamaged, OtherSchema)):
                Repair(store, keys.namespace, keys.crawl_id)
            return
        done = await repaired(store, keys)
        state = store.call(Call.command("HGET", keys.meta, "state"))
        if state == b"open":
            _, said = await run_crawl(new_node, server, "c", fetched, None)
            assert not said, (written, done)
            state = store.call(Call.command("HGET", keys.meta, "state"))
        assert state == b"finished", (written, done)
        missing = every - set(fetched)
        assert not missing or done.lost, (written, done, sorted(missing)[:9])
    finally:
        store.close()


def names(one):
    in_partition, what, kind = one
    return f"{'partition' if in_partition else 'crawl'}-{what}-{kind}".replace(" ", "-")


@pytest.fixture
def one_kind(servers):
    """One kind of server: what the others make of a value is the same."""
    return servers("any")


@pytest.mark.parametrize("one", DRAWN, ids=names)
async def test_garbage_in_a_key_neither_hangs_nor_hides(new_node, one_kind, one):
    await trial(new_node, one_kind, *one)


@pytest.mark.chaos
@pytest.mark.parametrize("one", OTHERS, ids=names)
async def test_garbage_in_any_key_neither_hangs_nor_hides(new_node, one_kind, one):
    await trial(new_node, one_kind, *one)
