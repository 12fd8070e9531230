import asyncio
import time

import pytest

from frontier.cluster.lease import BATCH, Leases, renew_call
from frontier.errors import StoreUnavailable
from frontier.store.scripts import LEASE_RELEASE

TTL = 60.0


class Clock:
    """A monotonic clock that the test moves."""

    def __init__(self):
        self.now = 1_000.0

    def __call__(self):
        return self.now


class Never:
    """A store to which nothing gets."""

    def __init__(self):
        self.asked = asyncio.Event()

    async def __call__(self, calls):
        self.asked.set()
        await asyncio.Event().wait()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def node(store, crawl, clock):
    """Make the leases of a node."""

    def node(name="a", ttl=TTL):
        return Leases(store.run, crawl, name, ttl=ttl, clock=clock)

    return node


@pytest.fixture
def end(db, crawl):
    """End the lease on a partition, as time would."""
    return lambda partition=7: db("DEL", crawl.partition(partition).lease)


async def take(leases, partition=7):
    (taken,) = await leases.acquire([partition])
    return taken.lease


async def test_one_of_two_gets_a_partition_and_the_other_one_waits(node):
    a, b = node("a"), node("b")
    lease = await take(a)

    assert await b.acquire([7]) == []
    assert a.covers(lease)
    assert a.current(7) == lease
    assert b.current(7) is None


async def test_a_token_only_grows(node, end):
    tokens = []
    for name in "abab":
        tokens.append((await take(node(name))).token)
        end()

    assert sorted(set(tokens)) == tokens


async def test_a_token_grows_also_after_the_store_lost_the_last_one(
    node, end, db, keys
):
    first = (await take(node("a"))).token
    end()
    db("DEL", keys.fence)  # a fail-over to a replica that was behind

    # Tokens are at least the server's milliseconds.
    server = db("TIME")
    now = int(server[0]) * 1000 + int(server[1]) // 1000
    second = (await take(node("b"))).token
    assert second >= max(first, now)


async def test_a_token_grows_also_if_the_servers_clock_goes_back(node, end, db, keys):
    ahead = int(db("TIME")[0]) * 1000 + 10**9
    db("SET", keys.fence, ahead)

    assert (await take(node())).token == ahead + 1


async def test_a_lease_ends_by_itself(node, until, db, keys):
    lease = await take(node("a", ttl=0.05))
    await until(lambda: not db("EXISTS", keys.lease), "the end of the lease")

    assert (await take(node("b"))).token > lease.token


async def test_a_restarted_node_waits_like_any_other(node):
    await take(node("a"))

    assert await node("a").acquire([7]) == []


async def test_a_holder_stops_before_the_store_does(node, clock, db, keys):
    leases = node()
    asked = clock.now
    lease = await take(leases)

    assert lease.deadline == asked + TTL
    assert db("PTTL", keys.lease) <= TTL * 1000
    clock.now = lease.deadline
    assert leases.current(7) is None
    assert not leases.covers(lease)


async def test_the_deadline_counts_from_before_the_question(store, crawl, clock):
    async def slow(calls):
        replies = await store.run(calls)
        clock.now += 20  # the answer was long on its way
        return replies

    leases = Leases(slow, crawl, "a", ttl=TTL, clock=clock)
    before = clock.now
    lease = await take(leases)
    assert lease.deadline == before + TTL

    before = clock.now
    await leases.renew()
    assert leases.current(7).deadline == before + TTL


async def test_renewal_keeps_the_token_and_moves_the_deadline(node, clock, db, keys):
    leases = node()
    lease = await take(leases)
    db("PEXPIRE", keys.lease, 30_000)
    db("HSET", keys.counts, "ready", 42)
    clock.now += 50

    ready, lost = await leases.renew()

    assert (ready, lost) == ({7: 42}, [])
    assert leases.current(7).token == lease.token
    assert leases.current(7).deadline == clock.now + TTL
    assert db("PTTL", keys.lease) > 30_000
    assert leases.covers(lease), "a reservation has the lease as it was then"


async def test_a_lease_that_ended_without_a_rival_comes_back(node, end, clock):
    a = node("a")
    lease = await take(a)
    end()
    clock.now += 2 * TTL

    ready, lost = await a.renew()

    assert (list(ready), lost) == ([7], [])
    assert a.covers(lease)
    assert await node("b").acquire([7]) == []


@pytest.mark.parametrize("rival_holds_it", [True, False])
async def test_a_lease_that_a_rival_had_is_lost(node, end, rival_holds_it):
    a, b = node("a"), node("b")
    lease = await take(a)
    end()
    await take(b)
    if not rival_holds_it:
        await b.release([7])

    ready, lost = await a.renew()

    assert (ready, lost) == ({}, [lease])
    assert a.held == {}
    assert not a.covers(lease)


async def test_a_node_that_wakes_up_late_takes_nothing_from_its_successor(
    node, end, db, keys
):
    a, b = node("a"), node("b")
    await take(a)
    end()
    await take(b)

    await a.release([7])

    assert db("HGET", keys.lease, "holder") == b"b"
    assert a.held == {}


async def test_what_is_released_can_be_taken_at_once(node):
    a, b = node("a"), node("b")
    lease = await take(a)
    await a.release([7, 8])

    assert a.held == {}
    assert (await take(b)).token > lease.token


async def test_a_release_that_was_cut_off_is_made_with_the_next(node, monkeypatch):
    a, b = node("a"), node("b")
    await a.acquire([7, 8])
    with monkeypatch.context() as patch:
        patch.setattr(a, "_some", never := Never())
        cut_off = asyncio.ensure_future(a.release([7]))
        await never.asked.wait()
        cut_off.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cut_off
    assert list(a.held) == [8]
    assert await b.acquire([7]) == []
    assert a.releasing

    await a.release([])
    await take(b)
    assert not a.releasing


