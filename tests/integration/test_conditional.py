"""Two crawls of a server that knows what it has not changed."""

import contextlib
import gzip
import json

import pytest

from tests.rawsite import RawSite, answer, page
from tests.warc.judges import assert_sound, records_in

DATE = "Mon, 01 Jan 2024 00:00:00 GMT"


class Pages(RawSite):
    """ETags, a date, a content coding, a page that changes, and a wrong 304.

    What a 304 says of a body, which it does not have, is wrong, too.
    """

    changed = False

    def __init__(self):
        self.sent = {}
        super().__init__({}, answer=self._say)

    def _say(self, path, received):
        change = "new" if self.changed else "old"
        links = {"/": ("/a", "/b", "/forced"), "/b": ("/c",), "/c": ("/d",)}
        title = change if path == "/c" else path.strip("/") or "start"
        body = page(*links.get(path, ()), text=f"<title>{title}</title>")
        body = body.partition(b"\r\n\r\n")[2]
        lines = {
            "/": ['ETag: "start"'],
            "/a": [f"Last-Modified: {DATE}"],
            "/b": ['ETag: "b"', "Content-Encoding: gzip", "Set-Cookie: a=b"],
            "/c": [f'ETag: "{change}"'],
        }.get(path, [])
        tag = lines[0].partition(": ")[2].encode() if lines else b""
        unmodified = (tag and tag in received) or (path == "/forced" and self.changed)
        self.sent[path] = 304 if unmodified else 200
        if unmodified:
            lines += ["Content-Encoding: deflate", "Content-Type: image/png"]
            return answer(b"", *lines, status="304 Not Modified")
        body = gzip.compress(body, mtime=0) if path == "/b" else body
        return answer(body, "Content-Type: text/html", *lines)


@pytest.fixture
def pages():
    with contextlib.closing(Pages()) as site:
        yield site


@pytest.fixture
def crawl(pages, cluster, tmp_path):
    """Crawl the pages; return the titles, what was sent, and the records."""

    def crawl(name, **settings):
        pages.sent.clear()
        items = tmp_path / f"{name}.jsonl"
        done = set(cluster.warc_dir.glob("*.warc.gz"))
        cluster.start(
            name, "-a", f"seeds={pages.url('/')}", "-o", str(items),
            ROBOTSTXT_OBEY="False", **settings,
        )  # fmt: skip
        cluster.finish(name)
        text = items.read_text("utf-8") if items.exists() else ""
        found = [json.loads(line) for line in text.splitlines()]
        titles = {
            each["url"].removeprefix(pages.origin): each["title"] for each in found
        }
        records = {}
        new = set(cluster.warc_dir.glob("*.warc.gz")) - done
        for headers, block in records_in(new):
            if headers["WARC-Type"] in {"response", "revisit"}:
                url = headers["WARC-Target-URI"].removeprefix(pages.origin)
                records[url] = headers, block
        return titles, dict(pages.sent), records

    return crawl


def test_unmodified_page_is_a_revisit_and_reaches_the_spider(pages, crawl, cluster):
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
    assert "3 that servers were asked" in cluster.ask("crawl", "status").stdout
    for path in cluster.warc_dir.glob("*-2-*.warc.gz"):
        assert_sound(path)


def test_page_whose_original_is_unreadable_is_fetched_in_full(pages, crawl, cluster):
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
    assert "4 of the same URL" in cluster.ask("crawl", "status").stdout
    archive = cluster.shown("crawl", "status")["totals"]["archive"]
    assert archive["handled"] == archive["exact_url"] == archive["revisits"] == 4
    assert archive["handled_bytes"] == archive["revisit_bytes"] > 0
