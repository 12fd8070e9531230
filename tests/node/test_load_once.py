"""Pushes of a command: it waits for each, and ends."""

import asyncio

import pytest

from frontier.errors import KeyDamaged, PushForgotten
from frontier.queue.push import FORCE
from frontier.seeds.load_once import Seeder, SeedLock
from frontier.seen.config import SeenConfig
from frontier.store.client import BlockingStore, Call

SHAPE = SeenConfig(has_bloom=True, has_set=True, capacity=1000, error_rate=0.001)
URLS = [b"https://a.example/%d" % n for n in range(3)]


@pytest.mark.one_server("a wire leads to one server")
async def test_a_seed_whose_reply_is_lost_is_queued_once_and_counts_as_new(
    wire, crawl, new_push, db
):
    async with wire:
        store = BlockingStore.from_settings({"REDIS_URL": wire.url})
        store._servers.repeats = 5  # as on a cluster, and with a Sentinel
        seeder = Seeder(store, crawl, SHAPE)
        await asyncio.to_thread(seeder.push, [(0, new_push(URLS[0]))])
        wire.lose_reply_to = URLS[1]
        forced = new_push(URLS[2], mode=FORCE)
        pushes = [(0, new_push(URLS[1])), (0, forced), (0, new_push(URLS[0]))]
        await asyncio.to_thread(seeder.push, pushes)
        await asyncio.to_thread(seeder.leave)
        await asyncio.to_thread(store.close)

    assert wire.lost == 1
    keys = crawl.partition(0)
    assert db("LRANGE", keys.ready("0:a.example"), 0, -1) == [b"0" + u for u in URLS]
    assert (seeder.queued, seeder.seen) == (2, 1)
    assert db("EXISTS", keys.pushers) == 0


def test_seeds_that_are_forgotten_before_the_end_are_told_of(
    blocking, crawl, new_push, db
):
    seeder = Seeder(blocking(), crawl, SHAPE)
    seeder.push([(0, new_push(URLS[0])), (1, new_push(URLS[1]))])
    db("DEL", crawl.partition(1).pushers)

    with pytest.raises(PushForgotten, match="run the command again"):
        seeder.leave()
    with pytest.raises(PushForgotten):
        seeder.push([(1, new_push(URLS[2]))])


@pytest.mark.parametrize("what", ["ready", "type", "pushers"])
def test_a_damaged_partition_is_named_and_nothing_of_it_is_acked(
    blocking, crawl, new_push, db, what
):
    hurt = crawl.partition(1)
    name = hurt.pushers if what == "pushers" else hurt.counts
    if what == "ready":
        db("HSET", name, "ready", "abc")
    else:
        db("SET", name, "x")
    seeder = Seeder(blocking(), crawl, SHAPE)

    with pytest.raises(KeyDamaged) as caught:
        seeder.push([(n, new_push(url)) for n in (0, 1) for url in URLS])
    assert caught.value.key == name
    assert db("EXISTS", hurt.ready("0:a.example"), hurt.bucket(0, 0)) == 0


def test_a_list_that_is_to_be_loaded_again_begins_with_its_first_line(
    blocking, crawl, db
):
    db("HSET", crawl.meta(), "state", "open")
    lock = SeedLock(blocking(), crawl, "list", "me")
    assert lock.hold(0) == 0
    assert lock.hold(2) == 2
    lock.start_over()

    assert SeedLock(blocking(), crawl, "list", "me").hold(0) == 0


def test_a_list_that_is_loaded_cuts_no_other_ones_time(blocking, crawl, db):
    db("HSET", crawl.meta(), "state", "open")
    one, other = (SeedLock(blocking(), crawl, name, name) for name in ("one", "other"))
    one.hold(0)
    other.hold(0)
    until = int(db("HGET", crawl.meta(), "seeding_ms"))
    other.done()
    assert int(db("HGET", crawl.meta(), "seeding_ms")) >= until

    db("HSET", crawl.meta(), "seeding_ms", 0)  # a while later
    one.hold(1)
    until = int(db("HGET", crawl.meta(), "seeding_ms"))
    one.done()
    assert int(db("HGET", crawl.meta(), "seeding_ms")) < until


async def test_a_process_that_ends_leaves_no_mark(parts, start, new_push, db):
    node = parts()
    start(node.outbox.run())
    await node.push(0, new_push(URLS[0]))
    await node.push(1, new_push(URLS[1]))
    names = [node.keys.partition(number).pushers for number in (0, 1)]
    assert [db("EXISTS", name) for name in names] == [1, 1]

    await node.store.run(node.outbox.pusher.leave())
    assert [db("EXISTS", name) for name in names] == [0, 0]


async def test_the_marks_of_processes_long_gone_make_room(parts, start, new_push, db):
    pushers = parts().keys.partition(0).pushers
    now = db("TIME")[0]
    for number in range(20):
        age = 10 if number % 4 == 0 else 4000
        db("HSET", pushers, f"p{number}", f"7 {now - age} nns")
    node = parts()
    start(node.outbox.run())
    await node.push(0, new_push(URLS[0]))

    left = set(db("HKEYS", pushers))
    assert left == {b"p0", b"p4", b"p8", b"p12", b"p16"} | {
        node.outbox.pusher.process.encode()
    }
    assert (await node.store.call(Call.command("HGET", pushers, "p0"))).startswith(b"7")
