import io
import json
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from frontier.cli.report import WarcFiles, crawl_report as report
from frontier.errors import CodecError, UnknownCrawl
from frontier.queue.item import encode
from frontier.queue.reserve import Scan
from frontier.status.figures import (
    ArchiveFigures,
    Figures,
    HostSeconds,
    Pace,
    SeenFigures,
)
from frontier.status.snapshot import (
    crawl_entered,
    list_crawls,
    newest_crawl,
    snapshot,
)
from frontier.status.views import LimitProgress
from frontier.status.watch import Watch
from frontier.store.keys import CrawlKeys

REPORT = {
    "opened": 1000.0,
    "seconds": 10.0,
    "pages": 50,
    "requests": 60,
    "bytes": 7000,
    "new": 40,
    "seen": {"recent": 3, "bloom": 2, "set": 1},
    "archive": {"originals": 30, "revisits": 10, "revisit_bytes": 500},
    "host_seconds": {"h": [4, 2.5], "bad": [1], "worse": "x"},
    "host_errors": ["no mapping"],
}


@pytest.fixture
def crawl(unique):
    """The keys of a crawl in a namespace that no other test has."""
    return CrawlKeys(f"test-{unique}", "site-1")


@pytest.fixture
def look(blocking):
    store = blocking()
    return lambda keys: snapshot(store, keys.namespace, keys.crawl_id)


@pytest.fixture
def printed(blocking):
    """The report of a crawl that has these files."""
    store = blocking()

    def printed(keys, *files):
        console = Console(width=200, file=io.StringIO())
        watched = Watch(store, keys.namespace, keys.crawl_id).look()
        console.print(*report(watched, WarcFiles(Path("warcs"), files)), sep="\n")
        return console.file.getvalue()

    return printed


@pytest.fixture
def create(put_crawl):
    """Make a crawl of 300 partitions."""
    shape = '{"FRONTIER_PARTITIONS": 300}'
    return partial(put_crawl, created_ms=1000, shape=shape)


@pytest.fixture
def join(db):
    """Put a node on the membership map, as of now or of *ago* seconds before."""

    def join(keys, node_id, report=None, ago=0, weight=1, own=""):
        beat = int(db("TIME")[0]) * 1000 - ago * 1000
        db("HSET", keys.nodes, node_id, f"{beat} {weight} 0{own}")
        if report is not None:
            db("HSET", keys.reports, node_id, json.dumps(report))

    return join


def test_a_crawl_that_does_not_exist_is_unknown(crawl, look, blocking):
    with pytest.raises(UnknownCrawl, match="site-1"):
        look(crawl)
    with pytest.raises(UnknownCrawl):
        newest_crawl(blocking(), crawl.namespace)
    assert list_crawls(blocking(), crawl.namespace) == []


def test_the_newest_crawl_comes_first_and_a_damaged_one_last(
    crawl, create, db, blocking
):
    second = CrawlKeys(crawl.namespace, "site-2")
    create(crawl, created_ms=5)
    create(second, created_ms=7)
    create(CrawlKeys(crawl.namespace, "site-3"), created_ms=6)
    listed = [("site-2", "open"), ("site-3", "open"), ("site-1", "open")]
    for newest in ("site-2", "site-3"):
        found = list_crawls(blocking(), crawl.namespace)
        assert [(c.crawl_id, c.state) for c in found] == listed
        assert newest_crawl(blocking(), crawl.namespace) == newest
        db("DEL", second.meta)
        db("SET", second.meta, "junk")
        listed = [*listed[1:], ("site-2", "damaged")]


