"""CDX servers over real sockets, in the forms in which those in use answer."""

import base64
import gzip
import json
import logging
import threading
from types import SimpleNamespace
from urllib.parse import parse_qs, urlsplit

import pytest

from frontier.dedupe import cdx_lookup as remote, cdx_server as cdxserver
from frontier.dedupe.cdx_lookup import CdxServers
from frontier.dedupe.cdx_server import Wanted
from frontier.dedupe.digest import digest_of, labelled
from frontier.dedupe.revisit_policy import Match
from frontier.warc.batch import ArchiveConfig, BatchWriter
from tests.cdx_server import cdx_server, reply
from tests.warc.judges import assert_sound
from tests.warc.samples import NOON, an_exchange, members, warc_headers

URL = "http://example.com/0"
BODY = an_exchange().response_body
SHA1 = digest_of(BODY, "sha1")
SHA256 = digest_of(BODY)
DATE = "20200102030405"
DATED = "2020-01-02T03:04:05Z"
NAMES = ["urlkey", "timestamp", "original", "mimetype", "statuscode", "digest"]
KEY = "com,example)/0"


OUTBACK = [KEY, int(DATE), URL, "text/html", 200, SHA1, "-", "-", 500, 7, "a.warc.gz"]


def ndjson(url=URL, date=DATE, digest=SHA1, mime="text/html", **more):
    facts = {"urlkey": KEY, "timestamp": date, "url": url, "mime": mime}
    return json.dumps({**facts, "status": "200", "digest": digest, **more}) + "\n"


@pytest.fixture
def api():
    """A server that gives the answer it is told; it keeps what it was asked."""

    def answered(request):
        request.server.asked.append((request.path, dict(request.headers)))
        answer = request.server.answer
        if callable(answer):
            answer(request)
            return
        status, body = answer if isinstance(answer, tuple) else (200, answer)
        coded = isinstance(body, bytes) and body.startswith(b"\x1f\x8b")
        reply(request, status, body, [("Content-Encoding", "gzip")] * coded)

    with cdx_server(answered) as server:
        server.asked, server.answer = [], ""
        yield server


