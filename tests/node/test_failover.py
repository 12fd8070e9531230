"""A server that starts again from an old snapshot: it has gone back in time."""

import asyncio
import signal

import pytest

from frontier.node.context import Part
from frontier.queue.push import FORCE
from frontier.store.client import Call
from tests.topologies import (
    ClusterServers,
    SentinelServers,
)

pytestmark = pytest.mark.one_server("it starts again from a snapshot of its own")

PARTITION = 0
URLS = [b"https://a.example/%d" % n for n in range(6)]


class Heard(Part):
    """Counts how often the node started over."""

    times = replacements = 0

    def went_back(self):
        self.times += 1

    def replaced(self):
        self.replacements += 1


def compare(parts):
    """Have *parts* start over on a store that went back."""
    parts.heard = Heard()
    parts.parts.add(parts.heard)
    return parts


@pytest.fixture
def node(parts_on, connect, own_server, start):
    """A node on a server that keeps snapshots only, and only when it is asked."""
    own_server.kill()
    own_server.arguments += ["--appendonly", "no"]
    own_server.start()
    a = parts_on(connect(own_server), cap=4, size=4)

    async def go(*pushes):
        await a.store.call(Call.command("HSET", a.keys.meta, "state", "open"))
        compare(a)
        start(a.outbox.run(), a.inbox.run())
        await a.heartbeat.beat()
        await a.push(PARTITION, *pushes)
        a.ready.note(PARTITION, {"0:a.example"})

    a.go = go
    return a


async def test_last_pushes_lost_in_a_failover_are_pushed_again(
    node, own_server, new_push, until
):
    await node.go(new_push(URLS[0]))
    await until(lambda: len(node.inbox) == 1, "the page")
    await node.push(1, new_push(URLS[2]))
    await node.store.call(Call.command("SAVE"))
    await node.push(PARTITION, new_push(URLS[3], mode=FORCE))
    own_server.kill()
    own_server.start()

    await node.outage_retry.retry([Call.command("PING")])
    await node.outbox.flush()
    await node.heartbeat.beat()  # takes the partition again, with what was in it

    assert node.heard.times == 1
    scans = [await node.scan(partition) for partition in (PARTITION, 1)]
    assert [scan.ready + scan.reserved for scan in scans] == [2, 1]


async def test_heartbeat_detects_a_failover_that_broke_no_connection(
    node, own_server, new_push
):
    """A primary that is a replica for a while ends no connection, nor its run."""
    await node.go()
    await node.heartbeat.beat()
    keys = node.keys.partition(1)
    await node.push(1, new_push(URLS[0]))
    kept = [keys.seen, keys.counts, keys.queues, keys.bloom(0)]
    kept += [keys.ready("0:a.example"), keys.bucket(0, 0), node.keys.nodes]
    before = [await node.store.call(Call.command("DUMP", name)) for name in kept]
    await node.heartbeat.beat()
    await node.push(1, new_push(URLS[1]))
    for name, value in zip(kept, before, strict=True):
        restore = Call.command("RESTORE", name, 0, value or b"", "REPLACE")
        await node.store.call(restore if value else Call.command("DEL", name))

    await node.heartbeat.beat()
    await node.push(1, new_push(URLS[2]))
    await node.outbox.flush()

    assert node.heard.times == 1
    found = await node.items(1)
    assert sorted(found) == [b"0" + url for url in URLS[:3]]
    assert [verdict for _, verdict in node.verdicts] == ["n"] * 3


async def test_what_is_on_other_servers_of_a_cluster_than_one_that_restarts_stays(
    parts_on, connect, stack
):
    servers = ClusterServers()
    stack.callback(servers.remove)
    await asyncio.to_thread(servers.start)
    node = compare(parts_on(connect(servers), partitions=16))
    await node.store.call(Call.command("HSET", node.keys.meta, "state", "open"))
    await node.heartbeat.beat()
    names = [node.keys.partition(number).counts for number in range(16)]
    where = list(map(node.store.server_of, names))
    assert set(node.leases.held) == {*range(16)}
    gone = next(s for s in where if s != node.store.server_of(node.keys.meta))

    process = next(one for one in servers.processes if one.shown == gone[1])
    process.kill()
    process.launch()
    await asyncio.to_thread(process.wait)
    await asyncio.to_thread(servers.wait)
    await node.outage_retry.retry([Call.command("HLEN", name) for name in names])

    assert node.heard.times == 1
    assert set(node.leases.held) == {n for n in range(16) if where[n] != gone}
    await node.heartbeat.beat()
    assert set(node.leases.held) == {*range(16)}


async def test_parts_of_a_node_hear_of_a_primary_that_sentinel_has_replaced(
    new_node, stack, until
):
    servers = SentinelServers()
    stack.callback(servers.remove)
    await asyncio.to_thread(servers.start)
    node = new_node(servers, "a", node_parts=(f"{__name__}.Heard",))
    await node.open()
    servers.primary.signal(signal.SIGSTOP)
    await asyncio.to_thread(servers.promote)

    await until(lambda: node.parts[Heard].replacements, "word of it")
    servers.primary.signal(signal.SIGCONT)
    await node.close()
