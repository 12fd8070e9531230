"""A hostile feed costs a worker at most what it may use, and nothing makes it crash."""

from hypothesis import given, strategies as st

from frontier.errors import NotAFeed
from frontier.feeds.parse import parse

URL = "http://a.example/feed"


def seen(text):
    try:
        return parse(text.encode("utf-8", "replace"), "", URL)
    except NotAFeed as refused:
        return refused.reason


PIECES = [
    *("<rss>", "<channel>", "<item>", "</item>", "<title>", "</title>", "<link>"),
    *("</link>", "<guid>", "<pubDate>", "</pubDate>", "<feed xmlns='x:y'>", "<entry>"),
    *("<a:b", " xmlns:a='http://purl.org/dc/terms/'", ">", "/>", "<![CDATA[", "]]>"),
    *("<!--", "-->", "<?x", "?>", "<!DOCTYPE x", "[", "]", "&", "&amp;", "&#55296;"),
    *("&#x110000;", "&eacute;", "<", "</", '"', "'", "=", " xml:base='//['", " href="),
    *("http://a.example/\x00", "javascript:", "2024-01-01", "9999-12-31T23:00-09:00"),
    *("Thu, 01 Jan 0001 00:00:00 +1400", "\ud800", "\ufeff", "\x85", "é", "-", " "),
    *("<enclosure url='x'/>", '{"items":[', '{"id":', "null", "}", ",", "1e999"),
]


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=40))
def test_random_feed_markup_is_refused_or_yields_only_http_links(pieces):
    found = seen("<rss><channel>" + "".join(pieces))

    if isinstance(found, str):
        return
    for item in found.items:
        for url in filter(None, (item.link, *item.embeds)):
            assert url.startswith(("http://", "https://"))
