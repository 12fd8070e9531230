"""What a node archives, against the bytes that a raw socket sent and received."""

import gzip
import threading
from datetime import datetime

import pytest
import scrapy
from conftest import Cluster

from tests.rawsite import RawSite, tls_context
from tests.warc.judges import read_fastwarc, read_warcio
from tests.warc.samples import members, warc_headers

ODD = (
    b"HTTP/1.1 200 Tr\xe8s bien\r\n"
    b"x-lower: 1\r\n"
    b"Set-Cookie: a=1; Path=/\r\n"
    b"X-UPPER:   padded  \r\n"
    b"set-cookie: b=2\r\n"
    b"X-Latin: caf\xe9\r\n"
    b"X-Folded: one\r\n  two\r\n"
    + b"a line without a colon\r\n"
    * (scrapy.version_info >= (2, 18))
    + b"Content-Type: text/plain\r\n"
    b"Content-Length: 5\r\n"
    b"Connection: close\r\n"
    b"\r\n"
)
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nServer: s\r\nTransfer-encoding: chunked\r\nVary: *\r\n\r\n"
)
OLD = b"HTTP/1.0 200 OK\nContent-Type: text/plain\n\n"
ZIPPED = gzip.compress(b"hello " * 100)
GZIP = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
release = threading.Event()


def half(connection):
    connection.sendall(PLAIN % 100 + b"first half")


def slow(connection):
    connection.sendall(PLAIN % 100 + b"so far")
    release.wait(240)


def large(connection):
    connection.sendall(PLAIN[:17] + b"Content-Type: text/plain\r\n\r\n")
    for _ in range(64):
        connection.sendall(b"x" * 65536)


PAGES = {
    "/odd": ODD + b"hello",
    "/chunked": CHUNKED + b"3\r\nabc\r\n2;ext=1\r\nde\r\n0\r\n\r\n",
    "/continue": b"HTTP/1.1 100 Continue\r\nX-No: 1\r\n\r\n" + PLAIN % 2 + b"ok",
    "/old": OLD + b"until the end",
    "/gzip": GZIP % len(ZIPPED) + ZIPPED,
    "/cut-gzip": GZIP % 30 + ZIPPED[:30],
    "/brotli": GZIP.replace(b"gzip", b"br") % 3 + b"not",
    "/error": b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy",
    "/moved": b"HTTP/1.1 302 Go\r\nLocation: /gone\r\nContent-Length: 0\r\n\r\n",
    "/robots.txt": PLAIN % 0,
    "/image": b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\n\x89PNG",
    "/half": half,
    "/slow": slow,
    "/large": large,
    "/announced": PLAIN % 5_000_000_000 + b"x",
}


class Captured:
    """Captures by path: the headers and blocks of request and response."""

    def __init__(self, cluster, node):
        self.records = {}
        self.log = cluster.text_of(node)
        for path in cluster.warc_dir.glob("*.warc.gz"):
            read_fastwarc(path)  # `warcio check` ends at any brotli: its own bug
            read_warcio(path)
            for _, _, content in members(path.read_bytes()):
                headers = warc_headers(content)
                head = content.partition(b"\r\n\r\n")
                if headers["WARC-Type"] not in {"warcinfo", "metadata"}:
                    url = headers["WARC-Target-URI"]
                    path = "/" + url.split("/", 3)[3]
                    kind = headers["WARC-Type"]
                    block = head[2][: int(headers["Content-Length"])]
                    found = self.records.setdefault((path, kind), [])
                    found.append((headers, block, head[0]))

    def __getitem__(self, key):
        (found,) = self.records[key]
        return found


