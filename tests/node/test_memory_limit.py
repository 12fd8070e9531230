"""Giving up sets, on a real server."""

import asyncio
import logging
from contextlib import closing
from types import SimpleNamespace

import pytest

from frontier.node.memory_limit import SeenMemoryLimit
from frontier.queue.push import TEST, Push
from frontier.seen.config import SeenConfig
from frontier.store.client import BlockingStore
from frontier.urls.fingerprint import seen_hash
from tests.harness.crawls import node_of, push

SHAPE = SeenConfig(has_bloom=True, has_set=True, capacity=500, error_rate=0.01)
PARTITIONS = 4


class Crawl:
    """A crawl that pushes to all partitions, and its limit."""

    def __init__(self, store, keys, max_bytes, shape=SHAPE):
        self.store, self.keys = store, keys
        self.shape = shape
        config = SimpleNamespace(partitions=PARTITIONS, seen_set_max_bytes=max_bytes)
        self.memory_limit = SeenMemoryLimit(
            node_of(store, keys, seen=shape, config=config)
        )

    async def push(self, first, end):
        pushes = [
            (n % PARTITIONS, Push(TEST, seen_hash(b"%d" % n), "", 0, b"", n))
            for n in range(first, end)
        ]
        with closing(BlockingStore.at(self.store.address)) as store:
            found = await asyncio.to_thread(push, store, self.keys, self.shape, pushes)
        return "".join(found[n] for n in sorted(found))

    async def keys_of(self, what):
        found = 0
        for number in range(PARTITIONS):
            prefix = self.keys.partition(number).prefix.replace("[", "\\[")
            pattern = f"{prefix}{what}:*"
            with closing(BlockingStore.at(self.store.address)) as store:
                found += len(await asyncio.to_thread(list, store.scan(pattern)))
        return found


async def test_seen_sets_under_the_budget_are_kept(store, crawl):
    it = Crawl(store, crawl, 10**9)
    await it.push(0, 3_000)
    await it.memory_limit.look()

    assert it.memory_limit.state.given_up == 0
    assert it.memory_limit.state.set_urls == it.memory_limit.state.urls == 3_000
    assert await it.push(0, 3_000) == "s" * 3_000


async def test_the_largest_sets_are_given_up_and_bloom_decides(store, crawl, caplog):
    it = Crawl(store, crawl, 82_000)
    await it.push(0, 12_000)  # 106 kB
    keys = await it.keys_of("set")
    with caplog.at_level(logging.WARNING):
        await it.memory_limit.look()
        told = it.memory_limit.state.given_up
        await it.memory_limit.look()

    state = it.memory_limit.state
    assert state.given_up == told
    assert state.set_bytes <= 0.9 * 82_000
    assert state.given_up + state.set_urls == state.urls == 12_000
    assert await it.keys_of("set") < keys
    (warning,) = caplog.messages
    assert "FRONTIER_SEEN_SET_MAX_BYTES = 82000" in warning

    again = await it.push(0, 12_000)
    assert set(again) == {"s", "b"}
    assert again.count("b") == state.given_up

    new = await it.push(12_000, 24_000)
    await it.memory_limit.look()
    wrong = new.count("b")
    assert 0 < wrong < 0.01 * 12_000
    assert wrong / 4 < it.memory_limit.state.lost < 4 * wrong


async def test_a_node_that_dies_in_between_leaves_the_rest_to_the_next(
    store, crawl, monkeypatch
):
    it = Crawl(store, crawl, 1)
    await it.push(0, 4_000)

    async def dies(*_):
        raise ConnectionError

    with monkeypatch.context() as patch:
        patch.setattr(SeenMemoryLimit, "_delete", dies)
        with pytest.raises(ConnectionError):
            await it.memory_limit.look()
    assert await it.keys_of("set") > 0

    await Crawl(store, crawl, 1).memory_limit.look()
    assert await it.keys_of("set") == 0
