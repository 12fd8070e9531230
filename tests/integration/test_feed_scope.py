"""How far a round goes from a feed, and what a feed's server may say."""

import contextlib
from collections import Counter

import pytest
from conftest import until

from frontier.store.client import Call
from frontier.store.keys import CrawlKeys
from tests.rawsite import RawSite, answer

KEYS = CrawlKeys("frontier", "feeds-1")
FEED = "<rss version='2.0'><channel>{}</channel></rss>"
ITEM = "<item><link>/{0}</link><guid>{0}</guid></item>"
REDIRECTS = {"/once": "/page", "/twice": "/first", "/first": "/second"}
REDIRECTS["/moved.png"] = "/there.png"
PAGE = (
    "<link rel=stylesheet href=/1.css><img src=/moved.png><a href=/link>no</a>"
    "<iframe src=/frame></iframe>"
)
BODIES = {
    "/page": ("text/html", PAGE),
    "/second": ("text/html", "never"),
    "/frame": ("text/html", "<img src=/in-frame.png><iframe src=/deep></iframe>"),
    "/deep": ("text/html", "<img src=/deeper.png>"),
    "/1.css": ("text/css", "@import '/2.css';"),
    "/2.css": ("text/css", "@import '/3.css';"),
    "/implied": ("text/html", "<img src=/logo.png>"),
}
WANTED = {"/feed", "/once", "/page", "/twice", "/first", "/frame", "/1.css", "/2.css"}
WANTED |= {"/implied", "/logo.png", "/in-frame.png", "/deep", "/moved.png"}


class Feeds(RawSite):
    """A feed with an ETag, and pages behind it."""

    def __init__(self):
        self.sent, self.names = Counter(), ["once", "twice"]
        super().__init__({}, answer=self._say)

    def paths(self):
        """What it was asked for: a copy, as its threads go on."""
        return {path for path, _ in list(self.sent)} - {"/robots.txt"}

    def _say(self, path, received):
        kind, body = BODIES.get(path, ("image/png", path))
        tag, lines, status = f'"{len(self.names)}"', [], "200 OK"
        if path == "/feed":
            items = "".join(map(ITEM.format, self.names))
            kind, body = "application/rss+xml", FEED.format(items)
            lines = [f"ETag: {tag}"]
            if f"If-None-Match: {tag}".encode() in received:
                status, body = "304 Not Modified", ""
        elif path in REDIRECTS:
            status, lines = "302 Found", [f"Location: {REDIRECTS[path]}"]
        elif path == "/robots.txt":
            status = "404 Not Found"
        elif path == "/busy" and not self.sent["/busy", 503]:
            status, lines = "503 Busy", ["Retry-After: 2"]
        self.sent[path, int(status[:3])] += 1
        return answer(body, f"Content-Type: {kind}", *lines, status=status)


@pytest.fixture
def feeds():
    with contextlib.closing(Feeds()) as site:
        yield site


@pytest.fixture
def past(cluster, feeds, tmp_path):
    """Follow the feed; ask how many rounds have ended."""
    file = tmp_path / "feeds.toml"
    feed = f'{{ url = "{feeds.url("/feed")}", implied = ["{feeds.url("/implied")}"] }}'
    file.write_text(f'[[site]]\nname = "s"\nwait = "1s"\nfeeds = [{feed}]\n')
    cluster.start("node-1", "-a", f"feeds={file}", spider="feeds")
    cluster.join()

    def past():
        read = Call.command("HMGET", KEYS.site("s"), "round", "state")
        number, state = cluster.store.call(read)
        return int(number or 0) - (state == b"crawling")

    return past


def test_a_round_goes_one_hop_one_redirect_and_two_embeds(cluster, feeds, past):
    until(lambda: feeds.sent["/feed", 304] >= 2, "two rounds without news")
    until(lambda: feeds.paths() >= WANTED, "all pages")
    assert feeds.paths() == WANTED
    assert feeds.sent["/feed", 200] == 1  # and 304 from then on
    assert feeds.sent["/implied", 200] == 1  # nothing was new in later rounds
    feeds.names.append("image.png")
    until(lambda: feeds.sent["/image.png", 200], "the new item")
    number = past()
    until(lambda: past() > number + 1, "two more rounds")
    assert feeds.sent["/implied", 200] == 2
    assert feeds.sent["/logo.png", 200] == 1

    feeds.names.append("busy")
    until(lambda: feeds.sent["/busy", 503], "a page that is busy")
    number = past()
    until(lambda: feeds.sent["/busy", 200], "the page")
    assert feeds.sent["/busy", 503] == feeds.sent["/busy", 200] == 1
    until(lambda: past() > number, "rounds that go on")

    (site,) = cluster.shown("feeds", "status")["sites"]
    assert site["feeds"][0]["etag"] == '"4"'