@pytest.fixture(scope="module")
def crawled(tmp_path_factory, chosen):
    release.clear()  # tests of other modules may come between, and this again
    cluster = Cluster(tmp_path_factory.mktemp("wire"), chosen())
    site = RawSite(PAGES)
    seeds = ",".join(site.url(path) for path in PAGES if path != "/robots.txt")
    cluster.start(
        "n1",
        "-a",
        f"seeds={seeds}",
        RETRY_TIMES="0",
        DOWNLOADER_MIDDLEWARES='{"tests.rawsite.Impatient": 100}',
        DOWNLOAD_MAXSIZE="200000",
    )
    cluster.finish("n1")
    release.set()
    cluster.close()
    site.close()
    return site, Captured(cluster, "n1")


EXACT = {
    "/odd": ODD + b"hello",
    "/old": OLD.replace(b"\n", b"\r\n") + b"until the end",
    "/continue": PLAIN % 2 + b"ok",  # without the head before it
    **{p: PAGES[p] for p in ("/gzip", "/cut-gzip", "/brotli", "/error", "/moved")},
}


@pytest.mark.parametrize("path", EXACT)
def test_a_response_is_archived_byte_for_byte_but_for_its_line_ends(crawled, path):
    _, captured = crawled
    headers, block, _ = captured[path, "response"]

    assert block == EXACT[path]
    assert headers["WARC-IP-Address"] == "127.0.0.1"
    assert headers["WARC-Protocol"] == ("http/1.0" if path == "/old" else "http/1.1")
    assert "WARC-Truncated" not in headers  # HTTP/1.0 ends a body so


def test_a_request_is_archived_as_it_was_sent(crawled):
    site, captured = crawled

    for path, sent in site.requests.items():
        for headers, block, _ in captured.records.get((path, "request"), []):
            assert block == sent
            assert headers["WARC-Target-URI"] == site.url(path)
    assert {path for path, _ in captured.records} == {*PAGES, "/gone"}


@pytest.mark.parametrize(
    ("path", "reason", "body"),
    [
        ("/half", "disconnect", b"first half"),
        ("/slow", "time", b"so far"),
        ("/announced", "length", b""),
    ],
)
def test_a_body_that_was_cut_is_archived_with_the_reason(crawled, path, reason, body):
    _, captured = crawled
    headers, block, _ = captured[path, "response"]

    assert headers["WARC-Truncated"] == reason
    assert block.partition(b"\r\n\r\n")[2] == body


def test_a_body_without_end_is_cut_at_the_limit(crawled):
    _, captured = crawled
    headers, block, _ = captured["/large", "response"]

    assert headers["WARC-Truncated"] == "length"
    body = block.partition(b"\r\n\r\n")[2]
    assert 200_000 < len(body) < 500_000
    assert set(body) == {ord("x")}


def test_dates_have_microseconds_and_are_those_of_the_sending(crawled):
    site, captured = crawled
    dates = {
        path: headers["WARC-Date"]
        for (path, _), found in captured.records.items()
        for headers, _, _ in found
        if path not in {"/robots.txt", "/odd"}
    }

    form = "2026-01-01T00:00:00.123456Z"
    assert all(len(date) == len(form) for date in dates.values())
    parsed = {path: datetime.fromisoformat(date) for path, date in dates.items()}
    assert len({moment.microsecond % 1000 for moment in parsed.values()}) > 3
    assert "/slow" in parsed
    for path, moment in parsed.items():  # not when it was answered, or timed out
        assert moment.timestamp() <= site.times[path]


def test_tls_is_named(tmp_path, cluster):
    site = RawSite({"/a": PLAIN % 2 + b"ok"}, tls_context(tmp_path))
    cluster.start("n1", "-a", f"seeds={site.url('/a')}", ROBOTSTXT_OBEY="0")
    cluster.finish("n1")
    cluster.close()
    headers, block, head = Captured(cluster, "n1")["/a", "response"]

    assert block == PLAIN % 2 + b"ok"
    assert b"WARC-Protocol: http/1.1\r\nWARC-Protocol: tls/1.3\r\n" in head
    assert headers["WARC-Cipher-Suite"].startswith("TLS_")
    assert headers["WARC-IP-Address"] == "127.0.0.1"
