"""Nodes come and go for months: their reports become one, and the totals stay."""

import asyncio
import json
import time

import pytest

from frontier.cluster.membership import Membership
from frontier.model import Member
from frontier.node import gone_nodes
from frontier.node.gone_nodes import KEPT, GoneNodes
from frontier.status.figures import MOST_HOSTS
from frontier.status.reports import GONE
from frontier.status.snapshot import snapshot
from frontier.status.validate import MAX_JSON
from frontier.store.keys import CrawlKeys
from frontier.store.outage_retry import OutageRetry
from tests.dashboard.sample_data import report
from tests.harness.crawls import node_of

pytestmark = pytest.mark.store


@pytest.fixture
def keys(unique, put_crawl):
    keys = CrawlKeys(f"test-{unique}", "site-1")
    put_crawl(keys, shape='{"FRONTIER_PARTITIONS": 8}')
    return keys


@pytest.fixture
def gone(store, keys):
    return GoneNodes(node_of(store, keys))


@pytest.fixture
def look(blocking, keys):
    store = blocking()
    return lambda: snapshot(store, keys.namespace, keys.crawl_id)


def a_report(number, **more):
    """What a node that has left said of itself."""
    host = f"h{number % 9}"  # more hosts than are kept would be another sum
    facts = {"host_errors": {host: {"dns": 2}}, "host_seconds": {host: [4, 2.5]}}
    facts |= {"opened": 1000.0 + number, "left": True}
    return report(number, **facts | more)


async def fold_all(gone):
    total = 0
    while count := await gone.fold():
        total += count
    return total


def told(db, keys, reports):
    flat = [x for k, v in reports.items() for x in (k, json.dumps(v))]
    db("HSET", keys.reports, *flat)


async def test_reports_of_many_nodes_become_one_again_and_again_and_totals_stay(
    db, keys, gone, look
):
    sizes = []
    for first in range(0, 600, 100):
        told(db, keys, {f"node-{n}": a_report(n) for n in range(first, first + 100)})
        before = look().totals
        assert await fold_all(gone) == 100 - (0 if first else KEPT)
        assert await fold_all(gone) == 0
        assert look().totals == before
        assert db("HLEN", keys.reports) == KEPT + 1
        sizes.append(len(db("HGET", keys.reports, GONE)))

    assert max(sizes) < 1.5 * sizes[0]
    seen = look()
    assert (seen.gone, len(seen.nodes)) == (600 - KEPT, KEPT)
    assert seen.totals.pages == sum(a_report(n)["pages"] for n in range(600))


async def test_a_node_that_may_come_back_is_not_summed_up(db, keys, gone, monkeypatch):
    monkeypatch.setattr(gone_nodes, "KEPT", 0)
    now = time.time()
    for name in ("lives", "stays"):
        db("HSET", keys.nodes, name, "1 1 0 aa")
    told(
        db,
        keys,
        {
            "lives": a_report(1, left=False),
            "stays": a_report(2),  # it left, and was started again
            "killed": a_report(3, opened=now - 90_000, seconds=89_000.0, left=False),
            "lost": a_report(4, opened=now - 90_000, seconds=100.0, left=False),
            "left": a_report(5, opened=now - 5),
        },
    )

    assert await fold_all(gone) == 2

    names = {name.decode() for name in db("HKEYS", keys.reports)}
    assert names == {"lives", "stays", "killed", "*"}


async def test_a_node_that_came_back_meanwhile_is_not_summed_up(
    db, keys, gone, look, monkeypatch
):
    monkeypatch.setattr(gone_nodes, "KEPT", 0)
    told(db, keys, {"a": a_report(1), "b": a_report(2)})
    original = gone_nodes.folded

    def and_then(reports):
        told(db, keys, {"a": a_report(1, pages=77_777, left=False)})
        return original(reports)

    monkeypatch.setattr(gone_nodes, "folded", and_then)

    assert await fold_all(gone) == 0
    assert db("HLEN", keys.reports) == 2
    assert look().totals.pages == 77_777 + a_report(2)["pages"]


async def test_two_nodes_that_sum_up_at_once_count_nothing_twice(
    db, keys, gone, look, store
):
    told(db, keys, {f"node-{n}": a_report(n) for n in range(300)})
    before = look().totals
    other = GoneNodes(node_of(store, keys))

    both = await asyncio.gather(gone.fold(), other.fold())
    while await gone.fold():
        pass

    assert max(both) > 0
    assert look().totals == before
    assert look().gone == 300 - KEPT


@pytest.mark.parametrize("value", ["", "no json", "[1]", '{"pages": "x"}', "null"])
async def test_a_sum_that_cannot_be_read_begins_again(db, keys, gone, look, value):
    db("HSET", keys.reports, GONE, value)
    told(db, keys, {f"node-{n}": a_report(n) for n in range(KEPT + 3)})
    before = look().totals

    assert await fold_all(gone) == 3

    assert look().totals == before


async def test_the_sum_can_be_read_however_long_the_names_of_hosts_are(
    db, keys, gone, look
):
    hosts = {f"{n:0250}": [1, n] for n in range(90)}
    for n in range(KEPT + 40):
        mine = {f"{k[:-4]}{n:04}": v for k, v in hosts.items()} | hosts
        report = a_report(n, host_seconds=dict(list(mine.items())[:90]))
        told(db, keys, {f"node-{n}": report})
    pages = look().totals.pages

    await fold_all(gone)

    assert len(db("HGET", keys.reports, GONE)) <= MAX_JSON
    assert len(look().totals.host_seconds) <= MOST_HOSTS + KEPT * 90
    assert look().totals.pages == pages


async def test_totals_keep_counts_of_processes_whose_node_id_is_reused(
    store, db, keys, gone, look
):
    def process():
        return Membership(OutageRetry(store).call, keys, Member("a", 1), 8, ttl=60.0)

    left, killed, last = process(), process(), process()
    await left.beat(report=a_report(1, pages=100), busy=True)
    await left.leave(a_report(1, pages=110))
    await killed.beat(report=None, busy=True)
    assert look().totals.pages == 110
    await killed.beat(report=a_report(2, pages=20, left=False), busy=True)
    await last.beat(report=a_report(3, pages=3), busy=True)

    before = look()
    assert before.totals.pages == 133
    assert [one.figures.pages for one in before.nodes] == [3]
    assert await fold_all(gone) == 2
    assert set(db("HKEYS", keys.reports)) == {b"a", GONE}
    assert look().totals == before.totals
    assert before.gone_lost == look().gone_lost == 1
    assert before.gone == look().gone == 0
