"""Pages that are visited again, by nodes that are real processes."""

import contextlib
import json
import signal
from collections import Counter, defaultdict

import pytest
from conftest import PARTITIONS, until

from frontier.queue.item import decode
from frontier.store.client import Call
from frontier.store.keys import CrawlKeys
from tests.harness.project import scrapy_project
from tests.rawsite import RawSite, answer, page, redirect
from tests.warc.judges import assert_sound, records_in

LEAST, MOST = 0.5, 2.0
SETTINGS = {
    "FRONTIER_RECRAWL": "adaptive",
    "FRONTIER_RECRAWL_INTERVAL": "1",
    "FRONTIER_RECRAWL_MIN": str(LEAST),
    "FRONTIER_RECRAWL_MAX": str(MOST),
    "FRONTIER_RECRAWL_GROWTH": "2",
    "FRONTIER_RECRAWL_DECAY": "2",
    "FRONTIER_WARC_MAX_SECONDS": "1",
    "ROBOTSTXT_OBEY": "False",
    "RETRY_TIMES": "3",
}


class Pages(RawSite):
    """Pages that change at each visit, never, or are gone."""

    links = ()

    def __init__(self):
        self.asked = []
        super().__init__({}, answer=self._say)

    def visits(self, path):
        """How often *path* was asked for."""
        return self.asked.count(path)

    def _say(self, path, received):
        self.asked.append(path)
        visits = self.visits(path)
        said = page(text=f"<title>{path}</title>")
        if path == "/":
            said = page(*self.links)
        elif path == "/fast":
            said = page(text=f"version {visits}")
        elif path == "/still":
            said = page("/fast", text="the other way")
        elif path == "/tagged":
            known = b'If-None-Match: "1"' in received
            said = answer(
                b"" if known else "tagged",
                'ETag: "1"',
                "Content-Type: text/html",
                status="304 Not Modified" if known else "200 OK",
            )
        elif path == "/moved":
            said = redirect("/target")
        elif path == "/gone" and visits > 1:
            said = answer(status="404 Gone")
        elif path == "/shaky" and visits % 2:
            said = answer(status="500 Oops")
        return said


@pytest.fixture
def pages():
    with contextlib.closing(Pages()) as site:
        yield site


@pytest.fixture
def crawl(pages, cluster):
    """Start a node that visits *links* again and again."""

    def crawl(node_id, *links, **settings):
        pages.links = links or pages.links
        return cluster.start(
            node_id, "-a", f"seeds={pages.url('/')}", **{**SETTINGS, **settings}
        )

    return crawl


def stop(cluster, *node_ids):
    for node_id in node_ids:
        cluster.nodes[node_id].send_signal(signal.SIGTERM)
    cluster.finish(*node_ids)


def stats(cluster, node_id):
    """What the node counted of its visits."""
    found = {}
    for line in cluster.text_of(node_id).splitlines():
        name, _, value = line.strip(" {},").partition(": ")
        if name.startswith("'frontier/recrawl/"):
            found[name.strip("'").rpartition("/")[2]] = int(value)
    return found


def records(cluster, pages):
    """Of each path, what its records are, in their order."""
    found = defaultdict(list)
    for path in sorted(cluster.warc_dir.glob("*.warc.gz")):
        assert_sound(path)
        for headers, _ in records_in([path]):
            if headers["WARC-Type"] in {"response", "revisit"}:
                profile = headers.get("WARC-Profile", "").rpartition("/")[2]
                name = headers["WARC-Target-URI"].removeprefix(pages.origin)
                found[name].append((headers["WARC-Date"], profile))
    return {path: [what for _, what in sorted(all_)] for path, all_ in found.items()}


def scheduled(cluster, crawl_id="site-1"):
    """How often each path is in the queues of a crawl that no node runs."""
    found = Counter()
    ask = cluster.store.call
    for number in range(PARTITIONS):
        keys = CrawlKeys("frontier", crawl_id).partition(number)
        elements = [
            value.split(b"\n", 1)[1]
            for value in ask(Call.command("HGETALL", keys.reserved)).values()
        ]
        for bucket in ask(Call.command("ZRANGE", keys.due, 0, -1)):
            name = keys.waiting(bucket.decode())
            elements += ask(Call.command("LRANGE", name, 0, -1))
        for queue in ask(Call.command("ZRANGE", keys.queues, 0, -1)):
            ready = ask(Call.command("LRANGE", keys.ready(queue.decode()), 0, -1))
            elements += [queue + b"\n" + item for item in ready]
        for element in elements:
            queue, item = element.split(b"\n", 1)
            url = decode(item, queue.decode())["url"]
            found["/" + url.split("/", 3)[3]] += 1
    return found


def intervals(cluster):
    """What `frontier crawl status` says of the shortest and the longest."""
    found = recrawl(cluster)["hosts"]
    (host,) = found.values() or [{"least": 0, "most": 0}]
    return host["least"], host["most"]


