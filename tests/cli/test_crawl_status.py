"""``frontier crawl status`` of crawls that are made: what it says, and how it ends."""

import json
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import warm

from frontier.cluster.shared_settings import crawl_settings
from frontier.queue.hosts import Record
from frontier.queue.reserve import Scan
from frontier.settings.config import Config
from frontier.status.back_offs import LeftAlone, together
from frontier.status.figures import Figures
from frontier.status.forecast import time_left
from frontier.status.sections import nodes, one_line, requests
from frontier.status.views import CrawlSnapshot, NodeView
from frontier.store.keys import CrawlKeys

ROOT = Path(__file__).parents[2]
HOSTILE = "evil\x1b[31m\u202ehost"
REPORT = {
    "opened": 1000.0,
    "seconds": 10.0,
    "pages": 50,
    "reclaimed": 24,
    "own": {"CLOSESPIDER_PAGECOUNT": "1000", "FRONTIER_HOST_MAX_PAGES": "10"},
    "statuses": {"200": 45, "503": 5},
    "error_kinds": {"timeout": 4, "http_5xx": 5},
    "host_errors": {"a.example": {"timeout": 4}, "b.example": {"http_5xx": 5}},
    "host_seconds": {"slow.example": [3, 12.0]},
    "memory_bytes": 950_000_000,
    "memory_limit_bytes": 1_000_000_000,
    "disk_free_bytes": 1_500_000_000,
    "disk_total_bytes": 100_000_000_000,
    "machine": "host-a",
    "pid": 77,
}


@pytest.fixture
def made(server, db, put_crawl, unique):
    """An open crawl with a node, a limit, queues and errors; how to name it."""
    keys = CrawlKeys(unique, "site-1")
    shape = json.dumps(crawl_settings(Config(partitions=16)))
    put_crawl(keys, shape=shape, created_ms=int(db("TIME")[0]) * 1000 - 60_000)
    beat = int(db("TIME")[0]) * 1000 + 100_000  # it lives as long as the test
    db("HSET", keys.nodes, "node-1", f"{beat} 1 0 abc")
    db("HSET", keys.reports, "node-1", json.dumps(REPORT))
    db("HSET", keys.spent, "pages", 620)
    part = keys.partition(3)
    db("ZADD", part.queues, 0, "5:a.example")
    db("RPUSH", part.ready("5:a.example"), *("x" * 30))
    db("HSET", part.counts, "ready", 30, "pushed", 100, "acked", 70)
    db("HSET", part.hosts, "a.example", Record(pages=7).packed())
    where = ("--redis-url", server.url, "--namespace", unique)
    return keys, ("crawl", "status", *where)


def test_status_shows_progress_errors_slow_hosts_and_lost_nodes(made, frontier, db):
    keys, command = made
    db("HSET", keys.meta, "twice", "1000 node-1")
    now = int(db("TIME")[0]) * 1000
    old = now - 3_700_000
    log = ("died 0 n-old", "died 0 n-8", "died 0 node-9", "removed 0 n-8")
    for epoch, what in enumerate(log):
        db("RPUSH", keys.membership, f"{epoch} {now if epoch else old} {what}")
    db("HSET", keys.partition(5).lease, "token", 9, "holder", "n-8")
    done = frontier(*command, "--hosts")

    said = " ".join(done.stdout.split())
    assert done.returncode == 0, done.stderr
    for line in (
        "pages 620 of 1,000 (62%)",
        "Time left unknown: no node has run for 30 s",
        "24 reservations taken back: no node had them any more",
        "45 x 200, 5 x 503",
        "Errors, by kind 5 answer 5xx, 4 time-out",
        "Errors, by host b.example 5, a.example 4",
        "Longest queues a.example 30",
        "Slowest hosts slow.example 4 s",
        "a.example has had 7 of 10 pages (70%)",
        "WARNING: node-1 has little memory left",
        "WARNING: node-1 has little disk left: 1.5 GB of 100.0 GB",
        "two processes had the id node-1",
        "process 77 on host-a",
        "FRONTIER_NODE_ID",
    ):
        assert line in said
    lost = "Lost lately: [^ ]+ [^ ]+ n-8 was removed [^;]+; [^;]+ node-9 is lost: [^;]+"
    assert re.search(rf"{lost}\. 16 partitions without a new holder", said)
    assert "n-old" not in said
    db("HSET", keys.nodes, "n" * 70, "1 1 0 abc")
    listed = frontier("crawl", "status", "--nodes", *command[2:])
    said = " ".join(listed.stdout.split())
    assert "\n" + "n" * 70 in listed.stdout
    assert "950.0 MB 1.5 GB" in said
    assert "host-a, process 77" in said
    assert "little memory left" in said