def test_newest_crawl_is_a_dupefilter_only_if_there_is_no_other(
    crawl, create, blocking, look
):
    alone = CrawlKeys(crawl.namespace, "alone")
    shape = '{"FRONTIER_PARTITIONS": 4, "FRONTIER_QUEUE_KEY": "fingerprint"}'
    create(alone, created_ms=9, shape=shape)

    assert newest_crawl(blocking(), crawl.namespace) == "alone"
    assert look(alone).kind == "dupefilter"

    create(crawl, created_ms=5)

    assert newest_crawl(blocking(), crawl.namespace) == "site-1"
    found = list_crawls(blocking(), crawl.namespace)
    assert [c.kind for c in found] == ["dupefilter", "crawl"]


def test_only_live_nodes_own_partitions_and_node_states_are_reported(
    crawl, create, join, look, db
):
    create(crawl)
    join(crawl, "node-1", REPORT)
    join(crawl, "node-10", REPORT, weight=2)
    join(crawl, "node-2", REPORT, ago=60)
    db("HSET", crawl.reports, "node-3", json.dumps({**REPORT, "left": True}))
    db("HSET", crawl.reports, "node-4", json.dumps(REPORT))
    for partition in (0, 299):
        db("HSET", crawl.partition(partition).lease, "token", 1, "holder", "node-1")

    seen = look(crawl)

    states = {node.node_id: (node.state, node.weight) for node in seen.nodes}
    assert list(states.items()) == [
        ("node-1", ("live", 1)),
        ("node-2", ("silent", 1)),
        ("node-3", ("left", 0)),
        ("node-4", ("lost", 0)),
        ("node-10", ("live", 2)),
    ]
    owned = [node.owned for node in seen.nodes]
    assert sum(owned) == seen.partitions == 300
    assert owned[1:4] == [0] * 3
    assert owned[4] > owned[0] > 0
    assert [node.held for node in seen.nodes] == [2, 0, 0, 0, 0]


def test_reports_are_read_and_added_up(crawl, create, join, look):
    create(crawl)
    join(crawl, "a", REPORT)
    join(crawl, "b", {**REPORT, "opened": 1010.0})

    seen = look(crawl)

    assert seen.nodes[0].figures == Figures(
        pages=50,
        requests=60,
        bytes=7000,
        new=40,
        opened=1000.0,
        seconds=10.0,
        rate=5.0,
        seen=SeenFigures(3, 2, 1),
        archive=ArchiveFigures(originals=30, revisits=10, revisit_bytes=500),
        host_seconds={"h": HostSeconds(4, 2.5)},
    )
    assert seen.totals.host_seconds == {"h": HostSeconds(8, 5.0)}
    assert (seen.totals.pages, seen.totals.seconds, seen.totals.rate) == (100, 20.0, 5)
    assert seen.totals.seen == SeenFigures(6, 4, 2)
    assert seen.totals.archive.revisits == 20


NOW = {
    "memory_bytes": 1_000,
    "memory_limit_bytes": 4_000,
    "disk_free_bytes": 5,
    "disk_total_bytes": 9,
    "cpu_seconds": 1.5,
    "in_flight": 3,
    "inbox": 7,
    "lag_ms": 12,
    "machine": "m1",
    "pid": 77,
    "metrics_port": 9100,
    "metrics_host": "127.0.0.1",
    "holds": "0-41,77",
    "error_kinds": {"dns": 2, "tls": 1},
    "host_errors": {"a": {"dns": 2}, "b": {"tls": 1}},
    "host_seconds": {"a": [2, 3.0], "b": [1, 9.5]},
}


