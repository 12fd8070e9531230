"""A crawl is restored on a real server from journals that a test has written."""

import json
import time

import pytest

from frontier.cli.output import ExitCode
from frontier.cluster.shared_settings import crawl_settings
from frontier.errors import ConfigurationError, OtherSchema
from frontier.node.journal.entries import (
    Acked,
    Bad,
    Header,
    Pushed,
    PutAgain,
    digest_of,
    frame,
)
from frontier.node.journal.rebuild import REBUILDING, Rebuild
from frontier.queue.item import encode
from frontier.queue.reserve import Scan, scan_call
from frontier.seen.config import seen_config
from frontier.seen.seen_set import look
from frontier.settings.config import Config
from frontier.store.keys import SCHEMA, CrawlKeys
from frontier.urls.fingerprint import seen_hash
from tests.harness import commands

SETTINGS = {"FRONTIER_PARTITIONS": 4}
CONFIG = Config.from_settings(SETTINGS)
URL = "http://a.example/%s"
BORN, EARLIER = "ab12" * 4, "01d0" * 4


def pushed(name, mode="t", partition=0, queue="0:a.example", **record):
    item = encode({"url": URL % name, **record}, queue)
    return Pushed(partition, mode, seen_hash(name.encode()), queue, item)


def acked(push):
    item = b"2" + push.item[1:]  # it was delivered before
    return Acked(push.partition, digest_of(push.queue, item))


def put_again(push, name, due, **record):
    """*push* is done, and is to be fetched once more, as *name*."""
    later = pushed(name, partition=push.partition, queue=push.queue, **record)
    digest = acked(push).digest
    return PutAgain(push.partition, digest, push.queue, later.item, due)


class Lost:
    """A crawl of which only the journals are left."""

    def __init__(self, store, namespace, directory):
        self.store, self.namespace, self.directory = store, namespace, directory
        self.keys = CrawlKeys(namespace, "site-7")

    def write(
        self, node, *entries, config=CONFIG, crawl_id="site-7", tail=b"", born=BORN
    ):
        directory = self.directory / node
        directory.mkdir(exist_ok=True)
        names = (self.namespace, crawl_id, "site", node)
        header = Header(*names, crawl_settings(config), born)
        path = directory / f"{len(list(directory.iterdir()))}.journal"
        path.write_bytes(b"".join(map(frame, (header, *entries))) + tail)
        return path

    def rebuild(self, born=""):
        directories = sorted(path for path in self.directory.iterdir() if path.is_dir())
        return Rebuild(self.store, self.namespace, "site-7", directories, born).run()

    def scan(self, partition=0):
        reply = self.store.call(scan_call(self.keys.partition(partition)))
        return Scan(*reply[2:])

    def items(self, db, partition=0, queue="0:a.example"):
        return db("LRANGE", self.keys.partition(partition).ready(queue), 0, -1)

    def has_seen(self, name, partition=0):
        keys = self.keys.partition(partition)
        return look(
            self.store, keys, seen_hash(name.encode()), seen_config(CONFIG)
        ).seen


@pytest.fixture
def lost(blocking, unique, tmp_path):
    (tmp_path / "journals").mkdir()
    return Lost(blocking(), unique, tmp_path / "journals")


def test_unacked_pushes_are_ready_and_all_pushes_are_seen(lost, db):
    done, open_one, other = pushed("done"), pushed("open"), pushed("p", partition=3)
    lost.write("one", done, open_one)
    lost.write("two", other, acked(done))
    outcome = lost.rebuild()

    assert (outcome.pushed, outcome.acked, outcome.bad) == (3, 1, [])
    assert (outcome.done, outcome.ready, outcome.seen) == (1, 2, 3)
    assert lost.items(db) == [open_one.item]
    assert lost.items(db, 3) == [other.item]
    assert lost.has_seen("done")
    assert lost.has_seen("open")
    assert not lost.has_seen("never")
    scan = lost.scan()
    assert (scan.ready, scan.pushed, scan.acked) == (1, 2, 1)


def test_the_addresses_that_its_seeds_spell_are_allowed_though_all_are_done(lost, db):
    start = {"is_start_request": True}
    seed = pushed("seed", url="http://127.0.0.1/", meta=start)
    link = pushed("link", url="http://127.0.0.1/1")
    lost.write("one", seed, acked(seed), link, pushed("l", url="http://10.0.0.1/"))
    lost.rebuild()

    said = [name for name in db("HKEYS", lost.keys.meta) if b"address:" in name]
    assert said == [b"address:loopback"]


def test_a_url_that_two_nodes_found_is_done_whichever_of_them_was_queued(lost, db):
    first = pushed("page", headers={b"Referer": [b"http://a.example/1"]})
    second = pushed("page", headers={b"Referer": [b"http://a.example/2"]})
    twice = pushed("twice", headers={b"Referer": [b"http://a.example/1"]})
    lost.write("a", second, twice)
    lost.write("b", first, acked(first), pushed("twice"))
    outcome = lost.rebuild()

    assert (outcome.done, outcome.ready, outcome.seen) == (1, 1, 2)
    assert lost.items(db) == [twice.item]


