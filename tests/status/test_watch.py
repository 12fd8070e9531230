"""What is seen by who keeps looking at a crawl, on a real server."""

import json
from collections import Counter
from dataclasses import replace

import pytest

from frontier.errors import UnknownCrawl
from frontier.queue.reserve import Scan
from frontier.status.figures import Figures
from frontier.status.forecast import TREND_S, History
from frontier.status.views import LimitProgress, NodeView
from frontier.status.watch import (
    HOLDERS_S,
    LETTERS_S,
    MOST_HOSTS,
    QUEUES_S,
    ROUND_S,
    HandOver,
    Watch,
)
from frontier.store.keys import SCHEMA, CrawlKeys, RegistryKeys

pytestmark = pytest.mark.store

PARTITIONS = 60


@pytest.fixture
def keys(unique, db):
    keys = CrawlKeys(f"test-{unique}", "site-1")
    db("SADD", RegistryKeys(keys.namespace).crawls(), keys.crawl_id)
    facts = {"state": "open", "spider": "site", "schema": SCHEMA, "created_ms": 1}
    facts |= {"shape": json.dumps({"FRONTIER_PARTITIONS": PARTITIONS})}
    db("HSET", keys.meta(), *(x for pair in facts.items() for x in pair))
    return keys


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def counted(blocking, monkeypatch):
    """A store, and how often each command and script was asked of it."""
    store, asked = blocking(), Counter()
    run = store.run

    def counting(calls, **options):
        asked.update(call.script.name if call.script else call.name for call in calls)
        return run(calls, **options)

    monkeypatch.setattr(store, "run", counting)
    return store, asked


@pytest.fixture
def watch(counted, keys, clock):
    return Watch(counted[0], keys.namespace, keys.crawl_id, clock=clock)


@pytest.fixture
def fill(db, keys):
    """Put so many URLs of a host into the queue of a partition."""

    def fill(partition, host, count, priority=0):
        part, queue = keys.partition(partition), f"{priority}:{host}"
        db("ZADD", part.queues, -priority, queue)
        db("RPUSH", part.ready(queue), *["x"] * count)
        db("HINCRBY", part.counts, "ready", count)

    return fill


def test_a_crawl_that_does_not_exist_is_unknown(blocking, keys):
    with pytest.raises(UnknownCrawl):
        Watch(blocking(), keys.namespace, "none").look()


def test_the_first_look_is_at_all_and_later_ones_at_some_in_turn(
    watch, counted, clock, db, keys
):
    _, asked = counted
    assert watch.look().crawl.queue.ready == 0
    assert asked["partition_scan"] == PARTITIONS

    for number in range(PARTITIONS):
        db("HSET", keys.partition(number).counts, "ready", 1)
    seen = []
    for _ in range(4):
        clock.now += ROUND_S / 4
        asked.clear()
        found = watch.look()
        assert asked["partition_scan"] == PARTITIONS / 4
        assert 0 < asked["HGET"] <= PARTITIONS + MOST_HOSTS  # the leases, and delays
        seen.append(found.crawl.queue.ready)
        assert found.oldest_s <= ROUND_S

    assert seen == [PARTITIONS * quarter / 4 for quarter in (1, 2, 3, 4)]


def test_after_a_long_pause_no_partition_is_looked_at_twice(watch, counted, clock):
    watch.look()
    counted[1].clear()
    clock.now += 100 * ROUND_S

    assert watch.look().oldest_s == 0
    assert counted[1]["partition_scan"] == PARTITIONS


def test_partitions_that_change_hands_are_told(watch, clock, db, keys):
    db("SET", keys.epoch(), 7)
    for number in range(10):
        db("HSET", keys.partition(number).lease, "token", 1, "holder", "a")
    first = watch.look()
    assert first.holders == ("a",) * 10 + ("",) * (PARTITIONS - 10)
    assert (first.epoch, first.hand_overs) == (7, ())

    for number in range(4):
        db("HSET", keys.partition(number).lease, "token", 2, "holder", "b")
    db("DEL", keys.partition(9).lease)
    assert watch.look().hand_overs == ()  # leases are not asked for each time
    clock.now += HOLDERS_S
    second = watch.look()

    at = second.crawl.taken_ms
    assert second.hand_overs == (HandOver(at, "a", "b", 4), HandOver(at, "a", "", 1))
    assert watch.look().hand_overs == second.hand_overs