def test_a_narrow_terminal_breaks_no_fact_about_a_node(made, terminal):
    _, command = made

    _, said = terminal(*command, "--nodes", columns="60")
    assert re.search("node-1 +host-a, process 77", said)


@pytest.fixture
def watching(tmp_path, environment):
    """Start ``crawl status --watch``; it is gone when the test is."""
    started = []

    def start(*arguments):
        process = warm.Popen(
            [sys.executable, "-m", "frontier", *arguments, "--watch", "--every", "0.2"],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_a_watch_ends_with_the_code_of_the_crawl(made, watching, db):
    keys, command = made
    with watching(*command, "--json") as process:
        assert json.loads(process.stdout.readline())["state"] == "open"
        db("HSET", keys.meta, "state", "finished", "finished_ms", 10**13)
        rest, err = process.communicate()

    assert process.returncode == 1
    assert "has ended without one page" in err
    assert json.loads(rest.splitlines()[-1])["state"] == "finished"


def test_ctrl_c_ends_a_watch_with_0(made, watching):
    _, command = made
    with watching(*command) as process:
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()

    assert (process.returncode, err) == (0, "")


def test_on_a_terminal_it_is_drawn_and_ends_with_the_crawl(made, terminal, db):
    keys, command = made
    db("HSET", keys.meta, "state", "canceled", "finished_ms", 10**13)
    code, said = terminal(*command, "--watch", "--hosts")

    assert code == 0, said
    assert "Crawl site-1, spider site: canceled" in said
    assert "a.example" in said
    assert "Traceback" not in said


def test_names_of_hosts_and_machines_are_text_and_nothing_else(made, frontier, db):
    keys, command = made
    hostile = {"host_errors": {HOSTILE: {"dns": 9}}, "machine": HOSTILE}
    db("HSET", keys.reports, "node-1", json.dumps({**REPORT, **hostile}))
    for arguments in (command, ("crawl", "status", "--nodes", *command[2:])):
        done = frontier(*arguments)

        assert done.returncode == 0, done.stderr
        assert "\x1b" not in done.stdout
        assert "\u202e" not in done.stdout


def seen_of(nodes=(), limits=(), **queue):
    return CrawlSnapshot(
        crawl_id="site-1",
        spider="site",
        state="open",
        created_ms=1000,
        finished_ms=0,
        taken_ms=61_000,
        shape={},
        partitions=16,
        nodes=tuple(nodes),
        totals=Figures(),
        queue=Scan(**queue),
        dead_letters=(),
        limits=tuple(limits),
    )


def a_node(rate=5.0, state="live", **figures):
    return NodeView("n", state, 1, 16, 16, Figures(rate=rate, **figures))


def left_alone(*hosts):
    """A crawl of which only what is queued for *hosts* is left."""
    looks = [(Scan(ready=4, pushed=9), hosts), (Scan(pushed=7), ())]
    return replace(seen_of([a_node()], ready=4), back_offs=together(looks, 61_000))


GONE = LeftAlone("gone.example", "unconnected", 61_000 + 300_000, 1)
SLOW = LeftAlone("slow.example", "throttled", 61_000 + 6 * 3_600_000, 12)


def test_a_lost_node_has_the_pace_of_its_whole_run():
    (row,) = nodes(seen_of([a_node(state="lost")])).table
    assert row[1:3] == ["lost", "5.0"]


def test_requests_that_were_given_up_and_requeued_are_not_counted_as_not_sent():
    again = replace(seen_of(dead=1), totals=Figures(given_up=12))
    assert [row.text for row in requests(again, str)][1].startswith("1 not sent: ")
    (row,) = requests(replace(again, queue=Scan()), str)
    assert "0 given up" in row.text


def test_the_line_of_a_crawl_says_what_its_nodes_wait_for():
    line = one_line(seen_of([a_node(disk_full=True)]))
    assert " open, n waits: its archive, journal or items cannot" in line


def test_a_crawl_that_only_hosts_left_alone_hold_up_says_so():
    assert re.search(
        "4 requests to 2 hosts .* again in 5 min; frontier crawl exclude HOST",
        time_left(left_alone(GONE, SLOW)).basis,
    )
    for scan in (Scan(reserved=1), Scan(ready=2)):  # there is more to do
        looks = [(Scan(ready=4), (GONE,)), (scan, ())]
        more = replace(seen_of([a_node()], ready=6), back_offs=together(looks, 61_000))
        assert "left alone" not in time_left(more).basis
