"""Answers that are hardly HTTP, from a raw socket: their bytes are archived."""

import json

import pytest
from conftest import Cluster
from test_wire import Captured

from tests.harness.project import scrapy_project
from tests.rawsite import RawSite
from tests.warc.judges import assert_sound

OK = b"HTTP/1.1 200 OK\r\nServer: s\r\n"
SAVED = b"x" * 20_000


def with_header(line, body=b"body!"):
    return OK + line + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def of_length(*values, body=b"1234567"):
    return OK + b"".join(b"Content-Length: %b\r\n" % v for v in values) + b"\r\n" + body


def coded(*lines, body=b"5\r\nbody!\r\n0\r\n\r\n"):
    return OK + b"".join(b"%b\r\n" % each for each in lines) + b"\r\n" + body


def kept_alive(answer):
    """Send *answer*, and leave the connection open until the client acts.

    It may close it, or send its next request there, which it sends again when the
    connection then ends. A server that let it wait would have it time out.
    """

    def serve(connection):
        connection.sendall(answer)
        connection.settimeout(None)
        connection.recv(1 << 16)

    return serve


READ = {  # those of which a response is made
    "/space-before-colon": with_header(b"X-Space : v"),
    "/length-with-space": OK + b"Content-Length : 5\r\n\r\nbody!",
    "/space-in-name": with_header(b"X Space: v"),
    "/parenthesis": with_header(b"X(Space): v"),
    "/empty-name": with_header(b": value"),
    "/latin-name": with_header(b"X-\xe9: odd"),
    "/nul": with_header(b"X-Nul: a\0b"),
    "/folded": with_header(b"X-Folded: a\r\n\tb\r\n c"),
    "/long-line": with_header(b"X-Long: " + SAVED),
    "/bare-lf": b"HTTP/1.1 200 OK\nContent-Length: 5\n\nbody!",
    "/same-lengths": of_length(b"7", b"7"),
    "/chunked-twice": coded(
        b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"
    ),
    "/extensions": coded(
        b"Transfer-encoding: chunked", body=b"5;a=b;c\r\nbody!\r\n0;x\r\nT: 1\r\n\r\n"
    ),
    "/status-99": b"HTTP/1.1 99 Low\r\nContent-Length: 5\r\n\r\nbody!",
    "/status-7": b"HTTP/1.1 7 Lower\r\nContent-Length: 5\r\n\r\nbody!",
    "/announced": b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\n" + of_length(b"7"),
    "/garbage-after": of_length(b"7") + b"garbage",
}
CHUNKED = (b"Transfer-Encoding: chunked",)
UNREAD = {  # those of which none is made, by Scrapy neither
    "/negative": of_length(b"-5"),
    "/words": of_length(b"abc"),
    "/plus": of_length(b"+7"),
    "/two-lengths": of_length(b"7", b"9"),
    "/list-of-lengths": of_length(b"7, 9"),
    "/gzip-chunked": coded(b"Transfer-Encoding: gzip, chunked"),
    "/two-codings": coded(b"Transfer-Encoding: gzip", b"Transfer-Encoding: chunked"),
    "/unknown-coding": coded(b"Transfer-Encoding: xyz", body=b"some bytes"),
    "/identity": coded(b"Transfer-Encoding: identity", body=b"some bytes"),
    "/folded-first": b"HTTP/1.1 200 OK\r\n folded: x\r\nContent-Length: 5\r\n\r\nbody!",
    "/blanks": b"HTTP/1.1  200  OK\r\nContent-Length: 5\r\n\r\nbody!",
    "/http-2": b"HTTP/2 200\r\nContent-Length: 5\r\n\r\nbody!",
    "/icy": b"ICY 200 OK\r\nContent-Length: 5\r\n\r\nbody!",
    "/crlf-first": b"\r\n" + of_length(b"7"),
    "/wrong-chunks": coded(*CHUNKED, body=b"3\r\nabc\r\nzz\r\nde\r\n0\r\n\r\n"),
    "/chunk-too-long": coded(*CHUNKED, body=b"2\r\nabc\r\n0\r\n\r\n"),
    "/half-chunk": coded(*CHUNKED, body=b"a\r\nabc"),
    "/html-only": b"<html>no head at all</html>",
    "/no-number": b"HTTP/1.1 OK\r\nContent-Type: text/html\r\n\r\nbody",
    "/binary": bytes(range(256)) * 3,
    "/half-head": b"HTTP/1.1 200 OK\r\nContent-Ty",
    "/many-lines": OK + b"X-A: 12345\r\n" * 100_000 + b"\r\n",
    "/endless-line": OK + b"X: " + b"y" * 1_500_000,
    "/alive-garbage": b"garbage\n, and the connection stays",
    "/alive-chunks": coded(*CHUNKED, body=b"3\r\nabc\r\nzz\r\nde"),
}
SPIDER = """
import json
import scrapy


class Odd(scrapy.Spider):
    name = "odd"
    custom_settings = {"ROBOTSTXT_OBEY": False}

    async def start(self):
        for url in self.urls.split(","):
            meta = {"handle_httpstatus_all": True}
            yield scrapy.Request(url, self.parse, errback=self.failed, meta=meta)

    def parse(self, response):
        body = response.body.decode("latin-1")
        yield {"url": response.url, "status": response.status, "body": body}

    def failed(self, failure):
        yield {"url": failure.request.url, "error": repr(failure.value)[:200]}
"""


