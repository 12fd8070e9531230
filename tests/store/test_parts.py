"""Scripts that do the same for several partitions: one call where keys may meet."""

import pytest

from frontier.errors import KeyDamaged
from frontier.queue.reserve import scan_call
from frontier.store.calls import TOGETHER, Call, apart, joined
from frontier.store.keys import CrawlKeys
from frontier.store.scripts import PARTITION_SCAN, SCRIPTS

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


def test_a_call_that_failed_as_a_whole_failed_for_each_of_its_partitions():
    made, counts = joined([*scans(2), Call.command("PING")])
    error = ConnectionError("it was cut")

    assert apart(made, counts, [error, b"PONG"]) == [error, error, b"PONG"]
    assert apart(made, counts, [[[1], None], b"PONG"]) == [[1], None, b"PONG"]


def test_a_script_says_itself_what_it_takes_for_each_partition():
    found = {each.name: tuple(each.parts) for each in SCRIPTS if each.parts}

    assert found == {
        "partition_scan": (5, 0, 0),
        "queue_backed_off": (1, 1, 1),
    }


@pytest.mark.one_server("a cluster's scripts touch keys of one slot")
async def test_one_server_scans_many_partitions_with_each_call(store, crawl, db):
    count = 2 * TOGETHER + 1
    calls = [scan_call(crawl.partition(n)) for n in range(count)]
    before = run_of_scripts(db)

    assert len(await store.run(calls)) == count
    assert run_of_scripts(db) - before == 3


async def test_the_replies_are_those_of_each_partition(store, crawl, db):
    for number in range(6):
        db("HSET", crawl.partition(number).counts, "ready", number)
    calls = [scan_call(crawl.partition(n)) for n in range(6)]

    assert [reply[0] for reply in await store.run(calls)] == list(range(6))


def test_a_damaged_partition_is_named_and_keeps_no_other_from_being_scanned(
    blocking, crawl, db
):
    db("SET", crawl.partition(2).counts, "no hash")
    store = blocking()
    calls = [scan_call(crawl.partition(n)) for n in range(3)]

    *others, last = store.run(calls, tolerant=True)

    assert [reply[0] for reply in others] == [0, 0]
    assert isinstance(last, KeyDamaged)
    assert last.key == crawl.partition(2).counts
    with pytest.raises(KeyDamaged):
        store.run(calls)
