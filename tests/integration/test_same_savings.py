"""What deduplication after the crawl saves, and what the same crawls save themselves.

Two crawls of a site are made with revisits off, deduplicated, verified and restored;
and again with revisits on. Each capture that only one of them stores as a revisit is
told with its reason: ``pytest -m compat -rP tests/integration/test_same_savings.py``.

There are two reasons:

* Two nodes had equal payloads at once: each had asked the collection's index before any
  had stored it, so each stored it. The server says in which order it was asked and told
  (``MONITOR``), and each difference is looked up there.
* Each node that gets a host asks for its robots.txt, so that this is fetched more often
  where a host was given from node to node.
"""

import contextlib
import threading
from collections import Counter, defaultdict
from dataclasses import dataclass

import pytest
import redis
from conftest import CHOSEN, HELD, Cluster
from warcio.archiveiterator import ArchiveIterator

from frontier.dedupe.digest import spelled
from frontier.testing.server import SiteServer
from frontier.testing.site import Site
from tests.postcrawl.test_dedupe import blocks, run

pytestmark = [
    pytest.mark.compat,
    pytest.mark.skipif(bool(CHOSEN), reason="MONITOR is of one server"),
]
SITE = {"urls": 300, "hosts": 4, "calendar_months": 12, "slow_seconds": 0.2}
CRAWLS = ("site-1", "site-2")


@dataclass(frozen=True)
class Capture:
    crawl: str
    node: str
    url: str
    date: str
    digest: str
    kind: str

    def __str__(self):
        return f"{self.crawl} {self.node} {self.date} {self.url}"


def captures(directory):
    """Those of status 200 with a payload, as the policy takes them by default."""
    found = []
    for path in sorted(directory.glob("*.warc.gz")):
        (crawl,) = (name for name in CRAWLS if path.name.startswith(f"{name}-"))
        (node,) = (name for name in ("node-1", "node-2") if name in path.name)
        with path.open("rb") as file:
            for record in ArchiveIterator(file):
                get = record.rec_headers.get_header
                if record.rec_type not in {"response", "revisit"}:
                    continue
                if record.http_headers.get_statuscode() != "200":
                    continue
                if record.rec_type == "response" and not record.content_stream().read():
                    continue
                digest = spelled(get("WARC-Payload-Digest"))
                url, date = get("WARC-Target-URI"), get("WARC-Date")
                found.append(Capture(crawl, node, url, date, digest, record.rec_type))
    return found


class Asked:
    """What the store was asked and told of payloads, in its order."""

    def __init__(self, url):
        self._client = redis.Redis.from_url(url, socket_timeout=None)
        self._monitor = self._client.monitor().__enter__()
        self.commands = []
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self):
        while True:
            words = self._monitor.next_command()["command"].split(" ")
            if words[:2] == ["ECHO", "end"]:
                return
            if words[0] in {"HMGET", "HSETNX"}:
                self.commands.append(words)

    def end(self):
        self._client.execute_command("ECHO", "end")
        self._thread.join()
        self._monitor.connection.disconnect()
        self._client.close()

    def before_told(self, crawl, digest):
        """How often *crawl* asked for *digest* before it told it; and what it told."""
        asked, told = 0, []
        for words in self.commands:
            if f":{crawl}" not in words[1] or digest not in words[2:]:
                continue
            if words[0] == "HMGET":
                asked += not told
            else:
                told.append(" ".join(words[3:]))
        return asked, told


@contextlib.contextmanager
def crawled(directory, server, nodes, **settings):
    """Two crawls of *server* by *nodes*; their files, and what the store was asked."""
    directory.mkdir()
    cluster = Cluster(directory)
    with contextlib.closing(cluster):
        assert cluster.store  # starts it
        asked = Asked(cluster._joined.url)
        try:
            for crawl in CRAWLS:
                server.delay = HELD
                seeds = ",".join(server.seeds)
                for node in nodes:
                    cluster.log_of(node).unlink(missing_ok=True)
                    cluster.start(node, "-a", f"seeds={seeds}", **settings)
                cluster.join()
                server.delay = 0
                assert set(cluster.wait()) == {0}, cluster.text_of(nodes[0])
                cluster.nodes.clear()
                assert list((directory / "w").glob(f"{crawl}-*.warc.gz"))
                assert not list((directory / "w").glob("*.open"))
        finally:
            asked.end()
        yield directory / "w", asked


def fetched(captured):
    """How often what was fetched, which is the same in every crawl of the site."""
    return Counter((one.crawl, one.url, one.digest) for one in captured)


def more_often(captured, others):
    """What *captured* has more often than *others*, each with its reason."""
    for at, times in (fetched(captured) - fetched(others)).items():
        nodes = [o.node for o in captured if (o.crawl, o.url, o.digest) == at]
        is_robots = at[1].endswith("/robots.txt")
        reason = ""
        if is_robots and len(set(nodes)) == len(nodes):
            reason = f"{' and '.join(nodes)} had the host, and each asked for it"
        yield from [(at, reason)] * times


def differences(ours, asked):
    """What *ours* stored of payloads that were stored, each with its reason."""
    originals = defaultdict(list)
    for one in ours:
        if one.kind == "response":
            originals[one.digest].append(one)
    found = []
    for digest, stored in originals.items():
        if len(stored) == 1:
            continue
        first, *more = sorted(stored, key=lambda one: one.date)
        in_one_crawl = {one.crawl for one in stored} == {first.crawl}
        each_by_another = len({one.node for one in stored}) == len(stored)
        before, who = asked.before_told(first.crawl, digest)
        for one in more:
            reason = ""
            if in_one_crawl and each_by_another and before == len(who) == len(stored):
                reason = (
                    f"{before} nodes asked for {digest[:12]} before one had stored it: "
                    f"{first.node} as {first.url} at {first.date}"
                )
            found.append((one, reason))
    return found


@pytest.mark.parametrize("nodes", [["node-1"], ["node-1", "node-2"]], ids=len)
def test_deduplicating_later_saves_what_the_same_crawls_save(nodes, tmp_path):
    out, again = tmp_path / "after", tmp_path / "again"
    with SiteServer(Site(**SITE), delay=HELD) as server:
        with crawled(
            tmp_path / "off", server, nodes, FRONTIER_REVISIT_ENABLED="False"
        ) as (before, _):
            theirs = captures(before)
        with crawled(tmp_path / "on", server, nodes) as (files, asked):
            ours = captures(files)
    assert {one.kind for one in theirs} == {"response"}

    done = run("dedupe", before, "-o", out)
    proof = run("verify", before, out)
    assert (proof["faults"], proof["revisits"]) == (0, done["replaced"])
    undone = run("restore", out, "-o", again)
    assert undone["replaced"] == done["replaced"]
    assert blocks(again) == blocks(before)

    later = Counter(one.digest for one in captures(out) if one.kind == "revisit")
    during = Counter(one.digest for one in ours if one.kind == "revisit")
    assert later.total() == done["replaced"] > 0
    twice = differences(ours, asked)
    more, fewer = list(more_often(ours, theirs)), list(more_often(theirs, ours))
    print(f"{later.total():,} revisits later, {during.total():,} during the crawls")
    for each, reason in (*twice, *more, *fewer):
        print(f"{each}: {reason or 'NOT EXPLAINED'}")
    assert all(reason for _, reason in (*twice, *more, *fewer))
    expected = Counter(during)
    expected.update(one.digest for one, _ in twice)
    expected.update(digest for (_, _, digest), _ in fewer)
    expected.subtract(digest for (_, _, digest), _ in more)
    assert later == +expected
    assert len(nodes) > 1 or later == during
