"""Hosts as one node's inbox has them, on a real server."""

import asyncio
import itertools
import logging
import time
from functools import partial

import pytest

from frontier.errors import ConfigurationError, KeyDamaged
from frontier.node.context import Target
from frontier.queue.hosts import failed, read
from frontier.queue.purge import WINDOW
from frontier.settings.config import Config
from frontier.urls.partition import partition_of, shards_of

NAMES = (f"h{number}.example" for number in itertools.count())
HOSTS = [*itertools.islice((n for n in NAMES if partition_of(n, 4) == 0), 400)]
HOST, OTHER, *REST = HOSTS


@pytest.fixture
def node_of(parts, parts_on, start):
    """Make a node that knows which hosts are left alone."""

    def node_of(name="a", store=None, **settings):
        options = {"settings": {"backoff_min": 600.0, **settings}}
        node = (
            parts(name, **options)
            if store is None
            else parts_on(store, name, **options)
        )
        start(node.outbox.run(), node.hosts.run())
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
    await node.ready.load([0])


def refuse(node, host=HOST, asked=0.0):
    node.hosts.refused(host, "throttled", time.monotonic(), asked)


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


async def test_host_is_probed_by_one_request_after_its_backoff(holder, until):
    node = await holder(HOST, count=5, backoff_min=0.2)
    (first,) = await taken(node, until, 1)
    refuse(node)
    node.inbox.finish(first)
    node.inbox.forget(first)

    (second,) = await taken(node, until, 1)
    assert not node.hosts.waits(HOST)
    assert node.hosts.failures(HOST) == 1
    assert len(node.inbox.open) == 1
    node.hosts.answered(HOST, time.monotonic())
    node.inbox.finish(second)
    await taken(node, until, 3)
    assert not node.hosts


async def test_reservations_of_a_refusing_host_are_requeued_without_delivery(
    holder, until
):
    node = await holder(HOST, count=4)
    await until(lambda: len(node.inbox) == 4)
    refuse(node)

    assert node.inbox.take() is None
    await until(lambda: not node.inbox.open)
    items = await node.items(0, f"0:{HOST}")
    assert items == [b"0%s-%d" % (HOST.encode(), n) for n in range(4)]


async def test_withdrawn_reservations_of_a_lost_lease_are_not_in_flight(
    holder, until, db, crawl
):
    node = await holder(HOST, count=8)
    await until(lambda: len(node.inbox) == 8)
    refuse(node)
    assert node.inbox.take() is None
    lease = node.leases.current(0)

    assert node.inbox.lose([lease]) == 0
    node.leases.forget(lease)
    db("DEL", crawl.partition(0).lease, crawl.partition(0).hosts)
    await take(node)
    await until(lambda: len(node.inbox) == 8)


async def test_host_record_lost_in_a_failover_is_stored_again(node_of, db, crawl):
    node, key = node_of(), crawl.partition(0).hosts
    await take(node)
    refuse(node, asked=50.0)
    await node.hosts.leaving()
    db("DEL", key)
    node.hosts.went_back()

    await node.hosts.leaving()
    now = int(db("TIME")[0])
    assert 40 < read(db("HGET", key, HOST)).until - now < 1000


async def test_request_sent_without_a_delay_writes_no_host_record(
    holder, until, db, crawl
):
    node, key = await holder(HOST), crawl.partition(0).hosts
    (sent,) = await taken(node, until, 1)
    refuse(node)
    await node.hosts.leaving()
    db("DEL", key)
    node.inbox.sent(sent, 0.0)

    await node.hosts.leaving()
    assert not db("EXISTS", key)


async def test_host_is_set_aside_only_after_unreachable_failures_in_a_row(node_of):
    node = node_of(backoff_unreachable_after=4, backoff_unreachable_times=1)
    forgets = partial(node.hosts.answered, HOST), node.hosts.forgive, lambda _: None
    for forget in forgets:
        for _ in range(3):
            node.hosts.missed(HOST, "unresolved", time.monotonic())
        forget(time.monotonic())

    assert not node.hosts.waits(HOST)
    node.hosts.missed(HOST, "unresolved", time.monotonic())
    assert node.hosts.waits(HOST)
    assert node.hosts.left(HOST) > 299


async def test_a_node_without_an_uplink_forgives_hosts_what_was_not_their_fault(
    node_of, start, until
):
    async def has_answered(_):
        return False

    node = node_of(backoff_unreachable_after=1, uplink_probe=600.0)
    node.owner.probe = has_answered
    node.hosts.missed(HOST, "unresolved", time.monotonic())
    for host in HOSTS[1:4]:
        node.uplink.failed(Target(f"http://{host}"))
        node.hosts.missed(host, "unresolved", time.monotonic())
    start(node.uplink.run())
    await until(lambda: node.uplink.since is not None, "a pause")

    assert [host for host in HOSTS[:4] if node.hosts.waits(host)] == [HOST]


