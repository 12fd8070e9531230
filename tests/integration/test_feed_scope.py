"""How far a round goes from a feed, and what a feed's server may say."""

import json
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from conftest import SHORT, until

from frontier.store.client import Call
from frontier.store.keys import CrawlKeys

KEYS = CrawlKeys("frontier", "feeds-1")
FEED = b"<rss version='2.0'><channel>%s</channel></rss>"
ITEM = b"<item><link>/%s</link><guid>%s</guid></item>"
REDIRECTS = {"/once": "/page", "/twice": "/first", "/first": "/second"}
PAGE = (
    b"<link rel=stylesheet href=/1.css><img src=/moved.png><a href=/link>no</a>"
    b"<iframe src=/frame></iframe>"
)
BODIES = {
    "/page": (b"text/html", PAGE),
    "/second": (b"text/html", b"never"),
    "/frame": (b"text/html", b"<img src=/in-frame.png><iframe src=/deep></iframe>"),
    "/deep": (b"text/html", b"<img src=/deeper.png>"),
    "/1.css": (b"text/css", b"@import '/2.css';"),
    "/2.css": (b"text/css", b"@import '/3.css';"),
    "/implied": (b"text/html", b"<img src=/logo.png>"),
}
WANTED = {"/feed", "/once", "/page", "/twice", "/first", "/frame", "/1.css", "/2.css"}
WANTED |= {"/implied", "/logo.png", "/in-frame.png", "/deep", "/moved.png"}


class Feeds(BaseHTTPRequestHandler):
    """A feed with an ETag, and pages behind it."""

    protocol_version = "HTTP/1.1"
    names = (b"once", b"twice")
    sent = None

    def do_GET(self):
        items = b"".join(ITEM % (name, name) for name in self.names)
        tag = f'"{len(self.names)}"'
        kind, body = BODIES.get(self.path, (b"image/png", self.path.encode()))
        if self.path == "/feed":
            kind, body = b"application/rss+xml", FEED % items
        status = 302 if self.path in {*REDIRECTS, "/moved.png"} else 200
        if self.path == "/robots.txt":
            status = 404
        if self.path == "/busy" and not self.sent["/busy", 503]:
            status = 503
        if self.path == "/feed" and self.headers.get("If-None-Match") == tag:
            status, body = 304, b""
        type(self).sent[self.path, status] += 1
        self.send_response(status)
        if self.path == "/feed":
            self.send_header("ETag", tag)
        if status == 503:
            self.send_header("Retry-After", "2")
        if status == 302:
            self.send_header("Location", REDIRECTS.get(self.path, "/there.png"))
        if status != 304:
            self.send_header("Content-Type", kind.decode())
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Nothing."""


@pytest.fixture
def feeds():
    Feeds.sent, Feeds.names = Counter(), (b"once", b"twice")
    with ThreadingHTTPServer(("127.0.0.1", 0), Feeds) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def past(cluster, feeds, tmp_path):
    """Follow the feed; ask how many rounds have ended."""
    file = tmp_path / "feeds.toml"
    feed = f'{{ url = "{feeds}/feed", implied = ["{feeds}/implied"] }}'
    file.write_text(f'[[site]]\nname = "s"\nwait = "1s"\nfeeds = [{feed}]\n')
    cluster.start("node-1", "-a", f"feeds={file}", spider="feeds", **SHORT)
    cluster.join()

    def past():
        read = Call.command("HMGET", KEYS.site("s"), "round", "state")
        number, state = cluster.store.call(read)
        return int(number or 0) - (state == b"crawling")

    return past


def test_a_round_goes_one_hop_one_redirect_and_two_embeds(cluster, past):
    until(lambda: Feeds.sent["/feed", 304] >= 2, "two rounds without news")
    until(lambda: {path for path, _ in Feeds.sent} >= WANTED, "all pages")
    paths = {path for path, _ in Feeds.sent} - {"/robots.txt"}
    assert paths == WANTED
    assert Feeds.sent["/feed", 200] == 1  # and 304 from then on
    assert Feeds.sent["/implied", 200] == 1  # nothing was new in later rounds
    Feeds.names = (*Feeds.names, b"image.png")
    until(lambda: Feeds.sent["/image.png", 200], "the new item")
    number = past()
    until(lambda: past() > number + 1, "two more rounds")
    assert Feeds.sent["/implied", 200] == 2
    assert {n for (path, _), n in Feeds.sent.items() if path == "/logo.png"} == {1}

    Feeds.names = (*Feeds.names, b"busy")
    until(lambda: Feeds.sent["/busy", 503], "a page that is busy")
    number = past()
    until(lambda: Feeds.sent["/busy", 200], "the page")
    assert Feeds.sent["/busy", 503] == Feeds.sent["/busy", 200] == 1
    until(lambda: past() > number, "rounds that go on")

    done = cluster.ask("feeds", "status", "--json")
    (site,) = json.loads(done.stdout)["sites"]
    assert site["feeds"][0]["etag"] == '"4"'
