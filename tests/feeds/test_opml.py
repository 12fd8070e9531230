"""OPML of feed readers, and of people who want to break something."""

import time

import pytest

from frontier.errors import InputBroken
from frontier.feeds.model import Feed, site_of
from frontier.feeds.opml import merged, read

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
<outline TEXT="Two" xmlUrl="http://two.example/feed?a=1&b=2"/>
</body></opml>
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "feeds.opml"

    def write(text, encoding="utf-8"):
        path.write_text(text, encoding)
        return path

    return write


def test_feeds_of_a_reader_are_in_the_sites_of_their_hosts(file):
    imported = read(file(READERS, "latin-1"), "2h")

    assert imported.sites == {
        "one.example": site_of(
            "one.example",
            [Feed("http://one.example/feed"), Feed("http://one.example/b")],
            "2h",
        ),
        "two.example": site_of(
            "two.example", [Feed("http://two.example/feed?a=1&b=2")], "2h"
        ),
    }
    (fault,) = imported.faults
    assert "'file:///etc/passwd' is not a URL of http or https" in fault


def test_pages_are_implied_if_that_is_wanted(file):
    imported = read(file(READERS, "latin-1"), pages=True)

    first, second = imported.sites["one.example"].feeds
    assert first.implied == ("http://one.example/",)
    assert second.implied == ()
    assert any("the page of http://one.example/b" in fault for fault in imported.faults)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not OPML"),
        ("<rss><channel/></rss>", "its root is <rss>"),
        ("not xml", "is not OPML"),
        (
            (
                '<!DOCTYPE opml [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>'
                "<opml><body>&b;</body></opml>"
            ),
            "is not OPML",
        ),
        (
            (
                '<!DOCTYPE opml [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
                '<opml><body><outline xmlUrl="http://a/&x;"/></body></opml>'
            ),
            "is not OPML",
        ),
    ],
)
def test_what_is_not_opml_is_refused(file, text, said):
    with pytest.raises(InputBroken, match=said):
        read(file(text))


def test_a_file_that_is_cut_says_so_and_gives_what_it_has(file):
    imported = read(file(READERS[: READERS.index('<outline text="No')], "latin-1"))

    assert list(imported.sites) == ["one.example"]
    assert any("not well-formed" in fault for fault in imported.faults)


def test_hostile_files_take_linear_time(file):
    deep = "<outline>" * 200_000
    wide = '<outline xmlUrl="http://a.example/%d"/>'
    texts = [
        f"<opml><body>{deep}",
        "<opml><body>" + "".join(wide % n for n in range(20_000)),
        "<opml><body><outline " + "a='b' " * 100_000 + "/>",
    ]
    began = time.process_time()
    for text in texts:
        read(file(text))

    assert time.process_time() - began < 20


def test_there_are_limits(file, tmp_path):
    many = "".join(f'<outline xmlUrl="http://a.example/{n}"/>' for n in range(1_001))
    imported = read(file(f"<opml><body>{many}</body></opml>"))

    assert len(imported.sites["a.example"].feeds) == 1_000
    assert "too many feeds" in imported.faults[0]
    large = tmp_path / "large"
    with large.open("wb") as out:
        out.truncate(33 << 20)
    with pytest.raises(InputBroken, match="more than 33,554,432 bytes"):
        read(large)


def test_what_is_there_stays_when_more_is_imported(file):
    imported = read(file(READERS, "latin-1"), "2h")
    mine = site_of("Mine", [Feed("http://two.example/feed?a=1&b=2")], "1d")
    one = site_of(
        "one.example", [Feed("http://one.example/feed", ("http://p/",))], "3h"
    )

    made = merged({"Mine": mine, "one.example": one}, imported)

    both = [*one.feeds, Feed("http://one.example/b")]
    assert made == {"one.example": site_of("one.example", both, "3h")}
