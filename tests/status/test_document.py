"""The JSON form of what is known of crawls, and the schema that says what it is."""

import itertools
import json
import runpy
from dataclasses import fields
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from frontier.cluster.shared_settings import crawl_settings
from frontier.queue.hosts import Record
from frontier.queue.item import encode
from frontier.settings.config import Config
from frontier.status.document import (
    crawl_document,
    crawls_document,
    overview_document,
    schema,
    watch_document,
)
from frontier.status.figures import Figures
from frontier.status.overview import CrawlPace, OverviewWatch
from frontier.status.snapshot import list_crawls, snapshot
from frontier.status.watch import Watch
from frontier.store.keys import CollectionKeys, CrawlKeys, RegistryKeys
from tests.json_schema import check

ROOT = Path(__file__).parents[2]


def test_the_schema_is_what_the_values_are():
    made = runpy.run_path(str(ROOT / ".ci" / "status_schema.py"))["made"]()

    assert schema() == made, "run .venv/bin/python .ci/status_schema.py"
    Draft202012Validator.check_schema(schema())


@pytest.fixture
def keys(unique, db, put_crawl):
    """A crawl with something of everything."""
    keys = CrawlKeys(f"test-{unique}", "site-1")
    shape = json.dumps(crawl_settings(Config(partitions=4)))
    put_crawl(keys, shape=shape, paused="1000 me@here")
    now = int(db("TIME")[0]) * 1000
    db("HSET", keys.nodes, "a", f"{now} 1 0 p")
    report = {name.name: 1 for name in fields(Figures)} | {
        "host_errors": {"h": {"dns": 1}},
        "host_seconds": {"h": [1, 2.5]},
        "error_kinds": {"dns": 1},
        "statuses": {"200": 3},
        "own": {"CLOSESPIDER_PAGECOUNT": "10"},
        "holds": "0-3",
    }
    db("HSET", keys.reports, "a", json.dumps(report))
    db("HSET", keys.spent, "pages", 5)
    db("HSET", keys.controls, "exclude host h2", "1000 me@here\nyes")
    db("RPUSH", keys.control_log, "1 1000 paused me@here\n")
    db("RPUSH", keys.membership, "1 1000 joined 1 a")
    part = keys.partition(1)
    db("HSET", part.lease, "token", 1, "holder", "a")
    db("HSET", part.counts, "ready", 2, "dead", 1, "waiting", 1)
    db("ZADD", part.queues, 0, "0:h")
    db("RPUSH", part.ready("0:h"), "x", "x")
    item = encode({"url": "http://h/it's;$(x)"}, "0:h")
    db("RPUSH", part.dead, b"no callback\n0:h\n" + item)
    db("ZADD", part.due, now, str(now))
    db("RPUSH", part.waiting(str(now)), b"0:h\n" + item)
    failing = Record(until=now / 1000 + 9, failures=2, reason="throttled")
    db("HSET", part.hosts, "h", failing.packed())
    db("HSET", part.seen, "buckets", 1, "count", 5)
    db("HSET", keys.partition(2).counts, "ready", "bad")
    db("ZADD", keys.sites, now + 5_000, "news", "inf", "old")
    db("HSET", keys.site("news"), "state", "waiting", "round", 3, "items", 9)
    return keys


def test_crawl_and_crawls_documents_match_the_schema(keys, blocking):
    store = blocking()

    check("crawl", crawl_document(snapshot(store, keys.namespace, keys.crawl_id)))
    check("crawls", crawls_document(list_crawls(store, keys.namespace)))


def test_watch_document_matches_the_schema(keys, blocking, db):
    times = itertools.count(0.0, 60.0)
    watch = Watch(blocking(), keys.namespace, keys.crawl_id, clock=lambda: next(times))
    watch.look()
    db("HSET", keys.partition(1).lease, "holder", "b")

    found = watch_document(watch.look())

    check("watched", found)
    for name in ("nodes", "dead_letters", "limits", "harmed", "hosts"):
        assert found[name], name
    (event,) = found["membership"]
    assert event["node_id"] == "a"
    for name in ("tiers", "recrawl", "feeds"):
        assert found[name] is not None, name
    assert found["recrawl"]["waiting"] == 1
    assert [site["name"] for site in found["feeds"]["named"]] == ["news", "old"]
    assert found["feeds"]["resting"] == 1
    assert found["controls"]["excluded"][0]["value"] == "h2"
    command = found["dead_letters"][0]["command"]
    assert command == (
        "frontier crawl requeue --crawl site-1 'http://h/it'\"'\"'s;$(x)'"
    )


@pytest.mark.one_server("collections of a cluster have other names")
def test_an_overview_has_the_collections_that_crawls_joined(keys, blocking, db, unique):
    store, name = blocking(), f"c-{unique}"
    db("SADD", RegistryKeys(keys.namespace).collections, name, f"{name}-bad")
    within = CollectionKeys(name)
    db("HSET", within.alldupes, "d1", "x", "d2", "x")
    db("SADD", within.committed, "one")
    db("HSET", within.allcounts, "totalUrls", 7, "dupeUrls", 2, "conservedSize", 99)
    db("SET", CollectionKeys(f"{name}-bad").alldupes, "no hash")

    found = OverviewWatch(store, keys.namespace).look()

    check("overview", overview_document(found))
    sizes = {one.name: one for one in found.collections}
    good = sizes[name]
    assert (good.digests, good.committed, good.urls, good.revisits) == (2, 1, 7, 2)
    assert (good.conserved_bytes, good.damaged) == (99, False)
    assert sizes[f"{name}-bad"].damaged
    assert [crawl.crawl_id for crawl in found.crawls] == ["site-1"]


def test_an_overview_has_the_pace_of_crawls_and_none_waits_for_ever(
    keys, blocking, db, put_crawl, monkeypatch
):
    monkeypatch.setattr("frontier.status.overview.AT_ONCE", 1)
    (shape,) = db("HMGET", keys.meta, "shape")
    for name in ("site-2", "site-3"):
        other = CrawlKeys(keys.namespace, name)
        put_crawl(other, shape=shape)
        db("HSET", other.nodes, "a", "1 1 0 p")
        lately = {
            "pages": 70,
            "errors": 2,
            "lately": {"pages": 0.5},
            "lately_seconds": 60,
        }
        ran = {"seconds": 7.0, "opened": 5.0}
        db("HSET", other.reports, "a", json.dumps({**lately, **ran}))
    db("HSET", CrawlKeys(keys.namespace, "site-3").meta, "state", "finished")
    now = itertools.count(0, 60)
    watch = OverviewWatch(blocking(), keys.namespace, clock=lambda: next(now))

    found = [watch.look() for _ in range(4)][-1]

    assert found.paces["site-2"] == CrawlPace(70, 0.5, 2)
    assert found.paces["site-3"] == CrawlPace(70, 10.0, 2)
    assert "site-1" in found.paces
    check("overview", overview_document(found))
