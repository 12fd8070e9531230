import datetime as dt
import re
import time

import pytest

from frontier.errors import InputBroken, InvalidURL
from frontier.urls.canon.regex_rules import MOST, cautious, steps
from frontier.urls.canon.rule_files import MAX_RULES, Rules, read, valid_on
from frontier.urls.canon.rulesets import label_of, named
from tests.urls.canon.originals import apply

WHOLE = r"""
name = "ours"
base = "heritrix"

[[rule]]
site = "com,example)/shop"
strip = 'visit=[0-9]+&?'

[[rule]]  # mobile pages
regex = '(https?://)m\.(.*)'
replace = '$1www.$2'

[[rule]]
match = 'example\.fr'
transcode = '[?&]q=([^&]+)'
source = "ISO-8859-1"
target = "UTF-8"
"""


@pytest.fixture
def written(tmp_path):
    def written(text):
        named.cache_clear()
        path = tmp_path / "rules.toml"
        path.write_text(text)
        return str(path)

    return written


def broken(path):
    with pytest.raises(InputBroken) as caught:
        named(path)
    assert str(caught.value).startswith(path)
    return caught.value


@pytest.mark.parametrize(
    ("url", "form"),
    [
        ("http://www.example.com/shop?visit=7&x=1", "http://example.com/shop?x=1"),
        (
            "http://www.example.com/else?visit=7&x=1",
            "http://example.com/else?visit=7&x=1",
        ),
        ("http://m.example.com/A", "http://example.com/a"),
        ("http://example.fr/?q=%E9", "http://example.fr/?q=%c3%a9"),
        ("http://example.de/?q=%E9", "http://example.de/?q=%e9"),
    ],
)
def test_the_rules_of_a_file_come_before_its_base(written, url, form):
    assert apply(url, rules=written(WHOLE)) == form


def test_what_decides_is_in_the_label(written):
    first = label_of(written(WHOLE))
    again = label_of(written(WHOLE + "# the same\n"))
    other = label_of(written(WHOLE.replace("visit", "visits")))

    assert first == again != other
    assert first.startswith("ours@")


def test_a_rule_is_valid_for_its_days():
    day = dt.date(2022, 2, 2)
    later = day + dt.timedelta(1)

    assert valid_on({}, day)
    assert valid_on({"from": day, "until": later}, day)
    assert not valid_on({"from": later}, day)
    assert not valid_on({"until": day}, day)


def test_a_rule_that_is_over_does_nothing(written):
    ended = WHOLE.replace("strip = ", "until = 2001-01-01\nstrip = ")
    url = "http://example.com/shop?visit=7&x=1"

    assert apply(url, rules=written(ended)) == url


