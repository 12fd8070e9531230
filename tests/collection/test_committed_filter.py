"""The filter spares look-ups and never hides what is there."""

import pytest

from frontier.collection.commit import Collection, commit
from frontier.dedupe.committed_filter import PAUSE, CommittedFilter
from frontier.dedupe.digest_index import Entry
from tests.collection.samples import digest

DATE = "2026-01-02T03:04:05.678Z"


class Counted:
    """A store that notes what it is asked."""

    def __init__(self, store):
        self._store = store
        self.alone = store.alone
        self.calls = []

    def run(self, calls):
        self.calls += [call.parts for call in calls]
        return self._store.run(calls)

    def call(self, call):
        return self.run([call])[0]

    def asked_of_all(self, keys):
        """The digests that were looked up among those of all crawls."""
        return [
            digest
            for parts in self.calls
            if parts[:2] == ("HMGET", keys.alldupes())
            for digest in parts[2:]
        ]


def add(index, crawl_id, numbers):
    crawl = Collection(index.store, index.name, crawl_id, revisits=True)
    crawl.begin()
    crawl.add([Entry(digest(n), DATE, f"http://a/{n}", 100) for n in numbers])
    return crawl


@pytest.fixture
def old(index):
    add(index, "old", range(500))
    commit(index.store, index.keys, "old")
    return index


@pytest.fixture
def crawl(old):
    """A crawl with a filter, and what it asks the store."""
    store = Counted(old.store)
    crawl = Collection(store, old.name, "new", revisits=True, filter_bytes=1 << 20)
    made = crawl.committed.renew()
    if made is not None:
        made.join()
    assert crawl.committed.now is not None
    store.calls.clear()
    return crawl, store


def test_what_is_new_is_not_looked_up_among_all(old, crawl):
    crawl, store = crawl

    assert crawl.lookup([digest(f"new{n}") for n in range(200)]) == {}

    assert len(store.asked_of_all(old.keys)) < 20


def test_what_was_committed_is_found(old, crawl):
    crawl, _ = crawl

    found = crawl.lookup([digest(n) for n in range(490, 510)])

    assert set(found) == {digest(n) for n in range(490, 500)}
    assert {original.crawl_id for original in found.values()} == {"old"}


def test_what_other_nodes_of_the_crawl_have_added_is_found(old, crawl):
    crawl, _ = crawl
    add(old, "new", ["mine"])

    assert set(crawl.lookup([digest("mine")])) == {digest("mine")}


def test_what_was_committed_after_the_filter_was_made_is_found(old, crawl):
    crawl, _ = crawl
    add(old, "later", ["late"])
    assert crawl.lookup([digest("late")]) == {}

    commit(old.store, old.keys, "later")

    assert crawl.lookup([digest("late")])[digest("late")].crawl_id == "later"
    assert crawl.lookup([digest("late"), digest(1)]).keys() == {
        digest("late"),
        digest(1),
    }


def test_a_commit_that_is_half_done_is_found_as_far_as_it_is(old, crawl):
    crawl, _ = crawl
    add(old, "later", ["late"])
    old("HSETNX", old.keys.alldupes(), digest("late"), "later")

    assert set(crawl.lookup([digest("late")])) == {digest("late")}


def test_an_old_filter_is_made_anew_after_a_pause(old):
    now = [0.0]
    committed = CommittedFilter(old.store, old.keys, 1 << 20, lambda: now[0])
    committed.renew().join()
    first = committed.now
    add(old, "later", ["late"])
    commit(old.store, old.keys, "later")

    assert committed.renew() is None
    now[0] = PAUSE
    committed.renew().join()

    assert digest("late") not in first
    assert digest("late") in committed.now
    assert all(digest(n) in committed.now for n in range(500))
    wrong = sum(digest(f"never{n}") in committed.now for n in range(5_000))
    assert wrong < 100


def test_a_filter_that_would_be_too_large_is_not_made(old):
    committed = CommittedFilter(old.store, old.keys, 100)

    committed.renew().join()

    assert committed.now is None
