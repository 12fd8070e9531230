import asyncio
from types import SimpleNamespace

import pytest

from frontier.cluster.membership import Membership
from frontier.errors import StoreUnavailable
from frontier.model import Member
from frontier.node.context import Owner
from frontier.node.crawl_limits import Limits, Portions, Spending
from frontier.node.ends import described, limit_of_spider, reason_of
from frontier.settings.config import Config
from frontier.store.client import Call
from frontier.store.outage_retry import OutageRetry
from frontier.urls.traps import Group
from tests.harness.crawls import node_of

TTL = 60.0
GROUP = Group("query", "a.example", "http://a.example/search")


class Waiting(list):
    """What a node has reserved."""

    stopped = False


@pytest.fixture
def node(store, crawl):
    """Make a node on the map of a crawl that is open; it does what it is told."""

    async def node(name="a", waiting=100, ttl=TTL, run=store, **limits):
        await store.run([Call.command("HSETNX", crawl.meta, "state", "open")])
        await Membership(store.run, crawl, Member(name, 1), 4, ttl=TTL).beat(
            busy=False, report=None
        )
        inbox, told = Waiting(range(waiting)), []
        kernel = SimpleNamespace(
            config=Config(node_id=name, lease_ttl=ttl),
            answer=OutageRetry(run).answer,
            keys=crawl,
            inbox=inbox,
            owner=Owner(),
            uplink=SimpleNamespace(since=None),
            tell_end=lambda _: told.append(made.ended_at),
        )
        made = Spending(kernel, Limits(**limits))
        made.told, made.inbox = told, inbox
        return made

    return node


async def begin_all(node):
    """Have the node begin what it may; return how many."""
    count, before = 0, -1
    while before < count:
        before = count
        await node.before_ack()
        while node.room():
            node.begin(None)
            count += 1
    return count


async def test_failed_request_gives_back_its_page_allowance(node):
    one = await node(pages=10)
    assert await begin_all(one) == 10
    one.add("pages", 7)
    one.ended(range(10))  # three have failed

    assert await begin_all(one) == 3
    one.add("pages", 3)
    await one.before_ack()
    assert one.told == ["pages 10"]
    assert not one.room()


async def test_allowances_of_dead_nodes_are_removed(node, crawl, store):
    gone = [x for n in range(500) for x in (f"gone-{n}", "aa 1 7")]
    await store.call(Call.command("HSET", crawl.allowances, *gone))
    one, other = await node("a", errors=10**6), await node("b", pages=50)

    await one.before_ack()
    await other.before_ack()

    names = await store.call(Call.command("HKEYS", crawl.allowances))
    assert sorted(names) == [b"a", b"b"]


async def test_allowances_that_are_not_used_are_given_back(node):
    a, b = await node("a", pages=10), await node("b", pages=10)
    await a.before_ack()
    assert await begin_all(b) == 5
    a.inbox.clear()  # another node has its hosts now
    await a.before_ack()

    assert await begin_all(b) == 5
    assert await begin_all(a) == 0


@pytest.mark.parametrize(
    ("name", "limit"), [("items", 3), ("errors", 3), ("bytes", 3000)]
)
async def test_items_errors_and_bytes_are_counted_over_all_nodes(
    node, db, crawl, name, limit
):
    a, b = await node("a", **{name: limit}), await node("b", **{name: limit})
    each = limit // 3
    assert a.room()
    a.add(name, each)
    b.add(name, each)
    await a.before_ack()
    await b.before_ack()
    assert a.told == b.told == []
    a.add(name, each)
    await a.before_ack()
    await b.before_ack()

    assert a.told == b.told == [f"{name} {limit}"]
    state, what = db("HMGET", crawl.meta, "state", "limit")
    assert (state, what) == (b"limit", f"{name} {limit}".encode())
    b.add(name, each)  # in flight at that moment: it is counted, and nothing changes
    await b.before_ack()
    assert int(db("HGET", crawl.spent, name)) == 4 * each
    assert len(b.told) == 1


async def test_time_is_that_with_a_live_node(node, db, crawl):
    one = await node(seconds=0.3, ttl=0.2)
    db("HSET", crawl.spent, "active_ms", 200, "active_at", 1)  # before the last stop
    await one.before_ack()
    assert one.told == []
    assert int(db("HGET", crawl.spent, "active_ms")) == 200

    while not one.told:
        await one.before_ack()
    assert one.told == ["time 300"]
    assert 300 <= int(db("HGET", crawl.spent, "active_ms")) < 500


async def test_a_report_whose_reply_is_lost_is_counted_once(node, store, db, crawl):
    class Lossy:
        alone, where, changes = store.alone, store.where, 0
        lost = 0

        async def run(self, calls, **_):
            replies = await store.run(calls)
            if not self.lost:
                self.lost += 1
                raise StoreUnavailable("here", "the reply is lost")
            return replies

    one = await node(run=Lossy(), items=100)
    one.add("items", 5)
    await one.before_ack()
    again = await node(items=100)  # another process of its name
    again.add("items", 2)
    await again.before_ack()

    assert int(db("HGET", crawl.spent, "items")) == 7


async def test_a_node_that_scrapy_has_stopped_ends_the_crawl(node, db, crawl):
    one = await node(seconds=3600)
    one.reach("time")
    await one.before_ack()

    assert db("HGET", crawl.meta, "limit") == b"time 3600000"


async def test_a_crawl_that_is_not_there_is_not_made(node, db, crawl):
    one = await node(pages=10)
    db("DEL", crawl.meta)
    one.add("pages", 10)
    await one.before_ack()

    assert not db("EXISTS", crawl.meta)
    assert not db("EXISTS", crawl.spent)
    assert one.told == []


async def test_a_node_that_may_not_begin_asks_until_it_may(node, until):
    a, b = await node("a", pages=10), await node("b", pages=10)
    await begin_all(a)
    asking = asyncio.create_task(b.run())
    assert not b.room()
    a.ended(range(10))  # they have failed
    a.inbox.stopped = True
    await a.before_ack()

    await until(b.room)
    asking.cancel()


def test_limit_is_described_with_its_unit_and_setting():
    assert described("pages 1000") == "1,000 pages (CLOSESPIDER_PAGECOUNT)"
    assert described("time 90500") == "90.5 s (CLOSESPIDER_TIMEOUT)"
    assert described("") == described("what 7") == "one that another node has set"
    assert reason_of("bytes 10") == "frontier_limit_bytes"
    assert reason_of("") == "frontier_limit"
    assert reason_of(limit_of_spider("so be it")) == "so be it"


async def test_urls_of_a_group_are_counted_over_all_nodes(store, crawl):
    told = []
    for count in (3, 4):
        config = SimpleNamespace(partitions=4)
        one = Portions(node_of(store, crawl, config=config))
        one.on_total = lambda group, total: told.append((group, total))
        one.add(GROUP, count)
        await one.flush()

    assert told == [(GROUP, 3), (GROUP, 7)]
