"""``frontier migrate scrapy-redis``: what is taken over, and what is left out."""

import base64
import json
import os
import pickle
import signal
import stat
import subprocess
import sys
from collections import Counter
from fractions import Fraction
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import warm

from frontier.queue.item import decode
from frontier.seen.imported_filter import GUARD, marks_of, others_fingerprints
from frontier.store.client import BlockingStore, Call
from frontier.store.keys import CrawlKeys
from tests.chaos.wire import Wire
from tests.harness.project import scrapy_project

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.one_server("scrapy-redis itself connects to one server")

SPIDER = """
import scrapy


class ShopSpider(scrapy.Spider):
    name = "shop"

    def parse_post(self, response):
        pass
"""
QUEUE, FILTER = "shop:requests", "shop:dupefilter"
KEYS = CrawlKeys("frontier", "shop-1")


def url(number):
    return f"http://h{number % 5}.example/{number}"


@pytest.fixture
def ask(own_server):
    store = BlockingStore.from_settings({"REDIS_URL": own_server.url})
    ask = partial(_ask, store)
    ask.store = store
    yield ask
    store.close()


def _ask(store, *parts):
    return store.call(Call.command(*parts))


@pytest.fixture
def migrate(frontier, own_server, tmp_path):
    scrapy_project(tmp_path, SPIDER)

    def migrate(*words, spider="shop"):
        where = ("--redis-url", own_server.url, "--json")
        done = frontier("migrate", "scrapy-redis", "--spider", spider, *words, *where)
        said = json.loads(done.stdout) if done.stdout else {}
        return done.returncode, said, done.stderr

    return migrate


@pytest.fixture
def put(ask):
    """Put a request where scrapy-redis would, and into its filter if it is tested."""

    def put(kind=0, **facts):
        data = pickle.dumps({"url": url(0), **facts}, 5)
        ask("LPUSH", QUEUE, data)
        if not facts.get("dont_filter"):
            ask("SADD", FILTER, others_fingerprints(facts.get("url", url(0)))[kind])
        return data

    return put


def queued(ask):
    """The records in the queues of the crawl, by queue."""
    keys = CrawlKeys("frontier", "shop-1")
    found = {}
    parts = [keys.partition(number) for number in range(1024)]
    calls = [Call.command("ZRANGE", part.queues, 0, -1) for part in parts]
    for part, queues in zip(parts, ask.store.run(calls), strict=True):
        for name in map(bytes.decode, queues):
            items = ask("LRANGE", part.ready(name), 0, -1)
            found[name] = [decode(item, name) for item in items]
    return found


