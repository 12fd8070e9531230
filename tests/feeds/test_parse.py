"""Feeds as data: formats, links, dates, and what is wrong with them."""

import builtins
from calendar import timegm

import pytest

from frontier.errors import NotAFeed
from frontier.feeds import parse as module
from frontier.feeds.parse import EMBEDS, in_worker, parse
from frontier.workers.pool import WorkerPool
from tests.harness.cases import each
from tests.harness.commands import printed

URL = "http://a.example/news/feed.xml"


def read(text, content_type="application/xml; charset=utf-8"):
    body = text if isinstance(text, bytes) else text.encode()
    return parse(body, content_type, URL)


def rss(items, attributes=""):
    return f"<rss version='2.0' {attributes}><channel>{items}</channel></rss>"


def utc(*words):
    return timegm((*words, 0, 0, 0, 0)[:6])


FORMATS = {
    "rss-0.90": """<?xml version="1.0"?><rdf:RDF
        xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"
        xmlns="http://my.netscape.com/rdf/simple/0.9/">
        <channel><title>The feed</title><link>http://a.example/</link></channel>
        <image><title>Logo</title><link>http://a.example/logo</link></image>
        <item><title>One</title><link>http://a.example/1</link></item></rdf:RDF>""",
    "rss-0.91": """<?xml version="1.0"?><!DOCTYPE rss PUBLIC
        "-//Netscape Communications//DTD RSS 0.91//EN"
        "http://my.netscape.com/publish/formats/rss-0.91.dtd">
        <rss version="0.91"><channel><title>The feed</title>
        <item><title>One</title><link>http://a.example/1</link></item>
        <textinput><title>No</title><link>http://a.example/search</link></textinput>
        </channel></rss>""",
    "rss-1.0": """<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"
        xmlns="http://purl.org/rss/1.0/" xmlns:dc="http://purl.org/dc/elements/1.1/">
        <channel rdf:about="http://a.example/"><title>The feed</title><items><rdf:Seq>
        <rdf:li rdf:resource="http://a.example/1"/></rdf:Seq></items></channel>
        <item rdf:about="http://a.example/1"><title>One</title>
        <link>http://a.example/1</link><dc:date>2024-02-01T10:00+01:00</dc:date></item>
        </rdf:RDF>""",
    "rss-2.0": rss(
        """<item><title>One</title><link>http://a.example/1</link>
        <guid isPermaLink="false">one</guid><source url="http://b.example/">B</source>
        <pubDate>Thu, 01 Feb 2024 09:00:00 GMT</pubDate></item>""",
    ),
    "atom-0.3": """<feed version="0.3" xmlns="http://purl.org/atom/ns#">
        <title>The feed</title><entry><title>One</title><id>tag:a.example:1</id>
        <link rel="alternate" type="text/html" href="http://a.example/1"/>
        <issued>2024-02-01T09:00:00Z</issued><modified>2024-02-02T09:00:00Z</modified>
        </entry></feed>""",
    "atom-1.0": """<feed xmlns="http://www.w3.org/2005/Atom"><title>The feed</title>
        <link rel="self" href="/feed"/><updated>2030-01-01T00:00:00Z</updated>
        <entry><title>One</title><id>urn:1</id><link href="/1"/>
        <link rel="edit" href="/edit"/><author><name>N</name><uri>/n</uri></author>
        <published>2024-02-01T09:00:00Z</published>
        <updated>2024-02-02T09:00:00Z</updated>
        <source><title>Other</title><id>urn:other</id><link href="http://c.example/"/>
        </source></entry></feed>""",
    "cdf": """<CHANNEL HREF="http://a.example/"><TITLE>The feed</TITLE>
        <ITEM HREF="/1" LASTMOD="2024-02-01T09:00Z"><TITLE>One</TITLE></ITEM>
        </CHANNEL>""",
    "json-1.0": """{"version": "https://jsonfeed.org/version/1", "title": "The feed",
        "items": [{"id": 7, "url": "http://a.example/1", "title": "One",
        "date_published": "2024-02-01T10:00:00+01:00"}]}""",
    "json-1.1": """{"version": "https://jsonfeed.org/version/1.1",
        "title": "The feed", "items": [{"id": "one", "external_url": "/1",
        "title": "One", "date_modified": "2024-02-01T09:00:00.250Z"}]}""",
}