async def test_failures_of_very_many_hosts_are_counted_anew(node_of, monkeypatch):
    monkeypatch.setattr("frontier.node.hosts.MOST_COUNTED", 2)
    node = node_of(backoff_unreachable_after=2)
    for host in (*HOSTS[:3], HOST):
        node.hosts.missed(host, "unresolved", time.monotonic())

    assert not node.hosts.waits(HOST)


async def test_with_no_times_nothing_is_left_alone(node_of):
    node = node_of(backoff_times=0, backoff_unreachable_after=0)
    refuse(node)
    for _ in range(50):
        node.hosts.missed(HOST, "unresolved", time.monotonic())

    assert not node.hosts
    assert not node.hosts.cares


async def test_new_lease_holder_keeps_host_backoffs_and_delays(
    holder, node_of, db, crawl
):
    """For the delay that another has to keep, and for what they have done to it."""
    a = await holder(HOST, OTHER, REST[0], count=3, host_max_pages=9)
    lease = a.leases.current(0)
    for reservation in await taken_of(a):
        a.hosts.add(reservation, 1, 100)
        if reservation.queue == f"0:{OTHER}":
            a.inbox.sent(reservation, 300.0)
    refuse(a, asked=3_000.0)
    await a.hosts.leaving()
    await a.inbox.put_back([*a.inbox.open.values()])
    a.leases.forget(lease)

    b = node_of("b", host_max_pages=9)
    db("DEL", crawl.partition(0).lease)
    await take(b)
    assert b.hosts.most(OTHER) == 6
    while await b.inbox.fill():
        pass
    assert hosts_of(b.inbox.open.values()) == [REST[0]] * 3
    assert 2_700 < b.hosts.left(HOST) < 3_310
    assert 60 < b.hosts.turn(OTHER) - time.monotonic() < 301


async def taken_of(node):
    while len(node.inbox) < 9:
        await asyncio.sleep(0.01)
    return [node.inbox.take() for _ in range(9)]


async def test_backoffs_in_a_row_grow_and_in_flight_refusals_do_not_count(
    node_of,
):
    node = node_of(backoff_min=2.0, backoff_growth=3.0, backoff_max=20.0)
    waits, record = [], None
    for _ in range(4):
        refuse(node)
        refuse(node)  # one that was on the way
        record = node.hosts._known[HOST]
        waits.append(round(node.hosts.left(HOST) / 1.05, 0))
        record.until = record.since = time.monotonic() - 1
    assert record.failures == 4
    assert pytest.approx(waits, abs=1) == [2, 6, 18, 20]

    node.hosts.answered(HOST, time.monotonic() - 60)
    assert node.hosts.failures(HOST) == 4
    node.hosts.answered(HOST, time.monotonic())
    assert not node.hosts


@pytest.mark.parametrize(("reason", "ends"), [("throttled", False), ("tls", True)])
async def test_a_host_that_wants_to_be_left_alone_is_though_it_answers(
    node_of, reason, ends
):
    node = node_of()
    node.hosts.refused(HOST, reason, time.monotonic(), 60.0)
    node.hosts.answered(HOST, time.monotonic())
    assert bool(node.hosts) is not ends


async def test_records_that_expired_or_were_forgiven_are_removed(holder, db, crawl):
    node = await holder(HOST, OTHER, REST[0], count=3)
    for reservation in await taken_of(node):
        node.inbox.sent(reservation, 0.01)
    refuse(node)
    await node.hosts.leaving()
    key = crawl.partition(0).hosts
    node.hosts._prune(time.monotonic() + 1)
    await node.hosts.leaving()
    assert len(db("HGETALL", key)) == 3

    node.hosts._prune(time.monotonic() + 600)
    await node.hosts.leaving()
    assert [*failed(db("HGETALL", key))] == [HOST]
    assert db("HLEN", key) == 1
    node.hosts.retry(HOST)
    await node.hosts.leaving()
    assert failed(db("HGETALL", key)) == {}
    node.hosts._prune(time.monotonic() + 600)
    await node.hosts.leaving()
    assert not db("EXISTS", key)


