import threading

import pytest

from frontier.seen import export
from frontier.seen.config import MAX_URLS, SeenConfig
from frontier.seen.export import add, entries, reserve
from frontier.seen.seen_set import layout_call, layout_of
from frontier.urls.fingerprint import seen_hash

SET = SeenConfig(False, True, 1_100, 0.01)
SHORT = SeenConfig(False, True, 1_100, 0.01, set_bits=32)
SHAPES = pytest.mark.parametrize("shape", [SET, SHORT])
MARKS = sorted(seen_hash(b"%d" % n) for n in range(30_000))


def kept(marks, shape=SET):
    return sorted({shape.space.entry(each) for each in marks})


ENTRIES = kept(MARKS)


def put(store, keys, some, batch=MAX_URLS, shape=SET):
    layout, new = reserve(store, keys, shape, len(some)), 0
    marks = sorted(shape.space.mark(entry) for entry in some)
    for i in range(0, len(some), batch):
        layout, more = add(store, keys, shape, layout, marks[i : i + batch])
        new += more
    return new


def read(store, keys, shape=SET):
    return [entry for found in entries(store, keys, shape.space) for entry in found]


@SHAPES
@pytest.mark.parametrize("count", [0, 1, 199, 201, 3_333, 30_000])
def test_what_is_added_is_read_in_order_and_counted(blocking, keys, count, shape):
    store = blocking()
    some = kept(MARKS[:count], shape)

    assert put(store, keys, some, shape=shape) == len(some)
    assert read(store, keys, shape) == some
    assert layout_of(store.call(layout_call(keys))).count == len(some)


def test_adding_again_changes_nothing(blocking, keys):
    store = blocking()
    put(store, keys, ENTRIES[:3_000])

    assert put(store, keys, ENTRIES[1_000:4_000]) == 1_000
    assert read(store, keys) == ENTRIES[:4_000]


@SHAPES
def test_sorted_entries_overfill_no_bucket(blocking, db, keys, shape):
    store = blocking()
    put(store, keys, kept(MARKS, shape), shape=shape)

    for number in range(layout_of(store.call(layout_call(keys))).buckets):
        assert db("OBJECT ENCODING", keys.bucket(0, number)) == b"intset"


def test_a_set_that_grows_meanwhile_is_read_whole(blocking, keys, monkeypatch):
    monkeypatch.setattr(export, "MAX_BUCKETS", 2)  # one call is not enough
    store, other = blocking(), blocking()
    old, new = ENTRIES[::10], sorted(set(ENTRIES) - set(ENTRIES[::10]))
    put(store, keys, old)
    found, at = [], 0
    for part in entries(store, keys, SET.space):
        found += part
        put(other, keys, new[at : at + 3_000])
        at += 3_000

    assert found == sorted(set(found))
    assert set(old) <= set(found) <= set(ENTRIES)


def test_many_add_at_once_and_nothing_is_lost(blocking, keys):
    start, new = threading.Barrier(8), []

    def one(some):
        store = blocking()
        start.wait()
        new.append(put(store, keys, some, 100))

    threads = [threading.Thread(target=one, args=(ENTRIES[n::8],)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sum(new) == len(ENTRIES)
    assert read(blocking(), keys) == ENTRIES
