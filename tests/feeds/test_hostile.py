"""A hostile feed costs a worker at most what it may use, and nothing makes it crash."""

from hypothesis import given, strategies as st

from frontier.errors import NotAFeed
from frontier.feeds.parse import in_worker, parse
from frontier.workers.pool import WorkerPool
from tests.urls.test_linear import numbered, repeated

URL = "http://a.example/feed"
IN = "<rss><channel>"
ITEM = f"{IN}<item>"


def seen(text):
    try:
        return parse(text.encode("utf-8", "replace"), "", URL)
    except NotAFeed as refused:
        return refused.reason


FEEDS = {
    "categories": lambda n: ITEM + numbered("<category>%d</category>", 26)(n),
    "namespaces": lambda n: "<rss " + numbered('xmlns:a%d="u" ', 18)(n) + ">",
    "open-elements": repeated("<a>", IN),
    "cdata": repeated("<![CDATA[", ITEM),
    "doctypes": repeated("<!DOCTYPE a>"),
    "attributes": lambda n: IN + "<b " + numbered("a%d=1 ", 9)(n),
    "ampersands": repeated("&", f"{ITEM}<title>"),
    "references": repeated("&nbsp;&#1;&x;", f"{ITEM}<title>"),
    "dates": repeated("<item><pubDate>,,,,,,,,,,,,,,</pubDate></item>", IN),
    "bases": repeated("<x xml:base='aa/'>", IN),
    "json-digits": repeated("1", '{"items":[', "]}"),
}


async def test_hostile_feed_does_not_keep_the_next_one_from_being_read():
    good = f"{ITEM}<link>/1</link></item></channel></rss>".encode()
    pool = WorkerPool(1, 0.5, 512_000_000)
    try:
        for make in FEEDS.values():
            body = make(1 << 16).encode()
            try:
                await in_worker(pool, body, "", URL)
            except NotAFeed as refused:
                assert refused.reason
            (item,) = (await in_worker(pool, good, "", URL)).items
            assert item.link == "http://a.example/1"
    finally:
        await pool.close()


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