def test_the_log_of_members_is_read_where_it_may_be_new(
    watch, counted, clock, db, keys
):
    db("RPUSH", keys.membership(), "1 1000 joined 1 a")
    assert [event.what for event in watch.look().membership] == ["joined"]

    counted[1].clear()
    db("RPUSH", keys.membership(), "1 2000 twice 0 a")
    assert len(watch.look().membership) == 1
    assert counted[1]["LRANGE"] == 1  # the log of operators
    clock.now += LETTERS_S  # no change of the epoch
    assert watch.look().membership[0].what == "twice"
    db("RPUSH", keys.membership(), "2 3000 died 0 a", "garbage")
    db("SET", keys.epoch(), 2)
    last = watch.look()
    assert (last.membership[0].what, last.membership_unread) == ("died", 1)
    db("SET", keys.epoch(), "garbage")
    db("DEL", keys.membership())
    assert (watch.look().epoch, watch.look().membership) == (0, ())


def test_hosts_are_those_with_long_queues_errors_and_long_times(watch, db, keys, fill):
    fill(3, "long.example", 40)
    fill(3, "short.example", 2)
    fill(5, "other.example", 7)
    db("HSET", keys.partition(3).next_allowed, "long.example", "1 123 1500")
    now = int(db("TIME")[0]) * 1000
    entry = f"{now + 60_000} {now} 2 throttled"
    db("HSET", keys.partition(5).back_off, "other.example", entry)
    report = {
        "opened": 1.0,
        "seconds": 1.0,
        "host_errors": {
            "long.example": {"dns": 2, "tls": 1},
            "bad.example": {"dns": 1},
        },
        "host_seconds": {"slow.example": [2, 9.0], "long.example": [1, 0.5]},
    }
    db("HSET", keys.reports(), "a", json.dumps(report))

    hosts = {one.host: one for one in watch.look().hosts}

    assert list(hosts)[:3] == ["long.example", "other.example", "short.example"]
    long = hosts["long.example"]
    assert (long.queued, long.partition, long.delay_ms) == (40, 3, 1500)
    assert (long.errors, long.error_kinds) == (3, {"dns": 2, "tls": 1})
    assert (long.requests, long.seconds, long.left_alone) == (1, 0.5, "")
    other = hosts["other.example"]
    assert (other.left_alone, other.failures) == ("it said 429", 2)
    assert other.until_ms > now
    assert hosts["bad.example"].errors == 1
    assert hosts["slow.example"].seconds == 4.5
    assert (hosts["slow.example"].partition, hosts["slow.example"].queued) == (None, 0)


def test_a_host_with_two_queues_is_one_host(watch, fill):
    fill(3, "a.example", 2)
    fill(3, "a.example", 1, priority=-1)
    fill(3, "b.example", 1)

    assert watch.look().queued_hosts == 2


def test_only_queues_that_may_be_among_the_longest_are_asked_for(
    watch, counted, clock, fill
):
    for number in range(MOST_HOSTS):
        fill(number, f"h{number}.example", 10)
    watch.look()
    fill(PARTITIONS - 1, "small.example", 9)
    fill(PARTITIONS - 2, "large.example", 11)
    counted[1].clear()
    clock.now += QUEUES_S

    found = watch.look()

    assert counted[1]["LLEN"] == MOST_HOSTS + 1
    assert found.hosts[0].host == "large.example"
    assert len(found.hosts) == MOST_HOSTS
    assert "small.example" not in {one.host for one in found.hosts}


def test_of_many_reports_each_look_reads_some_in_turn(watch, db, keys, monkeypatch):
    monkeypatch.setattr("frontier.status.watch.MOST_REPORTS", 4)

    def report(pages, *names):
        told = json.dumps({"opened": 1.0, "seconds": 1.0, "pages": pages})
        for name in names:
            db("HSET", keys.reports(), name, told)

    names = [f"n{n}" for n in range(10)]
    report(1, *names)
    assert watch.look().crawl.totals.pages == 10

    report(2, *names)
    report(2, "new")
    db("HDEL", keys.reports(), "n9")
    seen = [watch.look().crawl.totals.pages for _ in range(5)]

    assert seen[0] == 9 + 2 + 3  # the new one, and three of those that are known
    assert seen == sorted(seen)
    assert seen[-1] == 2 * 10


def test_what_a_partition_says_of_hosts_is_not_trusted(watch, db, keys):
    part = keys.partition(1)
    db("HSET", part.counts, "ready", 5)
    db("ZADD", part.queues, 0, "no name", 0, b"0:\xff\x1b", 0, "0:fine")
    db("SET", part.ready("0:fine"), "no list")
    db("SET", part.next_allowed, "no hash")
    db("SET", keys.epoch(), "x")

    found = watch.look()

    assert found.epoch == 0
    assert all(host.host.isprintable() for host in found.hosts)
    assert all(host.delay_ms == 0 for host in found.hosts)


