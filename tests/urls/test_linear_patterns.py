"""Expressions that are found in linear time, compared with Python's own."""

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frontier.errors import ConfigurationError
from frontier.urls.exclusions import MOST_STATES, Pattern
from tests.harness.cases import each

URLS = (
    "",
    "http://a.example/",
    "https://www.example.org/tag/x-1/page/27?sid=AbC&month=7#top",
    "https://b.example/2024/01/x.PDF",
    "http://a.example/calendar/calendar/?month=",
    "http://[::1]:8080/~u/%7Eu/a+b_c",
    "A",
    "é",
    "\u212a",
    "\u017fX",
)


@each(
    "pattern",
    [
        "", "a", "^http:", r"\.pdf$", r"(?i)\.pdf$", r"\Ahttps", r"/\Z", "^$", "x.*y",
        r"/tag/[^/]+/page/\d+", r"^https?://([^/]*\.)?example\.org(:\d+)?/",
        r"/[^/]+/\d{4}/", "[?&](sid|month)=", "(calendar/){2}", "(calendar/){3,}",
        "(calendar/){1,2}[?]", "a+?b*?", "(a|aa)+$", "(a*)*b", "(?i:EXAMPLE)",
        r"\W\D\S",
        r"[^\w/:.]", r"\w+\s", "[A-C]", "(?i)[A-C]b", "(|x)y", "(?:^|/)2024",
        "(x$|=)#?",
        "(?i)[^a]", "(?i)[^A-Z/:.]", "(?i)[^h]ttp", r"(?a)\w", r"(?a:\W)é", r"(?ai)K",
        "(?i)k", "(?i:[^x])X", r"[^\W\d]-", r"[a\-z]|[]^]", "[&~|-]{2}",
        "(?P<name>h)t", "a{0}b", r"[\d_]x", "(?x) a [.] e", "(^a|^h)t", "$^", "a$b",
    ],
)  # fmt: skip
@each("url", URLS)
def test_it_finds_what_python_finds(pattern, url):
    assert Pattern(pattern).found(url) is bool(re.search(pattern, url))


PIECES = st.recursive(
    st.sampled_from(
        [
            "a",
            "b",
            ".",
            "[ab]",
            "[^a]",
            "(?i:[^a])",
            r"(?a:\w)",
            r"\d",
            "^",
            "$",
            "ab",
            "(?i:A)",
        ]
    ),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("(?:{0[0]}|{0[1]})".format),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "*?"])).map(
            "(?:{0[0]}){0[1]}".format
        ),
    ),
    max_leaves=8,
)


@settings(max_examples=400, deadline=None)
@given(PIECES, st.text("abAB1/é", max_size=8))
def test_it_finds_what_python_finds_whatever_the_expression(pattern, text):
    assert Pattern(pattern).found(text) is bool(re.search(pattern, text))


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("(", "not a regular expression"),
        (r"(a)\1", "a reference to a group"),
        ("(?=a)b", "a look ahead"),
        ("(?<!a)b", "a look ahead or behind"),
        (r"\bab", "a word boundary"),
        ("(?>a*)b", "an atomic group"),
        ("a*+b", "a possessive repetition"),
        ("(a{50}){50}", f"more than {MOST_STATES:,} parts"),
        ("((a{999}){999}){999}", "more than"),
        ("(" * 500 + "a" + ")" * 500, "not a regular expression|too large"),
    ],
)
def test_what_takes_longer_is_refused_with_a_reason(pattern, said):
    with pytest.raises(ConfigurationError, match=said):
        Pattern(pattern)


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(.*a){20}b", ".*.*.*=.*b"])
def test_time_grows_with_the_length_and_not_with_its_power(pattern):
    found, text = Pattern(pattern), "a" * 20_000 + "!"
    found.found("a" * 100 + "!")
    began = time.process_time()
    assert not found.found(text)
    assert time.process_time() - began < 2.0  # by `re` the first takes years


def test_what_is_remembered_is_bounded():
    found = Pattern("x[^x]*y")
    for number in range(0x100, 0x8000):
        found.found(f"x{chr(number)}")
    assert sum(map(len, found._next.values())) <= 20_000
    assert found.found("xaay")
