"""Sitemaps: what they name, what they do not speak for, and hostile ones."""

import gzip
import zlib

import pytest

from frontier.urls.sitemaps import MOST_BYTES, MOST_URLS, read_sitemap

URL = "http://a.example/maps/sitemap.xml"
SPACE = "xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'"


def read(body, hosts=("a.example",)):
    if isinstance(body, str):
        body = body.encode()
    *parts, total = read_sitemap(body, URL, hosts)
    entries = [tuple(entry) for part in parts for entry in part["entries"]]
    return entries, {part["is_index"] for part in parts}, total["faults"]


def urlset(*entries):
    return f"<urlset {SPACE}>{''.join(entries)}</urlset>"


def entry(url, more=""):
    return f"<url><loc> {url}\n</loc>{more}</url>"


def test_a_list_has_urls_and_their_last_change():
    changes = {
        "<lastmod>2024-02-01</lastmod>": "2024-02-01T00:00:00+00:00",
        "<lastmod> 2024-02-01T10:00:00+01:00 </lastmod>": "2024-02-01T09:00:00+00:00",
        "<lastmod>2024-02</lastmod>": "2024-02-01T00:00:00+00:00",
        "<lastmod>2024</lastmod>": "2024-01-01T00:00:00+00:00",
        "<lastmod>0001-01-01</lastmod>": "0001-01-01T00:00:00+00:00",
        "": None,
    }
    urls = [f"http://a.example/{n}?a=1&amp;b=2" for n in range(len(changes))]

    found, kinds, faults = read(urlset(*map(entry, urls, changes)))

    expected = [url.replace("&amp;", "&") for url in urls]
    assert found == list(zip(expected, changes.values(), strict=True))
    assert kinds == {False}
    assert faults == []


def test_an_entry_that_is_its_url_names_it():
    """As an index that is among crawler-commons' cases has them."""
    url = "\n http://a.example/1?a=1&amp;b=2\n"
    others = "<sitemap>\n</sitemap><sitemap><loc>/2.xml.gz</loc></sitemap>"
    found, kinds, faults = read(
        f"<sitemapindex><sitemap>{url}</sitemap>{others}<url/></sitemapindex>"
    )

    urls = [url for url, _ in found]
    assert urls == ["http://a.example/1?a=1&b=2", "http://a.example/2.xml.gz"]
    assert (kinds, faults) == (
        {True},
        ["1 <url> elements in an index are not read"],
    )


def test_an_ampersand_in_a_cdata_section_is_one():
    found, _, faults = read(urlset(entry("/1?a=1<![CDATA[&b=2&c=3]]>&amp;d=4&e=5")))

    assert (found, faults) == ([("http://a.example/1?a=1&b=2&c=3&d=4&e=5", None)], [])


def test_unreadable_date_is_reported_and_its_url_kept():
    for date in ("yesterday", "9999-12-31T23:59-09:00", "x" * 9999):
        found, _, faults = read(urlset(entry("/1", f"<lastmod>{date}</lastmod>")))
        assert found == [("http://a.example/1", None)]
        assert faults == ["1 of its dates cannot be read"]


FEEDS = {
    "RSS 2.0": "<rss version='2.0'><channel><link>http://a.example/</link><item>"
    "<title>x</title><link> /1 </link><guid>http://a.example/g</guid>"
    "<pubDate>Thu, 01 Feb 2024 10:00:00 +0100</pubDate></item>"
    "<item><link>http://a.example/2</link></item></channel></rss>",
    "RSS 1.0": "<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#' "
    "xmlns='http://purl.org/rss/1.0/'><channel><link>http://a.example/</link></channel>"
    "<item><link>/1</link><pubDate>Thu, 01 Feb 2024 09:00:00 GMT</pubDate></item>"
    "<item><link>/2</link></item></rdf:RDF>",
    "Atom 1.0": "<feed xmlns='http://www.w3.org/2005/Atom'><link href='/home'/>"
    "<entry><link rel='self' href='/self'/><link href='/1'/>"
    "<link rel='alternate' href='/other'/><updated>2024-02-01T09:00:00Z</updated>"
    "</entry><entry><link rel='alternate' href='http://a.example/2'/></entry></feed>",
    "Atom 0.3": "<feed version='0.3' xmlns='http://purl.org/atom/ns#'><entry>"
    "<link rel='alternate' href='/1'/><modified>2024-02-01T09:00:00Z</modified>"
    "</entry><entry><link href='/2'/></entry></feed>",
}


def test_a_feed_is_a_sitemap_of_its_items():
    dated = ("http://a.example/1", "2024-02-01T09:00:00+00:00")
    for name, text in FEEDS.items():
        entries = [dated, ("http://a.example/2", None)]
        assert read(text) == (entries, {False}, []), name


def test_news_have_their_date_and_images_are_no_pages():
    news = (
        "<n:news xmlns:n='http://www.google.com/schemas/sitemap-news/0.9'>"
        "<n:publication_date>2024-02-01</n:publication_date></n:news>"
        "<i:image xmlns:i='http://www.google.com/schemas/sitemap-image/1.1'>"
        "<i:loc>/no.png</i:loc></i:image>"
    )
    other = "<x:loc xmlns:x='http://x.example/'>/no</x:loc><y:loc>/no</y:loc>"

    found, _, faults = read(urlset(entry("/1", news + other)))

    assert found == [("http://a.example/1", "2024-02-01T00:00:00+00:00")]
    assert faults == ["is malformed: Namespace prefix y on loc is not defined"]


