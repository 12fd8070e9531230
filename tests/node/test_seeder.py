"""Pushes of a command: it waits for each, and ends."""

import asyncio

import pytest

from frontier.cluster.seed_lock import SeedLock
from frontier.errors import PushForgotten
from frontier.queue.push import FORCE
from frontier.seeds.seeder import Seeder
from frontier.seen.config import SeenConfig
from frontier.store.client import BlockingStore

SHAPE = SeenConfig(has_bloom=True, has_set=True, capacity=1000, error_rate=0.001)
URLS = [b"https://a.example/%d" % n for n in range(3)]


@pytest.mark.one_server("a wire leads to one server")
async def test_a_seed_whose_reply_is_lost_is_queued_once(wire, crawl, new_push, db):
    store = BlockingStore.from_settings({"REDIS_URL": wire.url})
    store._servers.repeats = 5  # as on a cluster, and with a Sentinel
    seeder = await asyncio.to_thread(Seeder, store, crawl, SHAPE)
    await asyncio.to_thread(seeder.push, [(0, new_push(URLS[0]))])
    wire.loses = URLS[1]
    forced = new_push(URLS[2], mode=FORCE)
    pushes = [(0, new_push(URLS[1])), (0, forced), (0, new_push(URLS[0]))]
    await asyncio.to_thread(seeder.push, pushes)
    await asyncio.to_thread(seeder.leave)
    await asyncio.to_thread(store.close)

    assert wire.lost == 1
    keys = crawl.partition(0)
    assert db("LRANGE", keys.ready("0:a.example"), 0, -1) == [b"0" + u for u in URLS]
    assert db("EXISTS", keys.forced) == 0


@pytest.mark.one_server("it starts again from a snapshot of its own")
def test_seeds_lost_in_a_store_restart_are_reported(
    own_server, own_crawl, new_push, stack
):
    store = BlockingStore.from_settings({"REDIS_URL": own_server.url})
    stack.callback(store.close)
    seeder = Seeder(store, own_crawl, SHAPE)
    seeder.push([(0, new_push(URLS[0])), (1, new_push(URLS[1]))])
    own_server.kill()
    own_server.start()

    with pytest.raises(PushForgotten, match="run the command again"):
        seeder.leave()


def test_a_list_that_is_loaded_cuts_no_other_ones_time(blocking, crawl, db):
    db("HSET", crawl.meta, "state", "open")
    store = blocking()
    one, other = (SeedLock(crawl, name, name) for name in ("one", "other"))
    one.hold(store)
    other.hold(store)
    until = db("ZRANGE", crawl.seeding, 0, -1, "WITHSCORES")
    store.call(other.done_call())

    one_before, other_before = until
    assert db("ZSCORE", crawl.seeding, "one") == one_before[1]
    assert db("ZSCORE", crawl.seeding, "other") < other_before[1]
