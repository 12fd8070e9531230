"""Keys of the store that somebody else has written: nodes stop, and name them.

``make chaos`` tries some keys that outlive a crawl, ``make damage`` all of them.
"""

import itertools
import json
import os
import random
import re

import pytest
from conftest import DEADLINE, HELD, after, until

from frontier.store.client import Call
from frontier.store.keys import CollectionKeys, CrawlKeys, RegistryKeys

SETTINGS = {
    "FRONTIER_LEASE_TTL": "4",
    "CONCURRENT_REQUESTS": "4",
    "FRONTIER_PARTITIONS": "16",
}
"""Few partitions, of which most have a host; leases that end while a test waits."""


def served(site, count):
    return lambda: len(site.answered) >= count


@pytest.fixture
def crawling(cluster, serve):
    """Begin a crawl with two nodes, and return its site and what starts a node.

    The site waits after some pages until it is told to go on.
    """

    def crawling(pages=40, **settings):
        site = serve(
            urls=300, hosts=8, calendar_months=6, delay=HELD, until=after(pages)
        )
        seeds = ",".join(site.seeds)

        def start(*node_ids):
            for node_id in node_ids:
                chosen = {**SETTINGS, **settings}
                cluster.start(node_id, "-a", f"seeds={seeds}", **chosen)

        start("node-1", "node-2")
        cluster.join()
        site.delay = 0.03
        until(served(site, pages), "some pages")
        return site, start

    return crawling


def keys_of(cluster):
    """The keys of the crawl, and of a partition in which much is ready."""
    keys = CrawlKeys("frontier", "site-1")

    def fullest():
        names = [keys.partition(n).counts for n in range(16)]
        calls = [Call.command("HGET", name, "ready") for name in names]
        ready = [int(count or 0) for count in cluster.store.run(calls)]
        return (ready.index(max(ready)),) if max(ready) > 5 else None

    (number,) = until(fullest, "a partition with URLs")
    return keys, number


def mended(cluster):
    return cluster.ask("crawl", "repair", "--crawl", "site-1")


def test_a_damaged_key_stops_all_nodes_and_the_crawl_is_whole_after_its_repair(
    crawling, cluster
):
    """All keys are tried by `tests/node/test_damage.py`."""
    site, start = crawling()
    keys, number = keys_of(cluster)
    name = keys.partition(number).counts
    cluster.db("HSET", name, "ready", "abc")
    site.go_on()
    assert cluster.wait() == [7, 7]
    for node in cluster.nodes:
        text = cluster.text_of(node)
        assert f"the key {name} " in text, text[-3000:]
        assert "frontier crawl repair --crawl site-1" in text
        assert not re.search(r"\[frontier\.[^\n]*\nTraceback", text), text[-3000:]
    status = cluster.ask("crawl", "status", "--crawl", "site-1", "--json")
    assert status.returncode == 7
    assert json.loads(status.stdout)["harmed"][0]["key"] == "counts"
    done = mended(cluster)
    assert done.returncode == 0, done.stderr
    nodes = ("node-3", "node-4")
    start(*nodes)

    cluster.finish(*nodes)
    seen = cluster.shown("crawl", "status", "--crawl", "site-1")
    assert seen["queue"]["dead"] == 0  # a page is not to blame
    assert site.requests().missing(site.expected) == set()


def test_a_repair_refuses_while_a_node_lives_and_crawl_run_ends_faulty(
    cluster, serve, tmp_path
):
    site = serve(urls=120, hosts=4, calendar_months=2, delay=0.03, until=after(20))
    (tmp_path / "seeds").write_text("\n".join(site.seeds))
    words = ["crawl", "run", "--nodes", "1", "--seeds", str(tmp_path / "seeds")]
    words += ["--warc-dir", str(tmp_path / "w")]
    given = {**SETTINGS, "DOWNLOAD_DELAY": "0", "CONCURRENT_REQUESTS_PER_DOMAIN": "8"}
    words += [f"-s{name}={value}" for name, value in given.items()]
    running = cluster.command(*words, cwd=tmp_path)
    until(served(site, 20), "some pages")
    keys, number = keys_of(cluster)
    refused = mended(cluster)
    assert refused.returncode == 5
    assert "are alive: " in refused.stderr
    counts = keys.partition(number).counts
    cluster.db("HSET", counts, "ready", "abc")
    site.go_on()
    _, err = running.communicate(timeout=DEADLINE)

    assert running.returncode == 7, err
    assert "Traceback" not in err
    assert "frontier crawl repair --crawl site-1" in err
    assert mended(cluster).returncode == 0
    running = cluster.command(*words, cwd=tmp_path)
    _, err = running.communicate(timeout=DEADLINE)
    assert running.returncode == 0, err
    assert site.requests().missing(site.expected) == set()


def named(cls, *, tagged=False):
    """The keys of *cls* that a crawl may have, by the names of what names them."""
    arguments = {
        "spider": ["site"],
        "crawl": ["site-1"],
        "counts": ["site-1"],
        "waczs": ["site-1"],
        "commit_rounds": ["site-1"],
        "shadow": ["alldupes"],
    }
    keys = cls("frontier") if cls is RegistryKeys else cls("", tagged)
    found = {}
    for what in vars(cls):
        if what.startswith("_") or what in {*cls.__dataclass_fields__, "prefix"}:
            continue
        key = getattr(keys, what)
        found[what] = key if isinstance(key, str) else key(*arguments.get(what, []))
    return found


OUTLIVING = [*named(RegistryKeys), *named(CollectionKeys)]
EVERY = list(itertools.product(OUTLIVING, ["another type", "a value"]))
MOST = len(EVERY) if os.environ.get("DAMAGE") == "all" else 12
SOME = random.Random(7).sample(EVERY, MOST)


@pytest.mark.chaos
@pytest.mark.parametrize(("what", "kind"), SOME)
def test_damaged_key_outliving_crawls_is_reported_and_hides_no_loss(
    crawling, cluster, what, kind
):
    site, _ = crawling(FRONTIER_COMMIT_EVERY=1)
    names = named(RegistryKeys) | named(CollectionKeys, tagged=not cluster.store.alone)
    name = names[what]
    found = cluster.db("TYPE", name)
    if kind == "another type" or found == b"none":
        cluster.db("DEL", name)
        word = ("RPUSH", name, "x") if found == b"string" else ("SET", name, "x")
        cluster.db(*word)
    else:
        write = {b"hash": ("HSET", "x"), b"set": ("SADD",), b"string": ("SET",)}
        word, *field = write.get(found, ("RPUSH",))
        cluster.db(word, name, *field, b"\xff\xfe 9")
    site.go_on()

    codes = cluster.wait()
    texts = [cluster.text_of(node) for node in ("node-1", "node-2")]
    for text in texts:  # Scrapy's own tell of each request that was under way
        assert not re.search(r"\[frontier\.[^\n]*\nTraceback", text), text[-3000:]
    missing = site.requests().missing(site.expected)
    # A commit renames the counts of a round, damaged or not.
    named_key = re.escape(name).replace(r"site\-1", r"site\-1(~[0-9]+)?")
    for code, text in zip(codes, texts, strict=True):
        assert code in {0, 1, 7}
        assert code == 0 or re.search(f"the key {named_key} ", text), text[-3000:]
    assert not missing or {1, 7} & set(codes)