async def test_invalid_host_record_is_reported_with_its_key(
    node_of, new_push, db, crawl
):
    node = node_of()
    await node.push(0, new_push(b"1", HOST))
    db("HSET", crawl.partition(0).hosts, HOST, "x")
    with pytest.raises(KeyDamaged, match=f"hosts.*{HOST}"):
        await take(node)


async def test_a_divided_host_is_left_alone_in_all_its_shards_here(
    node_of, new_push, db, crawl
):
    node = node_of(host_shards=4)
    shards = [*shards_of(HOST, 4, 4)]
    for shard in shards:
        push = new_push(shard.queue_key.encode(), shard.queue_key)
        await node.push(shard.partition, push)
    for held in await node.leases.acquire(range(3)):
        await node.heartbeat._take_over([held])
    await node.ready.load(range(3))
    refuse(node, asked=50.0)
    await node.hosts.leaving()

    assert not await node.inbox.fill()
    assert not node.inbox.open
    stored = [db("HLEN", crawl.partition(number).hosts) for number in range(4)]
    assert stored == [1, 1, 1, 0]


# Quotas.


@pytest.fixture
def quotas(parts, start, new_push):
    """Make a node that holds partition 0, in which *urls* of hosts are ready."""

    async def quotas(urls, host_max, cap=100):
        most = dict(zip(("host_max_pages", "host_max_bytes"), host_max, strict=True))
        node = parts(cap=cap, settings=most)
        start(node.outbox.run())
        await node.push(0, *(new_push(url, host) for url, host in urls))
        await take(node)
        start(node.inbox.run())
        return node

    return quotas


def of(host, count, first=0):
    return [(b"%s-%d" % (host.encode(), n), host) for n in range(first, first + count)]


async def fetch(node, until, *, pages=1, size=100, most=1000):
    """Take and finish what there is, until nothing more comes; return the URLs."""
    taken = []
    while len(taken) < most:
        await until(lambda: len(node.inbox) or not node.ready.knows(0))
        if not len(node.inbox):
            break
        reservation = node.inbox.take()
        taken.append(reservation.item[1:])
        node.hosts.add(reservation, pages, size)
        node.acks.complete(reservation)
        await node.acks.drain()
    return taken


async def test_a_host_has_its_pages_and_the_others_theirs(quotas, until, caplog):
    urls = [*of("a.example", 30 + WINDOW), *of("b.example", 5)]
    node = await quotas(urls, (10, 0))
    fetched = await fetch(node, until)

    assert sorted(fetched) == sorted(url for url, _ in urls[:10] + urls[-5:])
    scan = await node.scan(0)
    assert (scan.ready, scan.reserved, scan.acked) == (0, 0, 15)
    assert scan.skipped == 20 + WINDOW
    with caplog.at_level(logging.WARNING):
        node.hosts.tell()
    assert f"{20 + WINDOW} requests of 1 hosts were not sent" in caplog.text
    assert f"(a.example {20 + WINDOW:,})" in caplog.text


async def test_reservations_do_not_exceed_the_page_quota_of_a_host(quotas, until):
    node = await quotas(of("a.example", 30), (3, 0))
    await until(lambda: len(node.inbox) == 3)
    held = [node.inbox.take() for _ in range(3)]
    await node.ready.load([0])
    await until(lambda: not node.ready.changed.is_set())
    assert len(node.inbox) == 0

    for reservation in held:  # none has brought a page: they have failed
        node.acks.complete(reservation)
    await node.acks.drain()
    assert len(await fetch(node, until)) == 3
    assert (await node.scan(0)).skipped == 30 - 6


async def test_bytes_of_a_host_end_it_too(quotas, until):
    node = await quotas(of("a.example", 30), (0, 1000), cap=1)
    fetched = await fetch(node, until, size=500)

    assert len(fetched) == 2
    assert (await node.scan(0)).skipped == 28


async def test_priorities_of_a_host_have_one_quota_and_late_urls_are_skipped(
    quotas, new_push, until
):
    node = await quotas([], (4, 0))
    first = [new_push(b"%d" % n, "a.example", n % 3) for n in range(9)]
    await node.push(0, *first)
    await node.ready.load([0])
    assert len(await fetch(node, until)) == 4

    await node.push(0, new_push(b"late", "a.example"))
    await node.ready.load([0])
    assert await fetch(node, until) == []
    assert (await node.scan(0)).skipped == 6


def test_quotas_are_refused_where_a_host_has_several_queues():
    for name in ("FRONTIER_HOST_MAX_PAGES", "FRONTIER_HOST_MAX_BYTES"):
        with pytest.raises(ConfigurationError, match="in one queue"):
            Config.from_settings({name: 5, "FRONTIER_HOST_SHARDS": 2})
