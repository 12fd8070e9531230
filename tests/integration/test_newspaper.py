"""A newspaper of 200 feeds that misbehave in turn, and much that goes wrong at once."""

import contextlib
import sqlite3
import threading
from collections import Counter
from email.utils import formatdate
from pathlib import Path

import pytest
from conftest import until

from tests.harness.sites import make_tables, site_of, write_rows, write_toml
from tests.rawsite import RawSite

pytestmark = pytest.mark.chaos

FEEDS, HOSTS, SITES = 200, 8, 20
KINDS = ("plain", "etag", "redirect", "cut", "busy", "gone", "past", "page")
"""How a feed misbehaves in each third of its answers, by its number."""
WAIT = 8
FIRST = 1_700_000_000
IN_FLIGHT = 40
"""What a node may have fetched and not acked when it is killed."""


class Paper:
    """Feeds whose items are pages, numbered, on several hosts."""

    def __init__(self):
        self.published = [0] * FEEDS
        self.at = {}
        """How often its feed had answered when an item was published, and fetched."""
        self.fetched = Counter()
        self._answers = Counter()
        self._lock = threading.Lock()
        self.hosts = [
            RawSite({}, answer=self._answer, address=f"127.0.1.{n + 1}")
            for n in range(HOSTS)
        ]

    def url(self, path, feed):
        return self.hosts[feed // len(KINDS) % HOSTS].url(path)

    def publish(self, feeds=range(FEEDS)):
        """One more item in each of *feeds*."""
        for feed in feeds:
            self.at[feed, self.published[feed]] = [self._answers[feed]]
            self.published[feed] += 1

    def lacks(self, feeds=range(FEEDS)):
        """The items of *feeds* that were not fetched yet."""
        every = {(feed, n) for feed in feeds for n in range(self.published[feed])}
        return every - self.fetched.keys()

    def _answer(self, path, received):
        name, _, number = path.strip("/").partition("/")
        status, body, more = "404 no", "", ""
        if name == "item":
            feed, item = map(int, number.split("/"))
            with self._lock:
                self.fetched[feed, item] += 1
                self.at[feed, item].append(self._answers[feed])
            status, body = "200 OK", f"<p>{path}"
        elif name in {"feed", "moved"}:
            status, body, more = self._feed(int(number), name, received)
        head = f"HTTP/1.1 {status}\r\n{more}Content-Length: {len(body)}\r\n"
        kind = "Content-Type: text/html\r\nConnection: close\r\n\r\n"
        return f"{head}{kind}{body}".encode()

    def _feed(self, feed, name, received):
        kind, count = KINDS[feed % len(KINDS)], self.published[feed]
        if kind == "redirect" and name == "feed":
            return "302 There", "", f"Location: /moved/{feed}\r\n"
        with self._lock:
            self._answers[feed] += 1
            misbehaves = self._answers[feed] % 3 == 2
        tag = f'"{count}"'
        if kind == "etag" and f"If-None-Match: {tag}".encode() in received:
            return "304 Not Modified", "", ""
        if misbehaves and kind == "busy":
            return "429 Busy", "", "Retry-After: 1\r\n"
        if misbehaves and kind in {"gone", "page"}:
            return ("410 Gone" if kind == "gone" else "200 OK"), "<html>none", ""
        shown = range(count // 2 if misbehaves and kind == "past" else count)
        items = "".join(
            f"<item><link>{self.url(f'/item/{feed}/{n}', feed)}</link>"
            f"<guid>{feed}-{n}</guid><pubDate>{formatdate(FIRST + 3600 * n)}</pubDate>"
            "</item>"
            for n in reversed(shown)
        )
        text = f"<rss><channel>{items}</channel></rss>"
        if misbehaves and kind == "cut":
            text = text[: len(text) // 2]
        return "200 OK", text, f"ETag: {tag}\r\n"


class Configuration:
    """Sites of ten feeds each, in a file or in CrawlRSS's tables."""

    def __init__(self, kind, directory, paper):
        self.given = str(directory / "feeds.toml")
        self._rows = directory / "sites.db" if kind == "sql" else None
        self._paper = paper
        if self._rows:
            self.given = f"sqlite:///{self._rows}"
            make_tables(self._run)

    def _run(self, *statements):
        with contextlib.closing(sqlite3.connect(self._rows)) as database, database:
            for statement in statements:
                database.execute(statement)

    def say(self, *left_out, paused=()):
        sites = []
        for number in range(SITES):
            if number not in left_out:
                feeds = [self._paper.url(f"/feed/{n}", n) for n in feeds_of(number)]
                rests = number in paused
                sites.append(site_of(f"site-{number}", feeds, WAIT, paused=rests))
        if self._rows:
            write_rows(self._run, *sites)
        else:
            write_toml(Path(self.given), *sites)


def feeds_of(*sites):
    return [n for site in sites for n in range(10 * site, 10 * site + 10)]


@pytest.mark.parametrize("kind", ["toml", pytest.param("sql", marks=pytest.mark.long)])
def test_a_newspaper_is_followed_through_all_of_it(cluster, tmp_path, kind):
    paper = Paper()
    configuration = Configuration(kind, tmp_path, paper)
    settings = {
        "FRONTIER_FEEDS_REFRESH": "0.5",
        "FRONTIER_LEASE_TTL": "10",
        "DOWNLOAD_DELAY": "0",
        "CONCURRENT_REQUESTS_PER_DOMAIN": "8",
    }

    def start(*nodes):
        for node in nodes:
            given = ("-a", f"feeds={configuration.given}")
            cluster.start(node, *given, spider="feeds", **settings)
        cluster.join(*nodes)

    def fetches(feeds, what):
        until(lambda: not paper.lacks(feeds), what)

    first, last = range(180), feeds_of(18, 19)
    paper.publish()
    paper.publish()
    configuration.say(18, 19)
    start("node-1", "node-2", "node-3")
    fetches(first, "what there was at the start")
    paper.publish()
    before = len(paper.lacks(first))
    until(lambda: len(paper.lacks(first)) < before / 2, "half of what is new")
    cluster.kill("node-1")
    fetches(first, "the other half, without a node")

    # Two sites come, one rests, one ends; and another node dies.
    assert not paper.fetched.keys() & {(feed, 0) for feed in last}
    configuration.say(1, paused=[0])
    fetches(last, "the items of new sites")
    resting, others = feeds_of(0, 1), range(20, FEEDS)
    paper.publish()
    until(lambda: len(paper.lacks(others)) < 100, "some of what is new")
    cluster.kill("node-2")
    fetches(others, "the rest, without two nodes")
    assert len(paper.lacks(resting)) == len(resting)
    configuration.say()
    fetches(range(FEEDS), "the items of sites that are back")

    start("node-4", "node-5")
    paper.publish()
    fetches(range(FEEDS), "the last items")
    until(lambda: is_told(cluster, paper), "a report that says so")
    configuration.say(paused=range(SITES))
    until(lambda: not any(s["urls"] for s in sites_of(cluster)), "nothing queued")
    for node in ("node-3", "node-4", "node-5"):
        cluster.nodes[node].terminate()
    cluster.finish("node-3", "node-4", "node-5")
    again = sum(count - 1 for count in paper.fetched.values())
    assert again <= 2 * IN_FLIGHT, again
    last = [paper.at[feed, paper.published[feed] - 1] for feed in range(FEEDS)]
    late = Counter(fetched - at for at, fetched, *_ in last)
    # One that fails is asked a wait later, and pages take a while on a busy machine.
    assert max(late) <= 4, late
    assert late[1] > FEEDS / 2, late
    for host in paper.hosts:
        host.close()


def sites_of(cluster):
    """The sites in ``frontier feeds status``."""
    return cluster.shown("feeds", "status")["sites"]


def is_told(cluster, paper):
    """Whether ``frontier feeds status`` says what each feed has had."""
    sites = sites_of(cluster)
    assert [site["wait_s"] for site in sites] == [WAIT] * SITES
    assert {site["state"] for site in sites} <= {"waiting", "crawling"}
    told = {}
    for site in sites:
        assert site["items"] == sum(feed["items"] for feed in site["feeds"])
        for feed in site["feeds"]:
            number = int(feed["url"].rpartition("/")[2])
            told[number] = (feed["items"], feed["newest"])
            assert feed["failures"] <= 1, feed
            assert feed["fetched"] * 1000 > site["emitted_ms"] - 60_000 * WAIT, feed
    counts = enumerate(paper.published)
    wanted = {n: (count, FIRST + 3600 * (count - 1)) for n, count in counts}
    return told == wanted
