import asyncio

import pytest

from frontier.cluster.lease import BATCH
from frontier.errors import CrawlLost, StoreUnavailable
from frontier.store.scripts import SCRIPTS
from tests.node.conftest import settle

TTL = 600.0


async def test_request_that_waited_in_inboxes_of_dead_nodes_is_not_given_up(
    parts, start, new_push, until, silence
):
    for name in "abcdef":
        node = parts(name)
        start(node.outbox.run(), node.inbox.run())
        await settle(node)
        if name == "a":
            await node.push(0, new_push(b"innocent"))
            await node.ready.load([0])
        await until(lambda node=node: len(node.inbox))
        node.inbox.stopped = True
        silence(name)

    assert (await node.scan(0)).dead == 0
    assert node.reclaim.count == 1


async def test_the_marks_of_what_is_acked_do_not_stay(
    parts, start, new_push, until, db, crawl
):
    a = parts("a")
    start(a.outbox.run(), a.inbox.run(), a.delivery_marks.run())
    await settle(a)
    await a.push(0, new_push(b"x"))
    await a.ready.load([0])
    await until(lambda: len(a.inbox))
    reservation = a.inbox.take()
    a.delivery_marks.begin(reservation)
    mark = crawl.partition(0).started
    await until(lambda: db("SMEMBERS", mark) == {b"%d" % reservation.id})
    assert db("TTL", mark) > 80_000

    a.acks.complete(reservation)
    await a.acks.drain()
    await until(lambda: not db("EXISTS", mark))


async def test_a_mark_that_is_late_is_not_sent_after_the_ack(
    parts, start, new_push, until, db, crawl
):
    a = parts("a")
    start(a.outbox.run(), a.inbox.run())
    await settle(a)
    for url in (b"x", b"y"):
        await a.push(0, new_push(url))
    await a.ready.load([0])
    await until(lambda: len(a.inbox) == 2)
    early, late = a.inbox.take(), a.inbox.take()
    a.delivery_marks.begin(early)
    a.acks.complete(early)
    await a.acks.drain()

    a.delivery_marks.begin(late)
    start(a.delivery_marks.run())
    await until(lambda: db("EXISTS", crawl.partition(0).started))
    assert db("SMEMBERS", crawl.partition(0).started) == {b"%d" % late.id}


async def test_takeover_finishes_after_the_connection_breaks(
    parts, parts_on, flaky, db, crawl
):
    count = 2 * BATCH
    for partition in range(count):
        keys = crawl.partition(partition)
        db("HSET", keys.reserved, 1, b"5\n0:a.example\n0url")
    b = parts_on(flaky(SCRIPTS["lease_acquire"], 2), "b", partitions=count)

    with pytest.raises(StoreUnavailable):
        await b.heartbeat.beat()
    await settle(b)

    assert b.reclaim.count == count
    scans = [await b.scan(partition) for partition in range(count)]
    assert {(scan.ready, scan.reserved) for scan in scans} == {(1, 0)}


async def test_a_lost_lease_is_noticed_and_what_stood_on_it_dropped(
    parts, start, new_push, until, db, crawl
):
    a = parts("a")
    start(a.outbox.run(), a.inbox.run())
    await settle(a)
    await a.push(0, new_push(b"1"))
    await a.ready.load([0])
    await until(lambda: len(a.inbox))
    db("HSET", crawl.partition(0).lease, "token", 1)

    await a.heartbeat._look()

    assert 0 not in a.leases.held
    assert a.is_idle()
    assert a.inbox.take() is None


async def test_what_a_node_has_not_started_goes_to_the_node_that_takes_its_partition(
    parts, start, new_push, until
):
    a, b = parts("a", partitions=8), parts("b", partitions=8)
    start(a.outbox.run(), a.inbox.run())
    await settle(a)
    for partition in range(8):
        await a.push(partition, new_push(b"%d" % partition))
    await a.ready.load(range(8))
    await until(lambda: len(a.inbox) == 8)

    await settle(a, b)

    theirs = [await b.items(partition) for partition in sorted(b.leases.held)]
    assert theirs == [[b"0%d" % partition] for partition in sorted(b.leases.held)]
    assert len(a.inbox) + len(theirs) == 8