@pytest.fixture(scope="module")
def crawled(tmp_path_factory, chosen):
    """What is in the archive, and the spider's items by path."""
    directory = tmp_path_factory.mktemp("odd")
    scrapy_project(directory, SPIDER)
    cluster = Cluster(directory, chosen())
    pages = READ | UNREAD
    for path in ("/alive-garbage", "/alive-chunks", "/garbage-after"):
        pages[path] = kept_alive(pages[path])
    site = RawSite(pages)
    cluster.start(
        "n1",
        *("-a", f"urls={','.join(map(site.url, pages))}", "-o", "items.jsonl"),
        spider="odd",
        cwd=directory,
        RETRY_TIMES="0",
        DOWNLOAD_TIMEOUT="60",
        FRONTIER_REVISIT_STATUSES="599",  # many have one body
    )
    try:
        cluster.finish()
    finally:
        cluster.close()
        site.close()
    for path in cluster.warc_dir.glob("*.warc.gz"):
        assert_sound(path)
    lines = (directory / "items.jsonl").read_text().splitlines()
    items = {
        "/" + item["url"].split("/", 3)[3]: item for item in map(json.loads, lines)
    }
    waited = [
        path for path, item in items.items() if "Timeout" in str(item.get("error"))
    ]
    assert not waited, "the site let a request wait, so it says nothing of its answer"
    return Captured(cluster, "n1"), items


def stored(head):
    """*head* with the two changes that docs/archive.md names."""
    head = head.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    return head.replace(b"Transfer-", b"X-Archive-Orig-Transfer-")


def parted(answer):
    """Head and body of an answer with a head."""
    for end in (b"\r\n\r\n", b"\n\n"):
        if end in answer:
            head, _, body = answer.partition(end)
            return stored(head + end), body
    raise AssertionError


BODIES = {  # where it is not all that comes after the head
    "/chunked-twice": b"body!",
    "/extensions": b"body!",
    "/garbage-after": b"1234567",
}


@pytest.mark.parametrize("path", READ)
def test_a_response_is_made_and_its_bytes_are_archived(crawled, path):
    captured, items = crawled
    headers, block, _ = captured[path, "response"]
    answer = READ[path]
    if path == "/announced":
        answer = answer.partition(b"\r\n\r\n")[2]
    head, body = parted(answer)
    body = BODIES.get(path, body)

    assert block == head + body
    assert "X-Frontier-Framing" not in headers
    assert "WARC-Truncated" not in headers
    item = items[path]
    assert item["body"] == body.decode("latin-1")
    status = {"/status-99": 99, "/status-7": 7}
    assert item["status"] == status.get(path, 200)


CUT = {
    "/wrong-chunks": b"abc",
    "/chunk-too-long": b"ab",
    "/half-chunk": b"abc",
    "/alive-chunks": b"abc",
    **dict.fromkeys(["/negative", "/words", "/plus"], b"1234567"),
    **dict.fromkeys(["/two-lengths", "/list-of-lengths"], b"1234567"),
    "/gzip-chunked": b"5\r\nbody!\r\n0\r\n\r\n",
    "/two-codings": b"5\r\nbody!\r\n0\r\n\r\n",
    "/unknown-coding": b"some bytes",
    "/identity": b"some bytes",
}


@pytest.mark.parametrize("path", CUT)
def test_body_received_until_scrapy_gave_up_is_archived(crawled, path):
    captured, items = crawled
    headers, block, _ = captured[path, "response"]

    assert block == parted(UNREAD[path])[0] + CUT[path]
    assert headers["WARC-Truncated"] == "disconnect"
    assert "error" in items[path]


@pytest.mark.parametrize(
    "path",
    [
        *("/html-only", "/no-number", "/binary", "/half-head", "/alive-garbage"),
        *("/blanks", "/http-2", "/icy", "/crlf-first", "/folded-first"),
    ],
)
def test_answer_without_an_http_head_is_archived_as_resource(crawled, path):
    captured, items = crawled
    headers, block, _ = captured[path, "resource"]

    assert block == UNREAD[path]
    assert headers["Content-Type"] == "application/octet-stream"
    assert headers["X-Frontier-Framing"] == "no HTTP head"
    assert headers["WARC-Truncated"] == "disconnect"
    assert "error" in items[path]
    assert (path, "request") in captured.records


@pytest.mark.parametrize("path", ["/many-lines", "/endless-line"])
def test_a_head_without_end_is_cut(crawled, path):
    captured, items = crawled
    headers, block, _ = captured[path, "resource"]

    assert headers["WARC-Truncated"] == "length"
    assert UNREAD[path].startswith(block)
    assert 1 << 20 <= len(block) < 1_300_000
    assert "more than 1,048,576 bytes" in items[path]["error"]
