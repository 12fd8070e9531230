"""The feeds that a page names."""

import json

import pytest

from frontier.feeds.discovery import MOST, FeedLink, feeds_of
from tests.harness import commands
from tests.rawsite import RawSite
from tests.urls.test_linear import grows_with, repeated

URL = "http://a.example/news/"


def found(page):
    return feeds_of(page.encode(), "text/html", URL)


def link(href, kind="application/rss+xml", rel="alternate", more=""):
    return f'<link rel="{rel}" type="{kind}" href="{href}" {more}>'


def test_a_page_names_its_feeds():
    page = f"""<!doctype html><html><head>
        {link("feed.xml", more='title="All  the &amp; news"')}
        {link("/atom", "application/atom+xml; charset=utf-8", "Home Alternate")}
        {link("https://b.example/feed.json", "application/feed+json")}
        {link("/feed", rel="feed")}
        {link("feed.xml")}</head><body>"""

    assert found(page) == [
        FeedLink("http://a.example/news/feed.xml", "RSS", "All the & news"),
        FeedLink("http://a.example/atom", "Atom"),
        FeedLink("https://b.example/feed.json", "JSON Feed"),
        FeedLink("http://a.example/feed", "RSS"),
    ]


@pytest.mark.parametrize(
    "tag",
    [
        link("/style.css", "text/css", "alternate stylesheet"),
        link("/wp-json", "application/json"),
        link("/fr", "text/html"),
        link("/feed", rel="nofollow"),
        link("javascript:x"),
        link("mailto:a@a.example"),
        link(""),
        link("http://[/"),
        f"<script>document.write('{link('/feed')}')</script>",
        f"<!-- {link('/feed')} -->",
        "<a href='/feed' type='application/rss+xml'>",
    ],
)
def test_other_links_are_no_feeds(tag):
    assert found(f"<html><head>{tag}</head>") == []


def test_feeds_are_relative_to_the_base_of_the_page():
    page = f"<base href='http://b.example/x/'><head>{link('feed')}"

    assert [feed.url for feed in found(page)] == ["http://b.example/x/feed"]


def test_a_feed_is_found_to_be_one():
    feed = b"<rss><channel><title>The feed</title></channel></rss>"

    assert feeds_of(feed, None, URL) == [FeedLink(URL, "RSS", "The feed")]


def test_no_more_are_taken_than_the_limit_and_time_is_in_proportion():
    page = "".join(link(f"/{n}") for n in range(MOST + 9))

    assert len(found(page)) == MOST
    assert grows_with(found, repeated(link("/x")), 1 << 14)
    assert grows_with(found, repeated("<div>"), 1 << 14)
    assert grows_with(found, repeated("<link rel='"), 1 << 14)


@pytest.fixture
def site():
    made = RawSite({})
    made.pages |= {
        "/": b"HTTP/1.1 302 F\r\nLocation: /news/\r\nContent-Length: 0\r\n\r\n",
        "/news/": answer(link("feed.xml", more='title="News"')),
        "/none": answer("<a href='/feed.xml'>our feed</a>"),
    }
    yield made
    made.close()


def answer(page):
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(page)}"
    return f"{head}\r\n\r\n{page}".encode()


def discover(*words):
    return commands.run("feeds", "discover", *words)


def test_the_command_lists_the_feeds_of_a_page_after_redirects(site):
    done = discover(site.url("/"), "--json")

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "url": site.url("/news/"),
        "feeds": [{"url": site.url("/news/feed.xml"), "kind": "RSS", "title": "News"}],
    }
    assert "News" in discover(site.url("/")).stdout


@pytest.mark.parametrize(
    ("path", "code", "message"),
    [
        ("/none", 4, "names no feed"),
        ("/missing", 6, "404"),
        ("none", 6, "is not a URL"),
    ],
)
def test_a_page_without_feeds_has_an_exit_code_and_a_line(site, path, code, message):
    done = discover(site.url(path) if path[0] == "/" else path)

    assert done.returncode == code
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
