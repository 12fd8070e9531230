"""Acks that wait until what they rely on is on replicas, or on disk."""

import asyncio
import contextlib

import pytest
from redis.exceptions import ResponseError

from frontier.errors import ConfigurationError, StoreUnavailable
from frontier.queue.push import TEST, Push
from frontier.seeds.seeder import Seeder
from frontier.seen.config import SeenConfig
from frontier.store.calls import Copies
from frontier.store.client import BlockingStore, Call
from frontier.urls.fingerprint import seen_hash
from tests.topologies import Process, free_ports


@pytest.fixture
def connect_blocking():
    with contextlib.ExitStack() as stack:

        def connect(server):
            store = BlockingStore.from_settings({"REDIS_URL": server.url})
            return stack.enter_context(contextlib.closing(store))

        yield connect


class Pair:
    """A primary and a replica that is not started yet."""

    def __init__(self, binary, directory):
        one, other = free_ports(2)
        self.primary = Process(
            *(binary, directory / "1", one, one, "--port", str(one), "--save", ""),
            *("--repl-diskless-sync-delay", "0"),
        )
        self.replica = Process(
            *(binary, directory / "2", other, other, "--port", str(other)),
            *("--save", "", "--replicaof", f"127.0.0.1 {one}"),
        )
        self.url = f"redis://127.0.0.1:{one}"


@pytest.fixture
def pair(binary, tmp_path):
    pair = Pair(binary("valkey-9"), tmp_path)
    pair.primary.launch()
    pair.primary.wait()
    yield pair
    pair.primary.kill()
    pair.replica.kill()


CEILING = 90
"""Seconds for what a slow machine does at last."""
ANY = pytest.mark.parametrize("shared_server", ["valkey-9"], indirect=True)
"""Which server other tests share makes no difference to these."""
LACKING = "0 of 1 replicas have its last writes"


@ANY
@pytest.mark.one_server("it has a replica of its own")
async def test_a_push_is_confirmed_when_a_replica_has_it_and_done_once(
    pair, parts_on, connect, start, new_push, caplog
):
    node = parts_on(connect(pair))
    node.store.copies = Copies(replicas=1)
    start(node.outbox.run())
    node.outbox.put(0, new_push(b"1"))
    flush = asyncio.ensure_future(node.outbox.flush())
    async with asyncio.timeout(CEILING):
        while LACKING not in caplog.text:  # a slow answer may be told of first
            await node.outage_retry.retry([Call.command("PING")])
            await asyncio.sleep(0.01)
    assert not flush.done()

    pair.replica.launch()
    await flush

    assert [verdict for _, verdict in node.verdicts] == ["n"]
    assert await node.items(0) == [b"01"]
    ready = node.keys.partition(0).ready("0:a.example")
    assert pair.replica.ask("LRANGE", ready, 0, -1) == [b"01"]


@pytest.mark.parametrize("copies", [Copies(), Copies(2), Copies(2, disk=True)])
def test_missing_copies_are_reported(copies):
    assert not copies.after([("HGET", "key", "field")])
    assert bool(copies.after([("EVALSHA", "sha", 0)])) == bool(copies)
    if not copies:
        return

    def lacking(on_disk, replicas, offsets=(7, 7)):
        info = {f"slave{n}": {"offset": one} for n, one in enumerate(offsets)}
        one = [on_disk, replicas]
        return copies.lacking([one] if copies.disk else [replicas, info])

    assert lacking(1, 1) == "1 of 2 replicas have its last writes"
    assert lacking(0, 2 * copies.disk)
    assert not lacking(1, 2)
    if not copies.disk:
        assert lacking(1, 2, (7, 0)) == lacking(1, 2, (7,)) == lacking(1, 1)
    error = ResponseError("UNBLOCKED it is a replica now")
    assert copies.lacking([error, {}][: 2 - copies.disk])


async def test_store_wait_aof_setting_sets_the_copies_of_the_node(new_node, own_server):
    node = new_node(own_server, "a", store_wait_aof=True)
    await node.open()
    assert node.store.copies == Copies(0, disk=True)
    await node.close()


@pytest.mark.one_server("it is of a version that cannot wait")
async def test_a_server_that_cannot_wait_is_refused(new_node, servers):
    name = "FRONTIER_STORE_WAIT_AOF needs Redis 7.2 or Valkey 8, with appendonly yes"
    for kind in ("redis-6", "valkey-9"):  # this one without an append-only file
        node = new_node(servers(kind), "a", store_wait_aof=True)
        with pytest.raises(ConfigurationError, match=name):
            await node.open()


@pytest.mark.one_server("it has no replica")
def test_a_command_waits_for_them_too(own_server, crawl, connect_blocking):
    store = connect_blocking(own_server)
    store.call(Call.command("HSET", crawl.meta, "state", "open"))
    shape = SeenConfig(has_bloom=False, has_set=True, capacity=100, error_rate=0.01)
    push = Push(TEST, seen_hash(b"url"), "0:a.example", 0, b"0\x01item")
    Seeder(store, crawl, shape).push([(0, push)])

    store.copies = Copies(replicas=1)
    with pytest.raises(StoreUnavailable, match="0 of 1 replicas"):
        Seeder(store, crawl, shape).push([(0, push)])