def test_requests_are_queued_as_they_were_and_what_is_more_than_data_is_left_out(
    migrate, put, ask, tmp_path
):
    facts = {"callback": "parse_post", "meta": {"a": (1, b"x")}, "cb_kwargs": {"n": 1}}
    put(url=url(1), priority=7, method="POST", body=b"b", **facts)
    ask("SADD", FILTER, others_fingerprints(url(1), "POST", b"b")[0])
    put(url=url(2), headers={b"X": [b"y"]}, cookies={"k": "v"})
    again = partial(put, url=url(3), dont_filter=True)
    again(), again(), again(priority=-3)
    bad = put(url=url(4), cb_kwargs={"part": Fraction(1, 2)})
    put(url=url(5), callback="closed")
    put(url=url(6), meta={"proxy": "http://p.example"})
    put(url="ftp://h.example/")
    ask("LPUSH", QUEUE, b"cos\nsystem\n(S'touch ran'\ntR.")

    before = sorted(ask("KEYS", "*"))
    code, dry, err = migrate("--dry-run")
    assert (code, dry["queue"]["queued"], dry["queue"]["left_out"]) == (6, 5, 5)
    assert "1 left out: its ['cb_kwargs']['part'] is a fractions.Fraction" in err
    assert sorted(ask("KEYS", "*")) == before
    assert not (tmp_path / "scrapy-redis-left-out.jsonl").exists()
    code, said, err = migrate()

    assert code == 6
    counts = {"source": 10, "queued": 4, "seen_already": 1, "left_out": 5}
    assert said["queue"] == counts
    assert not (tmp_path / "ran").exists()
    found = queued(ask)
    assert sorted(found) == [
        "-3:h3.example",
        "0:h2.example",
        "0:h3.example",
        "7:h1.example",
    ]
    (post,) = found["7:h1.example"]
    assert {name: post[name] for name in facts} == facts
    assert (post["method"], post["body"], post["priority"]) == ("POST", b"b", 7)
    (page,) = found["0:h2.example"]
    assert (page["headers"], page["cookies"]) == ({b"X": [b"y"]}, {"k": "v"})
    file = tmp_path / "scrapy-redis-left-out.jsonl"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    every = map(json.loads, file.read_text().splitlines())
    lines = {line["number"]: line for line in every}
    assert {n: line["url"] for n, line in lines.items()} == {
        6: url(4),
        7: url(5),
        8: url(6),
        9: "ftp://h.example/",
        10: None,
    }
    assert "['cb_kwargs']['part'] is a fractions.Fraction" in lines[6]["reason"]
    assert base64.b64decode(lines[6]["item"]) == bad
    assert "'closed' is not a callback" in lines[7]["reason"]
    assert "proxy" in lines[8]["reason"]
    assert "scrapy-redis-left-out.jsonl" in err
    assert ask("LLEN", QUEUE) == 10
    # A link to what is left out is followed: it was queued, and not fetched.
    assert ask("SCARD", FILTER) == said["dupefilter"]["source"] == 7
    assert said["dupefilter"]["unfetched"] == 4
    assert said["dupefilter"]["imported"] == 3
    assert sorted(marks(ask)) == sorted(
        marks_of(
            others_fingerprints(*facts)[0]
            for facts in ((url(1),), (url(1), "POST", b"b"), (url(2),))
        )
    )

    code, said, _ = migrate()
    assert (said["queue"]["queued"], said["queue"]["seen_already"]) == (0, 5)
    assert sum(map(len, queued(ask).values())) == 4


def marks(ask):
    """What the crawl has of the filter."""
    return {int(mark) for mark in ask("SMEMBERS", KEYS.imported)} - {GUARD}


class Killer:
    """Counts what is sent to a store, and kills who has sent more than so much."""

    def __init__(self, most):
        self.most, self.passed, self.process = most, 0, None

    def hear(self, data):
        self.passed += len(data)
        if self.most is not None and self.passed > self.most:
            self.process.kill()