def recrawl(cluster):
    """What waits."""
    found = cluster.shown("crawl", "status")["recrawl"]
    return found or {"waiting": 0, "hosts": {}}


def test_intervals_follow_what_each_page_does(pages, crawl, cluster):
    crawl("one", "/fast", "/still", "/tagged", "/gone", "/moved", "/shaky")
    until(lambda: pages.visits("/still") >= 5, "five visits")
    until(lambda: pages.visits("/shaky") >= 8, "eight requests, of which half fail")
    until(lambda: "/gone is gone" in cluster.text_of("one"), "what is gone")
    until(lambda: intervals(cluster) == (LEAST, MOST), "intervals that diverge")
    stop(cluster, "one")

    assert pages.visits("/gone") == 4
    done = records(cluster, pages)
    assert set(done["/fast"]) == {""}
    assert done["/still"][:4] == ["", *["identical-payload-digest"] * 3]
    assert done["/tagged"][:3] == ["", *["server-not-modified"] * 2]
    assert pages.visits("/moved") >= 3
    assert pages.visits("/target") >= 3
    counted = stats(cluster, "one")
    assert counted["left"] == 1
    assert counted["gone"] == 2
    assert counted["unchanged"] >= 2
    places = ("/", "/fast", "/still", "/tagged", "/shaky", "/moved", "/target")
    assert scheduled(cluster) == dict.fromkeys(places, 1)


def test_an_operator_makes_pages_due_by_a_url_or_by_how_it_begins(
    pages, crawl, cluster
):
    pages.links = paths = ("/fast", "/fast/1", "/still")
    hour = {"FRONTIER_RECRAWL": "fixed", "FRONTIER_RECRAWL_INTERVAL": "1h"}
    crawl("one", **hour)

    def visits(*wanted):
        until(lambda: tuple(map(pages.visits, paths)) == wanted, f"visits {wanted}")
        until(lambda: waiting() == 4, "all of them wait again")

    def waiting():
        return recrawl(cluster)["waiting"]

    def now(path, code=0):
        asked = cluster.ask("recrawl", "now", pages.url(path), "--json")
        assert asked.returncode == code, asked.stderr
        return json.loads(asked.stdout)["made_due"]

    visits(1, 1, 1)
    assert now("/fast") == 1
    visits(2, 1, 1)
    assert now("/fast*") == 2
    visits(3, 2, 1)
    assert now("/st") == 1
    visits(3, 2, 2)
    assert now("/none", code=4) == 0
    stop(cluster, "one")


SPIDER = """
import scrapy

class Odd(scrapy.Spider):
    name = "odd"
    custom_settings = {"FRONTIER_SEEN_RECENT_SIZE": 1}
    is_first = True

    async def start(self):
        yield scrapy.Request(self.url + "/moved", dont_filter=True)
        yield scrapy.Request(self.url + "/", dont_filter=True)

    def parse(self, response):
        def to(path, **options):
            return scrapy.Request(self.url + path, **options)

        if response.url.endswith("/"):
            said = {"meta": {"frontier_recrawl": True}}
            yield to("/posted", method="POST", body=b"1", **said)
            yield to("/posted-once", method="POST", body=b"1")
            yield to("/never", meta={"frontier_recrawl": False})
            yield to("/own", meta={"frontier_recrawl": {"schedule": "off"}})
            yield to("/lambda", callback=lambda _: None)
            yield to("/target")
            yield to("/again")
            if self.is_first:  # each would be fetched, whatever was seen
                self.is_first = False
                yield to("/exempt", dont_filter=True)
        elif response.url.endswith("/again") and response.meta.get("turn", 0) < 1:
            # The same page once more, in place of this visit.
            yield response.request.replace(
                dont_filter=True, meta={**response.meta, "turn": 1}
            )
"""


def test_which_requests_are_visited_again(pages, cluster, tmp_path):
    project = scrapy_project(tmp_path / "project", SPIDER)
    settings = {**SETTINGS, "FRONTIER_RECRAWL_MAX": "1"}
    cluster.start(
        "one", "-a", f"url={pages.origin}", spider="odd", cwd=project, **settings
    )
    until(lambda: pages.visits("/again") >= 8, "visits")
    until(lambda: pages.visits("/target") >= 5, "visits")
    until(lambda: pages.visits("/posted") >= 5, "visits")
    once = ("/never", "/own", "/lambda", "/posted-once", "/exempt")
    until(lambda: all(map(pages.visits, once)), "a visit to each of the others")
    stop(cluster, "one")

    again = {"/", "/moved", "/target", "/posted", "/again"}
    assert scheduled(cluster, "odd-1") == dict.fromkeys(again, 1)
    for path in once:
        assert pages.visits(path) == 1, path
    assert stats(cluster, "one")["local"] == 1
    assert stats(cluster, "one")["off"] == 1