@each("name", FORMATS)
def test_each_format_is_read(name):
    feed = read(FORMATS[name])

    assert feed.faults == []
    (item,) = feed.items
    assert item.title == "One"
    assert item.link == "http://a.example/1"
    if name not in ("rss-0.90", "rss-0.91"):
        assert item.dates[0] == utc(2024, 2, 1, 9)
    named = {"rss-1.0": "http://a.example/1", "rss-2.0": "one", "json-1.0": "7"}
    named |= {"atom-0.3": "tag:a.example:1", "atom-1.0": "urn:1", "json-1.1": "one"}
    assert item.guid == named.get(name, "")
    if name == "atom-1.0":
        assert item.dates == [utc(2024, 2, 1, 9), utc(2024, 2, 2, 9)]


@each(
    ("written", "read_as"),
    [
        ("Thu, 01 Feb 2024 09:00:00", utc(2024, 2, 1, 9)),  # no zone: UTC
        ("1 February 2024 09:00", utc(2024, 2, 1, 9)),
        ("2024-02-01T09:00:00.123456789+01:00", utc(2024, 2, 1, 8)),
        ("2024-02", utc(2024, 2, 1)),
        ("Thu, 01 Feb 2024 09:00:00 EST", utc(2024, 2, 1, 14)),
        ("Thu, 1 Feb 24 09:00 +0530", utc(2024, 2, 1, 3, 30)),
        ("9999-12-31T23:59:59Z", utc(9999, 12, 31, 23, 59, 59)),
        ("0001-01-01T00:00:00+08:00", None),
        ("yesterday", None),
        ("Thu, 01 Feb 2024 09:00:00 " + "x" * 9_000, utc(2024, 2, 1, 9)),
    ],
)
def test_dates(written, read_as):
    feed = read(rss(f"<item><link>/1</link><pubDate>{written}</pubDate></item>"))

    assert feed.items[0].dates == ([] if read_as is None else [read_as])
    if read_as is None:
        assert feed.faults == ["1 dates cannot be read"]


def link_of(item, attributes=""):
    (found,) = read(rss(f"<item>{item}</item>", attributes)).items
    return found.link


def test_links_are_relative_to_the_url_of_the_feed_or_to_xml_base():
    assert link_of("<link>2.html</link>") == "http://a.example/news/2.html"
    assert link_of("<link>//b.example/2</link>") == "http://b.example/2"
    based = "xml:base='http://b.example/x/'"
    assert link_of("<link>2.html</link>", based) == "http://b.example/x/2.html"
    inner = "<link xml:base='y/'>2.html</link>"
    assert link_of(inner, based) == "http://b.example/x/y/2.html"
    assert link_of("<link>2</link>", "xml:base='file:///etc/'") == ""


@each(
    "link",
    [
        "javascript:alert(1)",
        "file:///etc/passwd",
        "mailto:a@a.example",
        "http://",
        "http://a.example:port/",
        "http://[::1/",
        "http://a.example/" + "x" * 5_000,
        "http://a.example/\u2028x",
    ],
)
def test_only_links_of_http_come_out(link):
    feed = read(rss(f"<item><link>{link}</link><title>One</title></item>"))

    assert [tuple(item) for item in feed.items] == [("", "", [], "One", [])]
    assert feed.faults == ["1 links are no URLs of http or https"]


def test_a_guid_is_a_link_if_it_is_one_and_there_is_no_other():
    guid = "<guid>http://a.example/1</guid>"
    assert link_of(guid) == "http://a.example/1"
    assert link_of(guid + "<link>/2</link>") == "http://a.example/2"
    assert link_of("<link>/2</link>" + guid) == "http://a.example/2"
    assert link_of("<guid isPermaLink='false'>http://a.example/1</guid>") == ""
    assert link_of("<guid>a1b2</guid>") == ""
    assert link_of("<link uri='at://x'>/2</link>") == "http://a.example/2"


def test_enclosures_and_media_are_embeds_and_no_link():
    item = """<item><guid isPermaLink="false">x</guid>
        <enclosure url="/1.mp3" length="5" type="audio/mpeg"/>
        <media:group><media:title>No</media:title><media:content url="/1.mp4"/>
        <media:content url="/1.mp4"/></media:group><content src="/c"/></item>"""

    (found,) = read(rss(item, "xmlns:media='http://search.yahoo.com/mrss/'")).items

    assert found.link == ""
    names = ("1.mp3", "c", "1.mp4")
    assert found.embeds == [f"http://a.example/{name}" for name in names]
    attached = """{"items": [{"id": "1", "attachments": [{"url": "/1.mp3"}, 5]}]}"""
    assert read(attached).items[0].embeds == ["http://a.example/1.mp3"]


ENTITIES = """<?xml version="1.0" encoding="{encoding}"?>
<!DOCTYPE rss [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">
<!ENTITY c SYSTEM "file:///etc/passwd">]>
<rss><channel><item><title>&b;&c;</title><link>/1</link></item></channel></rss>"""


