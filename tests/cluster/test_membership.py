import asyncio
import json
from types import SimpleNamespace

import pytest

from frontier.cluster.membership import Departure, Membership, remove
from frontier.errors import InUse, NodeReplaced
from frontier.model import Member
from frontier.node.departure import Leaving
from frontier.status.membership_log import KEPT

TTL = 60.0


@pytest.fixture
def join(store, crawl):
    """Make a node's place among the nodes; it joins with its first beat."""

    def join(name, weight=1, ttl=TTL, **more):
        member = Member(name, weight)
        return Membership(store.run, crawl, member, 64, ttl=ttl, **more)

    return join


async def beat(*nodes, busy=False):
    for node in nodes:
        view = await node.beat(busy=busy, report=None)
    return view


@pytest.fixture
def met(join):
    """Make nodes with these names, which have joined in turn."""

    async def met(names):
        nodes = [join(name) for name in names]
        await beat(*nodes)
        return nodes

    return met


@pytest.fixture
def end(db, crawl):
    """End the crawl; return when what follows is later, by the server's clock."""

    def now():
        seconds, micros = db("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    def end(state="finished"):
        ended = now()
        db("HSET", crawl.meta, "state", state, "finished_ms", ended)
        while now() <= ended:
            pass

    return end


@pytest.mark.parametrize("state", ["finished", "canceled", "limit"])
async def test_a_node_stays_while_nobody_else_has_heard_of_the_end(
    met, end, db, crawl, state
):
    a, b = await met("ab")
    end(state)
    before = db("HGET", crawl.nodes, "a")

    gone = await a.leave({})
    assert (gone.left, gone.state, gone.silent) == (2, state, ("b",))
    after = db("HGET", crawl.nodes, "a")
    assert int(after.split()[0]) >= int(before.split()[0])
    assert after.split()[1:] == before.split()[1:]
    await beat(b)
    assert await a.leave({}) == Departure(1, state)
    assert db("HKEYS", crawl.nodes) == [b"b"]


async def test_a_node_leaves_when_another_has_heard_of_the_end(met, end):
    a, b, _ = await met("abc")
    end()
    await beat(b)

    assert await a.leave({}) == Departure(2, "finished")
    assert (await b.leave({})).silent == ("c",), "c may be dead"


async def test_the_dead_are_taken_off_before_the_last_node_leaves(
    met, end, silence, db, crawl
):
    a, _ = await met("ab")
    end()
    silence("b")

    assert await a.leave({}) == Departure(0, "finished")
    assert not db("EXISTS", crawl.nodes)
    entries = db("LRANGE", crawl.membership, -2, -1)
    said = [(entry.split()[2], entry.split()[4]) for entry in entries]
    assert said == [(b"died", b"b"), (b"left", b"a")]


async def test_second_node_waiting_for_a_silent_third_leaves_at_once(met, end):
    a, b, _ = await met("abc")
    end()
    assert (await a.leave({})).silent == ("b", "c")

    assert await b.leave({}) == Departure(2, "finished")
    assert (await a.leave({})).silent == ("c",)


async def test_a_node_with_a_short_lease_leaves_when_silent_ones_are_dead(
    join, end, crawl
):
    a, b = [join(name, ttl=1.0) for name in "ab"]
    await beat(a, b)
    end()
    config = SimpleNamespace(lease_ttl=1.0)
    leaving = Leaving(SimpleNamespace(membership=a, config=config, keys=crawl))

    async with asyncio.timeout(30), asyncio.timeout(30) as limit:
        gone = await leaving._leave({}, limit, 30, graceful=False)
    assert gone == Departure(0, "finished")


async def test_a_node_leaves_a_crawl_that_has_not_ended_at_once(met):
    a, _ = await met("ab")

    assert await a.leave({}) == Departure(1, "open")


async def test_the_dead_are_looked_for_by_one_beat_in_a_second(
    join, silence, db, crawl
):
    a, b = join("a"), join("b")
    await beat(a, b, a)
    silence("b")
    seconds, micros = db("TIME")
    # Within a second before and after it: so this beat has two to come in.
    db(
        "HSET",
        crawl.meta,
        "swept_ms",
        int(seconds) * 1000 + int(micros) // 1000 + 990,
    )
    view = await beat(a)
    assert view.epoch == 2
    assert {m.node_id for m in view.members} == {"a", "b"}

    db("HSET", crawl.meta, "swept_ms", int(seconds) * 1000 - 2000)
    view = await beat(a)
    assert view.epoch == 3
    assert view.members == (Member("a", 1),)
    assert int(db("HGET", crawl.meta, "swept_ms")) > 10**12
    assert int(db("HGET", crawl.meta, "ttl_ms")) == TTL * 1000  # for commands
    assert (await beat(b)).members == (Member("a", 1), Member("b", 1))
    assert (a.rank, b.rank) == (0, 1)


async def test_each_node_is_silent_for_its_own_lease_time_before_it_is_dead(
    join, blocking, crawl
):
    """A node relies on its leases for as long as its own setting says."""
    a, short, long = join("a", ttl=0.5), join("short", ttl=0.5), join("long")
    view = await beat(long, short, a)
    while Member("short", 1) in view.members:
        view = await beat(a)
    assert set(view.members) == {Member("a", 1), Member("long", 1)}
    with pytest.raises(InUse):
        remove(blocking(), crawl, "long", partitions=1, force=False)


async def test_under_its_next_name_a_node_takes_nobody_for_dead_at_once(
    join, db, crawl
):
    now = 0.0
    a, b = join("a", clock=lambda: now), join("b")
    await beat(b, a)
    assert not a.is_dead("never/met/1")
    db("DEL", crawl.nodes)  # by a server that has lost its last writes
    now = TTL
    await beat(a)

    assert not a.is_dead(b.name)
    assert not a.is_dead("never/met/1")


async def test_the_last_report_stays_also_when_the_node_is_gone(join, db, crawl):
    a = join("a")
    await a.beat(busy=False, report={"pages": 1})
    await a.beat(busy=False, report=None)
    assert json.loads(db("HGET", crawl.reports, "a")) == {"pages": 1}

    db("RPUSH", crawl.hints("a"), "7 0:a")
    await a.leave({"pages": 2})
    assert json.loads(db("HGET", crawl.reports, "a")) == {"pages": 2, "left": True}
    assert db("EXISTS", crawl.hints("a")) == 0


async def test_a_clock_that_is_set_back_leaves_no_dead_node(met, db, crawl):
    """The stamps are as of a clock that was 600 s ahead."""
    a, _ = await met("ab")
    ahead = 600_000 + int(db("TIME")[0]) * 1000
    rest = db("HGET", crawl.nodes, "b").split(b" ", 1)[1]
    db("HSET", crawl.nodes, "b", b"%d " % ahead + rest)
    db("HSET", crawl.meta, "swept_ms", ahead, "resumed_ms", ahead)
    assert len((await beat(a)).members) == 2, "it has the time of a lease from now on"
    resumed = int(db("HGET", crawl.meta, "resumed_ms"))
    assert resumed <= ahead - 500_000

    now = int(db("TIME")[0]) * 1000
    db("HSET", crawl.meta, "swept_ms", now - 2000, "resumed_ms", now - 61_000)
    assert (await beat(a)).members == (Member("a", 1),)


async def test_a_map_that_went_back_may_count_an_epoch_twice(met, join, db, crawl):
    (a,) = await met("a")
    at, rest = db("HGET", crawl.nodes, "a").split(b" ", 1)
    await beat(join("b"), a)

    db("HSET", crawl.nodes, "a", b"%d %s" % (int(at) - 1, rest))  # as it was alone
    db("HDEL", crawl.nodes, "b")
    db("SET", crawl.epoch, 1)
    c = join("c")
    await beat(c, a, a)

    assert a.ring.owned_by("c") == c.ring.owned_by("c") != []


async def test_a_pause_of_all_throws_nobody_off(join, silence, db, crawl):
    """As after a server that hung, or a clock that was set ahead."""
    a, b = join("a"), join("b")
    await beat(a, b, a)
    silence("b")
    silence("a")
    now = int(db("TIME")[0]) * 1000
    db("HSET", crawl.meta, "swept_ms", now - 31_000)

    view = await beat(a)
    assert {m.node_id for m in view.members} == {"a", "b"}


@pytest.fixture
def logged(db, crawl):
    """What the log of the members says, without times."""

    def logged():
        entries = [line.split(b" ") for line in db("LRANGE", crawl.membership, 0, -1)]
        return [
            (int(epoch), what.decode(), name.decode())
            for epoch, _, what, _, name in entries
        ]

    return logged


async def test_membership_change_is_logged_once_and_heartbeats_are_not(
    join, silence, logged
):
    a, b = join("a"), join("b")
    await beat(a, b, a, b, a)
    assert logged() == [(1, "joined", "a"), (2, "joined", "b")]

    a.leaving = True
    await beat(a, a)
    await a.leave({})
    await a.leave({})
    c = join("c")
    await beat(c, b)
    silence("b")
    await beat(c, c, b)
    assert logged()[2:] == [
        (3, "weight", "a"),
        (4, "left", "a"),
        (5, "joined", "c"),
        (6, "died", "b"),
        (7, "joined", "b"),
    ]


async def test_a_node_that_is_removed_is_noted_as_removed(met, crawl, logged, blocking):
    a, b = await met("ab")

    remove(blocking(), crawl, "b", partitions=1, force=True)
    view = await beat(a, b)

    assert (view.order, view.went_back) == ("remove", False)
    assert logged()[2:] == [(3, "removed", "b")]


async def test_two_processes_of_one_id_are_noted(join, logged):
    first, second = join("a"), join("a")
    await beat(first, second)
    with pytest.raises(NodeReplaced):
        await first.beat(busy=False, report=None)

    assert logged() == [(1, "joined", "a"), (2, "replaced", "a"), (2, "twice", "a")]


async def test_the_log_has_the_times_of_the_server_and_the_last_500(join, db, crawl):
    name = crawl.membership
    db("RPUSH", name, *(f"1 1 joined 1 n{number}" for number in range(700)))
    before = int(db("TIME")[0]) * 1000
    await beat(join("a", weight=7))
    after = (int(db("TIME")[0]) + 1) * 1000

    assert db("LLEN", name) == KEPT
    epoch, at, what, weight, node = db("LINDEX", name, -1).split()
    assert before <= int(at) <= after
    assert (epoch, what, weight, node) == (b"1", b"joined", b"7", b"a")
    assert db("LINDEX", name, -2) == b"1 1 joined 1 n699"


async def test_garbage_on_the_map_goes_and_the_log_does_not_have_it(
    join, db, crawl, logged
):
    db("HSET", crawl.nodes, "\x1b[2J", "1 1 0 p", "x" * 200, "7", "good", "garbage")
    await beat(join("a"))

    assert db("HKEYS", crawl.nodes) == [b"a"]
    assert logged() == [(1, "died", "good"), (1, "joined", "a")]
