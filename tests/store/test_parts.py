"""Scripts that do the same for several partitions: one call where keys may meet."""

import pytest

from frontier.cluster.lease import Leases, renew_call
from frontier.errors import KeyDamaged, StoreFull
from frontier.model import Lease
from frontier.queue.reserve import scan_call
from frontier.store.calls import TOGETHER, Call, apart, joined
from frontier.store.keys import CrawlKeys
from frontier.store.scripts import PARTITION_SCAN, SCRIPTS

TTL_MS = 60_000
KEYS = CrawlKeys("test", "crawl")


def scans(count, first=0):
    return [scan_call(KEYS.partition(n)) for n in range(first, first + count)]


def names_of(call):
    return list(call.parts[3 : 3 + int(call.parts[2])])


def run_of_scripts(db):
    """How many runs of scripts the servers have counted."""
    found = db("INFO", "commandstats")
    return int(found.get("cmdstat_evalsha", {"calls": 0})["calls"])


def test_neighbours_of_one_script_are_one_call_with_all_their_keys_in_order():
    calls = scans(3)
    made, counts = joined(calls)

    assert counts == [3]
    assert names_of(made[0]) == [name for call in calls for name in names_of(call)]
    assert made[0].script is PARTITION_SCAN


def test_a_call_is_for_so_many_partitions_at_most():
    _, counts = joined(scans(2 * TOGETHER + 1))

    assert counts == [TOGETHER, TOGETHER, 1]


def test_only_neighbours_are_one_call_so_that_the_order_is_kept():
    calls = [*scans(2), Call.command("PING"), *scans(1, 2), *scans(1, 3)]
    made, counts = joined(calls)

    assert counts == [2, 1, 2]
    assert made[1] is calls[2]


def test_calls_of_two_nodes_are_two():
    first, second = Lease(0, 11, 0.0), Lease(1, 12, 0.0)
    calls = [
        renew_call(KEYS, node, TTL_MS, one)
        for node, one in (("a", first), ("a", second), ("b", first))
    ]
    made, counts = joined(calls)

    assert counts == [2, 1]
    assert made[0].parts[-4:] == ("a", TTL_MS, first.token, second.token)


def test_a_call_that_failed_as_a_whole_failed_for_each_of_its_partitions():
    made, counts = joined([*scans(2), Call.command("PING")])
    error = ConnectionError("it was cut")

    assert apart(made, counts, [error, b"PONG"]) == [error, error, b"PONG"]
    assert apart(made, counts, [[[1], None], b"PONG"]) == [[1], None, b"PONG"]


def test_a_script_says_itself_what_it_takes_for_each_partition():
    found = {each.name: tuple(each.parts) for each in SCRIPTS if each.parts}

    assert found == {
        "lease_acquire": (4, 3, 0),
        "lease_release": (2, 0, 1),
        "lease_renew": (3, 2, 1),
        "partition_scan": (5, 0, 0),
        "queue_backed_off": (1, 1, 1),
    }


@pytest.mark.one_server("a cluster's scripts touch keys of one slot")
async def test_one_server_renews_many_leases_with_each_call(store, crawl, db):
    leases = Leases(store.run, crawl, "a", ttl=60.0)
    count = 2 * TOGETHER + 1
    await leases.acquire(range(count))
    before = run_of_scripts(db)

    ready, lost = await leases.renew()

    assert (len(ready), lost) == (count, [])
    assert run_of_scripts(db) - before == 3


async def test_the_replies_are_those_of_each_partition(store, crawl, db, grant):
    leases = [grant(n) for n in range(6)]
    for lease in leases:
        db("HSET", crawl.partition(lease.partition).counts, "ready", lease.partition)
    db("DEL", crawl.partition(2).lease)
    db("INCR", crawl.partition(2).fence)  # somebody else had it meanwhile
    db("DEL", crawl.partition(4).lease)  # it has merely ended

    calls = [renew_call(crawl, "a", TTL_MS, lease) for lease in leases]

    assert await store.run(calls) == [0, 1, None, 3, 4, 5]
    assert db("HGET", crawl.partition(4).lease, "holder") == b"a"


async def test_a_damaged_partition_keeps_no_other_from_being_renewed(
    store, crawl, db, grant
):
    leases = [grant(n) for n in range(4)]
    bad = crawl.partition(1).counts
    db("HSET", bad, "ready", "many")
    db("SET", crawl.partition(3).counts, "no hash")
    db("PEXPIRE", crawl.partition(2).lease, TTL_MS // 2)
    calls = [renew_call(crawl, "a", TTL_MS, lease) for lease in leases]

    with pytest.raises(KeyDamaged) as caught:
        await store.run(calls)
    assert caught.value.key == bad
    assert db("PTTL", crawl.partition(2).lease) > TTL_MS // 2


def test_a_thread_is_told_which_key_is_damaged(blocking, crawl, db, grant):
    leases = [grant(n) for n in range(3)]
    db("SET", crawl.partition(2).counts, "no hash")
    store = blocking()
    calls = [renew_call(crawl, "a", TTL_MS, lease) for lease in leases]

    *others, last = store.run(calls, tolerant=True)

    assert others == [0, 0]
    assert isinstance(last, KeyDamaged)
    assert last.key == crawl.partition(2).counts
    with pytest.raises(KeyDamaged):
        store.run(calls)


@pytest.mark.one_server("it is given no memory")
async def test_a_full_server_renews_those_that_need_no_memory(
    connect, own_server, crawl
):
    store = connect(own_server)
    leases = Leases(store.run, crawl, "a", ttl=60.0)
    await leases.acquire(range(3))
    names = [crawl.partition(n).lease for n in range(3)]
    await store.run([Call.command("PEXPIRE", name, 50_000) for name in names[1:]])
    await store.call(Call.command("DEL", names[0]))  # to bring it back takes memory
    await store.call(Call.command("CONFIG", "SET", "maxmemory", "1"))

    with pytest.raises(StoreFull):
        await leases.renew()

    left = await store.run([Call.command("PTTL", name) for name in names])
    assert left[0] == -2
    assert min(left[1:]) > 50_000