@pytest.fixture
def killed(own_server, migrate, tmp_path, request):
    """Run the command, and kill it when it has sent so many bytes to the store."""

    def killed(most=None):
        there = urlsplit(own_server.url)
        wire = Wire(there.port or Path(there.path))
        killer = Killer(most)
        wire.hear = killer.hear
        wire.start()
        request.addfinalizer(wire.stop)
        words = ("migrate", "scrapy-redis", "--spider", "shop", "--redis-url", wire.url)
        killer.process = warm.Popen(
            [sys.executable, "-m", "frontier", *words, "--from", own_server.url],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        return killer.process.wait(), killer.passed

    return killed


def test_killed_migration_loses_and_doubles_nothing_when_repeated(
    migrate, put, ask, killed
):
    for number in range(2_500, 2_600):
        put(url=url(number), dont_filter=True)
    for number in range(2_500):
        put(url=url(number), cb_kwargs={"page": number})
    had = [f"http://h.example/{n}" for n in range(3_000)]
    for first in range(0, len(had), 1_000):
        some = had[first : first + 1_000]
        ask("SADD", FILTER, *(others_fingerprints(u)[0] for u in some))
    before = ask.store.run([Call.command("DUMP", key) for key in (QUEUE, FILTER)])
    code, whole = killed()
    assert code == 0
    for name in ask.store.scan("*frontier*"):
        ask("DEL", name)

    reached = []
    for part in (0.3, 0.5, 0.65, 0.8):
        assert killed(int(whole * part))[0] == -signal.SIGKILL
        keys = CrawlKeys("frontier", "shop-1")
        reached.append((ask("SCARD", keys.imported), len(every(ask))))
    code, said, _ = migrate()

    assert len(set(reached)) > 2, reached  # it was killed at different things
    assert code == 0
    assert said["crawl_id"] == "shop-1"
    assert said["dupefilter"]["imported"] == ask("SCARD", FILTER) == 5_500
    assert said["queue"]["seen_already"] + said["queue"]["queued"] == 2_600
    assert Counter(every(ask)) == Counter(map(url, range(2_600)))
    assert (
        ask.store.run([Call.command("DUMP", key) for key in (QUEUE, FILTER)]) == before
    )


def every(ask):
    """The URLs that are in the queues of the crawl."""
    return [record["url"] for records in queued(ask).values() for record in records]


def test_dupefilter_fingerprints_of_every_kind_are_imported(
    migrate, put, ask, frontier, own_server
):
    server = own_server.url
    for number in range(5):
        put(url=url(number), kind=number % 3)
    ask("SADD", FILTER, "no fingerprint", "a" * 40)

    code, said, err = migrate()

    assert code == 6
    assert (said["dupefilter"]["source"], said["dupefilter"]["imported"]) == (7, 6)
    assert "1 members of shop:dupefilter are no fingerprints" in err
    # What an operator asks for is fetched, whatever was seen before the crawl.
    assert frontier("crawl", "seed", url(77), "--redis-url", server).returncode == 0
    (seed,) = queued(ask)["0:h2.example"][1:]
    assert (seed["url"], seed["exempt"]) == (url(77), True)


def test_a_filter_that_says_nothing_is_refused_and_urls_take_its_place(
    migrate, put, ask, tmp_path
):
    put(url=url(1))
    ask("DEL", FILTER)
    ask("SADD", FILTER, "a" * 40)
    code, _, err = migrate()
    assert (code, ask("EXISTS", "frontier:crawls")) == (2, 0)
    assert "shop:dupefilter has none of the first requests of shop:requests" in err
    ask("DEL", FILTER)
    ask("SETBIT", FILTER, 1 << 20, 1)
    code, _, err = migrate()
    assert (code, ask("EXISTS", "frontier:crawls")) == (2, 0)
    assert "is a bitmap, as scrapy-redis-bloomfilter keeps" in err

    seen = tmp_path / "seen.txt"
    seen.write_text(f"# logs\n{url(2)}\n\nno url\n{url(3)}\n{url(1)}\n")
    code, said, err = migrate("--no-dupefilter", "--seen-urls", str(seen))

    assert (code, said["seen_urls"]) == (6, 3)
    assert "seen.txt:4: 'no url' is not a URL" in err
    assert said["queue"]["queued"] == 1  # though the file has it, too
    keys = CrawlKeys("frontier", "shop-1")
    parts = [keys.partition(number).seen for number in range(1024)]
    counts = ask.store.run([Call.command("HGET", part, "count") for part in parts])
    assert sum(int(count or 0) for count in counts) == 3


def test_migration_error_is_reported_before_any_key_is_written(migrate, frontier, ask):
    code, _, err = migrate(spider="other")
    assert (code, "the project has no spider other; it has shop" in err) == (2, True)
    ask("SET", QUEUE, "x")
    code, _, err = migrate()
    assert code == 2
    assert "'shop:requests'" in err
    assert "is a string, and not a list or zset" in err
    done = frontier("migrate", "scrapy-redis", "--spider", "shop")
    assert done.returncode == 2
    assert "name that of scrapy-redis with --from" in done.stderr
    assert ask("KEYS", "*frontier*") == []
