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
from tests.harness.cases import rows


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


HERE = """http://a.example/ https://A.example/x?y#z http://u:p@a.example:80/
    http://a.example:8080/ http://a.example./ http://a.example"""
ELSEWHERE = """http://b.a.example/ http://aa.example/ http://example/a.example
    http://a.example.org/ http://[::1]/ http://a.example:99999/ data:,a.example"""


def test_a_host_is_excluded_in_all_spellings_and_on_all_ports():
    for url in HERE.split():
        assert why(url, (HOST, "a.example")) == "host a.example"
    for url in ("", *ELSEWHERE.split()):
        assert why(url, (HOST, "a.example")) is None


def test_a_host_with_a_port_is_excluded_there_alone():
    assert why("http://a.example:81/", (HOST, "a.example:81"))
    assert why("http://a.example/", (HOST, "a.example:81")) is None
    assert why("http://[::1]:81/", (HOST, "[::1]"))


INSIDE = """
    https://a.example/x   https://a.example/xy?z
    https://a.example/x   https://A.EXAMPLE:443/x
    https://a.example     https://a.example/x
    http://a.example/?a=  http://a.example/?a=1
    http://a.example/x?   http://a.example/x
"""
OUTSIDE = """
    https://a.example/x   http://a.example/x
    https://a.example/x   https://a.example/
    https://a.example     https://a.example.org/
"""


def test_a_prefix_is_compared_from_the_scheme_on():
    for table, is_in in ((INSIDE, True), (OUTSIDE, False)):
        for prefix, url in rows(table):
            assert bool(why(url, (PREFIX, prefix))) is is_in, (prefix, url)


def test_a_pattern_is_looked_for_anywhere_in_the_url():
    assert why("https://a.example/cal?month=7", (PATTERN, r"[?&]month=\d"))
    assert why("https://a.example/x.pdf", (PATTERN, r"\.pdf$"))
    assert why("https://a.example/x", (PATTERN, "^https://a")) == "pattern ^https://a"
    assert why("https://a.example/x", (PATTERN, "b")) is None


INVALID = {
    HOST: {
        "": "1 to 2,000",
        "http://a.example/x": "--prefix",
        "a" * 3000: "1 to 2,000",
        "a\n": "printable",
        **dict.fromkeys(("a b", "*.a.example", "[::g]"), "not a host"),
        "a.example:99999": "not a host",
    },
    PREFIX: dict.fromkeys(
        ("a.example/x", "ftp://a.example/x", "http://", "http://a.example:x/"),
        "http or https",
    ),
    PATTERN: {"a(b": r"'a\(b' is not a regular expression .*: missing \)"},
    "other": {"x": "not a kind"},
}


def test_invalid_exclusion_is_refused_with_a_reason():
    for kind, values in INVALID.items():
        for value, said in values.items():
            with pytest.raises(ConfigurationError, match=said):
                rule_of(kind, value)


REFUSED = r"""(a)\1 (?P<n>a)(?P=n) (?=a)b (?!a)b (?<=a)b (?<!a)b (?>a*)b a*+b a{1001}
    (a{50}){50} a\Z (?a)a (?u)a (?x)a (?#c)a \u0061 \N{COLON}"""
"""What `re` takes, and RE2 does not."""
TAKEN = r"a\z (?<n>a) \pL \Qa.b\E (?U)a+ a(?i)b \x{61}"
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
ALIKE = r"""a ^http: \.pdf$ (?i)\.PDF$ \Ahttps x.*y (calendar/){2}
    ^https?://([^/]*\.)?example\.org(:\d+)?/ /[^/]+/\d{4}/ [?&](sid|month)= a+?b*?
    (a|aa)+$ (a*)*b (?i:EXAMPLE) \W\D\S [^\w/:.] \w+\s (|x)y (?i)/[^a]/
    (?i)[^A-Z/:.] (?i)[^0-9a-f] \bpage\b [^\W\d]- (?P<name>h)t a{0}b (^a|^h)t $^
    (?s-i:a.) (?m)^/ \101"""


@pytest.mark.filterwarnings("ignore:Possible nested set")
def test_re2_differs_from_re_where_the_guide_says():
    guide = Path("docs/crawls.md").read_text("utf-8")
    for pattern in REFUSED.split():
        re.compile(pattern)
        with pytest.raises(ConfigurationError, match=re.escape(repr(pattern))):
            rule_of(PATTERN, pattern)
    for pattern in TAKEN.split():
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
        for pattern in ALIKE.split():
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
