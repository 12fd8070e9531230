"""OPML of feed readers, and of people who want to break something."""

import pytest

from frontier.errors import InputBroken
from frontier.feeds.model import Feed
from frontier.feeds.opml import read
from tests.harness.cases import each
from tests.harness.sites import site_of

READERS = """<?xml version="1.0" encoding="ISO-8859-1"?>
<!DOCTYPE opml>
<opml version="1.1"><head><title>mine</title></head><body>
<outline text="News"><outline text="Europe">
  <outline type="rss" text="One" xmlUrl="http://one.example/feed"
           htmlUrl="http://one.example/"/>
  <outline text="Zw\xf6lf" xmlurl="http://one.example/b" htmlUrl="javascript:x"/>
</outline></outline>
<outline text="Again"><outline xmlUrl="HTTP://ONE.example:80/feed"/></outline>
<outline text="No feed" url="http://x/"/>
<outline text="Bad" xmlUrl="file:///etc/passwd"/>
<OUTLINE TEXT="Two" XMLURL="http://two.example/feed?a=1&b=2"/>
</body></opml>
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "feeds.opml"

    def write(text, encoding="utf-8"):
        path.write_text(text, encoding)
        return path

    return write


ONE = [Feed("http://one.example/feed"), Feed("http://one.example/b")]
TWO = "http://two.example/feed?a=1&b=2"


def test_feeds_of_a_reader_are_in_the_sites_of_their_hosts(file):
    sites, faults = read(file(READERS, "latin-1"), "2h", {}, pages=False)

    assert sites == [
        site_of("one.example", ONE, "2h"),
        site_of("two.example", [TWO], "2h"),
    ]
    twice, no_url = faults
    assert "http://one.example/feed is listed already" in twice
    assert "'file:///etc/passwd' is not a URL of http or https" in no_url
    (site, _), faults = read(file(READERS, "latin-1"), "1h", {}, pages=True)
    assert [feed.implied for feed in site.feeds] == [("http://one.example/",), ()]
    assert any("'javascript:x' is not a URL" in fault for fault in faults)


@each(
    ("text", "said"),
    [
        ("", "is not OPML"),
        ("<rss><channel/></rss>", "no such element at its top"),
        ("not xml", "is not OPML"),
    ],
)
def test_file_other_than_opml_is_refused(file, text, said):
    with pytest.raises(InputBroken, match=said):
        read(file(text), "1h", {}, pages=False)


ENTITY = """<!DOCTYPE opml [<!ENTITY x SYSTEM "file:///etc/hostname">]><opml><body>
<outline xmlUrl="http://a.example/&x;"/></body></opml>"""


def test_no_entity_is_loaded(file):
    sites, _ = read(file(ENTITY), "1h", {}, pages=False)

    urls = [feed.url for site in sites for feed in site.feeds]
    assert urls == ["http://a.example/&x;"]


def test_a_file_that_is_cut_says_so_and_gives_what_it_has(file):
    text = READERS[: READERS.index('<outline text="No')]
    (site,), faults = read(file(text, "latin-1"), "1h", {}, pages=False)

    assert site.name == "one.example"
    assert "is not well-formed" in faults[0]


def test_known_feeds_are_left_out_of_an_opml_import(file):
    mine, one = site_of("Mine", [TWO]), site_of("one.example", ONE[:1])
    known = {site.name: site for site in (mine, one)}
    sites, _ = read(file(READERS, "latin-1"), "2h", known, pages=False)

    assert sites == [site_of("one.example (more)", ONE[1:], "2h")]
