"""What is seen by who keeps looking at a crawl, on a real server."""

import json
from collections import Counter
from dataclasses import replace

import pytest

from frontier.queue.hosts import Record
from frontier.queue.reserve import Scan
from frontier.status.figures import Figures, Pace
from frontier.status.forecast import time_left
from frontier.status.sections import one_line, sections
from frontier.status.views import LimitProgress, NodeView
from frontier.status.watch import (
    FULLEST,
    SCANNED_A_SECOND,
    Watch,
)
from frontier.store.keys import CrawlKeys

pytestmark = pytest.mark.store

PARTITIONS = 60


@pytest.fixture
def keys(unique, put_crawl):
    keys = CrawlKeys(f"test-{unique}", "site-1")
    put_crawl(keys, shape=json.dumps({"FRONTIER_PARTITIONS": PARTITIONS}))
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


def test_partitions_are_looked_at_as_often_as_their_number_allows(
    watch, counted, clock, db, keys
):
    _, asked = counted
    assert watch.look().crawl.queue.ready == 0
    assert asked["partition_scan"] == PARTITIONS

    for number in range(PARTITIONS):
        db("HSET", keys.partition(number).counts, "ready", 1)
    asked.clear()
    clock.now += 0.9 * PARTITIONS / SCANNED_A_SECOND
    assert watch.look().crawl.queue.ready == 0
    assert asked["partition_scan"] == 0
    clock.now += PARTITIONS / SCANNED_A_SECOND
    found = watch.look()

    assert asked["partition_scan"] == PARTITIONS
    assert (found.crawl.queue.ready, found.oldest_s) == (PARTITIONS, 0)


def test_partitions_of_a_young_crawl_are_looked_at_more_often(
    watch, counted, clock, db, keys
):
    db("HSET", keys.meta, "created_ms", 10**13)  # no age, however slow this test is
    watch.look()
    db("HSET", keys.partition(7).counts, "ready", 850)
    clock.now += 0.5 * PARTITIONS / SCANNED_A_SECOND

    assert watch.look().crawl.queue.ready == 850


def test_hosts_are_those_with_long_queues_errors_and_long_times(watch, db, keys, fill):
    fill(3, "long.example", 40)
    fill(3, "short.example", 2)
    fill(5, "other.example", 7)
    slow = Record(next=123.0, delay=1.5).packed()
    db("HSET", keys.partition(3).hosts, "long.example", slow)
    now = int(db("TIME")[0])
    entry = Record(until=now + 60.0, failures=2, reason="throttled").packed()
    db("HSET", keys.partition(5).hosts, "other.example", entry)
    report = {
        "opened": 1.0,
        "seconds": 1.0,
        "host_errors": {
            "long.example": {"dns": 2, "tls": 1},
            "bad.example": {"dns": 1},
        },
        "host_seconds": {"slow.example": [2, 9.0], "long.example": [1, 0.5]},
    }
    db("HSET", keys.reports, "a", json.dumps(report))

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


def test_only_the_fullest_partitions_are_asked_for_queues(watch, counted, fill):
    for number in range(FULLEST + 5):
        fill(number, f"h{number}.example", 10 + number)

    found = watch.look()

    assert counted[1]["LLEN"] == FULLEST
    assert found.hosts[0].host == f"h{FULLEST + 4}.example"
    assert found.queued_hosts == FULLEST + 5


@pytest.mark.parametrize(("state", "periods"), [("open", 1), ("limit", 0)])
def test_lengths_of_queues_are_as_fresh_as_the_totals_which_are_of_now_at_the_end(
    watch, clock, db, keys, fill, state, periods
):
    fill(1, "h.example", 10)
    watch.look()

    fill(1, "h.example", 5)
    db("HSET", keys.meta, "state", state)
    clock.now += periods * PARTITIONS / SCANNED_A_SECOND
    found = watch.look()

    assert found.hosts[0].queued == found.crawl.queue.ready == 15
    assert found.queues_s == 0