def test_repeated_forced_pushes_are_queued_minus_those_acked(lost, db):
    again = pushed("again", mode="f")
    target = pushed("target", mode="m")
    done = [acked(again)] * 2
    lost.write("a", *[again] * 4, *done, target, pushed("target"))
    outcome = lost.rebuild()

    assert (outcome.done, outcome.ready) == (2, 3)
    assert sorted(lost.items(db)) == sorted([again.item, again.item, target.item])
    assert lost.has_seen("target")
    assert not lost.has_seen("again")


NEVER = int(time.time() * 1000) + 10**10


def test_waiting_request_keeps_its_due_time_in_a_rebuild(lost, db):
    late, done = (pushed(name)._replace(due=NEVER) for name in ("late", "done"))
    lost.write("a", late, done, acked(done), pushed("ready"))
    outcome = lost.rebuild()

    assert (outcome.done, outcome.ready, outcome.waiting) == (1, 1, 1)
    scan = lost.scan()
    assert (scan.waiting, scan.ready, scan.pushed, scan.acked) == (1, 1, 3, 1)
    assert NEVER <= scan.due < NEVER * 1.01
    name = lost.keys.partition(0).waiting(str(scan.due))
    assert db("LRANGE", name, 0, -1) == [b"0:a.example\n" + late.item]


def test_a_page_that_is_fetched_again_waits_as_it_was_put_back_last(lost, db):
    first = pushed("page")
    second = put_again(first, "page", NEVER, cb_kwargs={"visit": 2})
    as_pushed = pushed("page", cb_kwargs={"visit": 2})
    third = put_again(as_pushed, "page", NEVER + 5000, cb_kwargs={"visit": 3})
    lost.write("b", third)  # whichever node had it
    lost.write("a", first, second)
    outcome = lost.rebuild()

    assert (outcome.pushed, outcome.acked, outcome.done) == (3, 2, 2)
    assert (outcome.ready, outcome.waiting, outcome.seen) == (0, 1, 1)
    scan = lost.scan()
    assert (scan.waiting, scan.pushed, scan.acked) == (1, 3, 2)
    assert scan.due >= NEVER + 5000
    name = lost.keys.partition(0).waiting(str(scan.due))
    assert db("LRANGE", name, 0, -1) == [b"0:a.example\n" + third.item]


@pytest.mark.parametrize("times", [1, 2, 5])
def test_a_page_that_is_put_back_unchanged_waits_once(lost, times):
    page = pushed("page")
    visits = [put_again(page, "page", NEVER + n) for n in range(times)]
    lost.write("a", page, *visits[::-1])
    outcome = lost.rebuild()

    assert (outcome.done, outcome.ready, outcome.waiting) == (times, 0, 1)
    assert lost.scan().due >= NEVER + times - 1
    assert lost.scan().pushed == times + 1


def test_a_page_that_was_put_back_and_is_done_is_not_queued(lost):
    page = pushed("page")
    visit = put_again(page, "page", NEVER, cb_kwargs={"visit": 2})
    lost.write("a", page, visit, acked(pushed("page", cb_kwargs={"visit": 2})))
    outcome = lost.rebuild()

    assert (outcome.done, outcome.ready, outcome.waiting) == (2, 0, 0)


def test_mark_without_an_item_is_seen_and_not_queued(lost):
    lost.write("a", Pushed(0, "t", seen_hash(b"start"), "", b""))
    outcome = lost.rebuild()

    assert (outcome.ready, outcome.done, outcome.seen) == (0, 0, 1)
    assert lost.has_seen("start")


def test_an_item_begins_with_no_deliveries_and_its_priority_is_kept(lost, db):
    urgent = pushed("urgent", queue="7:a.example")
    lost.write("a", urgent._replace(item=b"2" + urgent.item[1:]))
    lost.rebuild()

    assert lost.items(db, queue="7:a.example") == [urgent.item]
    score = db("ZSCORE", lost.keys.partition(0).queues, "7:a.example")
    assert float(score) == -7.0


def test_more_than_one_call_takes(lost):
    every = [pushed(f"page-{n}", partition=n % 4) for n in range(3000)]
    lost.write("a", *every, *map(acked, every[:1000]))
    outcome = lost.rebuild()

    assert (outcome.done, outcome.ready, outcome.seen) == (1000, 2000, 3000)
    assert sum(lost.scan(p).ready for p in range(4)) == 2000


def test_bad_entries_are_named_and_skipped(lost):
    broken = pushed("x")._replace(item=b"0\x02\xc1nonsense")
    far = pushed("far", partition=4)
    path = lost.write("a", pushed("good"), broken, far, tail=b"torn")
    outcome = lost.rebuild()

    assert outcome.ready == 1
    assert len(outcome.bad) == 3
    assert all(isinstance(bad, Bad) and bad.file == str(path) for bad in outcome.bad)
    reasons = " ".join(bad.reason for bad in outcome.bad)
    for said in ("msgpack", "partition 4", "cut off"):
        assert said in reasons


