import asyncio
from typing import NamedTuple

import pytest

from frontier.cluster.lease import BATCH, Leases
from frontier.cluster.membership import LIFE, Membership
from frontier.errors import StoreUnavailable
from frontier.model import Member
from frontier.store.scripts import SCRIPTS

TTL = 60.0


class Clock:
    """A monotonic clock that the test moves."""

    def __init__(self):
        self.now = 1_000.0

    def __call__(self):
        return self.now


class Node(NamedTuple):
    """A place on the map, and the leases that stand on it."""

    place: Membership
    leases: Leases

    async def beat(self):
        return await self.place.beat(busy=False, report=None)

    async def take(self, partition=7):
        (taken,) = await self.leases.acquire([partition])
        return taken.lease


class Lossy:
    """A store that does not answer what has the script *lost*, and keeps it."""

    def __init__(self, store):
        self._store = store
        self.lost = None
        self.executes = True
        self.kept = []

    async def run(self, calls):
        if self.lost is not None and any(one.script is self.lost for one in calls):
            self.kept += calls
            if self.executes:
                await self._store.run(calls)
            raise StoreUnavailable("here", "the connection was cut")
        return await self._store.run(calls)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def join(store, crawl, clock):
    """Make a node that is on the map."""

    async def join(name="a", run=store.run):
        member = Member(name, 1)
        place = Membership(run, crawl, member, 64, ttl=TTL, clock=clock)
        node = Node(place, Leases(run, crawl, place))
        await node.beat()
        return node

    return join


async def test_partition_lease_goes_to_one_node_and_is_refused_to_the_other(
    join, db, keys
):
    a, b = await join("a"), await join("b")
    lease = await a.take()

    assert await b.leases.acquire([7, 8]) != []
    assert list(b.leases.held) == [8]
    assert b.leases.refused == {7: a.place.name}
    assert a.leases.covers(lease)
    assert a.leases.current(7) == lease
    assert b.leases.current(7) is None
    assert db("PTTL", keys.lease) == -1, "it ends with its holder, and not by itself"
    await a.leases.release([7])
    assert (await b.take()).token > lease.token
    assert b.leases.refused == {}, "or its holder would be asked for it for ever"


async def test_a_token_only_grows(join, db, keys):
    nodes = [await join("a"), await join("b")]
    tokens = []
    for node in nodes * 2:
        tokens.append((await node.take()).token)
        await node.leases.release([7])
    assert sorted(set(tokens)) == tokens

    db("DEL", keys.lease)  # a fail-over to a replica that was behind
    await asyncio.sleep(0.01)
    seconds, micros = db("TIME")
    now = int(seconds) * 1000 + int(micros) // 1000
    tokens.append((await nodes[0].take()).token)
    assert tokens[-1] >= now, "at least the server's milliseconds"
    await nodes[0].leases.release([7])

    db("HSET", keys.lease, "token", now + 10**9)  # its clock was set back
    assert (await nodes[0].take()).token > now + 10**9


async def test_no_token_is_given_twice_if_the_clock_is_set_back_and_the_last_is_lost(
    join, db, keys
):
    a, b = await join("a"), await join("b")
    seconds, _ = db("TIME")
    before = (int(seconds) + 3600) * 1000
    db("HSET", keys.lease, "token", before)
    lease = await a.take()
    db("HSET", keys.lease, "token", before)  # a fail-over to a replica that was behind
    db("HDEL", keys.lease, "holder")

    assert (await b.take()).token != lease.token


async def test_lease_of_a_dead_node_is_taken_over(join, silence):
    a, b = await join("a"), await join("b")
    lease = await a.take()
    assert await b.leases.acquire([7]) == []
    silence("a")

    assert await b.leases.acquire([7]) == [], "its map is that of its last heartbeat"
    await b.beat()
    (taken,) = await b.leases.acquire([7])

    assert taken.lease.token > lease.token
    assert taken.former == (a.place.name, lease.token)
    await a.beat()  # it is under another name
    assert await a.leases.rename() == [lease]
    assert a.leases.held == {}


