import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontier import buckets
from frontier.hashing import mark
from frontier.seen.carry import END, LEAST, add, members, range_end, reserve
from frontier.seen.stored import layout_call, layout_of

MEMBERS = sorted(mark(b"%d" % n).member for n in range(30_000))


def put(store, keys, some, batch=500):
    layout, new = reserve(store, keys, len(some)), 0
    for i in range(0, len(some), batch):
        layout, more = add(store, keys, layout, some[i : i + batch])
        new += more
    return new


def read(store, keys):
    return [member for found in members(store, keys) for member in found]


@given(st.integers(1, 5_000), st.integers(LEAST, END - 1))
def test_a_range_ends_where_another_bucket_begins(total, member):
    end = range_end(member, total)
    number = buckets.bucket_of(member, total)

    assert member < end <= END
    assert buckets.bucket_of(end - 1, total) == number
    assert end == END or buckets.bucket_of(end, total) != number


@pytest.mark.parametrize("count", [0, 1, 199, 201, 3_333, 30_000])
def test_what_is_added_is_read_in_order_and_counted(blocking, db, keys, count):
    store = blocking()
    some = MEMBERS[:count]

    assert put(store, keys, some) == count
    assert read(store, keys) == some
    assert layout_of(store.call(layout_call(keys))).count == count


def test_adding_again_changes_nothing(blocking, keys):
    store = blocking()
    put(store, keys, MEMBERS[:3_000])

    assert put(store, keys, MEMBERS[1_000:4_000]) == 1_000
    assert read(store, keys) == MEMBERS[:4_000]


def test_sorted_members_overfill_no_bucket(blocking, db, keys):
    store = blocking()
    put(store, keys, MEMBERS)

    for number in range(layout_of(store.call(layout_call(keys))).buckets):
        assert db("OBJECT ENCODING", keys.bucket(number)) == b"intset"


def test_a_set_that_grows_meanwhile_is_read_whole(blocking, keys):
    store, other = blocking(), blocking()
    old, new = MEMBERS[::10], sorted(set(MEMBERS) - set(MEMBERS[::10]))
    put(store, keys, old)
    found, at = [], 0
    for part in members(store, keys):
        found += part
        put(other, keys, new[at : at + 3_000])
        at += 3_000

    assert found == sorted(set(found))
    assert set(old) <= set(found) <= set(MEMBERS)


def test_many_add_at_once_and_nothing_is_lost(blocking, keys):
    start, new = threading.Barrier(8), []

    def one(some):
        store = blocking()
        start.wait()
        new.append(put(store, keys, some, 100))

    threads = [threading.Thread(target=one, args=(MEMBERS[n::8],)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sum(new) == len(MEMBERS)
    assert read(blocking(), keys) == MEMBERS
