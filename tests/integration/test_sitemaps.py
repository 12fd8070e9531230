"""The spider `site` with the sitemaps of a site, on two nodes."""

import gzip
import threading
from collections import Counter

import pytest
from conftest import until

from frontier.feeds.items import SIZE
from frontier.store.keys import CrawlKeys
from tests import rawsite
from tests.rawsite import RawSite


def answer(body, kind="application/xml"):
    return rawsite.answer(body, f"Content-Type: {kind}")


def urlset(*urls, attributes=""):
    entries = "".join(f"<url><loc>{url}</loc></url>" for url in urls)
    return f"<urlset {attributes}>{entries}</urlset>".encode()


def index(*urls):
    entries = "".join(f"<sitemap><loc>{url}</loc></sitemap>" for url in urls)
    return f"<sitemapindex>{entries}</sitemapindex>".encode()


@pytest.fixture
def other():
    site = RawSite({}, address="127.0.0.7")
    yield site
    site.close()


@pytest.fixture
def site(other):
    made = RawSite({"/": answer(b"<p>no links", "text/html")})
    url = made.url
    names = "\n".join(
        f"Sitemap: {url(path)}"
        for path in ("/index.xml", "/bomb.xml.gz", "/page.xml", "/missing.xml")
    )
    made.pages |= {
        "/robots.txt": answer(names.encode(), "text/plain"),
        "/index.xml": answer(
            index(
                url("/index.xml"),
                url("/a.xml.gz"),
                url("/b.txt"),
                other.url("/sitemap.xml"),
            )
        ),
        "/a.xml.gz": answer(
            gzip.compress(
                urlset(*[url(f"/a/{n}") for n in range(40)], other.url("/x"))
            ),
            "application/x-gzip",
        ),
        "/b.txt": answer(f"{url('/b/1')}\r\n{url('/b/2')}\n".encode(), "text/plain"),
        "/bomb.xml.gz": answer(
            gzip.compress(urlset(url("/bomb")) + b" " * (60 << 20)), "application/gzip"
        ),
        "/page.xml": answer(b"<html><p>Moved</html>"),
    }
    pages = [*(f"/a/{n}" for n in range(40)), "/b/1", "/b/2", "/bomb"]
    made.pages |= {page: answer(page.encode(), "text/html") for page in pages}
    made.named = pages
    yield made
    made.close()


def test_two_nodes_fetch_what_the_sitemaps_name_and_say_what_they_leave_out(
    cluster, site, other
):
    for node in ("a", "b"):
        cluster.start(node, "-a", f"seeds={site.url('/')}", "-a", "sitemaps=1")

    cluster.wait()

    assert site.requests.keys() >= {"/", "/robots.txt", "/index.xml", *site.named}
    assert other.requests == {}
    text = cluster.text_of("a") + cluster.text_of("b")
    assert (
        f"the sitemap {site.url('/a.xml.gz')}: names 1 URLs of hosts that it does not "
        f"speak for, first {other.url('/x')}"
    ) in text
    assert f"first {other.url('/sitemap.xml')}" in text
    assert f"{site.url('/bomb.xml.gz')}: has more than 52,428,800 bytes" in text
    assert f"{site.url('/page.xml')}: is an HTML page, and no sitemap" in text
    assert f"no sitemap is read from {site.url('/missing.xml')}: " in text
    found = cluster.shown("crawl", "status")
    assert found["totals"]["errors"] == 0


def test_sitemaps_are_read_out_of_scope_and_lead_nowhere_else(cluster):
    site = RawSite({"/blog/": answer(b"<p>x", "text/html")})
    site.pages |= {
        "/robots.txt": answer(f"\ufeffSite-map : {site.url('/map.xml')} # x".encode()),
        "/map.xml": answer(index(site.url("/maps/1.xml"))),
        "/maps/1.xml": answer(urlset(site.url("/blog/1"), site.url("/shop/1"))),
        "/blog/1": answer(b"<p>x", "text/html"),
    }
    arguments = ("-a", f"seeds={site.url('/blog/')}", "-a", "sitemaps=1")
    cluster.start("a", *arguments, "-a", "scope=prefix")

    cluster.finish()
    paths = {"/blog/", "/blog/1", "/robots.txt", "/map.xml", "/maps/1.xml"}
    assert site.requests.keys() == paths
    site.close()


def test_a_page_with_a_new_date_is_visited_at_once(cluster, tmp_path):
    visits, dates = Counter(), {"/1": "2024-01-01", "/2": "2024-01-01"}
    read_again = threading.Event()

    def page(path, body):
        def send(connection):
            visits[path] += 1
            connection.sendall(answer(body(), "text/html"))

        return send

    def sitemap():
        if visits["/map.xml"] > 2:
            read_again.set()
        entries = "".join(
            f"<url><loc>{site.url(path)}</loc><lastmod>{date}</lastmod></url>"
            for path, date in dates.items()
        )
        return f"<urlset>{entries}</urlset>".encode()

    site = RawSite({})
    site.pages |= {path: page(path, lambda: b"<p>x") for path in ("/", *dates, "/3")}
    site.pages["/map.xml"] = page("/map.xml", sitemap)
    rules = tmp_path / "recrawl.toml"
    rules.write_text('[[rule]]\npath = "/map.xml"\ninterval = "1s"\n')
    for node in ("a", "b"):
        cluster.start(
            node,
            *("-a", f"seeds={site.url('/')}"),
            *("-a", f"sitemaps={site.url('/map.xml')}"),
            FRONTIER_RECRAWL="fixed",
            FRONTIER_RECRAWL_INTERVAL="86400",
            FRONTIER_RECRAWL_RULES=str(rules),
        )
    assert read_again.wait(240)
    assert visits["/1"] == visits["/2"] == 1

    dates |= {"/1": "2024-01-02", "/3": "2024-01-02"}
    until(lambda: visits["/1"] == 2 and visits["/3"] == 1, "the visits")
    before = visits["/map.xml"]
    until(lambda: visits["/map.xml"] > before + 1, "the sitemap once more")

    assert (visits["/1"], visits["/2"], visits["/3"]) == (2, 1, 1)
    key = CrawlKeys("frontier", "site-1").sitemaps
    (state,) = cluster.db("HVALS", key)
    assert len(state) == 3 * SIZE

    cluster.db("SET", key, "damaged")
    until(
        lambda: "cannot be remembered" in cluster.text_of("a") + cluster.text_of("b"),
        "the warning",
    )
    assert (visits["/1"], visits["/2"], visits["/3"]) == (2, 1, 1)
    site.close()
