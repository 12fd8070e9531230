"""What waits is made ready when it is due, by nodes that come, go and are lost."""

import asyncio
import math
import time
from datetime import UTC, datetime, timedelta

import pytest
from owner import push

from frontier.node import end_of_crawl as ending
from frontier.node.ends import FINISHED
from frontier.queue import due


async def fetch(node, fetched):
    """Fetch what *node* is given, and note when, until the crawl is over."""
    owner = node.owner
    while not owner.finished.is_set():
        while (reservation := node.take()) is not None:
            url = reservation.item[1:]
            fetched.append((url, time.time()))
            node.acks.complete(reservation)
        owner.ready.clear()
        if not owner.finished.is_set():
            await owner.ready.wait()


@pytest.fixture
def opened(new_node, stack):
    async def opened(server, name, **settings):
        node = new_node(server, name, **settings)
        node.owner.is_busy = True
        await node.open()
        stack.push_async_callback(node.close)
        return node

    return opened


async def test_a_node_hears_of_what_another_has_due_before_all_it_knows(
    opened, server, until
):
    a, b = await opened(server, "a"), await opened(server, "b")
    await until(
        lambda: len(a.leases.held) + len(b.leases.held) == 16 and len(b.leases.held)
    )
    for n in range(30):
        push(a, b"far%d" % n, f"h{n}.example", 3600)
    await a.outbox.flush()
    known = b.due_times._next
    await until(lambda: known and all(k.at < math.inf for k in known.values()))
    fetched = []
    fetching = asyncio.create_task(fetch(b, fetched))
    at_a = asyncio.create_task(fetch(a, fetched))
    for n in range(30):
        push(a, b"near%d" % n, f"h{n}.example", 0.3)
    await a.outbox.flush()
    await until(lambda: len(fetched) == 30)

    assert all(url.startswith(b"near") for url, _ in fetched)
    assert a.due_times.moved + b.due_times.moved == 30
    for node, task in ((a, at_a), (b, fetching)):
        node.owner.on_end(FINISHED)
        await task


async def test_a_node_with_future_work_only_scans_seldom(
    parts, start, db, crawl, until, monkeypatch
):
    monkeypatch.setattr(ending, "INTERVAL", 0.005)
    monkeypatch.setattr(ending, "LOOK", 0.002)
    node = parts()
    await node.heartbeat.beat()
    keys = crawl.partition(1)
    later = time.time() * 1000 + 1000
    db("ZADD", keys.due, later, f"{later:.0f}")
    db("RPUSH", keys.waiting(f"{later:.0f}"), "0:a.example\n0url")
    db("HSET", keys.counts, "waiting", 1, "pushed", 1)
    scans = []
    scan = node.end_of_crawl._scan

    async def counted():
        scans.append(time.time() * 1000)
        return await scan()

    node.end_of_crawl._scan = counted
    start(node.end_of_crawl.run())
    await until(lambda: len(scans) > 5)

    assert scans[1] > later - 500, "nothing was to be found before"
    assert not node.finished.is_set()


@pytest.mark.parametrize("until", ["seconds", "date"])
async def test_urls_due_after_recrawl_until_do_not_keep_the_crawl_open(
    opened, server, caplog, until
):
    date = (datetime.now(UTC) + timedelta(minutes=1)).isoformat()
    until = "60" if until == "seconds" else date
    node = await opened(server, "a", recrawl_until=until)
    push(node, b"1", "h.example", 0.1)
    push(node, b"2", "h.example", 600)
    push(node, b"3", "h.example", 700)
    await node.outbox.flush()
    node.owner.is_busy = False
    fetched = []
    with caplog.at_level("INFO"):
        await fetch(node, fetched)

    assert [url for url, _ in fetched] == [b"1"]
    assert "2 URLs are due after FRONTIER_RECRAWL_UNTIL" in caplog.text


async def test_a_node_whose_clock_is_ahead_has_nothing_be_late(
    opened, server, monkeypatch, db
):
    monkeypatch.setattr(due, "wall_ms", lambda: time.time() * 1000 + 3_600_000)
    node = await opened(server, "a")
    seconds, micros = db("TIME")
    ahead = node.clock() - int(seconds) * 1000 - int(micros) / 1000
    assert abs(ahead) < 600_000  # by which a busy machine may be late

    push(node, b"1", "h.example", 0.2)
    await node.outbox.flush()
    node.owner.is_busy = False
    fetched = []
    await fetch(node, fetched)
    assert [url for url, _ in fetched] == [b"1"]
