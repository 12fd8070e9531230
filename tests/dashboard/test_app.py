import html
import io
import itertools
import json
import re

import pytest
from jsonschema import Draft202012Validator
from rich.console import Console

from frontier import dashboard
from frontier.cli.report import WarcFiles, crawl_report
from frontier.dashboard import app
from frontier.dashboard.server import listen
from frontier.errors import ConfigurationError
from frontier.status import sections
from frontier.status.document import schema
from frontier.status.watch import Watch
from tests.dashboard.sample_data import fill
from tests.topologies import until

TOKEN = "a-token-that-is-long-enough"


def test_the_crawls_of_the_store_are_listed_and_each_has_a_page(page, crawl_of):
    crawl_of("news")
    served = page()
    answer, text = served.ask("/")
    _, of_crawl = served.ask("/crawls/news-1")

    assert answer.status == 200
    assert 'href="/crawls/news-1"' in text
    assert "news-1" in of_crawl
    assert served.ask("/crawls/nobody-1")[0].status == 404


def test_store_change_is_sent_to_viewers(page, crawl_of, db):
    keys = crawl_of("news")
    events = page().events("/crawls/news-1/events")
    first = next(line for line in events if line.startswith("data:"))
    db("HSET", keys.meta, "spider", "another-spider")
    later = (line for line in itertools.islice(events, 200) if "another-spider" in line)

    assert "headline" in json.loads(first.removeprefix("data:"))
    assert "another-spider" in json.loads(next(later).removeprefix("data:"))["headline"]


def test_a_page_that_ends_ends_the_streams_of_those_who_look(page, crawl_of, caplog):
    crawl_of("news")
    served = page()
    events = served.events("/crawls/news-1/events")
    assert any(line.startswith("data:") for line in events)

    served.close()
    assert not [line for line in events if "another" in line]  # it ends, and whole
    assert not caplog.records  # as uvicorn says if it has to cancel one


def test_a_name_that_leads_here_from_elsewhere_is_not_answered(page):
    served = page()

    for name in ("evil.example", "evil.example:80", f"127.0.0.1.evil:{served.port}"):
        assert served.ask("/", Host=name)[0].status == 421
    for name in ("localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:80"):
        assert served.ask("/", Host=name)[0].status == 200


def test_write_methods_are_refused_with_405(page):
    served = page()

    for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
        assert served.ask("/", method)[0].status == 405
    assert served.ask("/", "HEAD")[0].status == 200


def test_elsewhere_it_needs_a_token_and_one_that_is_long():
    with pytest.raises(ConfigurationError, match="token"):
        listen("0.0.0.0", 0)
    with pytest.raises(ConfigurationError, match="16"):
        listen("0.0.0.0", 0, "short")
    listen("0.0.0.0", 0, TOKEN).close()


def test_a_port_that_is_taken_is_named_with_what_helps():
    with (
        listen("127.0.0.1", 0) as first,
        pytest.raises(ConfigurationError, match="port 0 is any free one"),
    ):
        listen("127.0.0.1", first.getsockname()[1])


def test_with_a_token_nothing_is_shown_without_it(page, crawl_of):
    crawl_of("news")
    served = page(TOKEN)

    paths = ("/", "/crawls/news-1", "/events", "/crawls/news-1/events", "/metrics")
    for path in paths:
        answer, text = served.ask(path)
        assert answer.status == 401
        assert "news" not in text
        answer, text = served.ask(path, Accept="text/html")
        assert (answer.status, answer.getheader("location")) == (303, "/login")
    wrong = {"Authorization": f"Bearer {TOKEN}x"}
    assert served.ask("/", **wrong)[0].status == 401
    assert served.ask("/", Cookie=f"frontier_dashboard={TOKEN}")[0].status == 401
    for path in ("/", "/metrics"):
        assert "news-1" in served.ask(path, Authorization=f"Bearer {TOKEN}")[1]
    assert served.ask("/healthz")[0].status == 200


def test_login_cookie_does_not_contain_the_token(page, crawl_of):
    crawl_of("news")
    served = page(TOKEN)
    answer, _ = served.ask("/login", "POST", "token=wrong")
    assert answer.getheader("location") == "/login?wrong=1"
    assert answer.getheader("set-cookie") is None

    answer, _ = served.ask("/login", "POST", f"token={TOKEN}")
    cookie = answer.getheader("set-cookie")
    assert TOKEN not in cookie
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "news-1" in served.ask("/", Cookie=cookie.partition(";")[0])[1]


