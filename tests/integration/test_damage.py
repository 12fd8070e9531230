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


def damage(store, name, kind):
    """Have the key *name* be of another type, or the field *kind* of it no number."""
    if kind == "type":
        store.run([Call.command("DEL", name), Call.command("SET", name, "x")])
    elif kind == "list":
        store.run([Call.command("DEL", name), Call.command("RPUSH", name, "x")])
    elif kind == "text":
        store.call(Call.command("SET", name, "abc"))
    else:
        value = "1 x\nyes" if kind.startswith("exclude") else "abc"
        store.call(Call.command("HSET", name, kind, value))


KINDS = {
    "counts": "ready",
    "nodes": "type",
    "controls": r"exclude pattern (a)\1",
}
"""Keys of a partition, or of the crawl, and what becomes of them. Nothing is lost with
any of these. All keys are tried by `tests/node/test_damage.py`."""


def mended(cluster):
    return cluster.ask("crawl", "repair", "--crawl", "site-1")


@pytest.mark.parametrize(
    "kinds", [("counts",), pytest.param(tuple(KINDS), marks=pytest.mark.long)]
)
def test_a_damaged_key_stops_all_nodes_and_the_crawl_is_whole_after_its_repair(
    crawling, cluster, kinds
):
    """One crawl for all kinds: each stops both nodes, and two others go on."""
    site, start = crawling()
    keys, _ = keys_of(cluster)
    nodes = ["node-1", "node-2"]
    for turn, what in enumerate(kinds):
        kind = KINDS[what]
        if hasattr(CrawlKeys, what):
            name = getattr(keys, what)
        else:
            name = getattr(keys.partition(keys_of(cluster)[1]), what)
        damage(cluster.store, name, kind)
        if what == "controls":  # nodes read it when it is changed
            cluster.db("HSET", keys.meta, "controls", "999")
        site.go_on()
        codes = [cluster.wait(node) for node in nodes]
        for node in nodes:
            text = cluster.text_of(node)
            assert f"the key {name} " in text, (name, text[-3000:])
            assert "frontier crawl repair --crawl site-1" in text
            assert "exclude" not in kind or repr(kind) in text  # it never matches none
            assert not re.search(r"\[frontier\.[^\n]*\nTraceback", text), text[-3000:]
        assert codes == [[7], [7]], (name, codes)
        status = cluster.ask("crawl", "status", "--crawl", "site-1", "--json")
        if what == "counts":
            assert status.returncode == 7
            assert json.loads(status.stdout)["harmed"][0]["key"] == what

        if what == "nodes":  # without it leases tell who lives, until they end
            start("node-late")  # and it cannot even take part
            assert cluster.wait("node-late") == [7]
            until(lambda: mended(cluster).returncode == 0, "the end of leases")
        else:
            done = mended(cluster)
            assert done.returncode == 0, (name, done.stderr)
        nodes = [f"node-{2 * turn + 3}", f"node-{2 * turn + 4}"]
        pages = len(site.answered) + 15
        site.until = after(pages)
        start(*nodes)
        if turn < len(kinds) - 1:
            until(served(site, pages), "some pages")
    site.go_on()
    assert [cluster.wait(node) for node in nodes] == [[0], [0]]
    seen = cluster.ask("crawl", "status", "--crawl", "site-1", "--json")
    assert json.loads(seen.stdout)["queue"]["dead"] == 0  # a page is not to blame
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
    refused = cluster.ask("crawl", "repair", "--crawl", "site-1")
    assert refused.returncode == 5
    assert "are alive: " in refused.stderr
    counts = keys.partition(number).counts
    cluster.db("HSET", counts, "ready", "abc")
    site.go_on()
    _, err = running.communicate(timeout=DEADLINE)

    assert running.returncode == 7, err
    assert "Traceback" not in err
    assert "frontier crawl repair --crawl site-1" in err
    assert cluster.ask("crawl", "repair", "--crawl", "site-1").returncode == 0
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
