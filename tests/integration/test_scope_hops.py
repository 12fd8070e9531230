"""Where a redirect or a meta refresh leads is in scope, or is not fetched."""

import pytest
from conftest import until

from tests.rawsite import RawSite, page, redirect


@pytest.fixture
def other():
    paths = ("/", "/out", "/refreshed", "/seeded", "/put")
    site = RawSite(dict.fromkeys(paths, page()))
    yield site
    site.close()


@pytest.fixture
def site(other):
    refresh = '<meta http-equiv="refresh" content="0; url={}">'
    made = RawSite(
        {
            "/": page("/a", "/b", "/c", "/d"),
            "/a": redirect(other.url("/out")),
            "/b": page(text=refresh.format(other.url("/refreshed"))),
            "/c": redirect("/in"),
            "/d": page(other.url("/")),
            "/in": page(),
            "/seed": redirect(other.url("/seeded")),
        }
    )
    yield made
    made.close()


def test_redirects_out_of_scope_are_not_fetched_but_added_seeds_are(
    cluster, site, other
):
    seeds = f"seeds={site.url('/')},{site.url('/seed')}"
    cluster.start("a", "-a", seeds, FRONTIER_KEEP_ALIVE="True")
    paths = {"/", "/a", "/b", "/c", "/d", "/in", "/seed"}
    until(lambda: paths <= site.requests.keys(), "the pages")
    source = site.url("/seed")
    line = f"{other.url('/seeded')}, to which {source} redirects, is not fetched: it is"
    until(lambda: line in cluster.text_of("a"), "what is said of the seed")
    until(lambda: not cluster.reserved("site-1"), "the rest")
    assert other.requests == {}
    found = cluster.shown("crawl", "status")
    assert found["totals"]["errors"] == 0

    cluster.do("crawl", "seed", other.url("/put"))
    until(lambda: other.requests.keys() == {"/robots.txt", "/put"}, "the seed")
    cluster.nodes["a"].terminate()
    cluster.finish()
    (log,) = cluster.warc_dir.glob("*.crawl.log")
    found = [each.split() for each in log.read_text().splitlines()]
    lines = {(line[3], line[5]): line for line in found}
    for path, source in (("/out", "/a"), ("/refreshed", "/b")):
        line = lines[other.url(path), site.url(source)]
        assert line[1] == "-5000"
        assert line[4] == "LR"
