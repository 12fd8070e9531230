"""Retry-After: seconds and dates (RFC 9110, 10.2.3 and 5.6.7), and what is neither."""

import math

import pytest

from frontier.download.back_off import http_date, retry_after
from tests.harness.growth import grows_with, repeated

NOW = 784_111_777.0  # Sun, 06 Nov 1994 08:49:37 GMT, the example of RFC 9110


def asked(value, date=None, now=NOW):
    return retry_after([value], date, now)


@pytest.mark.parametrize(
    "text",
    [
        b"Sun, 06 Nov 1994 08:49:37 GMT",
        b"Sunday, 06-Nov-94 08:49:37 GMT",
        b"Sun Nov  6 08:49:37 1994",
    ],
)
def test_a_date_has_three_forms(text):
    assert http_date(text) == NOW
    assert asked(text, now=NOW - 90) == 90


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(b"0", 0), (b"120", 120), (b"  7\t", 7), (b"00005", 5), (b"9" * 40, 1e40)],
)
def test_seconds_are_digits(value, seconds):
    assert asked(value) == pytest.approx(seconds)


def test_a_date_counts_from_the_date_of_the_answer():
    late = b"Sun, 06 Nov 1994 08:51:37 GMT"

    assert asked(late, b"Sun, 06 Nov 1994 08:49:37 GMT", now=0.0) == 120
    assert asked(late, b"garbage") == 120
    assert asked(late, None) == 120


def test_a_date_that_is_over_asks_for_nothing_more():
    assert asked(b"Sat, 01 Jan 1994 00:00:00 GMT") == 0


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"-1",
        b"+1",
        b"1.5",
        b"1e3",
        b"0x10",
        b"1 2",
        b"120 seconds",
        b"soon",
        b"\xff\xfe",
        b"1" + b" " * 100_000 + b"1",
        b"Mon, 01 Jan 99999999999999999999 00:00:00 GMT",
        b"1994-11-06T08:49:37Z",
        "١٢٠".encode(),
    ],
)
def test_invalid_retry_after_is_ignored(value):
    assert asked(value) is None


def test_the_most_of_several_counts():
    assert retry_after([b"5", b"soon", b"60"], None, NOW) == 60
    assert retry_after([], None, NOW) is None


def test_hostile_value_takes_time_in_proportion():
    assert asked(b"1" * 10**6) == math.inf
    for text in (b"1", b"Sun, ", b"\t"):
        assert grows_with(asked, repeated(text, after=b"x"), 1 << 12), text