async def test_a_partition_that_a_node_has_and_does_not_know_of_is_given_up(
    parts, db, crawl, monkeypatch, start, until
):
    """What took it, or gave it back, was not answered, or is forgotten."""
    monkeypatch.setattr("frontier.node.heartbeat.PATIENCE", 0.0)
    a, b = parts("a", partitions=8), parts("b", partitions=8)
    await settle(a, b)
    await settle(a, b)
    one = next(iter(b.leases.held))
    token = b.leases.held[one].token
    await b.leases.release([one])
    keys = crawl.partition(one)
    db("HSET", keys.lease, "token", token + 1, "holder", a.membership.name)
    db("HSET", keys.reserved, 1, b"%d\n0:a.example\n0url" % (token + 1))

    start(a.inbox.run())
    for _ in range(3):
        await b.heartbeat.beat()
    await until(lambda: a.borrow.wanted == {one})
    await settle(a, b)
    assert one in b.leases.held
    assert await b.items(one) == [b"0url"]


async def test_a_node_that_starts_over_gives_back_what_is_not_its_own_any_more(
    parts, start
):
    """In the store it still has what it has forgotten, and others wait for that."""
    a, b = parts("a", partitions=8), parts("b", partitions=8)
    start(a.inbox.run())
    await settle(a)
    await b.heartbeat.beat()
    a.start_over()

    await settle(a, b)
    assert len(a.leases.held) + len(b.leases.held) == 8


async def test_a_node_looks_soon_at_what_it_has_taken(parts, start, until, monkeypatch):
    """Until others know that it is there, their hints go elsewhere."""
    monkeypatch.setattr("frontier.node.heartbeat.LOOK", TTL)
    a = parts("a")
    looked = asyncio.Event()

    async def look():
        looked.set()

    monkeypatch.setattr(a.heartbeat, "_look", look)
    start(a.heartbeat.look())
    await settle(a)

    await until(looked.is_set, "a look")


async def test_a_look_puts_back_what_nobody_here_has_reserved(
    parts, db, crawl, start, until
):
    """A call that was given up is executed late."""
    a = parts("a")
    await settle(a)
    keys, token = crawl.partition(2), a.leases.held[2].token
    db("HSET", keys.reserved, 1, b"%d\n0:a.example\n0url" % token)
    await a.heartbeat._look()
    start(a.inbox.run())
    assert db("HLEN", keys.reserved) == 1, "its reply may be on its way"

    await a.heartbeat._look()
    await until(lambda: len(a.inbox) == 1)
    assert a.inbox.take().item == b"0url"


async def test_look_finds_a_ready_queue_without_a_hint(parts, db, crawl):
    a = parts("a")
    await settle(a)
    keys = crawl.partition(3)
    db("HSET", keys.counts, "ready", 1)
    db("ZADD", keys.queues, 0, "0:a.example")

    await a.heartbeat._look()

    assert a.ready.knows(3)


async def test_a_node_learns_that_the_crawl_has_ended(parts, db, crawl):
    a = parts("a")
    db("HSET", crawl.meta, "state", "finished")
    await a.heartbeat.beat()
    assert a.finished.is_set()


async def test_stop_during_a_round_held_up_by_the_server_takes_no_partition(
    parts, monkeypatch
):
    a = parts("a")
    a.heartbeat._beat = 0.01
    asked, answered = asyncio.Event(), asyncio.Event()

    async def hand_over(_):
        asked.set()
        await answered.wait()

    monkeypatch.setattr(a.heartbeat, "_hand_over", hand_over)
    running = asyncio.ensure_future(a.heartbeat.run())
    await asked.wait()
    stopping = asyncio.ensure_future(a.heartbeat.stop())
    await running
    assert not stopping.done()
    answered.set()
    await stopping

    assert len(a.leases.held) == 0, "nothing is taken any more"


@pytest.mark.parametrize("failure", [StoreUnavailable("here", "why"), CrawlLost("c")])
async def test_failure_of_a_round_after_its_beat_is_raised_by_the_next_beat(
    parts, monkeypatch, failure
):
    a = parts("a")
    go, take = asyncio.Event(), a.leases.acquire

    async def acquire(partitions):
        monkeypatch.setattr(a.leases, "acquire", take)
        await go.wait()
        raise failure

    monkeypatch.setattr(a.heartbeat, "_beat", 0.01)
    monkeypatch.setattr(a.leases, "acquire", acquire)
    assert await a.heartbeat.beat() is False
    go.set()
    await asyncio.wait({a.heartbeat._following})

    with pytest.raises(type(failure)):
        await a.heartbeat.beat()
    monkeypatch.setattr(a.heartbeat, "_beat", TTL)  # to wait for how a round ends
    await settle(a)
    assert sorted(a.leases.held) == [0, 1, 2, 3]
