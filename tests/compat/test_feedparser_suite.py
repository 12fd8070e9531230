"""The feeds of feedparser's own test-suite, two thousand, read by us.

They are taken from its source distribution, which is that of the installed version.
"""

import io
import re
import warnings
from calendar import timegm

import feedparser
import pytest

from frontier.errors import NotAFeed
from frontier.feeds.parse import parse
from tests.compat.scrapy_suite import source_of

pytestmark = pytest.mark.compat

HEADER = re.compile(rb"(?m)^Header:\s+([^:]+):(.+)$")
REFUSED = {
    **dict.fromkeys(
        (
            f"wellformed/cdf/channel_{name}.xml"
            for name in (
                "abstract_map_description",
                "abstract_map_tagline",
                "href_map_link",
                "href_map_links",
                "lastmod",
                "lastmod_parsed",
                "title",
            )
        ),
        "a channel without an item, of which feedparser does not say what it is",
    ),
    "illformed/rss_empty_document.xml": "nothing is in it",
    "http/http_status_302-no-location.xml": "nothing is in it",
}
FAULTY = {
    "wellformed/atom10/entry_title_type_empty-no-crash.xml": "-- in a comment, which "
    "XML forbids; feedparser says so, too"
}
NO_LINK = "an id that is no URL as it is written makes no link"
ABOUT = "rdf:about is the link of an item without another"
DIFFERENT = {
    "illformed/rdf_channel_empty_textinput.xml": ABOUT,
    "wellformed/atom10/entry_id_with_attributes.xml": NO_LINK,
    "wellformed/base/http_entry_id_base_content_location.xml": NO_LINK,
    "wellformed/base/http_entry_id_base_docuri.xml": NO_LINK,
    "wellformed/lang/http_content_language_entry_title_inherit_2.xml": NO_LINK,
    "wellformed/node_precedence/atom10_id.xml": NO_LINK,
    "wellformed/rdf/rdf_item_description.xml": ABOUT,
    "wellformed/rdf/rdf_item_rdf_about.xml": ABOUT,
    "wellformed/rdf/rdf_item_title.xml": ABOUT,
}
"""Files of which the links are others than feedparser's, on purpose."""


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    """The files by their paths below ``tests``."""
    tests = source_of("feedparser", tmp_path_factory.mktemp("feedparser")) / "tests"
    files = sorted(tests.glob("**/*.xml"))
    return {str(path.relative_to(tests)): path.read_bytes() for path in files}


def read(name, body):
    """What we make of a file and what feedparser does, link and dates of each item."""
    headers = {k.decode().lower(): v.decode().strip() for k, v in HEADER.findall(body)}
    content_type = headers.get("content-type", "")
    url = f"http://127.0.0.1:8097/tests/{name}"
    ours = parse(body, content_type, url)
    headers |= {"content-type": content_type or "application/xml"}
    headers["content-location"] = url
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = feedparser.parse(io.BytesIO(body), response_headers=headers)
    expected = []
    for entry in map(dict, theirs["entries"]):
        link = entry.get("link") or ""
        dates = {
            timegm(entry[key])
            for key in ("published_parsed", "updated_parsed", "created_parsed")
            if entry.get(key)
        }
        has_link = link.startswith(("http://", "https://"))
        expected.append((link if has_link else "", sorted(dates)))
    return ours, expected


def test_every_feedparser_file_is_parsed_or_refused_with_a_reason(suite):
    refused, faulty = set(), set()
    for name, body in suite.items():
        try:
            feed, _ = read(name, body)
        except NotAFeed:
            refused.add(name)
        else:
            if feed.faults and name.startswith("wellformed/"):
                faulty.add(name)

    assert len(suite) > 2_000
    assert refused == REFUSED.keys()
    assert faulty == FAULTY.keys()


def test_feed_links_and_dates_equal_feedparsers(suite):
    different = set()
    for name in suite.keys() - REFUSED.keys():
        feed, expected = read(name, suite[name])
        if [(item.link, item.dates) for item in feed.items] != expected:
            different.add(name)

    assert different == DIFFERENT.keys()
