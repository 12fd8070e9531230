"""What a configuration of feeds may say, and in which spellings."""

import json
from pathlib import Path

import pytest

from frontier.feeds.model import (
    LEAST_WAIT_S,
    MAX_URL,
    MOST_WAIT_S,
    Feed,
    canonical_url,
    parse_wait,
    site_name,
)
from tests.harness.cases import each
from tests.harness.sites import site_of

VECTORS = json.loads(
    Path(__file__)
    .with_name("crawlrss_min_wait_interval.json")
    .read_text(encoding="utf-8")
)
OURS = {"90": 90, "1h 30m": 5400, " 1h": 3600}
"""What CrawlRSS refuses and we take."""


@each("vector", VECTORS)
def test_wait_is_parsed_like_crawlrss_except_for_its_faults(vector):
    text, out = vector["in"], vector["out"]

    if text in OURS:
        assert out is None
        assert parse_wait(text) == OURS[text]
    elif out is None or out < LEAST_WAIT_S * 1000:
        with pytest.raises(ValueError, match=r"wait"):
            parse_wait(text)
    else:
        assert parse_wait(text) * 1000 == out
        assert parse_wait(vector["printed"]) * 1000 == out


@each(
    ("text", "seconds"),
    [
        ("40 days", 40 * 86_400),
        ("5 min 1 sec", 301),
        ("2h 1 day", None),  # the other way round
        ("1.5", None),
        ("1d 2h 3m 4s", 93_784),
        (90, 90),
        ("366d", MOST_WAIT_S),
        ("367d", None),
        ("1h" + " " * 100_000 + "30m", None),
        ("0s", None),
        (0, None),
        (1.5, None),
        (10**5000, None),
        (None, None),
        ("1٣h", None),  # digits, but not ours
    ],
)
def test_a_wait_is_within_limits(text, seconds):
    if seconds is None:
        with pytest.raises(ValueError, match=r"wait") as caught:
            parse_wait(text)
        assert len(str(caught.value)) < 500
    else:
        assert parse_wait(text) == seconds


@each(
    ("url", "made"),
    [
        ("HTTP://Example.COM:80/feed?a=1#top", "http://example.com/feed?a=1"),
        ("  https://example.com  ", "https://example.com/"),
        ("https://exämple.com/ü", "https://xn--exmple-cua.com/%C3%BC"),
        ("ftp://example.com/feed", None),
        ("file:///etc/passwd", None),
        ("example.com/feed", None),
        ("http://", None),
        ("", None),
        (None, None),
        (5, None),
        ("http://a/" + "x" * MAX_URL, None),
        ("http://a/" + "ü" * (MAX_URL // 2), None),  # longer when it is escaped
    ],
)
def test_a_feed_has_one_spelling(url, made):
    if made is None:
        with pytest.raises(ValueError, match=r"URL|characters"):
            canonical_url(url)
    else:
        assert canonical_url(url) == made


def test_a_password_in_a_url_is_refused_and_not_repeated():
    with pytest.raises(ValueError, match="HttpAuthMiddleware") as caught:
        canonical_url("https://me:s3cret@example.com/feed")

    assert "s3cret" not in str(caught.value)
    assert "example.com/feed" in str(caught.value)


@each("name", ["", "  ", " a", "a\nb", "\x1b[2J", "x" * 201, 7, None])
def test_a_name_is_one_printable_line(name):
    with pytest.raises(ValueError, match="name"):
        site_name(name)


def test_a_feed_is_not_there_twice_and_a_page_is_implied_once():
    with pytest.raises(ValueError, match=r"http://a/feed is listed already"):
        site_of("a", ["http://a/feed", "HTTP://A:80/feed#x"])
    implied = ("http://a/", "http://A", "http://a/news")
    (feed,) = site_of("a", [Feed("http://a/feed", implied)]).feeds

    assert feed.implied == ("http://a/", "http://a/news")
