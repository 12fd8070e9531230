"""What was seen before the crawl: a tier that is asked once for each new URL."""

import asyncio
import hashlib
import random

import pytest
from owner import fetch, push

from frontier.errors import KeyDamaged
from frontier.node.repair import Repair
from frontier.seen.imported_tier import (
    SCRAPY_REDIS,
    ImportedTier,
    about_call,
    add_calls,
    guard_calls,
    mark_of,
    note_calls,
    whole_call,
)
from frontier.status.snapshot import snapshot
from frontier.store.client import Call

PAGES = 200


def marks(pages):
    """What a test's owner says of *pages*: each is its own fingerprint."""
    texts = (b"1" + b"%d" % page for page in pages)  # an item begins with its version
    made = (hashlib.sha1(text[1:]).hexdigest().encode() for text in texts)
    return [mark_of(one) for one in made]


def children(url):
    """Each page leads to five more, and back to some."""
    number = int(url)
    after = range(5 * number + 1, 5 * number + 6)
    found = [*(n for n in after if n < PAGES), number // 2, number // 3]
    return [(b"%d" % n, f"h{n % 7}.example") for n in found]


@pytest.fixture
def server(servers):
    """One kind of server: what the others do with sets of integers is the same."""
    return servers("any")


@pytest.fixture
def start(new_node, server):
    async def start(name, **settings):
        node = new_node(server, name, **settings)
        node._owner.busy = True
        node._owner.on_seen_before = lambda r: drop(node, r)
        await node.open()
        return node

    return start


def drop(node, reservation):
    node._owner.seen_before.append(reservation.item[1:])
    node.acks.complete(reservation)


def fill(store, keys, pages):
    """Make a tier of *pages* for the crawl of *keys*."""
    tier = ImportedTier.planned(len(pages), [SCRAPY_REDIS])
    store.run(note_calls(keys, tier))
    tier = ImportedTier.of(store.call(about_call(keys)))
    added = store.run([*add_calls(keys, tier, marks(pages))])
    store.run([*guard_calls(keys, range(tier.buckets)), whole_call(keys)])
    return tier, sum(added)


def shared(a, b):
    """Whether both hold their partitions."""
    return b.partitions_held and a.partitions_held + b.partitions_held == 16


async def end(*nodes, children=children):
    for node in nodes:
        node._owner.busy = False
    fetched = []
    await asyncio.gather(*(fetch(node, children, fetched) for node in nodes))
    for node in nodes:
        assert not node._owner.failures
        await node.close()
    return fetched


async def test_what_was_seen_is_not_fetched_and_is_asked_for_once(
    start, blocking, until
):
    a, b = await start("a"), await start("b")
    seen = range(101, PAGES)  # that lead to nothing else
    fill(blocking(), a.keys, seen)
    await until(lambda: shared(a, b))  # else some are asked for twice
    for node in (a, b):
        await node.imported_test.learn()
    push(a, b"0", "h0.example")
    await a.outbox.flush()
    fetched = await end(a, b)

    assert sorted(map(int, fetched)) == list(range(101))
    found = a._owner.seen_before + b._owner.seen_before
    assert sorted(map(int, found)) == list(seen)
    asked = a._owner.asked + b._owner.asked
    assert len(asked) == len(set(asked)) == PAGES
    trips = a.imported_test.round_trips + b.imported_test.round_trips
    assert trips < PAGES / 2


async def test_a_node_that_joins_knows_of_the_tier(start, blocking):
    a = await start("a")
    fill(blocking(), a.keys, range(50, 60))

    b = await start("b")

    assert b.imported_test.tier.kinds == (SCRAPY_REDIS,)
    assert a.imported_test.tier is None
    await a.on_controls("1")
    assert a.imported_test.tier == b.imported_test.tier
    await a.close()
    await b.close()


async def test_what_a_dead_node_was_told_another_one_is_told_again(start, blocking):
    a = await start("a", lease_ttl=2.0)
    fill(blocking(), a.keys, [1])
    await a.imported_test.learn()
    told = asyncio.Event()
    a._owner.on_seen_before = a._composition.imported_test._on_seen = lambda _: (
        told.set()
    )
    push(a, b"1", "h1.example")
    await a.outbox.flush()
    await told.wait()
    await a._loops.stop()  # as one that is killed: it acks nothing more
    await a._opened.aclose()

    b = await start("b", lease_ttl=2.0)
    b._owner.busy = False
    fetched = []
    await fetch(b, lambda _: [], fetched)

    assert fetched == []
    assert b._owner.seen_before == [b"1"]
    await b.close()


async def test_a_damaged_set_ends_the_node_with_its_name(start, blocking, until):
    a = await start("a")
    store = blocking()
    fill(store, a.keys, [3])
    store.call(Call.command("SET", a.keys.imported_marks(0), "x"))
    await a.imported_test.learn()
    push(a, b"0", "h0.example")
    await until(lambda: a._owner.failures)

    assert a._owner.failures[0].key == a.keys.imported_marks(0)
    await a.close()

    done = Repair(store, a.keys.namespace, a.keys.crawl_id).run()
    assert [one.key for one in done.removed] == ["imported-0}:marks"]


async def test_a_set_that_is_lost_is_told_once_and_its_urls_are_counted(
    start, blocking, caplog, until
):
    a, b = await start("a"), await start("b")
    store = blocking()
    seen = range(101, 101 + 5 * 200)  # in five sets
    tier, _ = fill(store, a.keys, seen)
    lost = random.Random(1).sample(range(tier.buckets), 2)
    store.run([Call.command("DEL", a.keys.imported_marks(one)) for one in lost])
    await until(lambda: shared(a, b))  # else some are asked for twice
    for node in (a, b):
        await node.imported_test.learn()
    push(a, b"0", "h0.example")
    await a.outbox.flush()
    fetched = await end(a, b)

    known = [m for m in marks(range(PAGES)) if tier.bucket(m) not in lost]
    again = [m for m in marks(range(101, PAGES)) if tier.bucket(m) in lost]
    assert again
    assert len(fetched) == 101 + len(again)
    told = [r for r in caplog.messages if "may be fetched again" in r]
    assert 1 <= len(told) <= 2  # a line of each node that asked
    assert getattr(a._owner, "undone", 0) or getattr(b._owner, "undone", 0)
    found = snapshot(store, a.keys.namespace, a.keys.crawl_id)
    assert found.totals.seen_lost == PAGES - len(known)
    assert f"{PAGES - len(known)} URLs may have been fetched again" in found.loss


async def test_no_set_is_lost_while_an_import_is_under_way(
    start, blocking, caplog, until
):
    a = await start("a")
    store = blocking()
    store.run(note_calls(a.keys, ImportedTier.planned(600, [SCRAPY_REDIS])))
    await a.imported_test.learn()
    push(a, b"700", "h0.example")
    await a.outbox.flush()
    await until(lambda: len(a.inbox))
    assert a.imported_test.round_trips
    tier, _ = fill(store, a.keys, range(600))
    assert not a.imported_test.lost

    # The node has not been told that the import is through, and a set is lost by now.
    (mark,) = marks([5])
    store.call(Call.command("DEL", a.keys.imported_marks(tier.bucket(mark))))
    for page in (b"5", b"701"):
        push(a, page, "h0.example")
    await a.outbox.flush()
    fetched = await end(a, children=lambda _: [])

    assert set(fetched) == {b"700", b"5", b"701"}
    assert a.imported_test.lost == 1
    assert len([r for r in caplog.messages if "may be fetched again" in r]) == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"buckets": "x", "kinds": SCRAPY_REDIS},
        {"buckets": "0", "kinds": SCRAPY_REDIS},
        {"buckets": "9" * 30, "kinds": SCRAPY_REDIS},
        {"buckets": "1"},
        {"buckets": "1", "kinds": "scrapy-redis os.system"},
        {"kinds": SCRAPY_REDIS},
        {"whole": "yes"},
    ],
)
async def test_a_node_ends_where_nobody_knows_what_was_seen(start, blocking, fields):
    a = await start("a")
    pairs = [text for what in fields for text in (f"imported_{what}", fields[what])]
    store = blocking()
    store.call(Call.command("HSET", a.keys.meta(), *pairs))

    with pytest.raises(KeyDamaged, match="imported"):
        await a.imported_test.learn()
    await a.close()

    done = Repair(store, a.keys.namespace, a.keys.crawl_id).run()
    assert [one.reason for one in done.removed if "imported" in one.reason]
    assert ImportedTier.of(store.call(about_call(a.keys))) is None


@pytest.mark.parametrize("count", [1, 150, 20_000])
async def test_a_tier_never_changes_its_buckets_and_doubles_nothing(
    start, blocking, count
):
    a = await start("a")
    store = blocking()

    tier, added = fill(store, a.keys, range(count))
    _, again = fill(store, a.keys, range(count + 5_000))

    assert (added, again) == (count, 5_000)
    assert ImportedTier.of(store.call(about_call(a.keys))).buckets == tier.buckets
    await a.close()


async def test_a_fingerprint_takes_ten_bytes(start, blocking):
    a = await start("a")
    store, count = blocking(), 20_000
    tier, _ = fill(store, a.keys, range(count))

    names = [a.keys.imported_marks(number) for number in range(tier.buckets)]
    kinds = store.run([Call.command("OBJECT", "ENCODING", name) for name in names])
    sizes = store.run([Call.command("MEMORY", "USAGE", name) for name in names])

    assert set(kinds) == {b"intset"}
    assert sum(sizes) / count < 10
    await a.close()