def test_a_text_has_a_url_in_each_line():
    text = "\ufeffhttp://a.example/1\r\n\r\n  http://a.example/2\nno url\n"

    found, _, faults = read(text)

    assert [url for url, _ in found] == ["http://a.example/1", "http://a.example/2"]
    assert faults == ["1 of its URLs are none of http(s)"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_other_encodings_and_gzip_are_read(encoding):
    body = urlset(entry("/é")).encode(encoding)

    assert read(body)[0] == [("http://a.example/é", None)]
    assert read(gzip.compress(body)) == read(body)
    assert read(gzip.compress(body[:40]) + gzip.compress(body[40:])) == read(body)


def test_truncated_or_damaged_sitemap_is_read_as_far_as_possible():
    body = urlset(*[entry(f"/{n}") for n in range(2000)]).encode()
    packed = gzip.compress(body)

    found, _, faults = read(packed[:-2000])

    assert 0 < len(found) < 2000
    assert faults[0].startswith("its gzip is cut")
    found, _, faults = read(packed[:-8] + bytes(8))
    assert len(found) > 1500
    assert faults[0].startswith("its gzip is cut or damaged: CRC check failed")
    found, _, faults = read(body[: body.rfind(b"99\n")])
    assert found[-1] == ("http://a.example/1998", None)
    assert "is malformed" in faults[0]
    lines = b"http://a.example/1\nhttp://a.example/23"
    assert read(gzip.compress(lines, 0)[:-9])[0] == [("http://a.example/1", None)]


def test_urls_of_other_hosts_are_refused_in_one_line():
    urls = ["http://b.example/1", "http://b.example/2", "http://a.example:443/", "/ok"]
    urls += ["https://a.example/", "HTTP://A.example:80/2", "http://c.example/"]

    found, _, faults = read(urlset(*map(entry, urls)), ["a.example", "c.example"])

    assert [url for url, _ in found] == [
        "http://a.example/ok",
        "https://a.example/",
        "http://A.example:80/2",
        "http://c.example/",
    ]
    (fault,) = faults
    assert fault == (
        "names 3 URLs of hosts that it does not speak for, first http://b.example/1"
    )


def test_invalid_url_in_a_sitemap_is_dropped_and_counted():
    others = ["javascript:x", "ftp://a.example/", "http://["]
    for url in (*others, "http:// /", "/" + "x" * 5000):
        faults = ["1 of its URLs are none of http(s)"]
        assert read(urlset(entry(url))) == ([], set(), faults)


def test_document_other_than_a_sitemap_is_reported():
    for body, said in {
        "": "is empty",
        "<html><loc>/1</loc></html>": "is an HTML page, and no sitemap",
        "<opml><url><loc>/1</loc></url></opml>": "is <opml>, and no sitemap",
        "<!-- -->": "is malformed",
        "<": "is malformed",
    }.items():
        found, _, faults = read(body)
        assert found == []
        assert faults[0].startswith(said)


def test_entities_of_a_sitemap_are_not_put_in():
    entities = "".join(f"<!ENTITY e{n} '{f'&e{n - 1};' * 99}'>" for n in range(1, 9))
    files = "<!ENTITY f SYSTEM 'file:///etc/hostname'><!ENTITY % p SYSTEM 'p.dtd'> %p;"
    head = f"<!DOCTYPE urlset [<!ENTITY e0 'x'>{entities}{files}]>"

    found, _, (fault,) = read(head + urlset(entry("/&e8;"), entry("/&f;"), entry("/1")))

    assert [url for url, _ in found][-1] == "http://a.example/1"
    assert all(len(url) < 50 for url, _ in found)
    assert fault == "declares entities: they are left in its URLs as they are written"


def test_malformed_entry_loses_no_other_url():
    for body, paths in {
        urlset(entry("/1?a=1&b=2"), entry("/2?&")): ["/1?a=1&b=2", "/2?&"],
        urlset(entry("/1") + "<url><loc>/2</url>", entry("/3")): ["/1", "/2", "/3"],
        urlset(entry("/1"), "<x></y>", entry("/2")): ["/1", "/2"],
        urlset(entry("/1\x0b"), entry("/2<>")): ["/1", "/2"],
        "<rss><channel><item><link>/1<item><link>/2</link></item>": ["/1", "/2"],
    }.items():
        found = [url.removeprefix("http://a.example") for url, _ in read(body)[0]]
        assert sorted(found) == paths


def test_urls_beyond_the_sitemap_limit_are_dropped_and_reported():
    text = "".join(f"http://a.example/{n}\n" for n in range(MOST_URLS + 1))

    found, _, faults = read(text)

    assert len(found) == MOST_URLS
    assert faults == ["has more than 50,000 URLs; the rest is left out"]


def test_a_bomb_is_unpacked_as_far_as_the_protocol_allows():
    bomb = zlib.compressobj(9, wbits=31)
    packed = bomb.compress(urlset(entry("/1")).encode())
    packed += b"".join(bomb.compress(bytes(1 << 20)) for _ in range(128))

    found, _, faults = read(packed + bomb.flush())

    assert found == [("http://a.example/1", None)]
    assert faults[0] == f"has more than {MOST_BYTES:,} bytes; the rest is left out"