def test_current_totals_add_up_member_nodes_only(crawl, create, join, look, db):
    create(crawl)
    node = {**REPORT, **NOW, "lately": {"pages": 1.5}, "lately_seconds": 60.0}
    join(crawl, "a", node)
    join(crawl, "b", {**node, "host_seconds": {"a": [3, 3.0]}}, ago=60)
    db("HSET", crawl.reports, "gone", json.dumps({**node, "left": True}))

    seen = look(crawl)

    figures = seen.nodes[0].figures
    told = {name: getattr(figures, name) for name in NOW}
    assert told == {
        **NOW,
        "host_seconds": {"a": HostSeconds(2, 3.0), "b": HostSeconds(1, 9.5)},
    }
    totals = seen.totals
    assert (figures.lately.pages, totals.lately.pages) == (1.5, 3.0)
    assert totals.lately_seconds == 60.0
    assert (totals.memory_bytes, totals.in_flight, totals.inbox) == (2_000, 6, 14)
    assert (totals.memory_limit_bytes, totals.lag_ms, totals.pid) == (0, 0, 0)
    assert totals.cpu_seconds == 4.5
    assert totals.error_kinds == {"dns": 6, "tls": 3}
    assert totals.host_errors == {"a": {"dns": 6}, "b": {"tls": 3}}
    assert list(totals.host_seconds.items()) == [
        ("b", HostSeconds(2, 19.0)),
        ("a", HostSeconds(7, 9.0)),
    ]
    assert totals.host_seconds["b"].mean == 9.5


def test_invalid_figures_of_a_node_report_are_sanitised(crawl, create, join, look):
    create(crawl)
    wrong = {
        "memory_bytes": -1,
        "cpu_seconds": 10**400,
        "machine": "m\x1b" + "x" * 5000,
        "metrics_port": 70_000,
        "metrics_host": "a b",
        "lately": {"pages": -9},
        "lately_seconds": "x",
        "holds": "0-41;77",
        "error_kinds": {"dns": 1e400, "made up": 7, "tls": True},
        "host_errors": {"h\x1b": {"dns": 3, "x": 1}, "a": 3, "b": {"x": 1}},
        "host_seconds": {"b": [1], "c": "x", "d": [1, -1]},
    }
    join(crawl, "a", {**REPORT, **wrong})
    many = {f"h{n}": {"dns": 1} for n in range(1_000)}
    join(crawl, "b", {**REPORT, "host_errors": many, "holds": "1," * 3000})

    a, b = (node.figures for node in look(crawl).nodes)

    assert (a.memory_bytes, a.cpu_seconds, a.metrics_port) == (0, 0.0, 0)
    assert (a.metrics_host, a.lately) == ("", Pace())
    assert (a.holds, len(a.machine)) == ("", 255)
    assert a.error_kinds == {"dns": 0, "tls": 0}
    assert a.host_errors == {"h\ufffd": {"dns": 3}}
    assert a.host_seconds == {"d": HostSeconds(1, 0.0)}
    assert (len(b.host_errors), b.holds) == (200, "")


def test_the_queue_is_the_sum_of_all_partitions(crawl, create, look, printed, db):
    create(crawl)
    for partition in (0, 127, 128, 299):
        keys = crawl.partition(partition)
        db("HSET", keys.counts, "ready", 1, "pushed", 5, "acked", 2, "dead", 1)
        db("HSET", keys.counts, "skipped", 3)
        db("HSET", keys.reserved, "1", "x")
        db("HSET", keys.seen, "count", 5)

    seen = look(crawl)
    assert seen.queue == Scan(4, 4, 20, 8, 4, 20, 12)
    said = printed(crawl)
    assert "12 not fetched: their host had its quota" in said
    for word in ("Limits", "Errors, by", "Memory", "Disk"):  # of which nothing is known
        assert word not in said
    assert said.count("WARNING") == said.count("WARNING: No node is live") == 1


def test_the_first_dead_letters_are_shown(crawl, create, look, db):
    create(crawl)
    item = encode({"url": "http://h/\x1b[31m"}, "0:h")
    for partition in range(8):
        keys = crawl.partition(partition)
        db("HSET", keys.counts, "dead", 1)
        value = item if partition else b"\xff not an item"
        db("RPUSH", keys.dead, b"no callback\n0:h\n" + value)

    letters = look(crawl).dead_letters

    assert len(letters) == 5
    assert {letter.reason for letter in letters} == {"no callback"}
    assert [letter.url for letter in letters][:2] == ["", "http://h/\ufffd[31m"]


