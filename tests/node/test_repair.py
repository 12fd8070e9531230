"""What a repair makes of the counts of a partition: kept, or said to start at 0."""

import json

import pytest

from frontier.cli.output import ExitCode
from frontier.cluster import crawls
from frontier.cluster.shared_settings import crawl_settings
from frontier.node.repair import Repair
from frontier.queue.reserve import Scan, scan_call
from frontier.settings.config import Config
from frontier.store.keys import CrawlKeys
from tests.harness import commands

CONFIG = Config.from_settings({"FRONTIER_PARTITIONS": 2})
BORN = "0123456789abcdef"
COUNTS = {"born": BORN, "ready": 1, "pushed": 10, "acked": 5, "dead": 1, "skipped": 3}
"""Ten were queued: one waits, one was given up, three skipped, five are done."""


class Damaged:
    """A crawl of which one partition's counts are damaged."""

    def __init__(self, store, db, server, namespace):
        self.store, self.db, self.server = store, db, server
        self.keys = CrawlKeys(namespace, "site-1", BORN)
        self.part = self.keys.partition(0)
        shape = json.dumps(dict(crawl_settings(CONFIG)))
        store.call(crawls.open_call(self.keys, shape, "site"))
        db("RPUSH", self.part.ready("0:a"), b"0item")
        db("ZADD", self.part.queues, 0, "0:a")
        db("RPUSH", self.part.dead, b"why\n0:a\n0item")

    def repair(self, **counts):
        self.db("HSET", self.part.counts, *sum({**COUNTS, **counts}.items(), ()))
        return self.run()

    def run(self):
        words = [
            "crawl",
            "repair",
            "--crawl=site-1",
            f"--namespace={self.keys.namespace}",
        ]
        words += ["--redis-url", self.server.url, "--json"]
        return commands.run(*words)

    def scan(self):
        return Scan(*self.store.call(scan_call(self.part))[2:])


@pytest.fixture
def damaged(blocking, db, server, unique):
    return Damaged(blocking(), db, server, unique)


def test_repair_reports_progress_per_partition(damaged):
    told = []
    names = (damaged.store, damaged.keys.namespace, "site-1")
    Repair(*names).run(progress=told.append)

    assert told == [1, 2]


@pytest.mark.parametrize("field", ["ready", "pushed", "acked", "dead", "skipped"])
def test_one_damaged_count_is_computed_from_the_others(damaged, field):
    done = damaged.repair(**{field: "abc"})

    assert done.returncode == ExitCode.OK, done.stderr
    said = json.loads(done.stdout)
    assert said["lost"] == []
    assert [key for key, _ in said["removed"]] == ["0:counts"]
    scan = damaged.scan()
    found = (scan.ready, scan.pushed, scan.acked, scan.dead, scan.skipped)
    assert found == (1, 10, 5, 1, 3)


@pytest.mark.parametrize(
    ("counts", "left"),
    [
        ({"pushed": "abc", "acked": "abc"}, (5, 0, 3)),
        ({"acked": "abc", "skipped": "abc"}, (10, 8, 0)),
        ({"pushed": "abc", "skipped": "abc"}, (7, 5, 0)),
    ],
)
def test_two_damaged_counts_are_reset_and_reported(damaged, counts, left):
    done = damaged.repair(**counts)

    assert done.returncode == ExitCode.INCOMPLETE
    said = json.loads(done.stdout)
    (line,) = said["lost"]
    assert line in done.stderr.replace("\n", " ")
    assert line.startswith(
        "partition 0: how many of its requests were done is not known"
    )
    scan = damaged.scan()
    assert (scan.pushed, scan.acked, scan.skipped) == left


def test_a_count_that_is_wrong_is_named(damaged):
    done = damaged.repair(ready=7)

    assert done.returncode == ExitCode.OK, done.stderr
    found = json.loads(done.stdout)["removed"]
    assert found == [["0:counts", "its ready was 7, is 1"]]


