"""Where a redirect or a meta refresh leads is in scope, or is not fetched."""

import json

import pytest
from conftest import until

from tests.rawsite import RawSite

PAGE = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%b"


def page(text):
    return PAGE % (len(text), text.encode())


def redirect(location):
    return (
        f"HTTP/1.1 302 F\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode()
    )


@pytest.fixture
def other():
    site = RawSite({"/": page("out"), "/out": page("out"), "/refreshed": page("out")})
    yield site
    site.close()


@pytest.fixture
def site(other):
    refresh = '<meta http-equiv="refresh" content="0; url={}">'
    made = RawSite(
        {
            "/": page("".join(f"<a href='/{n}'>x</a>" for n in ("a", "b", "c", "d"))),
            "/a": redirect(other.url("/out")),
            "/b": page(refresh.format(other.url("/refreshed"))),
            "/c": redirect("/in"),
            "/d": page(f"<a href='{other.url('/')}'>x</a>"),
            "/in": page("in"),
            "/seed": redirect(other.url("/out")),
        }
    )
    yield made
    made.close()


def test_no_hop_leaves_the_scope(cluster, site, other):
    cluster.start("a", "-a", f"seeds={site.url('/')}")

    assert cluster.wait() == [0]
    assert other.requests == {}
    assert {"/", "/a", "/b", "/c", "/d", "/in"} <= site.requests.keys()
    text = cluster.text_of("a")
    assert "2 requests were not sent: out of scope, or" in text
    (log,) = cluster.warc_dir.glob("*.crawl.log")
    lines = {each.split()[3]: each.split() for each in log.read_text().splitlines()}
    for path, source in (("/out", "/a"), ("/refreshed", "/b")):
        line = lines[other.url(path)]
        assert line[1] == "-5000"
        assert line[4:6] == ["LR", site.url(source)]


def test_a_seed_that_redirects_out_of_scope_is_told(cluster, site, other):
    cluster.start("a", "-a", f"seeds={site.url('/seed')}")

    assert cluster.wait() == [1]
    assert other.requests == {}
    line = f"{other.url('/out')}, to which {site.url('/seed')} redirects, is out of"
    assert line in cluster.text_of("a")
    found = json.loads(cluster.ask("crawl", "status", "--json").stdout)
    assert found["totals"]["refused"] == 1
    assert found["totals"]["errors"] == 0


def test_a_seed_that_is_put_into_a_crawl_is_fetched_though_out_of_scope(
    cluster, site, other
):
    cluster.start("a", "-a", f"seeds={site.url('/in')}", FRONTIER_KEEP_ALIVE="True")
    seeded = cluster.ask("crawl", "seed", other.url("/out"))
    while seeded.returncode:  # before the node has opened the crawl
        seeded = cluster.ask("crawl", "seed", other.url("/out"))

    until(lambda: "/out" in other.requests, "the seed")
