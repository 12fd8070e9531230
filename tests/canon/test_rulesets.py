import json

import pytest

from frontier.canon import InvalidURL, apply
from frontier.canon.rulesets import NAMED, STEPS, host_of_origin, label_of, named
from frontier.canon.usable import MAX_LENGTH, fixed, usable
from frontier.errors import ConfigurationError
from frontier.parsers import CANON_RULES

SESSION = "0123456789abcdef0123456789abcdef"


def test_every_named_set_can_be_set():
    assert tuple(NAMED) == CANON_RULES


@pytest.mark.parametrize("name", NAMED)
def test_a_set_says_all_that_it_does(name):
    rules = named(name)
    said = json.loads(rules.as_json())

    assert said["name"] == name
    assert set(said["steps"]) <= set(STEPS)
    assert len(rules.digest) == 64
    assert all(step.__doc__ or name for step in map(STEPS.get, rules.steps))


def test_equal_labels_mean_equal_rules():
    labels = {label_of(name) for name in NAMED}

    assert len(labels) == len(NAMED)
    assert label_of("scrapy") == "w3lib"


@pytest.mark.parametrize(
    ("rules", "form"),
    [
        ("heritrix", "http://example.com/a?x=1"),
        ("openwayback", "http://example.com/a?x=1"),
        ("openwayback-key", "example.com/a?x=1"),
        ("surt", "com,example)/a?x=1"),
        ("surt-ordinary", f"com,example,www)/A?PHPSESSID={SESSION}&x=1"),
        ("scrapy", f"http://www.Example.com/A?PHPSESSID={SESSION}&x=1"),
        ("whatwg", f"http://www.example.com/A?PHPSESSID={SESSION}&x=1"),
    ],
)
def test_a_session_id_by_each_set(rules, form):
    url = f"http://www.Example.com/A?PHPSESSID={SESSION}&x=1"

    assert apply(url, rules=rules).lower() == form.lower()


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("", "empty"),
        ("/relative", "no scheme"),
        ("http:x", "no //"),
        ("http://", "no host"),
        ("http://a..example/", "host is none"),
        ("http://a.example:99999/", "out of bounds"),
        ("http://a.example/" + "x" * MAX_LENGTH, "2083"),
        ("http://a.example/" + "é" * 500, "2083"),
    ],
)
def test_what_heritrix_refuses_is_refused_with_a_reason(url, reason):
    with pytest.raises(InvalidURL, match=reason) as caught:
        apply(url, rules="heritrix")
    assert caught.value.url == url


def test_the_short_way_for_clean_urls_is_the_long_one():
    for url in (
        "http://A.Example/b/C?d=E&f",
        "https://a-b.example/%zz",
        "http://a.example/x?y?z",
        "http://127.0.0.1/",
        "http://a--b.example/;x=y",
    ):
        assert usable(url) == str(fixed(url))


@pytest.mark.parametrize("rules", NAMED)
def test_a_host_is_asked_from_one_queue_whatever_its_page(rules):
    host = host_of_origin("http://www.a.example:8080", rules)

    if rules == "scrapy":
        assert host is None
    else:
        www = rules in {"surt-ordinary", "whatwg"}
        assert host == ("www.a.example:8080" if www else "a.example:8080")


def test_rules_that_do_not_exist_are_an_error():
    with pytest.raises(ConfigurationError, match="'nutch'.*heritrix"):
        apply("http://a.example/", rules="nutch")
