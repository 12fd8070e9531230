"""What a configuration of feeds may say, and in which spellings."""

import json
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from frontier.errors import ConfigurationError, InputBroken
from frontier.feeds.model import (
    LEAST_WAIT_S,
    MAX_FEEDS,
    MAX_IMPLIED,
    MAX_NAME,
    MAX_URL,
    MOST_WAIT_S,
    Feed,
    Site,
    canonical_url,
    feed_of,
    format_wait,
    parse_wait,
    site_name,
    site_of,
)

VECTORS = json.loads(
    Path(__file__)
    .with_name("crawlrss_min_wait_interval.json")
    .read_text(encoding="utf-8")
)
OURS = {"90": 90, "1h 30m": 5400, " 1h": 3600}
"""What CrawlRSS refuses and we take."""


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: repr(vector["in"]))
def test_a_wait_is_read_as_crawlrss_reads_it_but_for_its_faults(vector):
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


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("40d", 40 * 86_400),
        ("40 days", 40 * 86_400),
        ("1 week 2 hours", 612_000),
        ("5 min 1 sec", 301),
        ("2h 1 day", None),  # the other way round
        ("40 daze", None),
        ("1_000", None),
        ("1.5", None),
        ("25d", 25 * 86_400),
        ("3w", 21 * 86_400),
        ("1d 2h 3m 4s", 93_784),
        (90, 90),
        ("366d", MOST_WAIT_S),
        ("367d", None),
        ("999999999d", None),
        ("9" * 100, None),
        ("1h" + " " * 100_000 + "30m", None),
        ("0", None),
        ("0s", None),
        (0, None),
        (-5, None),
        (True, None),
        (1.5, None),
        pytest.param(10**5000, None, id="huge"),
        (None, None),
        ("1٣h", None),  # digits, but not ours
        ("1h\x00", None),
    ],
)
def test_a_wait_is_within_limits(text, seconds):
    if seconds is None:
        with pytest.raises(ValueError, match=r"wait") as caught:
            parse_wait(text)
        assert len(str(caught.value)) < 500
    else:
        assert parse_wait(text) == seconds


@pytest.mark.parametrize("seconds", [1, 59, 60, 5400, 86_399, 93_784, MOST_WAIT_S])
def test_a_wait_that_is_written_is_read_as_it_was(seconds):
    assert parse_wait(format_wait(seconds)) == seconds


def test_a_wait_is_written_as_crawlrss_writes_it():
    assert format_wait(5400) == "1h30m"
    assert format_wait(40 * 86_400) == "40d"
    assert format_wait(0) == "0s"


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
    "name", ["", "  ", " a", "a\nb", "\x1b[2J", "x" * 201, 7, None]
)
def test_a_name_is_one_printable_line(name):
    with pytest.raises(ValueError, match="name"):
        site_name(name)


def test_a_name_may_be_what_people_call_a_site():
    assert site_name("Morgunblaðið (mbl.is) 新聞") == "Morgunblaðið (mbl.is) 新聞"
    assert site_name("x" * MAX_NAME)


def test_a_site_has_a_fixed_wait_unless_it_has_a_longest_one():
    feed = Feed("http://a/feed")

    assert site_of("a", [feed], "1h") == Site("a", (feed,), 3600, 3600)
    assert site_of("a", [feed], "1h", "1d").wait_max_s == 86_400
    with pytest.raises(ValueError, match="30m, is shorter than the wait, 1h"):
        site_of("a", [feed], "1h", "30m")


def test_a_feed_is_not_twice_in_a_site():
    one, same = feed_of("http://a/feed"), feed_of("HTTP://A:80/feed#x")

    with pytest.raises(ValueError, match=r"http://a/feed is in the site twice"):
        site_of("a", [one, same])


def test_a_page_that_is_implied_twice_is_implied_once():
    feed = feed_of("http://a/feed", ["http://a/", "http://A", "http://a/news"])

    assert feed.implied == ("http://a/", "http://a/news")


def test_there_are_not_more_than_the_limits():
    pages = [f"http://a/{n}" for n in range(MAX_IMPLIED + 1)]
    feeds = [Feed(f"http://a/{n}") for n in range(MAX_FEEDS + 1)]

    with pytest.raises(ValueError, match="implied"):
        feed_of("http://a/feed", pages)
    with pytest.raises(ValueError, match="1,000 feeds"):
        site_of("a", feeds)


def test_an_error_says_where_and_is_one_of_configuration():
    error = InputBroken("feeds.toml", "has no 'wiat'", 7)

    assert str(error) == "feeds.toml:7: has no 'wiat'"
    assert (error.where, error.reason, error.line) == ("feeds.toml", "has no 'wiat'", 7)
    assert isinstance(error, ConfigurationError)


def test_a_site_does_not_change():
    with pytest.raises(FrozenInstanceError):
        site_of("a", []).paused = True
