from collections import Counter
from dataclasses import replace
from functools import partial

import pytest

from frontier.queue.reserve import Reservation
from frontier.store.client import Call
from frontier.store.scripts import SCRIPTS


def urls(count, start=0):
    return [b"%d" % n for n in range(start, start + count)]


@pytest.fixture
def ready_on(parts_on, start, new_push):
    """Make a node that has leases and URLs, and whose inbox runs."""

    async def ready_on(store, filled, **options):
        """Fill *filled*: partition to what the pushes are made of."""
        node = parts_on(store, **options)
        start(node.outbox.run())
        for partition, pushes in filled.items():
            await node.push(partition, *(new_push(*args) for args in pushes))
        await node.leases.acquire(filled)
        await node.ready.load(filled)
        start(node.inbox.run())
        return node

    return ready_on


@pytest.fixture
def ready(ready_on, store):
    return partial(ready_on, store)


def take_all(node):
    """Take what there is at the moment; return the URLs."""
    taken = []
    while (reservation := node.inbox.take()) is not None:
        taken.append(reservation)
    return taken


async def test_request_queued_while_a_reserve_reply_is_late_is_found(
    ready_on, late, store, new_push, until
):
    """The replies of two connections arrive in any order.

    Redis writes those of one round of its loop in the reverse of the order in which it
    has run the calls, so it happens whenever both were sent before it had its turn.
    """
    slow = late(store, SCRIPTS["queue_reserve"])
    node = await ready_on(slow, {0: [(b"1",)]})
    await slow.done.wait()
    await node.push(0, new_push(b"2"))
    assert node.became_ready[1:] == [(0, "0:a.example")], "it is not told of again"
    node.ready.note(0, ["0:a.example"])
    slow.go.set()

    await until(lambda: len(node.inbox) == 2)
    assert [r.item for r in take_all(node)] == [b"01", b"02"]


async def test_no_queue_key_has_more_in_flight_than_its_cap(ready, until):
    node = await ready({0: [(url,) for url in urls(20)]}, cap=3)
    await until(lambda: len(node.inbox) == 3)
    first = take_all(node)
    node.ready.note(0, ["0:a.example"])  # asks again
    await until(lambda: not node.ready.changed.is_set())
    assert len(node.inbox) == 0

    node.inbox.finish(first[0])
    await until(lambda: len(node.inbox) == 1)
    assert (await node.scan(0)).reserved == 4


async def test_a_large_site_does_not_hide_a_small_one(ready, until):
    big = [(url, "big.example") for url in urls(500)]
    small = [(url, "small.example") for url in urls(4, 1_000)]
    node = await ready({0: big, 1: small}, cap=8, size=16)
    await until(lambda: len(node.inbox) >= 12)

    counts = Counter(r.queue for r in take_all(node))
    assert counts["0:small.example"] == 4
    assert 1 <= counts["0:big.example"] <= 8


async def test_reservation_past_its_lease_deadline_is_kept_until_a_heartbeat(
    ready, until
):
    node = await ready({0: [(b"1",)]})
    await until(lambda: len(node.inbox))
    node.monotonic.ahead = 3_600

    assert node.inbox.take() is None
    assert len(node.inbox) == 1, "a heartbeat may still be answered"

    await node.heartbeat.beat()
    assert node.inbox.take().item == b"01"


async def test_a_partition_whose_lease_is_not_current_hides_no_other(ready):
    node = await ready({partition: [] for partition in range(4)})
    for partition in (1, 3):
        lease = node.leases.held[partition]
        node.leases.held[partition] = replace(lease, holder="a/former/1")
    for partition in range(4):
        node.ready.note(partition, ["0:a.example"])

    assert {one.lease.partition for one in node.ready.candidates()} == {0, 2}


async def test_a_lost_lease_takes_nothing_of_other_partitions_with_it(
    ready, until, db, crawl, monkeypatch
):
    monkeypatch.setattr("frontier.cluster.lease.randbelow", lambda _: 0)
    for partition in range(3):  # as it is if they are acquired in one millisecond
        db("HSET", crawl.partition(partition).lease, "token", 10**13)
    node = await ready({0: [(b"0", "a")], 1: [(b"1", "b")], 2: [(b"2", "c")]})
    await until(lambda: len(node.inbox) == 3)
    assert len({lease.token for lease in node.leases.held.values()}) == 1

    assert node.inbox.lose([node.leases.held[1]]) == 0

    assert {r.lease.partition for r in take_all(node)} == {0, 2}
    assert {partition for partition, _, _ in node.inbox.open} == {0, 2}


async def test_lost_lease_reports_the_number_of_started_deliveries(ready, until):
    node = await ready({0: [(b"0",), (b"1",)]})
    await until(lambda: len(node.inbox) == 2)
    node.inbox.take()

    assert node.inbox.lose([node.leases.held[0]]) == 1
    assert node.inbox.take() is None
    assert 0 not in node.inbox.busy_partitions()


async def test_a_reserve_that_the_store_refuses_loses_the_lease(
    ready, until, db, crawl
):
    node = await ready({0: []})
    db("HSET", crawl.partition(0).lease, "token", 1)
    node.ready.note(0, ["0:a.example"])

    await until(lambda: not node.leases.held and not node.ready.knows(0), "the loss")


async def test_a_partition_that_is_handed_over_is_not_reserved_from(ready, until):
    node = await ready({0: [], 1: [(b"9", "b")]})
    node.ready.handing_over.add(0)
    node.ready.note(0, ["0:a.example"])
    await until(lambda: len(node.inbox) == 1)

    assert (await node.scan(0)).reserved == 0


async def test_a_hint_is_followed_after_some_that_lead_nowhere(ready, until, new_push):
    node = await ready({0: []})
    await node.push(0, new_push(b"1"))
    hints = (b"", b"x", b"0", b"0 a", b"\xff", b"9999 0:a", b"x 0:a", b"-1 0:a")
    name = node.keys.hints("a")
    await node.store.call(Call.command("RPUSH", name, *hints, b"0 0:a.example"))

    await until(lambda: len(node.inbox) == 1)


async def test_a_late_hint_for_what_is_anothers_keeps_no_node_from_being_idle(ready):
    node = await ready({0: []})
    assert node.is_idle()

    node.ready.note(3, ["0:a.example"])

    assert node.is_idle(), "or no node would ever look for the end of the crawl"


async def test_a_node_with_something_in_flight_is_not_idle(ready, until):
    node = await ready({0: [(b"1",)]})
    await until(lambda: len(node.inbox))
    reservation = node.inbox.take()
    node.inbox.finish(reservation)
    assert not node.is_idle()

    node.inbox.forget(reservation)
    assert node.is_idle()


async def test_reservation_neither_known_to_the_holder_nor_kept_is_requeued(
    parts, db, crawl
):
    node, keys = parts("a"), crawl.partition(3)
    await node.heartbeat.beat()
    lease = node.leases.held[3]
    token, queue = lease.token, "0:a.example"
    heads = (token, token, token - 1, token + 1, f"{token} b/x/1")
    for number, head in enumerate(heads, 1):
        db("HSET", keys.reserved, number, f"{head}\n{queue}\n0{number}".encode())
    node.inbox.register([Reservation(lease, 1, queue, b"01")])

    await node.reclaim.put_back({lease: None})

    assert sorted(db("HKEYS", keys.reserved)) == [b"1", b"4", b"5"]
    assert sorted(await node.items(3)) == [b"02", b"03"]
