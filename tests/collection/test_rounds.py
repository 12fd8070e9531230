"""A crawl is committed in rounds while it runs: what others see."""

import json

import pytest

from frontier.collection import rounds
from frontier.collection.purge import plan, purge
from frontier.collection.rounds import (
    CHUNK,
    Collection,
    Committed,
    Hold,
    has_rounds,
)
from frontier.collection.summary import look
from frontier.dedupe.digest_index import Entry
from frontier.dedupe.url_history import MatchedIndex
from frontier.errors import CollectionInUse, CrawlCanceled
from frontier.store.client import Call
from frontier.store.keys import CrawlKeys
from tests.collection.samples import digest
from tests.topologies import until

pytestmark = pytest.mark.store
DATE = "2026-01-02T03:04:05.678901Z"


def entries(numbers, **more):
    return [Entry(digest(n), DATE, f"http://a/{n}", 100, **more) for n in numbers]


def entered(index, crawl_id="a", every_s=1e-3, **more):
    """A node of the crawl *crawl_id*, which commits in rounds."""
    node = Collection(
        index.store, index.name, crawl_id, revisits=True, every_s=every_s, **more
    )
    node.begin()
    return node


def add(node, numbers):
    numbers = list(numbers)
    for at in range(0, len(numbers), 500):
        node.add(entries(numbers[at : at + 500]))


def known(node, numbers):
    found = node.lookup([digest(n) for n in numbers])
    return {n: found[digest(n)].crawl_id for n in numbers if digest(n) in found}


def round_now(index, crawl_id="a"):
    return index.committer(crawl_id).commit()


def view(index, crawl_id="a"):
    return {crawl.crawl_id: crawl for crawl in look(index.store, index.keys).crawls}[
        crawl_id
    ]


def sound(index):
    """Whether each digest that all see is of a crawl that has it."""
    owners = index.hash(index.keys.alldupes)
    return all(d in index.hash(index.keys.crawl(c)) for d, c in owners.items())


def test_round_digests_are_offered_to_other_crawls_once_committed(index):
    node, other = entered(index), entered(index, "b")
    add(node, [1, 2])
    assert known(other, [1, 2]) == {}

    done = round_now(index)
    add(node, [3])

    assert done == Committed(2, 2, 1)
    assert known(other, [1, 2, 3]) == {1: "a", 2: "a"}
    assert known(node, [1, 2, 3]) == {1: "a", 2: "a", 3: "a"}
    assert has_rounds(index.store, index.keys, "a")


def test_at_its_end_the_crawl_is_as_if_it_had_been_committed_at_once(make_index):
    calm, wild = make_index("calm"), make_index("wild")
    for index, often in ((calm, False), (wild, True)):
        node = entered(index, every_s=0)
        entry = json.dumps({"filename": "a.wacz"})
        index("RPUSH", index.keys.waczs("a"), entry, "no json")
        for n in range(5):
            add(node, [n, n + 1])
            node.count(2, 1, 7)
            if often:
                assert isinstance(round_now(index), Committed)
        assert node.commit() is not None

    found = wild.everything("commitrounds:a")
    assert found == calm.everything("commitrounds:a")
    assert wild.hash(wild.keys.commit_rounds("a"))["committed"] == "6"
    assert "open" not in wild.hash(wild.keys.commit_rounds("a"))


def test_a_node_that_does_not_know_of_a_round_adds_to_the_one_that_is_open(index):
    early, late = entered(index), entered(index)
    add(early, [1])
    round_now(index)
    add(late, [2])

    assert index("HLEN", index.keys.crawl("a~2")) == 1
    assert index("EXISTS", index.keys.crawl("a~1")) == 0
    assert known(early, [1, 2]) == {1: "a", 2: "a"}


class Before:
    """A store that has *what* done before the next calls are sent."""

    def __init__(self, store, what):
        self._store, self._what = store, what

    def run(self, calls):
        what, self._what = self._what, None
        if what is not None:
            what()
        return self._store.run(calls)


def test_a_thread_that_counts_keeps_no_round_from_who_looks_a_digest_up(index):
    def open_a_round_and_count():
        assert round_now(index).number == 1
        add(other, [1])
        node.count(1, 0, 0)

    node, other = entered(index), entered(index)
    add(node, [0])
    node._store = Before(index.store, open_a_round_and_count)

    assert known(node, [0, 1]) == {0: "a", 1: "a"}


