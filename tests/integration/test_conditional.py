"""Two crawls of a server that knows what it has not changed."""

import gzip
import json
from http.server import BaseHTTPRequestHandler

import pytest
from conftest import serving
from fastwarc import ArchiveIterator

from tests.warc.judges import assert_sound

START = b"<title>start</title>"
START += b"".join(b"<a href='/%s'>x</a>" % name for name in (b"a", b"b", b"forced"))
DATE = "Mon, 01 Jan 2024 00:00:00 GMT"


class Pages(BaseHTTPRequestHandler):
    """ETags, a date, a content coding, a page that changes, and a wrong 304.

    What a 304 says of a body, which it does not have, is wrong, too.
    """

    protocol_version = "HTTP/1.1"
    changed = False
    sent = ()

    def do_GET(self):
        change = b"new" if self.changed else b"old"
        headers, body = {
            "/": ({"ETag": '"start"'}, START),
            "/a": ({"Last-Modified": DATE}, b"<title>a</title>"),
            "/b": (
                {"ETag": '"b"', "Content-Encoding": "gzip", "Set-Cookie": "a=b"},
                gzip.compress(b"<title>b</title><a href='/c'>c</a>", mtime=0),
            ),
            "/c": (
                {"ETag": f'"{change.decode()}"'},
                b"<title>%s</title><a href='/d'>d</a>" % change,
            ),
            "/d": ({}, b"<title>d</title>"),
            "/forced": ({}, b"<title>forced</title>"),
        }.get(self.path, ({}, b""))
        asked = self.headers.get("If-None-Match"), self.headers["If-Modified-Since"]
        tag, date = headers.get("ETag"), headers.get("Last-Modified")
        unmodified = (tag and asked[0] == tag) or (date and asked[1] == date)
        unmodified = unmodified or (self.path == "/forced" and self.changed)
        type(self).sent = (*self.sent, (self.path, 304 if unmodified else 200))
        self.send_response(304 if unmodified else 200)
        if unmodified:
            headers |= {"Content-Encoding": "deflate", "Content-Type": "image/png"}
        for name, value in headers.items():
            self.send_header(name, value)
        if not unmodified:
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if not unmodified:
            self.wfile.write(body)

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture
def pages():
    class Handler(Pages):
        pass

    with serving(Handler):
        yield Handler


@pytest.fixture
def crawl(pages, cluster, tmp_path):
    """Crawl the pages; return the titles, what was sent, and the records."""

    def crawl(name, **settings):
        pages.sent = ()
        items = tmp_path / f"{name}.jsonl"
        done = set(cluster.warc_dir.glob("*.warc.gz"))
        cluster.start(
            name, "-a", f"seeds={pages.url}/", "-o", str(items),
            ROBOTSTXT_OBEY="False", **settings,
        )  # fmt: skip
        assert cluster.wait(name) == [0]
        text = items.read_text("utf-8") if items.exists() else ""
        found = [json.loads(line) for line in text.splitlines()]
        titles = {each["url"].removeprefix(pages.url): each["title"] for each in found}
        records = {}
        for path in set(cluster.warc_dir.glob("*.warc.gz")) - done:
            with path.open("rb") as stream:
                for record in ArchiveIterator(stream, parse_http=False):
                    headers = dict(record.headers)
                    if headers["WARC-Type"] in {"response", "revisit"}:
                        url = headers["WARC-Target-URI"].removeprefix(pages.url)
                        records[url] = (headers, record.reader.read())
        return titles, dict(pages.sent), records

    return crawl


def test_what_has_not_changed_is_a_revisit_and_the_spider_sees_it(
    pages, crawl, cluster
):
    settings = {"FRONTIER_REVISIT_CONDITIONAL_GET": "1"}
    titles, sent, first = crawl("one", **settings)
    assert set(sent.values()) == {200}
    assert titles["/c"] == "old"
    pages.changed = True

    again, sent, second = crawl("two", **settings)

    # the links of what was not sent are followed, and what changed is fetched
    del titles["/forced"]
    assert again == {**titles, "/c": "new"}
    unmodified = {"/", "/a", "/b"}
    assert {url for url, status in sent.items() if status == 304} == {
        *unmodified,
        "/forced",
    }
    for url in unmodified:
        headers, block = second[url]
        original, _ = first[url]
        assert headers["WARC-Type"] == "revisit"
        assert headers["WARC-Profile"].endswith("/server-not-modified")
        assert block == b""
        for name in ("Payload-Digest", "Refers-To", "Refers-To-Date"):
            of = {"Refers-To": "Record-ID", "Refers-To-Date": "Date"}.get(name, name)
            assert headers[f"WARC-{name}"] == original[f"WARC-{of}"]
    headers, block = second["/forced"]
    assert headers["WARC-Type"] == "response"
    assert block.startswith(b"HTTP/1.1 304")
    assert second["/c"][0]["WARC-Type"] == "response"
    assert second["/d"][0]["WARC-Profile"].endswith("/identical-payload-digest")
    for path in cluster.warc_dir.glob("*-2-*.warc.gz"):
        assert_sound(path)


def test_what_cannot_be_read_back_here_is_fetched(pages, crawl, cluster):
    settings = {"FRONTIER_REVISIT_CONDITIONAL_GET": "1"}
    titles, _, _ = crawl("one", **settings)
    for path in cluster.warc_dir.glob("*.warc.gz"):
        path.write_bytes(b"somebody has cut it off")

    again, _, records = crawl("two", **settings)

    assert again == titles
    assert records["/b"][0]["WARC-Profile"].endswith("/identical-payload-digest")


def test_a_duplicate_page_that_is_deep_is_not_followed(crawl, cluster):
    _, sent, _ = crawl("one", FRONTIER_REVISIT_SKIP_LINKS_DEPTH="0")
    assert "/c" in sent

    _, sent, _ = crawl("two", FRONTIER_REVISIT_SKIP_LINKS_DEPTH="0")
    assert sorted(sent) == ["/", "/a", "/b", "/forced"]

    # and the report says what that saved, in words and as JSON
    assert cluster.store
    text, data = (
        cluster.ask("crawl", "status", *options).stdout for options in ([], ["--json"])
    )
    assert "4 of the same URL" in text
    totals = json.loads(data)["totals"]
    archive = totals["archive"]
    assert archive["handled"] == archive["exact_url"] == archive["revisits"] == 4
    assert archive["handled_bytes"] == archive["revisit_bytes"] > 0
    [(_, share)] = totals["shares"]["mimes"].items()
    assert share["hits"] == share["handled"] == 4
    assert len(totals["shares"]["hosts"]) == 1
