import pytest

from frontier.errors import InputBroken, InvalidURL
from frontier.settings.patterns import LOOKED
from frontier.urls.canon.rulesets import RuleSet, label_of, named
from tests.harness.cases import each, rows
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


def test_the_rules_of_a_file_come_before_its_base(written):
    path = written(WHOLE)
    for url, form in rows("""
        http://www.example.com/shop?visit=7&x=1  http://example.com/shop?x=1
        http://www.example.com/else?visit=7&x=1  http://example.com/else?visit=7&x=1
        http://m.example.com/A                   http://example.com/a
        http://example.fr/?q=%E9                 http://example.fr/?q=%c3%a9
        http://example.de/?q=%E9                 http://example.de/?q=%e9
    """):
        assert apply(url, rules=path) == form


def test_rule_file_label_changes_with_its_rules_only(written):
    first = label_of(written(WHOLE))
    again = label_of(written(WHOLE + "# the same\n"))
    other = label_of(written(WHOLE.replace("visit", "visits")))

    assert first == again != other
    assert first.startswith("ours@")


@each(
    ("old", "new", "line", "reason"),
    [
        ("name", "nane", 2, "nane"),
        ('"ours"', '"o u r s"', 2, "needs a name"),
        ('base = "heritrix"', 'base = "nutch"', 0, "'nutch'"),
        ('base = "heritrix"', 'steps = ["wash"]', 0, "wash"),
        ('base = "heritrix"', "", 0, "either a base or steps"),
        ("strip = 'visit", "stripp = 'visit", 7, "stripp"),
        ("'visit=[0-9]+&?'", "'visit=[0-9+&?'", 7, "of RE2: missing ]"),
        ("'visit=[0-9]+&?'", "'(?=v)i'", 7, "of RE2: invalid perl operator"),
        ("'visit=[0-9]+&?'", "3", 7, "strip needs text"),
        ("replace = '$1www.$2'", "", 10, "needs a replace"),
        ('"UTF-8"', '"UTF-88"', 17, "UTF-88"),
        ("([^&]+)'", "[^&]+'", 15, "needs a group"),
        ("[[rule]]  # mobile", "[[rule]\n# mobile", 9, "not TOML"),
        ("match = 'example", "site = 'x'\nmatch = 'example", 15, "both a site and"),
    ],
)
def test_invalid_rule_file_names_the_line(written, old, new, line, reason):
    assert old in WHOLE
    error = broken(written(WHOLE.replace(old, new, 1)))

    assert reason in str(error)
    assert error.line == line


def test_a_file_that_is_not_there_is_named(tmp_path):
    assert "No such file" in str(broken(str(tmp_path / "none.toml")))


def test_rules_may_not_make_a_url_longer_and_longer():
    doubles = {"regex": "(.*)", "replace": "$1$1"}

    with pytest.raises(InvalidURL, match=f"no more than {LOOKED:,} characters"):
        RuleSet("x", (), [doubles] * 30).apply("http://a.example/")


def test_transcode_rewrites_each_match_and_nothing_else():
    rule = {"transcode": "x(%E9)?", "source": "ISO-8859-1", "target": "UTF-8"}

    apply = RuleSet("x", (), [rule]).apply
    assert apply("x" * 8_000) == "x" * 8_000
    assert apply("%E9x%E9xx%E9") == "%E9x%C3%A9xx%C3%A9"