@pytest.fixture
def cdx(api):
    """Make `CdxServers` that end with the test."""
    made = []

    def make(*addresses, timeout=30.0, **options):
        made.append(CdxServers(addresses or [api.address], timeout, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def look(cdx):
    """Look up one payload at the api."""

    def look(each=None, **options):
        each = each or wanted()
        digest, found = cdx(**options).lookup([each]).get(each, ("", None))
        assert found is None or digest in each.digests
        return found

    return look


def wanted(url=URL, digest=SHA1, started=NOON):
    return Wanted(url, (digest,), started)


EXPECTED = (URL, DATED, "")


def test_a_server_is_asked_through_the_proxy_of_the_environment(api, cdx, monkeypatch):
    proxy = api.address.removesuffix("/coll/cdx").replace("//", "//who:p%40ss@")
    monkeypatch.setenv("http_proxy", proxy)
    api.answer = ndjson()

    assert list(cdx("http://far.example/cdx").lookup([wanted()])) == [wanted()]
    path, headers = api.asked[0]
    assert path.startswith("http://far.example/cdx?")
    basic = base64.b64encode(b"who:p@ss").decode()
    assert headers["proxy-authorization"] == f"Basic {basic}"


@pytest.mark.parametrize(
    "answer",
    [
        ndjson(),
        ndjson(digest=f"sha1:{SHA1}"),
        ndjson(mime="warc/revisit") + ndjson(),
        json.dumps([NAMES, [KEY, DATE, URL, "text/html", "200", SHA1]]),
        json.dumps([[KEY, DATE, URL, "text/html", "200", SHA1, "500"]]),
        json.dumps([json.loads(ndjson())]),
        json.dumps([OUTBACK]),
        f'{KEY} {DATE} {{"url": "{URL}", "mime": "text/html", "digest": "{SHA1}"}}\n',
        f"{KEY} {DATE} {URL} text/html 200 {SHA1} 500\n",
        gzip.compress(ndjson().encode(), mtime=0),
        gzip.compress(b"", mtime=0) + gzip.compress(ndjson().encode(), mtime=0),
        f"{KEY} {DATE} {URL} text/html 200 {SHA1} - - 500 7 a.warc.gz\n",
    ],
)
def test_an_original_is_found_in_the_forms_of_all_servers(api, answer, look):
    api.answer = answer
    found = look()
    assert (found.url, found.date, found.crawl_id) == EXPECTED
    assert found.source == api.address
    assert found.length in {0, 500}


def test_the_query_is_one_that_all_servers_know(api, look):
    look(wanted("http://example.com/a b*?x=1&y=é#f".replace(" ", "%20")))
    ((path, headers),) = api.asked
    assert parse_qs(urlsplit(path).query) == {
        "url": ["http://example.com/a%20b*?x=1&y=é#f"],
        "matchType": ["exact"],
        "output": ["json"],
        "filter": ["!mimetype:warc/revisit"],
        "sort": ["closest"],
        "closest": ["20260101000000"],
        "limit": ["200"],
    }
    assert headers["User-Agent"].startswith("frontier-crawl")


def test_the_address_may_say_more_and_has_its_secrets_kept(api, caplog, cdx):
    host = api.address.removeprefix("http://")
    address = f"http://me:p%40ss@{host}?filter=digest:{{digest}}&limit=-5&key=hush&x="
    api.answer = (500, "")
    servers = cdx(address)
    servers.lookup([wanted(f"{URL}{n}") for n in range(cdxserver.FAILURES)])

    path, headers = api.asked[0]
    query = parse_qs(urlsplit(path).query, keep_blank_values=True)
    assert (query["filter"], query["x"]) == ([f"digest:{SHA1}"], [""])
    assert (query["limit"], query["key"], query.get("sort")) == (["-5"], ["hush"], None)
    assert base64.b64decode(headers["Authorization"].split()[1]) == b"me:p@ss"
    assert api.address in caplog.text
    assert not any(word in caplog.text for word in ("hush", "p%40ss", "me:"))


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "[]",
        (404, '{"message": "No Captures found for: http://example.com/0"}'),
        ndjson(digest=digest_of(b"other", "sha1")),
        ndjson(digest="-"),
        ndjson(digest="what?"),
        ndjson(mime="warc/revisit"),
        ndjson(url="http://example.org/0"),
        ndjson(url="http://example.com/1"),
        ndjson(url="ftp://example.com/0"),
        ndjson(url=f"http://example.com/0\r\nX: {'y' * 70_000}"),
        ndjson(date="20201302030405"),
        ndjson(date="2020"),
        ndjson(date="20260101000001"),
        ndjson(date="2020\r\nWARC-Type: x"),
    ],
)
def test_cdx_answer_without_a_matching_capture_yields_no_original(api, answer, cdx):
    api.answer = answer
    servers = cdx()
    assert servers.lookup([wanted()]) == {}
    assert (servers.asked.asked, servers.asked.failed) == (1, 0)


@pytest.mark.parametrize(
    "answer",
    [
        (404, "no such collection"),
        (302, ""),
        "<html>a captive portal</html>",
        "[" * 100_000,
        "[1]",
        '"text"',
        "{" + '"a":' * 5,
        ndjson() * 8_000,
        gzip.compress(ndjson().encode() * 8_000, mtime=0),
        gzip.compress(ndjson().encode(), mtime=0)[:-9],
        gzip.compress(ndjson().encode(), mtime=0)[:20] + b"damaged" * 9,
    ],
)
def test_an_answer_of_another_kind_is_a_failure_and_nothing_more(api, answer, cdx):
    api.answer = answer
    servers = cdx()
    assert servers.lookup([wanted()]) == {}
    assert servers.asked.failed == 1
    api.answer = ndjson()  # what failed is not remembered
    assert len(servers.lookup([wanted()])) == 1


@pytest.mark.parametrize(
    ("match", "answered", "found"),
    [
        (Match.DIGEST, "https://www.example.com/0", True),
        (Match.SAME_URL, "https://www.example.com/0", True),
        (Match.URL, "https://www.example.com/0", False),
        (Match.CANONICAL, "http://www.example.com/0", True),
        (Match.URL, URL, True),
    ],
)
def test_the_match_says_whose_captures_count(api, match, answered, found, look):
    api.answer = ndjson(answered)
    assert (look(match=match) is not None) is found