def test_lengths_of_many_queues_are_asked_for_less_often_and_say_how_old_they_are(
    watch, clock, fill, monkeypatch
):
    monkeypatch.setattr("frontier.status.watch.QUEUES_A_SECOND", 0.05)
    fill(1, "h.example", 10)
    watch.look()

    fill(1, "h.example", 5)
    clock.now += 19.0
    found = watch.look()

    assert (found.hosts[0].queued, found.queues_s) == (10, 19.0)
    hosts = next(one for one in sections(found, str) if one.name == "hosts")
    assert hosts.about == "queues with requests: 1, by lengths of 19 s ago"
    clock.now += 20.0
    assert watch.look().hosts[0].queued == 15


def test_damaged_host_keys_of_a_partition_do_not_break_the_watch(watch, db, keys):
    part = keys.partition(1)
    db("HSET", part.counts, "ready", 5)
    db("ZADD", part.queues, 0, "no name", 0, b"0:\xff\x1b", 0, "0:fine")
    db("SET", part.ready("0:fine"), "no list")
    db("SET", part.hosts, "no hash")
    db("SET", keys.epoch, "x")

    found = watch.look()

    assert found.epoch == 0
    assert all(host.host.isprintable() for host in found.hosts)
    assert all(host.delay_ms == 0 for host in found.hosts)


# The time left; no server.


@pytest.fixture
def seen(watch):
    base = watch.look().crawl

    def seen(queued=0, limits=(), waiting=0, seconds=60.0, more=0, **pace):
        totals = Figures(lately=Pace(queued=more, **pace), lately_seconds=seconds)
        node = NodeView("a", "live", 1, 1, 1, Figures(rate=5.0))
        queue = Scan(ready=queued, waiting=waiting)
        return replace(base, nodes=(node,), totals=totals, queue=queue, limits=limits)

    return seen


STILL = "unknown: the queue did not shrink over 60 s"
SHORT = "unknown: no node has run for 30 s"
GROWS = "unknown: the queue grew by 5.0/s over 60 s"
WAITS = "nothing is queued; 3 more wait until they are due"
PAGES = LimitProgress("pages", "CLOSESPIDER_PAGECOUNT", 120, 1000, 0.12)
SECONDS = LimitProgress("time", "CLOSESPIDER_TIMEOUT", 60_000, 100_000, 0.6)
ITEMS = LimitProgress("items", "CLOSESPIDER_ITEMCOUNT", 1, 2, 0.5)
AT_PAGES = "at most, by the limit of 1,000 pages at 2.0/s"


@pytest.mark.parametrize(
    ("view", "seconds", "basis"),
    [
        ({"queued": 5000, "seconds": 20.0, "limits": (SECONDS,)}, None, SHORT),
        ({"queued": 1050, "done": 12}, 87.5, "the queue shrank by 12.0/s over 60 s"),
        ({"queued": 9, "done": 1, "more": 6}, None, GROWS),
        ({"queued": 7}, None, STILL),
        ({"queued": 7, "done": 1.0, "more": 1.04}, None, STILL),
        ({"queued": 7, "done": 1.04, "more": 1.0}, None, STILL),
        ({}, 0.0, "nothing is queued"),
        ({"waiting": 3}, None, WAITS),
        ({"queued": 9, "limits": (PAGES, ITEMS), "pages": 2}, 440, AT_PAGES),
        (
            {"queued": 9, "limits": (PAGES, SECONDS), "pages": 2},
            40,
            "at most, by the limit of 100 s",
        ),
    ],
)
def test_time_left_is_estimated_or_its_absence_explained(seen, view, seconds, basis):
    left = time_left(seen(**view))

    assert (left.seconds, left.basis) == (seconds, basis)
    assert basis in one_line(seen(**view))


def test_a_crawl_that_is_over_has_no_time_left(seen):
    left = time_left(replace(seen(7), state="finished"))
    assert (left.seconds, left.basis) == (0.0, "the crawl is finished")
