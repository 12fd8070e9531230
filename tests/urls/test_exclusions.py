"""Which URLs an operator has excluded, told in bounded time."""

import re
from pathlib import Path

import pytest

from frontier.errors import ConfigurationError
from frontier.urls.exclusions import (
    HOST,
    LOOKED,
    PATTERN,
    PREFIX,
    Exclusions,
    rule_of,
)


def why(url, *rules):
    found = Exclusions(rule_of(*rule) for rule in rules).why(url)
    return None if found is None else str(found)


def test_a_host_is_stored_in_one_spelling():
    spelled = {"A.Example": "a.example", "a.example.": "a.example"}
    spelled |= {"a.example:8080": "a.example:8080", "127.0.0.1": "127.0.0.1"}
    spelled |= {"[::1]": "[::1]", "[0:0::1]:81": "[::1]:81"}
    spelled |= {"müller.example": "xn--mller-kva.example"}
    for host, stored in spelled.items():
        assert rule_of(HOST, host).value == stored


@pytest.mark.parametrize(
    "url",
    [
        "http://a.example/",
        "https://A.example/x?y#z",
        "http://u:p@a.example:80/",
        "http://a.example:8080/",
        "http://a.example./",
        "http://a.example",
    ],
)
def test_a_host_is_excluded_in_all_spellings_and_on_all_ports(url):
    assert why(url, (HOST, "a.example")) == "host a.example"


@pytest.mark.parametrize(
    "url",
    [
        "http://b.a.example/",
        "http://aa.example/",
        "http://example/a.example",
        "http://a.example.org/",
        "http://[::1]/",
        "http://a.example:99999/",
        "data:,a.example",
        "",
    ],
)
def test_other_hosts_are_not(url):
    assert why(url, (HOST, "a.example")) is None


def test_a_host_with_a_port_is_excluded_there_alone():
    assert why("http://a.example:81/", (HOST, "a.example:81"))
    assert why("http://a.example/", (HOST, "a.example:81")) is None
    assert why("http://[::1]:81/", (HOST, "[::1]"))


@pytest.mark.parametrize(
    ("prefix", "url", "is_in"),
    [
        ("https://a.example/x", "https://a.example/xy?z", True),
        ("https://a.example/x", "https://A.EXAMPLE:443/x", True),
        ("https://a.example/x", "http://a.example/x", False),
        ("https://a.example/x", "https://a.example/", False),
        ("https://a.example", "https://a.example/x", True),
        ("https://a.example", "https://a.example.org/", False),
        ("http://a.example/?a=", "http://a.example/?a=1", True),
        ("http://a.example/x?", "http://a.example/x", True),
    ],
)
def test_a_prefix_is_compared_from_the_scheme_on(prefix, url, is_in):
    assert bool(why(url, (PREFIX, prefix))) is is_in


def test_a_pattern_is_looked_for_anywhere_in_the_url():
    assert why("https://a.example/cal?month=7", (PATTERN, r"[?&]month=\d"))
    assert why("https://a.example/x.pdf", (PATTERN, r"\.pdf$"))
    assert why("https://a.example/x", (PATTERN, "^https://a")) == "pattern ^https://a"
    assert why("https://a.example/x", (PATTERN, "b")) is None


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        (HOST, "", "1 to 2,000"),
        (HOST, "http://a.example/x", "--prefix"),
        (HOST, "a b", "not a host"),
        (HOST, "*.a.example", "not a host"),
        (HOST, "a.example:99999", "not a host"),
        (HOST, "[::g]", "not a host"),
        (HOST, "a" * 3000, "1 to 2,000"),
        (HOST, "a\n", "printable"),
        (PREFIX, "a.example/x", "http or https"),
        (PREFIX, "ftp://a.example/x", "http or https"),
        (PREFIX, "http://", "http or https"),
        (PREFIX, "http://a.example:x/", "http or https"),
        (PATTERN, "a(b", r"'a\(b' is not a regular expression .*: missing \)"),
        ("other", "x", "not a kind"),
    ],
)
def test_invalid_exclusion_is_refused_with_a_reason(kind, value, said):
    with pytest.raises(ConfigurationError, match=said):
        rule_of(kind, value)