@pytest.mark.parametrize(
    ("old", "new", "line", "reason"),
    [
        ("name", "nane", 2, "nane"),
        ('"ours"', '"o u r s"', 2, "needs a name"),
        ('base = "heritrix"', 'base = "nutch"', 0, "'nutch'"),
        ('base = "heritrix"', 'steps = ["wash"]', 0, "wash"),
        ('base = "heritrix"', "", 0, "either a base or steps"),
        ("strip = 'visit", "stripp = 'visit", 7, "stripp"),
        ("'visit=[0-9]+&?'", "'visit=[0-9+&?'", 7, "no regular expression"),
        ("'visit=[0-9]+&?'", "'(v+)+i'", 7, "may never end"),
        ("'visit=[0-9]+&?'", "3", 7, "needs text as strip"),
        ("replace = '$1www.$2'", "", 10, "needs a replace"),
        ('"UTF-8"', '"UTF-88"', 17, "UTF-88"),
        ("([^&]+)'", "[^&]+'", 15, "needs a group"),
        ("[[rule]]  # mobile", "[[rule]\n# mobile", 9, "not TOML"),
        ("strip =", "from = 2020-01-02\nuntil = 2020-01-01\nstrip =", 8, "before it"),
        ("strip =", "from = 'now'\nstrip =", 7, "needs a day"),
        ("match = 'example", "site = 'x'\nmatch = 'example", 15, "both a site and"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(written, old, new, line, reason):
    assert old in WHOLE
    error = broken(written(WHOLE.replace(old, new, 1)))

    assert reason in str(error)
    assert error.line == line


def test_rules_whose_days_overlap_are_named(written):
    rule = "[[rule]]\nstrip = 'a'\nfrom = 2020-01-01\nuntil = {}-01-01\n"
    head = 'name = "ours"\nbase = "surt"\n'
    error = broken(written(head + rule.format(2022) + rule.format(2023)))

    assert "overlaps with the rule of line 3" in str(error)
    other = rule.format(2024).replace("2020", "2022")
    assert read_quietly(written(head + rule.format(2022) + other))


def read_quietly(path):
    from pathlib import Path

    return read(Path(path))


def test_a_file_that_is_not_there_is_named(tmp_path):
    assert "No such file" in str(broken(str(tmp_path / "none.toml")))


@pytest.mark.parametrize(
    "pattern",
    [r"(a+)+$", r"(a|a)*$", r"(?:\w+\s?)*$", r"(.*)*x", r"(a*)*b", r"((a|b)*c)*d"],
)
def test_expressions_that_may_never_end_are_refused(pattern):
    assert cautious(pattern) is not None


@pytest.mark.parametrize(
    "pattern",
    [
        r"session=[0-9a-f]{32}&?",
        r"^(.+)(?:;\$sid\$[A-Z0-9]{32})(\?.*)$",
        r"(a++b)*",
        r"(?:jsession|php)id=[^&]+",
        r"(x{1,3})+",
    ],
)
def test_expressions_that_end_are_taken_and_do_end(pattern):
    assert cautious(pattern) is None
    begin = time.thread_time()
    re.search(pattern, "a" * 2_000 + "!")
    assert time.thread_time() - begin < 5


HEAD = 'name = "many"\nbase = "scrapy"\n'


def many(count, site=""):
    """A file of slow rules, of the same *site* or each of its own."""
    rule = "[[rule]]\n{}strip = 'x*y({})?'\n"
    return HEAD + "".join(rule.format(site.format(n), n) for n in range(count))


def test_rules_that_take_too_long_together_are_refused_with_the_line(written):
    assert named(written(many(1)))  # by itself it is taken
    text = many(MAX_RULES)
    error = broken(written(text))

    assert "take too long, all together" in str(error)
    number = int(text.splitlines()[error.line - 1].partition("y(")[2].partition(")")[0])
    assert 0 < number < MAX_RULES - 1
    assert named(written(many(number)))


def test_rules_of_other_sites_cost_nothing(written):
    path = written(many(MAX_RULES, "site = 'example,a{})'\n"))
    here = "http://a7.example/" + "x" * 200

    assert apply(here, rules=path) == here
    assert apply(f"{here}y", rules=path) == "http://a7.example/"


def test_a_url_for_which_the_rules_take_too_long_is_refused_before_they_are_tried():
    slow = {"strip": "x*x*y"}
    url = "http://a.example/" + "x" * 200
    begin = time.thread_time()
    assert Rules([slow])(url) == url
    with pytest.raises(InvalidURL, match="too long for its length"):
        Rules([slow] * MAX_RULES)(url)
    assert Rules([slow] * 3)(url + "y") == "http://a.example/"
    assert time.thread_time() - begin < 30


def test_rules_may_not_make_a_url_longer_and_longer():
    doubles = {"regex": "(.*)", "replace": "$1$1"}

    with pytest.raises(InvalidURL, match=f"more than {MOST:,} characters"):
        Rules([doubles] * 30)("http://a.example/")


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"a*+b", "a"),
        (r"(?:a?){12}b", "a"),
        (r"(?:a|aa){6}b", "a"),
        (r"(?m)^a*b", "a"),
        (r"(?m)^\s*b", "\n"),
        (r"(a*)(?:\1)b", "a"),
        (r"a*?a*?b", "a"),
        (r"(?=a*b)", "a"),
        (r"aba*b", "ab"),
    ],
)
def test_steps_are_no_fewer_than_what_python_takes(pattern, text):
    """In the time that a step of the slowest kind takes, on a slow machine."""
    compiled, size = re.compile(pattern), 400
    url = text * (size // len(text))
    begin = time.thread_time()
    compiled.search(url)
    assert time.thread_time() - begin < 0.05 + 100e-9 * steps(pattern, len(url))


def test_each_match_of_a_rule_counts():
    rule = {"transcode": "(a)", "source": "UTF-8", "target": "UTF-8"}
    url = "a" * 20_000

    with pytest.raises(InvalidURL, match="too long for its length"):
        Rules([rule] * 4)(url)
    assert Rules([{**rule, "site": "example,other)"}] * 9 + [rule] * 2)(url) == url


def test_an_escape_of_many_groups_takes_time_in_proportion():
    rule = {"transcode": "(a)", "source": "UTF-8", "target": "UTF-8"}
    url = "a" * 20_000
    begin = time.thread_time()

    assert Rules([rule])(url) == url
    assert time.thread_time() - begin < 5