@pytest.mark.parametrize("fault", ["checksum", "header", "torn"])
def test_skipped_journal_entry_sets_the_exit_code_but_a_torn_end_does_not(
    lost, server, fault
):
    if fault == "torn":
        path = lost.write("a", pushed("page"), tail=frame(pushed("x"))[:-3])
        path = path.rename(path.with_name(f"{path.name}.open"))
    elif fault == "header":
        lost.write("a", pushed("page"))
        path = lost.write("b", pushed("x"))
        path.write_bytes(b"%" + path.read_bytes()[1:])
    else:
        path = lost.write("a", pushed("x"), pushed("page"))
        head, first, rest = path.read_bytes().split(b"\n", 2)
        path.write_bytes(b"\n".join([head, b"%" + first[1:], rest]))
    words = ["crawl", "rebuild", "--crawl=site-7", f"--namespace={lost.namespace}"]
    words += [f"--journal={there}" for there in sorted(lost.directory.iterdir())]
    done = commands.run(*words, "--redis-url", server.url, "--json")

    assert json.loads(done.stdout)["ready"] == 1
    assert str(path) in done.stderr
    if fault == "torn":
        assert done.returncode == ExitCode.OK
        assert "cut off, as their node was killed" in done.stderr
    else:
        assert done.returncode == ExitCode.INCOMPLETE
        assert "1 entries of journals were skipped" in done.stderr


def test_nodes_join_what_was_rebuilt_and_only_what_broke_off_is_made_again(lost, db):
    meta, every = lost.keys.meta, [pushed(f"page-{n}") for n in range(10)]
    lost.write("a", *every, acked(every[0]))
    lost.rebuild()

    assert db("HGET", meta, "state") == b"open"
    registry = f"{lost.namespace}:spider:site"
    assert db("HMGET", registry, "open", "serial") == [b"site-7", b"7"], "the next is 8"
    with pytest.raises(ConfigurationError, match="in the store already"):
        lost.rebuild()
    db("HSET", meta, "state", REBUILDING, "schema", SCHEMA + 1)
    before = db("HGETALL", meta)
    with pytest.raises(OtherSchema, match=f"site-7 has schema version {SCHEMA + 1},"):
        lost.rebuild()
    assert db("HGETALL", meta) == before
    db("HSET", meta, "schema", SCHEMA)
    outcome = lost.rebuild()
    assert (outcome.done, outcome.ready) == (1, 9)
    assert sorted(lost.items(db)) == sorted(push.item for push in every[1:])


@pytest.mark.parametrize("partly", [False, True])
def test_a_crawl_that_was_lost_or_part_of_it_is_open_when_it_is_whole(
    lost, db, names_like, partly
):
    directory = lost.write("a", pushed("one"), pushed("far", partition=1)).parent
    lost.write("a", pushed("two"), acked(pushed("two")))
    if partly:
        lost.rebuild()
        db("DEL", *names_like(lost.keys.partition(1).prefix + "*"))
    states, told = [], []

    def progress(count):
        told.append(count)
        states.append(db("HGET", lost.keys.meta, "state"))

    Rebuild(lost.store, lost.namespace, "site-7", [directory]).run(progress)
    assert told == [1, 2, 3, 4, 5, 6]
    assert set(states) == {REBUILDING.encode()}
    assert db("HMGET", lost.keys.meta, "state", "fetched") == [b"open", b"1"]
    assert (lost.scan(0).ready, lost.scan(1).ready) == (1, 1)


def test_journals_of_other_crawls_are_left_out_and_none_is_an_error(lost):
    lost.write("a", pushed("page"), crawl_id="site-6")

    with pytest.raises(ConfigurationError, match="no journal of the crawl site-7"):
        lost.rebuild()


def test_journals_of_several_crawls_of_one_name_are_not_mixed(lost, db):
    done = [pushed("one"), acked(pushed("one")), pushed("two"), acked(pushed("two"))]
    lost.write("a", *done, born=EARLIER)
    lost.write("b", pushed("one"), pushed("two"), acked(pushed("two")), born=BORN)

    with pytest.raises(ConfigurationError, match=f"{EARLIER}: 1 journals.* {BORN}: 1 "):
        lost.rebuild()
    with pytest.raises(ConfigurationError, match="no journal .* --born 7777"):
        lost.rebuild(born="7" * 16)
    assert lost.scan().pushed == 0

    outcome = lost.rebuild(born=BORN)
    assert (outcome.journals, outcome.ready, outcome.done) == (1, 1, 1)
    assert outcome.born == BORN
    assert db("HGET", lost.keys.meta, "born") == BORN.encode()


def test_forced_push_in_two_journals_is_queued_once(lost, db):
    forced = pushed("next", mode="f")._replace(forced=seen_hash(b"id"))
    lost.write("a", forced)
    lost.write("b", forced)
    lost.rebuild()

    assert lost.scan().ready == 1
    (one,) = db("SMEMBERS", lost.keys.partition(0).forced)
    assert int(one) == forced.forced