def test_a_round_of_nothing_is_not_begun(index):
    node = entered(index)
    add(node, [1])

    assert isinstance(round_now(index), Committed)
    assert [round_now(index) for _ in range(3)] == ["nothing"] * 3
    assert index.hash(index.keys.commit_rounds("a"))["open"] == "2"


def test_a_round_is_due_when_its_time_is_over_for_whichever_node(index):
    node = entered(index, every_s=3600)
    add(node, [1])

    assert node.commit_round() == "early"
    index("HSET", index.keys.commit_rounds("a"), "at_ms", 1)
    assert node.commit_round() == Committed(1, 1, 1)
    add(node, [2])
    assert entered(index, every_s=3600).commit_round() == "early"


class Died(Exception):
    pass


def stop_after(count):
    def progress(moved):
        if moved >= count:
            raise Died

    return progress


def test_round_of_a_dead_committer_is_completed_by_another(index, monkeypatch):
    monkeypatch.setattr(rounds, "HOLD_MS", 600_000)
    node, other = entered(index), entered(index, "b")
    add(node, range(3 * CHUNK))
    with pytest.raises(Died):
        index.committer(progress=stop_after(1)).commit()
    add(node, [-1])
    part = known(other, range(3 * CHUNK))

    assert 0 < len(part) < 3 * CHUNK
    assert sound(index)
    assert len(known(node, range(3 * CHUNK))) == 3 * CHUNK
    assert round_now(index) == "held"
    index("PEXPIRE", index.keys.committer, 1)  # its time is over
    done = until(lambda: (one := round_now(index)) != "held" and one, "another round")
    assert done.number == 1
    assert done.digests == 3 * CHUNK - len(part)
    assert known(other, [-1]) == {}


def test_a_committer_that_was_frozen_does_nothing_when_it_wakes_up(index):
    node = entered(index)
    add(node, range(3 * CHUNK))

    def freeze(moved):
        if moved < 2 * CHUNK:  # the server ends its time, and another takes its place
            index("DEL", index.keys.committer)
            Hold(index.store, index.keys).__enter__()

    frozen = index.committer(progress=freeze)

    assert frozen.commit() == "held"
    before = index.everything("frontier:committer")
    assert frozen.commit() == "held"
    assert index.everything("frontier:committer") == before


def test_a_cancel_removes_what_no_round_has_committed_and_nothing_else(index):
    node, other = entered(index), entered(index, "b", every_s=0)
    add(node, [1, 2])
    node.count(2, 0, 0)
    round_now(index)
    seen = index.everything("commitrounds:a", "uncommittedcrawls")
    add(node, [3, 4])
    node.count(2, 1, 5)

    assert not index.committer().cancel(running=True)
    assert view(index).state == "canceled"
    assert round_now(index) == "canceled"
    assert known(node, [3]) == {3: "a"}  # its nodes go on
    assert node.commit() is None  # and its last one forgets

    assert index.everything("commitrounds:a", "uncommittedcrawls") == seen
    assert index.members(index.keys.uncommitted) == {"b"}
    assert known(other, [1, 2, 3, 4]) == {1: "a", 2: "a"}


def test_a_cancel_in_the_midst_of_a_round_leaves_no_digest_that_leads_nowhere(index):
    node, other = entered(index), entered(index, "b")
    add(node, range(3 * CHUNK))
    add(node, [-1])
    with pytest.raises(Died):
        index.committer(progress=stop_after(1)).commit()
    add(node, [-2])
    moved = known(other, range(-2, 3 * CHUNK))

    assert index.committer().cancel(running=False)

    assert known(other, range(-2, 3 * CHUNK)) == moved
    assert sound(index)
    assert index.members(index.keys.committed) == {"a"}
    assert not [key for key in index.everything() if "~" in key]


def test_an_order_to_cancel_stops_a_round_that_is_under_way(index):
    node = entered(index)
    add(node, range(3 * CHUNK))

    def order(moved):
        index.committer().cancel(running=True)

    assert index.committer(progress=order).commit() == "canceled"
    with pytest.raises(CrawlCanceled):
        index.committer().finish()
    assert sound(index)