def test_the_api_gives_what_the_schema_describes(page, crawl_of, blocking):
    keys = crawl_of("news")
    fill(blocking(), keys, ["node-1", "node-2"], partitions=64)
    served = page()
    described = json.loads(served.ask("/api/schema")[1])

    assert described == schema()
    validator = Draft202012Validator(described)
    for path, key in (("/api/crawls", "crawls"), ("/api/crawls/news-1", "holders")):
        answer, text = served.ask(path)
        assert answer.getheader("content-type") == "application/json"
        document = json.loads(text)
        assert list(validator.iter_errors(document)) == []
        assert document["schema"] == 1
        assert document[key]
    answer, text = served.ask("/api/crawls/nobody-1")
    assert answer.status == 404
    assert "nobody-1" in json.loads(text)["error"]


def test_the_answers_let_a_browser_do_nothing_that_the_page_does_not(page, crawl_of):
    crawl_of("news")
    served = page()

    for path in ("/", "/crawls/news-1", "/api/crawls", "/nothing", "/static/page.js"):
        answer, text = served.ask(path)
        assert "default-src 'none'" in answer.getheader("content-security-policy")
        assert "unsafe" not in answer.getheader("content-security-policy")
        assert answer.getheader("x-content-type-options") == "nosniff"
        assert answer.getheader("referrer-policy") == "no-referrer"
        assert " style=" not in text
        assert "//" not in re.sub(r"<!--.*?-->|//.*|http://www.w3.org/\S+", "", text)


def test_viewer_over_the_limit_gets_503_with_retry_after(page, crawl_of, monkeypatch):
    monkeypatch.setattr(app, "MOST_VIEWERS", 1)
    crawl_of("news")
    served = page()
    events = served.events("/crawls/news-1/events")
    next(events)

    answer, _ = served.ask("/crawls/news-1/events")
    assert (answer.status, answer.getheader("retry-after")) == (503, "30")
    events.close()
    until(
        lambda: served.ask("/crawls/news-1/events", "HEAD")[0].status == 200,
        "room for a viewer",
    )


def test_an_extra_that_is_missing_is_named(monkeypatch):
    monkeypatch.setattr(dashboard, "LIBRARIES", ("json", "no_such_library"))

    with pytest.raises(ConfigurationError) as refused:
        dashboard.require_libraries("frontier dashboard")
    assert "pip install 'frontier-crawl[dashboard]'" in str(refused.value)


def test_a_page_has_sites_of_feeds_and_says_what_cannot_be_read(page, crawl_of, db):
    keys = crawl_of("news")
    db("HSET", keys.partition(5).counts, "dead", 2)
    db("SET", keys.partition(5).dead, "no list")
    db("ZADD", keys.sites, 5, "daily.example")
    site = "state waiting round 3 urls 41 items 1789 wait 60"
    db("HSET", keys.site("daily.example"), *site.split())

    answer, text = page().ask("/crawls/news-1")

    assert answer.status == 200
    assert "daily.example" in text
    assert "1,789" in text
    assert f"they cannot be read: the key {keys.partition(5).dead}" in text


def test_page_and_terminal_say_the_same(page, crawl_of, blocking, tmp_path):
    keys, store = crawl_of("news"), blocking()
    stuck = {"uplink_seconds": 300, "trapped": 7, "traps": {"hops": 7}, "excluded": 3}
    stuck |= {"refused": 2, "memory_bytes": 799_000_000, "items": 9_876_543}
    imported = {"recent": 10, "bloom": 0, "set": 5, "imported": 90}
    full = {"disk_full": True, "disk_free_bytes": 1_500_000_000, "seen": imported}
    fill(store, keys, ["n1", "n2"], n1=stuck, n2=full)

    _, text = page().ask("/crawls/news-1")
    terminal = Console(width=500, file=io.StringIO())
    watched = Watch(store, keys.namespace, "news-1").look()
    for part in crawl_report(watched, WarcFiles.of(tmp_path, "news-1")):
        terminal.print(part)

    for said in (" ".join(html.unescape(text).split()), terminal.file.getvalue()):
        for line in (
            "n1 waits: no host has answered it for 5 min",
            "n2 waits: its archive, journal or items cannot be written",
            "n1 has little memory left: it has 799.0 MB of 800.0 MB",
            "n2 has little disk left: 1.5 GB of 500.0 GB",
            "7 more links left out: 7 over FRONTIER_TRAP_HOPS",
            "3 links and queued requests dropped",
            "2 done without being sent: out of scope",
            "90 imported",
            "9,876,543",
        ):
            assert line in said
        new, known = sections.found(watched.crawl.totals)
        assert f"{new + known:,}" in said
        assert f"{new:,} new, {known:,} seen" in said
        assert f"{watched.crawl.totals.archive.files} WARC files" in said