async def test_a_release_that_was_not_answered_is_made_again(store, crawl, node):
    silent = True

    async def run(calls):
        if silent and calls[0].script is LEASE_RELEASE:
            raise StoreUnavailable("here", "the connection was cut")
        return await store.run(calls)

    a, b = Leases(run, crawl, "a", ttl=TTL), node("b")
    await take(a)
    with pytest.raises(StoreUnavailable):
        await a.release([7])
    assert a.releasing
    silent = False

    await a.release([])
    await take(b)
    assert not a.releasing


async def test_a_renewal_that_a_release_overtakes_brings_nothing_back(
    node, store, crawl, db, keys
):
    """It was on its way when the task that waited for it was cancelled."""
    a, b = node("a"), node("b")
    lease = await take(a)
    late = renew_call(crawl, "a", int(TTL * 1000), lease)
    await a.release([7])

    assert await store.run([late]) == [None]
    assert not db("EXISTS", keys.lease)
    assert (await take(b)).token > lease.token


async def test_acquiring_tells_what_a_partition_holds(node, db, keys):
    db("HSET", keys.counts, "ready", 3)
    db("HSET", keys.reserved, 1, "x", 2, "y")
    (taken,) = await node().acquire([7])

    assert (taken.ready, taken.reserved) == (3, 2)


async def test_more_partitions_than_one_round_trip_has(node):
    a, b, count = node("a"), node("b"), 3 * BATCH + 5
    await a.acquire(range(0, count, 2))
    taken = await b.acquire(range(count))

    assert sorted(t.lease.partition for t in taken) == list(range(1, count, 2))
    assert len((await a.renew())[0]) == len(a.held) == (count + 1) // 2
    await a.release(range(count))
    assert len(await b.acquire(range(0, count, 2))) == (count + 1) // 2


async def test_a_token_that_the_store_refused_is_forgotten(node):
    leases = node()
    lease = await take(leases)
    leases.forget(lease)

    assert leases.current(7) is None
    leases.forget(lease)  # another reply may say the same


async def test_each_change_of_what_is_held_is_counted(node, end):
    leases, known = node("a"), {0: {}}

    def tokens():
        return {one.partition: one.token for one in leases.held.values()}

    def changed():
        assert leases.changes not in known
        assert tokens() not in known.values()
        known[leases.changes] = tokens()

    await leases.acquire([5, 6, 7, 8])
    changed()
    await leases.renew()
    assert known[leases.changes] == tokens()
    await leases.release([5])
    changed()
    leases.forget(leases.held[6])
    changed()
    end()
    await take(node("b"))
    await leases.renew()
    assert 7 not in leases.held
    changed()
    await leases.acquire([5])
    changed()


async def test_an_old_lease_is_not_forgotten_for_the_new_one(node):
    leases = node()
    old = await take(leases)
    await leases.release([7])
    new = await take(leases)
    leases.forget(old)

    assert leases.covers(new)
    assert not leases.covers(old)


async def test_a_refused_lease_is_looked_at_and_not_the_one_that_came_after_it(
    node, end
):
    """Who asks is told of the old one alone; who renews has to hear of the new one."""
    a, b = node("a"), node("b")
    old = await take(a)
    await a.release([7])
    new = await take(a)
    end()
    await take(b)

    assert await a.renew_refused([old]) == set()
    assert await a.renew() == ({}, [new])


async def test_a_lost_lease_is_told_of_though_other_answers_are_missing(
    store, crawl, node, end
):
    failing = False

    async def run(calls):
        if failing and any(crawl.partition(0).lease in call.parts for call in calls):
            raise StoreUnavailable("here", "the connection was cut")
        return await store.run(calls)

    a, b = Leases(run, crawl, "a", ttl=TTL), node("b")
    two = range(2 * BATCH)
    await a.acquire(two)
    failing = True
    ready, lost = await a.renew(two)
    assert lost == []
    assert sorted(ready) == list(range(BATCH, 2 * BATCH)), "what was renewed is told"

    last = a.held[2 * BATCH - 1]
    end(last.partition)
    await take(b, last.partition)
    ready, lost = await a.renew(two)

    assert lost == [last]
    assert sorted(ready) == list(range(BATCH, 2 * BATCH - 1))
    assert len(a.held) == 2 * BATCH - 1

    for partition in range(BATCH + 1, 2 * BATCH - 1):
        a.forget(a.held[partition])
    only = a.held[BATCH]
    end(BATCH)
    await take(b, BATCH)
    assert await a.renew(two) == ({}, [only]), "though nothing is renewed"


def test_of_thirty_two_that_ask_at_once_one_gets_it(in_threads, crawl):
    for partition in range(10):

        async def ask(number, run, partition=partition):
            leases = Leases(run, crawl, f"n{number}", ttl=TTL, clock=time.monotonic)
            return [taken.lease.token for taken in await leases.acquire([partition])]

        assert len([tokens for tokens in in_threads(32, ask) if tokens]) == 1


async def test_a_clock_that_is_set_back_keeps_no_lease_longer_than_it_lasts(
    store, crawl, db
):
    """The server's own clock tells when a key expires, and so moves it, too."""
    a, b = (Leases(store.run, crawl, name, ttl=TTL) for name in "ab")
    await a.acquire([0])
    lease = crawl.partition(0).lease
    db("PEXPIRE", lease, 600_000 + int(TTL * 1000))

    assert await b.acquire([0]) == []
    assert 0 < db("PTTL", lease) <= TTL * 1000
