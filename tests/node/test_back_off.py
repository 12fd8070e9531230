"""Hosts that are left alone, as one node's inbox has them, on a real server."""

import asyncio
import itertools
import time

import pytest

from frontier.errors import StoreUnavailable
from frontier.node.back_off import BackOffs
from frontier.settings.config import Config
from frontier.store.client import Call
from frontier.urls.partition import partition_of

NAMES = (f"h{number}.example" for number in itertools.count())
HOSTS = [*itertools.islice((n for n in NAMES if partition_of(n, 4) == 0), 400)]
HOST, OTHER, *REST = HOSTS
SETTINGS = {"partitions": 4, "backoff_min": 600.0}


@pytest.fixture
def node_of(parts, parts_on, start):
    """Make a node that knows which hosts are left alone."""

    def node_of(name="a", store=None, **settings):
        node = parts(name) if store is None else parts_on(store, name)
        node.back_offs = BackOffs(node.context, Config(**{**SETTINGS, **settings}))
        node.inbox.back_offs = node.back_offs
        start(node.outbox.run(), node.back_offs.run())
        return node

    return node_of


@pytest.fixture
def holder(node_of, start, new_push):
    """Make a node that holds partition 0, in which URLs of *hosts* are ready."""

    async def holder(*hosts, count=3, name="a", **options):
        node = node_of(name, **options)
        for host in hosts:
            urls = (b"%s-%d" % (host.encode(), n) for n in range(count))
            await node.push(0, *(new_push(url, host) for url in urls))
        await take(node)
        start(node.inbox.run())
        return node

    return holder


async def take(node):
    for taken in await node.leases.acquire([0]):
        await node.heartbeat._take_over([taken])
    await node.inbox.load_queues([0])


def refuse(node, host=HOST, asked=0.0):
    node.back_offs.refused(host, "throttled", time.monotonic(), asked)


async def taken(node, until, count):
    """So many reservations that the node hands out."""
    found = []
    while len(found) < count:
        await until(lambda: len(node.inbox))
        if (one := node.inbox.take()) is not None:
            found.append(one)
    return found


def hosts_of(reservations):
    return [one.queue.partition(":")[2] for one in reservations]


async def test_it_is_asked_by_one_request_when_it_is_over(holder, until):
    node = await holder(HOST, count=5, backoff_min=0.2)
    (first,) = await taken(node, until, 1)
    refuse(node)
    node.inbox.finish(first)
    node.inbox.forget(first)

    (second,) = await taken(node, until, 1)
    assert not node.back_offs.waits(HOST)
    assert node.back_offs.failures(HOST) == 1
    assert len(node.inbox.open) == 1
    node.back_offs.answered(HOST, time.monotonic())
    node.inbox.finish(second)
    await taken(node, until, 3)
    assert not node.back_offs


async def test_what_waits_here_goes_back_and_counts_as_no_delivery(holder, until):
    node = await holder(HOST, count=4)
    await until(lambda: len(node.inbox) == 4)
    refuse(node)

    assert node.inbox.take() is None
    await until(lambda: not node.inbox.open)
    items = await node.items(0, f"0:{HOST}")
    assert items == [b"0%s-%d" % (HOST.encode(), n) for n in range(4)]


async def test_what_goes_back_when_its_lease_ends_is_not_under_way(
    holder, until, db, crawl
):
    node = await holder(HOST, count=8)
    await until(lambda: len(node.inbox) == 8)
    refuse(node)
    assert node.inbox.take() is None
    lease = node.leases.current(0)

    assert node.inbox.lose(lease) == []
    node.leases.forget(lease)
    db("DEL", crawl.partition(0).lease)
    node.inbox.back_offs = None
    await take(node)
    await until(lambda: len(node.inbox) == 8)


async def test_hundreds_that_are_left_alone_keep_no_other_waiting(holder, until):
    node = await holder(*REST, OTHER, count=1)
    for host in REST:
        refuse(node, host)
    found = await taken(node, until, 1)
    while hosts_of(found) != [OTHER]:
        node.inbox.finish(found[0])
        found = await taken(node, until, 1)

    assert not any(map(node.back_offs.waits, [OTHER]))


@pytest.mark.usefixtures("own_crawl")
async def test_a_store_that_is_away_is_told_later(
    node_of, connect, own_server, until, crawl
):
    node = node_of(store=connect(own_server))
    own_server.kill()
    with pytest.raises(StoreUnavailable):
        await node.store.call(Call.command("PING"))
    refuse(node, asked=50.0)
    stored = asyncio.create_task(node.back_offs.leaving())
    await until(lambda: node.outage_retry.outages)
    assert not stored.done()
    assert node.back_offs.waits(HOST)
    own_server.start()

    await stored
    key = crawl.partition(0).back_off
    assert await node.store.call(Call.command("HEXISTS", key, HOST))


async def test_what_a_failover_has_lost_is_told_again(node_of, db, crawl):
    node, key = node_of(), crawl.partition(0).back_off
    refuse(node, asked=50.0)
    await node.back_offs.leaving()
    db("DEL", key)
    node.back_offs.went_back()

    await node.back_offs.leaving()
    until_ms = int(db("HGET", key, HOST).split(b" ")[0])
    now = int(db("TIME")[0])
    assert 40 < until_ms / 1000 - now < 1000


async def test_one_dead_link_sets_no_host_aside(node_of):
    node = node_of(backoff_unreachable_after=4, backoff_unreachable_times=1)
    for _ in range(3):
        node.back_offs.missed(HOST, "unresolved", time.monotonic())
    node.back_offs.answered(HOST, time.monotonic())
    for _ in range(3):
        node.back_offs.missed(HOST, "unresolved", time.monotonic())

    assert not node.back_offs.waits(HOST)
    node.back_offs.missed(HOST, "unresolved", time.monotonic())
    assert node.back_offs.waits(HOST)
    assert node.back_offs.left(HOST) > 299


async def test_with_no_times_nothing_is_left_alone(node_of):
    node = node_of(backoff_times=0, backoff_unreachable_after=0)
    refuse(node)
    for _ in range(50):
        node.back_offs.missed(HOST, "unresolved", time.monotonic())

    assert not node.back_offs
    assert not node.back_offs.cares