def test_a_hash_with_a_value_that_cannot_be_read_is_removed(damaged):
    damaged.db("HSET", damaged.part.hosts, "a.example", "no record")
    done = damaged.repair()

    ((_, reason),) = json.loads(done.stdout)["removed"]
    assert "b'no record' is no value of it" in reason
    assert not damaged.db("EXISTS", damaged.part.hosts)


@pytest.mark.parametrize(("field", "value"), [("born", "f" * 16), ("pushed", "abc")])
def test_damaged_counts_of_a_partition_with_nothing_else_are_found(
    damaged, field, value
):
    name = damaged.keys.partition(1).counts
    damaged.db("HSET", name, "born", BORN, field, value)
    damaged.run()

    assert damaged.db("HGET", name, "born") == BORN.encode()
    assert damaged.db("HGET", name, field) != value.encode()


def test_counts_key_of_another_type_is_reset_and_reported(damaged, db):
    db("SET", damaged.part.counts, "abc")
    done = damaged.run()

    assert done.returncode == ExitCode.INCOMPLETE
    said = json.loads(done.stdout)
    assert [key for key, _ in said["removed"]] == ["0:counts"]
    assert len(said["lost"]) == 1
    assert (damaged.scan().pushed, damaged.scan().ready) == (2, 1)


def test_a_layout_that_cannot_be_read_has_what_was_seen_forgotten(damaged):
    part = damaged.part
    damaged.db("SADD", part.bucket(0, 0), 2**62)
    damaged.db("SETBIT", part.bloom(0), 7, 1)
    damaged.db("HSET", part.seen, "buckets", "abc")
    done = damaged.repair()

    assert done.returncode == ExitCode.INCOMPLETE
    (line,) = json.loads(done.stdout)["lost"]
    assert line.startswith("partition 0: the layout of what was seen cannot be read")
    assert not damaged.db("EXISTS", part.seen, part.bucket(0, 0), part.bloom(0))
    assert damaged.scan().ready == 1


def test_a_seen_set_of_another_type_is_removed_and_the_other_keys_stay(damaged):
    damaged.db("HSET", damaged.part.seen, "buckets", 1, "count", 3, "era", 0)
    damaged.db("SET", damaged.part.bucket(0, 0), "abc")
    done = damaged.repair(ready="abc")

    removed, counts = json.loads(done.stdout)["removed"]
    assert (removed[0], counts[0]) == ("0:set:0:0", "0:counts")
    assert removed[1].endswith("its URLs are new again, and may be fetched twice")
    assert damaged.db("EXISTS", damaged.part.bucket(0, 0)) == 0
    assert damaged.scan().ready == 1


def test_damaged_waiting_count_and_buckets_are_restored(damaged):
    part = damaged.part
    damaged.db("RPUSH", part.waiting("5000"), "0:a\n0one", "0:a\n0two")
    damaged.db("RPUSH", part.waiting("9000"), "7:b\n0three", b"garbage", "x\n0y")
    damaged.db("SET", part.waiting("7000"), "x")
    damaged.db("ZADD", part.due, 1, "5000", 2, "of nothing")
    done = damaged.repair(waiting="abc")

    said = json.loads(done.stdout)
    assert said["waiting"] == 3
    assert [line.partition(": ")[2] for line in said["lost"]] == [
        "waiting:7000: its URLs are lost",
        "waiting:9000 had 2 entries that are not URLs of queues",
    ]
    assert damaged.scan().waiting == 3
    assert damaged.db("ZRANGE", part.due, 0, -1) == [b"5000", b"9000"]
    assert damaged.db("LRANGE", part.waiting("9000"), 0, -1) == [b"7:b\n0three"]


def test_without_its_buckets_what_waits_is_found_by_its_lists(damaged):
    damaged.db("RPUSH", damaged.part.waiting("5000"), "0:a\n0one")
    damaged.db("SET", damaged.part.due, "x")
    done = damaged.repair()

    assert json.loads(done.stdout)["lost"] == []
    scan = damaged.scan()
    assert (scan.waiting, scan.due) == (1, 5000)
