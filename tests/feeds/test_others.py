"""Feeds that nobody here wrote: some of feedparser's tests (see `feedparser/LICENSE`).

All of them are read by `tests/compat/test_feedparser_suite.py`.
"""

from calendar import timegm
from pathlib import Path

from frontier.feeds.parse import Item, parse
from tests.harness.cases import each

FILES = Path(__file__).parent / "feedparser"
URL = "http://a.example/feed"
RSS_TESTS = "http://www.pocketsoap.com/weblog/rssTests/rss1.0withModulesNoDefNS.xml#1"
DELICIOUS = "http://delicious.com/url/174603f9d836a1aafac49e28ace1c19e#wearehugh"


def at(*words):
    return [timegm(words)]


EXPECTED = {
    "csucs4": [],
    "entity_in_doctype": [Item("tag:example.com,2006-05-04:/blog/")],
    "entry_link_alternate_map_link_2": [Item(link="http://www.example.com/")],
    "entry_modified": [Item(dates=at(2004, 1, 1, 19, 48, 21))],
    "euc-kr-item": [Item()],
    "http_item_link_base_docuri": [Item(link="http://a.example/relative/uri")],
    "item_enclosure_url": [
        Item(link="http://example.com/", embeds=("http://example.com/",))
    ],
    "item_guid_conflict_link": [
        Item(guid="http://guid.example.com/", link="http://link.example.com/")
    ],
    "item_href_map_link": [Item(link="http://www.example.org/")],
    "item_lastmod_parsed": [Item(dates=at(2004, 4, 7, 4, 5, 43))],
    "rdf_channel_empty_textinput": [
        Item("http://example.com/1", "http://example.com/1", title="crashes here")
    ],
    "rss090_item_title": [Item(title="Item title")],
    "rss1.0withModulesNoDefNS": [
        Item(
            RSS_TESTS,
            RSS_TESTS,
            at(2002, 9, 28, 20, 1, 19),
            "Test Item - RSS 1.0 no Default NS",
        )
    ],
    "rss2.0withAtomNS": [
        Item(
            DELICIOUS,
            "http://www.kylev.com/2005/03/29/rsync-and-vfat/",
            at(2009, 12, 25, 3, 30, 22),
            "rsync and vfat | Geek at Play",
        )
    ],
    "rss_incomplete_cdata": [Item()],
    "rss_item_link_corrupted_ampersands": [Item(link="http://link/get?a=1&b=2")],
    "rss_version_10_not_default_ns": [],
    "undeclared_namespace": [],
    "x80_cp037": [],
}


@each("name", sorted(path.stem for path in FILES.glob("*.xml")))
def test_the_items_of_a_feed(name):
    found = parse((FILES / f"{name}.xml").read_bytes(), "", URL).items

    expected = [item._replace(dates=list(item.dates)) for item in EXPECTED[name]]
    assert [one._replace(embeds=tuple(one.embeds)) for one in found] == expected