async def test_lease_of_a_holder_never_met_is_left_for_one_ttl(join, clock):
    a = await join("a")
    await a.take()
    await a.place.leave({})
    b = await join("b")

    for _ in range(3):
        assert await b.leases.acquire([7]) == []
        clock.now += TTL * 0.4
        await b.beat()
    assert await b.take()


async def test_a_map_that_went_back_tells_nothing_of_who_is_missing(
    join, db, crawl, clock
):
    a, b = await join("a"), await join("b")
    await a.take()
    older = db("HGET", crawl.nodes, "b")
    _, *rest = older.split(b" ", 1)
    db("HSET", crawl.nodes, "b", b" ".join([b"1000", *rest]))
    db("HDEL", crawl.nodes, "a")  # a copy that lacks it

    await b.beat()
    for _ in range(3):
        await b.beat()
        assert await b.leases.acquire([7]) == []
        clock.now += TTL * 0.4
    await b.beat()
    assert await b.take()


async def test_a_restarted_node_waits_until_its_former_process_is_silent(
    join, silence, crawl, db
):
    first = await join("a")
    lease = await first.take()
    second, b = await join("a"), await join("b")

    for node in (second, b):
        await node.beat()
        assert await node.leases.acquire([7]) == []
    assert [m.node_id for m in (await b.beat()).members] == ["a", "b"]
    silence(first.place.name, crawl.former)
    await second.beat()
    assert (await second.take()).token > lease.token
    assert not db("EXISTS", crawl.former)


async def test_a_node_counts_on_its_leases_from_before_its_last_heartbeat(
    store, join, clock
):
    slow = 20.0

    async def run(calls):
        replies = await store.run(calls)
        clock.now += slow  # the answer was long on its way
        return replies

    a = await join("a", run)
    sent = clock.now - slow
    assert a.place.deadline == sent + LIFE * TTL
    slow = 0.0
    lease = await a.take()
    clock.now = a.place.deadline - 1
    assert a.leases.covers(lease)
    clock.now += 1
    assert a.leases.current(7) is None
    assert not a.leases.covers(lease)

    name = a.place.name
    await a.beat()
    assert a.place.name != name, "whatever the map says"
    assert a.leases.current(7) is None
    assert await a.leases.rename() == []
    assert a.leases.covers(lease), "a reservation has the lease as it was then"
    assert a.leases.held[7].token == lease.token

    slow, name = LIFE * TTL, a.place.name
    await a.beat()
    assert not a.place.is_live, "an answer that came too late"
    slow = 0.0
    await a.beat()
    assert a.place.is_live
    assert a.place.name != name


async def test_heartbeat_of_another_process_keeps_the_lease_covered(join, clock):
    a = await join("a")
    lease = await a.take()
    sent, *_ = a.place.said
    a.place.stand_in = lambda: stood_in
    clock.now = stood_in = sent + TTL / 2
    clock.now = stood_in + LIFE * TTL - 1
    assert a.leases.covers(lease)
    clock.now += 1
    assert not a.leases.covers(lease)
    await a.beat()
    stood_in = sent  # of the former name
    clock.now += LIFE * TTL
    assert not a.place.is_live


@pytest.fixture
def computing(store, clock):
    """Calls whose replies are read after a callback has computed for `seconds`."""

    async def run(calls):
        replies = await store.run(calls)
        clock.now += run.seconds
        return replies

    run.seconds = 0.0
    return run


async def test_a_late_answer_leaves_the_name_that_another_process_has_kept(
    join, clock, computing
):
    a = await join("a", computing)
    lease, stood_in = await a.take(), clock.now + TTL / 2
    a.place.stand_in = lambda: stood_in
    computing.seconds = TTL
    await a.beat()

    assert a.leases.covers(lease)


async def test_a_name_that_was_answered_late_or_given_up_covers_nothing(
    join, clock, computing
):
    a, b = await join("a", computing), await join("b")
    leases = await a.take(7), await b.take(8)
    b.place.end_name()
    assert not b.leases.covers(leases[1])

    clock.now += LIFE * TTL / 2
    computing.seconds = 0.6 * LIFE * TTL
    await a.beat()
    assert not a.leases.covers(leases[0])