@pytest.mark.parametrize(
    "report",
    [b"", b"\xff", b"[1]", b"[" * 60_000, b'{"pages": 1}' + b" " * 70_000],
)
def test_reports_that_cannot_be_read_and_impossible_names_are_skipped(
    crawl, create, join, look, db, report
):
    create(crawl)
    join(crawl, "good", REPORT)
    join(crawl, "bad")
    db("HSET", crawl.reports, "bad", report, "../x", '{"pages": 1}')
    db("HSET", crawl.nodes, "\x1b[2J", "1 1 0", "short", "1", "odd", "x y z")

    seen = look(crawl)

    states = [(node.node_id, node.state) for node in seen.nodes]
    assert states == [("bad", "live"), ("good", "live"), ("odd", "silent")]
    assert seen.nodes[0].figures is None
    assert seen.totals.pages == 50


@pytest.mark.parametrize("shape", ["", "{}", "[]", '{"FRONTIER_PARTITIONS": 99999}'])
def test_a_crawl_without_partitions_is_an_error_that_names_it(
    crawl, create, look, shape
):
    create(crawl, shape=shape)

    with pytest.raises(CodecError, match="site-1"):
        look(crawl)


def test_the_crawl_that_a_node_has_entered_is_found(crawl, create, join, blocking):
    create(crawl)
    join(crawl, "node-1", REPORT)
    store = blocking()

    def entered(spider, node_id, since):
        return crawl_entered(store, crawl.namespace, spider, [node_id], since)

    assert entered("site", "node-1", 999.0) == "site-1"
    assert entered("site", "node-1", 1001.0) is None
    assert entered("site", "node-2", 999.0) is None
    assert entered("other", "node-1", 999.0) is None


def test_limits_are_shown_with_how_far_the_crawl_is(crawl, create, join, look, db):
    create(crawl)
    own = {"CLOSESPIDER_PAGECOUNT": "1000", "CLOSESPIDER_TIMEOUT": "60.0"}
    join(crawl, "a", {**REPORT, "own": {"CLOSESPIDER_PAGECOUNT": "5"}})
    join(crawl, "b", {**REPORT, "opened": 1010.0, "own": own})
    assert look(crawl).limits == ()

    db("HSET", crawl.spent, "pages", 250, "active_ms", 90_000, "bytes", 7)
    db("HSET", crawl.controls, "set FRONTIER_CRAWL_MAX_BYTES", "1000 me\n70")

    assert look(crawl).limits == (
        LimitProgress("pages", "CLOSESPIDER_PAGECOUNT", 250, 1000, 0.25),
        LimitProgress("bytes", "FRONTIER_CRAWL_MAX_BYTES", 7, 70, 0.1),
        LimitProgress("time", "CLOSESPIDER_TIMEOUT", 90_000, 60_000, 1.0),
    )


def test_a_report_says_how_files_of_killed_nodes_are_closed(crawl, create, printed, db):
    create(crawl)
    names = (("site-1-a.warc.gz", 900), ("site-1-b.warc.gz.open", 200))
    line = "left open by nodes that were killed: frontier warc repair warcs closes them"

    assert line not in printed(crawl, *names)
    db("HSET", crawl.meta, "state", "finished")
    assert line in printed(crawl, *names)


def test_the_lease_of_its_nodes_says_who_is_silent(
    crawl, create, look, join, db, printed
):
    create(crawl)
    join(crawl, "a", ago=20)
    assert "the others take" not in printed(crawl)
    join(crawl, "b", ago=20, own=" process 1 60000")
    assert [node.state for node in look(crawl).nodes] == ["silent", "live"]
    assert "a is silent: the others take its partitions" in printed(crawl)

    db("HSET", crawl.meta, "state", "finished")
    assert [node.state for node in look(crawl).nodes] == ["silent", "leaving"]