def test_an_entry_by_url_counts_with_its_round(index):
    def matched(crawl_id):
        own = entered(index, crawl_id)
        return MatchedIndex(
            index.store, index.name, crawl_id, own, (), lambda: own.round_id
        )

    one, other = matched("a"), matched("b")
    first, second, third = (f"url:{n:032x}" for n in range(3))
    one.add(entries([1], url_key=first))
    assert other.lookup([first]) == {}
    round_now(index)
    one.add(entries([2], url_key=second))
    assert other.lookup([first])[first].crawl_id == "a"
    assert other.lookup([second]) == {}
    assert one.lookup([second])[second].crawl_id == "a"
    round_now(index)
    assert other.lookup([second])[second].crawl_id == "a"
    one.add(entries([3], url_key=third))
    index.committer().cancel(running=False)

    assert matched("c").lookup([first, second, third]).keys() == {first, second}
    index("SREM", index.keys.committed, "a")  # as a purge does, while another runs
    assert other.lookup([first, second]) == {}


def test_a_purge_works_beside_a_crawl_that_commits_in_rounds(index):
    old, node = entered(index, "old", every_s=0), entered(index)
    add(old, [1, 2, 3])
    old.count(3, 0, 0)
    old.commit()
    add(node, [3, 4])
    node.count(2, 1, 9)
    round_now(index)
    add(node, [5])

    planned = plan(index.store, index.keys, set())
    left = purge(index.store, index.keys, planned)

    assert (planned.removed, planned.kept) == (("old",), ("a",))
    assert left == 2
    assert known(node, range(6)) == {3: "a", 4: "a", 5: "a"}
    assert index.counts() == {"totalUrls": 2, "dupeUrls": 1, "conservedSize": 9}
    round_now(index)
    assert known(entered(index, "b"), range(6)) == {3: "a", 4: "a", 5: "a"}
    assert not [key for key in index.everything() if "old" in key]


def test_no_round_is_committed_while_a_purge_is_under_way(index):
    old, node = entered(index, "old", every_s=0), entered(index)
    add(old, range(2 * CHUNK))
    old.commit()
    add(node, [1])
    round_now(index)
    add(node, [-1])
    tried = []

    def look_on(looked):
        tried.append(round_now(index))

    purge(
        index.store, index.keys, plan(index.store, index.keys, set()), progress=look_on
    )

    assert set(tried) == {"held"}
    assert isinstance(round_now(index), Committed)


def test_a_purge_that_was_frozen_past_a_round_goes_no_further(index):
    old, node = entered(index, "old", every_s=0), entered(index)
    add(old, range(CHUNK))
    old.commit()
    add(node, [-1])
    round_now(index)
    add(node, [-2])

    def freeze(looked):
        index("DEL", index.keys.committer)
        round_now(index)

    planned = plan(index.store, index.keys, set())
    with pytest.raises(CollectionInUse):
        purge(index.store, index.keys, planned, progress=freeze)

    assert known(entered(index, "b"), [-1, -2]) == {-1: "a", -2: "a"}
    assert index.members(index.keys.committed) == {"a", "old"}


def test_the_status_shows_rounds_and_what_is_not_committed(index):
    node = entered(index)
    add(node, [1, 2])
    node.count(2, 0, 0)
    round_now(index)
    add(node, [3])
    node.count(1, 0, 0)

    code, out, err = index.run("status", "--json")

    assert code == 0, err
    (crawl,) = json.loads(out)["crawls"]
    assert (crawl["state"], crawl["rounds"]) == ("rounds", 1)
    assert (crawl["digests"], crawl["uncommitted"], crawl["urls"]) == (3, 1, 3)
    assert index.counts() == {"totalUrls": 2}


def test_an_operator_commits_a_round_now(index):
    node = entered(index, "site-1", every_s=3600)
    add(node, [1])
    round_now(index, "site-1")
    add(node, [2])
    meta = CrawlKeys("frontier", "site-1").meta
    index.store.call(Call.command("HSET", meta, "state", "open"))
    try:
        code, _, err = index.run("commit", "--crawl", "site-1")
        assert code == 0, err
        assert view(index, "site-1").rounds == 2
        assert has_rounds(index.store, index.keys, "site-1")
    finally:
        index.store.call(Call.command("DEL", meta))


def test_an_import_does_not_add_to_a_crawl_that_runs(index):
    node = entered(index)
    add(node, [1])
    round_now(index)

    code, _, err = index.run("import", "x.cdxj", "--crawl", "a~2")

    assert code == 2
    assert "a~2" in err