def test_originals_are_remembered_by_digest(api, cdx, monkeypatch):
    monkeypatch.setattr(remote, "REMEMBERED", 1)
    servers = cdx()
    other = wanted(digest=digest_of(b"other", "sha1"))
    api.answer = ndjson()
    for _ in range(2):
        assert list(servers.lookup([wanted()])) == [wanted()]
    elsewhere = wanted("http://example.net/same-payload")
    assert servers.lookup([elsewhere])[elsewhere][1].url == URL
    assert len(api.asked) == servers.asked.asked == 1
    assert servers.asked.found == 3

    api.answer = ndjson(digest=other.digests[0])
    for _ in range(2):
        assert list(servers.lookup([other])) == [other]
    assert len(api.asked) == 2
    assert servers.lookup([wanted()]) == {}
    assert len(api.asked) == 3, "that was forgotten"


def test_the_next_server_is_asked_for_what_the_first_lacks(api, cdx):
    api.answer = lambda request: reply(
        request, 200, ndjson() if "/second" in request.path else ""
    )
    servers = cdx(api.address, f"{api.address}/second")
    assert servers.lookup([wanted()])[wanted()][1].source.endswith("/second")
    assert servers.asked.failed == 0


def test_a_server_that_says_nothing_is_waited_for_once_and_then_left_alone(
    api, cdx, caplog
):
    release = threading.Event()
    api.answer = lambda handler: release.wait(60)
    servers = cdx(timeout=0.2)
    batch = [wanted(f"{URL}{number}") for number in range(64)]
    # On a machine that stands still a look-up may be over before its requests are.
    while "is not asked for 60 s" not in caplog.text:
        assert servers.lookup(batch) == {}
    looked_up = servers.asked.asked
    assert servers.lookup(batch) == {}
    release.set()

    assert servers.asked.failed == servers.asked.asked == looked_up
    # Of the first batch not even all: what failed, and what was under way meanwhile.
    assert len(api.asked) < cdxserver.FAILURES + remote.WORKERS < 64
    assert caplog.text.count("is not asked for 60 s") == 1


@pytest.mark.parametrize(("late", "found"), [(0.0, 1), (31.0, 0)])
def test_an_answer_that_comes_too_slowly_is_none(api, cdx, monkeypatch, late, found):
    now = [0.0]
    clock = SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr(cdxserver, "time", clock)

    def drip(request):
        now[0] += late
        reply(request, 200, ndjson())

    api.answer = drip
    assert len(cdx().lookup([wanted()])) == found


def test_a_server_is_asked_again_after_a_pause_that_grows(api, caplog, monkeypatch):
    caplog.set_level(logging.INFO)
    now = [0.0]
    clock = SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr(cdxserver, "time", clock)
    server = cdxserver.CdxServer(api.address, 30.0)
    api.answer = (500, "")
    pauses = []
    for _ in range(7):
        for _ in range(cdxserver.FAILURES):
            if not server.is_resting():
                with pytest.raises(cdxserver.NoAnswer):
                    server.captures(wanted())
        began = now[0]
        while server.is_resting():
            now[0] += 1
        pauses.append(now[0] - began)
    assert pauses == [60, 120, 240, 480, 960, 960, 960]
    assert caplog.text.count("it answers 500") == 7

    api.answer = ndjson()
    assert server.captures(wanted())
    assert "answers again" in caplog.text
    assert not server.is_resting()


@pytest.mark.parametrize("status", [429, 503])
def test_a_server_that_is_overloaded_is_left_alone_at_once(api, cdx, status):
    api.answer = (status, "")
    servers = cdx()
    for number in range(3):
        servers.lookup([wanted(f"{URL}{number}")])
    assert len(api.asked) == 1


def test_a_revisit_says_where_its_original_is(api, new_writer, index, tmp_path, cdx):
    api.answer = ndjson(digest=labelled(SHA256))
    servers = cdx()
    writer = new_writer()
    batches = BatchWriter(
        writer, index, threading.Event(), ArchiveConfig(servers=servers)
    )
    new = an_exchange(1, b"something new")
    same, again, other = batches.write([an_exchange(), an_exchange(), new])
    writer.close()

    assert same.original.url == again.original.url == URL
    assert other.original is None
    assert batches.counters.cdx.found == 1
    assert ("add", [other.payload_digest.removeprefix("sha256:")]) == index.log[-1]
    path = tmp_path / same.file
    assert_sound(path)
    record = path.read_bytes()[same.offset : same.offset + same.length]
    headers = warc_headers(members(record)[0][2])
    assert headers["WARC-Refers-To-Target-URI"] == URL
    assert headers["WARC-Refers-To-Date"] == DATED
    assert headers["WARC-Refers-To-Container"] == api.address
    assert "WARC-Refers-To" not in headers