async def test_renaming_ends_though_replies_are_lost_and_names_change(
    store, join, clock
):
    lossy = Lossy(store)
    a = await join("a", lossy.run)
    lease = await a.take()
    lossy.lost = SCRIPTS["lease_acquire"]
    for _ in range(2):
        clock.now += TTL
        await a.beat()
        with pytest.raises(StoreUnavailable):
            await a.leases.rename()
        assert a.leases.current(7) is None
    lossy.lost = None

    assert await a.leases.rename() == []
    assert await a.leases.rename() == []
    assert a.leases.covers(lease)


async def test_what_was_taken_is_told_though_a_later_call_is_not_answered(
    store, join, silence
):
    asked = []

    async def run(calls):
        calls = list(calls)
        if any(one.script is SCRIPTS["lease_acquire"] for one in calls):
            asked.append(calls)
            if len(asked) == 2:
                raise StoreUnavailable("here", "the connection was cut")
        return await store.run(calls)

    await (await join("b")).take(7)
    silence("b")
    a = await join("a", run)

    (taken,) = await a.leases.acquire([3, 7])
    assert taken.lease.partition == 3
    assert a.leases.doubtful == {7}


@pytest.mark.parametrize("executes", [True, False])
async def test_a_release_that_was_not_answered_is_cleared_up(store, join, executes):
    lossy = Lossy(store)
    a, b = await join("a", lossy.run), await join("b")
    old = await a.take()
    lossy.lost, lossy.executes = SCRIPTS["lease_release"], executes
    with pytest.raises(StoreUnavailable):
        await a.leases.release([7])
    lossy.lost = None
    assert a.leases.held == {}
    assert a.leases.doubtful == {7}

    new = await a.take()
    assert new.token > old.token
    await store.run(lossy.kept)  # the old one is executed late
    assert await b.leases.acquire([7]) == []
    assert await a.leases.look() == ({7: (0, 0)}, [])
    await a.leases.release([7])
    assert await b.take()
    await a.leases.release([7])
    assert await a.leases.acquire([7]) == []


async def test_a_look_tells_what_a_partition_has_and_which_are_lost(
    store, crawl, join, silence, db, keys
):
    async def run(calls):
        if failing and any(crawl.partition(0).lease in call.parts for call in calls):
            raise StoreUnavailable("here", "the connection was cut")
        return await store.run(calls)

    failing = False
    a, b = await join("a", run), await join("b")
    db("HSET", keys.counts, "ready", 3, "waiting", 2)
    db("HSET", keys.reserved, 1, "x", 2, "y")
    taken = await a.leases.acquire(range(2 * BATCH))
    (seventh,) = (one for one in taken if one.lease.partition == 7)
    assert (seventh.ready, seventh.reserved) == (3, 2)
    assert a.leases.waiting == {7}
    db("HSET", keys.counts, "ready", 42, "waiting", 0)

    found, lost = await a.leases.look()
    assert found[7] == (42, 2)
    assert a.leases.waiting == set()
    assert (len(found), lost) == (2 * BATCH, [])

    silence("a")
    await b.beat()
    last = a.leases.held[2 * BATCH - 1]
    assert len(await b.leases.acquire([last.partition])) == 1
    failing = True
    with pytest.raises(StoreUnavailable):
        await a.leases.look()
    failing = False
    found, lost = await a.leases.look()
    assert lost == [last]
    assert sorted(found) == list(range(2 * BATCH - 1))
    assert last.partition not in a.leases.held


async def test_a_lease_is_forgotten_by_its_token_and_each_change_is_counted(join):
    a = await join()
    leases, known = a.leases, {0: {}}

    def changed():
        tokens = {one.partition: one.token for one in leases.held.values()}
        assert leases.changes not in known
        assert tokens not in known.values()
        known[leases.changes] = tokens

    old = await a.take()
    changed()
    await leases.release([7])
    new = await a.take()
    changed()
    leases.forget(old)
    assert leases.covers(new)
    assert not leases.covers(old)
    await leases.look()
    assert leases.changes in known
    await leases.acquire([5, 6])
    changed()
    leases.forget(leases.held[6])
    changed()
    leases.forget(new)
    leases.forget(new)  # another reply may say the same
    changed()