@each("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32"])
def test_entities_stand_for_nothing_in_every_encoding(encoding):
    (item,) = parse(ENTITIES.format(encoding=encoding).encode(encoding), "", URL).items

    assert (item.title, item.link) == ("&b;&c;", "http://a.example/1")


@each(
    ("text", "reason"),
    [
        (" \n", "is empty"),
        ("<!DOCTYPE html><html><body>Moved</body></html>", "is an HTML page"),
        ("<urlset/>", "is no feed"),
        ("[" * 100_000, "is broken JSON"),
        ('{"version": "https://jsonfeed.org/version/1"}', "is JSON, and no JSON Feed"),
        ('{"items": ' + "9" * 9_999 + "}", "is broken JSON"),
    ],
)
def test_non_feed_is_refused_with_the_reason(text, reason):
    with pytest.raises(NotAFeed, match=reason) as caught:
        read(text)

    assert str(caught.value).startswith(URL)


GOOD = "<link>/?a=1&amp;b=2&amp;copy=3</link>"
MALFORMED = {
    "bare ampersand": "<item><link>/?a=1&b=2&copy=3</link></item>",
    "in CDATA": "<item><link><![CDATA[/?a=1&b=2&copy=3]]></link></item>",
    "undeclared entity": f"<item><title>&eacute;</title>{GOOD}</item>",
    "stray end tag": f"</p></item></b><item>{GOOD}</item>",
    "not closed": f"<item><title>x</title><link>no</link><item>{GOOD}</item>",
    "undeclared prefix": f"<item><dc:title>x</dc:title>{GOOD}</item>",
    "no quotes": f"<item x=y>{GOOD}</item>",
    "cut": f"<item>{GOOD}<title>x",
    "cut in a tag": f"<item>{GOOD}<title",
    "cut in a CDATA section": f"<item>{GOOD}<title><![CDATA[",
    "text in between": f"</item> <a < b> <item>{GOOD}</item>",
}


@each("name", MALFORMED)
def test_malformed_feed_is_read_as_far_as_possible_and_reported(name):
    feed = read("<rss><channel>" + MALFORMED[name])

    assert feed.items[-1].link == "http://a.example/?a=1&b=2&copy=3"
    assert "is malformed" in feed.faults[0]
    assert feed.is_cut == name.startswith("cut")


def test_feed_limits_are_enforced_and_reported(monkeypatch):
    parts = "".join(f"<enclosure url='/{n}'/>" for n in range(90))
    (item,) = read(rss(f"<item>{parts}<title>{'x' * 9_000}</title></item>")).items
    assert (len(item.title), len(item.embeds)) == (500, EMBEDS)
    monkeypatch.setattr(module, "MOST_ITEMS", 6)
    many = "".join(f"<item><link>/{n}</link><guid>{n}</guid></item>" for n in range(90))
    feed = read(rss(many))
    assert [item.guid for item in feed.items] == ["0", "1", "2", "87", "88", "89"]
    assert feed.faults == ["has more than 6 items: 3 at each end are read"]
    assert len(read('{"items": [{}, {}, 5, {}, {}, {}, {}, {}]}').items) == 6
    monkeypatch.setattr(module, "MOST_BYTES", 100)
    with pytest.raises(NotAFeed, match="and 100 are read"):
        read(rss("x" * 100))


def test_no_file_is_opened_and_no_server_asked(monkeypatch, tmp_path):
    import feedparser  # noqa: F401 (it may open what it likes when it is imported)

    secret = tmp_path / "feed.xml"
    secret.write_text(rss("<item><title>secret</title></item>"))

    def refuse(*words, **given):
        raise AssertionError(f"somebody opens {words}")

    monkeypatch.setattr(builtins, "open", refuse)
    monkeypatch.setattr("socket.socket.connect", refuse)
    for text in (str(secret), f"file://{secret}", "http://127.0.0.1/feed"):
        with pytest.raises(NotAFeed):
            read(text)
    assert read(rss("<item><title>open</title></item>")).items[0].title == "open"


async def test_a_worker_reads_as_this_process_does():
    pool = WorkerPool(1, 10.0, 512_000_000)
    try:
        for text in [*FORMATS.values(), rss("<item><link>/1</link></item>" * 1_200)]:
            given = (text.encode(), "application/xml", URL)
            assert await in_worker(pool, *given) == parse(*given)
        with pytest.raises(NotAFeed, match="xml is an HTML page"):
            await in_worker(pool, b"<html>", "", URL)
    finally:
        await pool.close()


def test_a_process_that_reads_no_feed_does_not_load_what_reads_them():
    code = (
        "import sys, frontier.cli, frontier.scheduler, spiders.site, "
        "frontier.feeds.parse; print('feedparser' in sys.modules)"
    )

    assert printed(code) == "False\n"