# Rates and trends; no server.


@pytest.fixture
def seen(watch):
    base = watch.look().crawl

    def seen(at, queued=0, limits=(), waiting=0, **pages):
        nodes = tuple(
            NodeView(name, "live", 1, 1, 1, Figures(opened=opened, pages=count))
            for name, (opened, count) in pages.items()
        )
        queue = Scan(ready=queued, waiting=waiting)
        return replace(
            base, taken_ms=at * 1000, nodes=nodes, queue=queue, limits=limits
        )

    return seen


def test_the_rate_is_that_of_the_last_minute(seen):
    history = History()
    history.note(seen(100, a=(1.0, 5000)))
    assert history.rates().seconds == 0

    for at in range(101, 161):
        history.note(seen(at, a=(1.0, 5000)))
    for at in range(161, 221):
        history.note(seen(at, a=(1.0, 5000 + 3 * (at - 160)), b=(150.0, at - 160)))

    rates = history.rates()
    assert (rates.seconds, rates.pages) == (60, 4)
    assert rates.nodes == {"a": 3, "b": 1}


def test_a_node_that_begins_again_takes_nothing_back(seen):
    history = History()
    history.note(seen(100, a=(1.0, 5000)))
    history.note(seen(110, a=(1.0, 5010)))
    history.note(seen(120, a=(111.0, 20)))
    history.note(seen(130))

    rates = history.rates()
    assert rates.pages == 1
    assert rates.nodes == {}  # it is gone


def test_a_server_whose_clock_is_set_back_begins_again(seen):
    history = History()
    history.note(seen(100, a=(1.0, 10)))
    history.note(seen(50, a=(1.0, 20)))
    assert history.rates().seconds == 0
    history.note(seen(50, a=(1.0, 25)))
    history.note(seen(60, a=(1.0, 30)))

    assert history.rates().pages == 0.5


def told(history, view):
    left = history.time_left(view)
    return left.seconds, left.basis


def test_the_time_left_follows_from_the_trend_of_the_queue(seen):
    history = History()
    for at in range(0, 20, 5):
        history.note(seen(at, 5000))
    node = NodeView("a", "live", 1, 1, 1, Figures(rate=5.0))
    short = "at least 17 min: 5,000 requests at the mean 5.0 pages/s of its nodes"
    seconds, basis = told(history, replace(seen(15, 5000), nodes=(node,)))
    assert (seconds, basis) == (None, f"{short}, and what they will find")

    for at in range(20, 400, 5):
        last = seen(at, 5000 - 10 * at)
        history.note(last)
    assert told(history, last) == (105, "the queue shrinks by 10.0/s over 2 min")
    assert len(history._samples) <= TREND_S / 5 + 2

    for at in range(400, 600, 5):
        last = seen(at, 1000 + 5 * at)
        history.note(last)
    grows = "unknown: the queue grows by 5.0/s over 2 min"
    assert told(history, last) == (None, grows)


def test_the_time_left_says_why_it_is_not_known(seen):
    history = History()
    for at in (0, 40):
        history.note(seen(at, 7))
    still = "unknown: the queue does not shrink over 40 s"
    assert told(history, seen(40, 7)) == (None, still)
    assert told(history, seen(40, 0)) == (0.0, "nothing is queued")
    waits = "nothing is queued; 3 more wait until they are due"
    assert told(history, seen(40, 0, waiting=3)) == (None, waits)
    ended = replace(seen(40, 7), state="finished")
    assert told(history, ended) == (0.0, "the crawl is finished")


def test_a_limit_that_comes_first_is_the_basis(seen):
    history = History()
    for at in range(0, 70, 10):
        last = seen(at, 10_000 - at, a=(1.0, 2 * at))
        history.note(last)
    pages = LimitProgress("pages", "CLOSESPIDER_PAGECOUNT", 120, 1000, 0.12)
    seconds = LimitProgress("time", "CLOSESPIDER_TIMEOUT", 60_000, 100_000, 0.6)
    items = LimitProgress("items", "CLOSESPIDER_ITEMCOUNT", 1, 2, 0.5)

    limited = replace(last, limits=(pages, items))
    basis = "the limit of 1,000 pages (CLOSESPIDER_PAGECOUNT) at 2.0/s"
    assert told(history, limited) == (440, basis)
    limited = replace(last, limits=(pages, seconds))
    basis = "the limit of 100 s (CLOSESPIDER_TIMEOUT)"
    assert told(history, limited) == (40, basis)