REFUSED = (
    r"(a)\1", "(?P<n>a)(?P=n)", "(?=a)b", "(?!a)b", "(?<=a)b", "(?<!a)b", "(?>a*)b",
    "a*+b", "a{1001}", "(a{50}){50}", r"a\Z", "(?a)a", "(?u)a", "(?x)a", "(?#c)a",
    r"\u0061", r"\N{DIGIT ONE}",
)  # fmt: skip
"""What `re` takes, and RE2 does not."""
TAKEN = (r"a\z", "(?<n>a)", r"\pL", r"\Qa.b\E", "(?U)a+", "a(?i)b", r"\x{61}")
"""The reverse."""
OTHERWISE = {
    (r"/\d/", "/\u0663/"): (None, True),
    (r"/\w/", "/\xe9/"): (None, True),
    (r"/\s/", "/\xa0/"): (None, True),
    (r"\b\xe9", "/\xe9/"): (None, True),
    ("/xa{,2}/", "/xaa/"): (None, True),
    ("/xa{,2}/", "/xa{,2}/"): (True, None),
    ("/[[:digit:]]/", "/7/"): (True, None),
}
"""Pattern and path to what is found by RE2, and by `re`."""
ALIKE = (
    "a", "^http:", r"\.pdf$", r"(?i)\.PDF$", r"\Ahttps", "x.*y", "(calendar/){2}",
    r"^https?://([^/]*\.)?example\.org(:\d+)?/", r"/[^/]+/\d{4}/", "[?&](sid|month)=",
    "a+?b*?", "(a|aa)+$", "(a*)*b", "(?i:EXAMPLE)", r"\W\D\S", r"[^\w/:.]", r"\w+\s",
    "(|x)y", "(?i)/[^a]/", "(?i)[^A-Z/:.]", "(?i)[^0-9a-f]", r"\bpage\b", r"[^\W\d]-",
    "(?P<name>h)t", "a{0}b", "(^a|^h)t", "$^", "(?s-i:a.)", r"(?m)^/", r"\101",
)  # fmt: skip


@pytest.mark.filterwarnings("ignore:Possible nested set")
def test_re2_differs_from_re_where_the_guide_says():
    guide = Path("docs/crawls.md").read_text("utf-8")
    for pattern in REFUSED:
        re.compile(pattern)
        with pytest.raises(ConfigurationError, match=re.escape(repr(pattern))):
            rule_of(PATTERN, pattern)
    for pattern in TAKEN:
        assert rule_of(PATTERN, pattern)
        with pytest.raises(re.error):
            re.compile(pattern)
    for (pattern, path), found in OTHERWISE.items():
        url = f"http://h.example{path}"
        by_both = why(url, (PATTERN, pattern)), re.search(pattern, url)
        assert tuple(bool(one) or None for one in by_both) == found, pattern
    for said in (r"\Z", r"\z", "(?<name>", "(?a)", "(?x)", "{,n}", "[[:digit:]]"):
        assert said in guide


def test_a_pattern_finds_what_re_finds():
    paths = "", "A/", "a/x.PDF", "2024/01/page/27?sid=AbC&month=7", "calendar/calendar/"
    for url in [f"http://www.example.org/{path}" for path in paths]:
        for pattern in ALIKE:
            found = why(url, (PATTERN, pattern))
            assert bool(found) is bool(re.search(pattern, url)), (pattern, url)


def test_patterns_that_are_too_large_together_are_refused():
    some = [rule_of(PATTERN, f"{number}(a{{900}})") for number in range(30)]
    Exclusions(some[:20])
    with pytest.raises(ConfigurationError, match=r"'22\(a.*all patterns"):
        Exclusions(some)


def test_pattern_beyond_the_first_part_of_a_url_is_not_found():
    rule = (PATTERN, "needle")
    assert why("http://a.example/" + "x" * LOOKED + "needle", rule) is None
