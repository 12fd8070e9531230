import json
import random
from functools import partial, reduce

import pytest

import frontier.urls.canon.heritrix as heritrix
from frontier.errors import InvalidURL
from frontier.settings.values import CANON_RULES
from frontier.urls.canon.rulesets import NAMED, STEPS, host_of_origin, label_of, named
from frontier.urls.canon.usable_uri import MAX_LENGTH, fixed, usable
from tests.harness.cases import rows
from tests.urls.canon.originals import apply

SESSION = "0123456789abcdef0123456789abcdef"


def test_a_set_says_all_that_it_does():
    assert tuple(NAMED) == CANON_RULES
    for name in NAMED:
        rules = named(name)
        said = json.loads(rules.as_json())
        assert said["name"] == name
        assert set(said["steps"]) <= set(STEPS)
        assert len(rules.digest) == 64


def test_equal_labels_mean_equal_rules():
    labels = {label_of(name) for name in NAMED}

    assert len(labels) == len(NAMED)
    assert label_of("scrapy") == "w3lib"


def test_a_session_id_by_each_set():
    url = f"http://www.Example.com/A?PHPSESSID={SESSION}&x=1"
    for rules, form in rows(f"""
        heritrix         http://example.com/a?x=1
        openwayback      http://example.com/a?x=1
        openwayback-key  example.com/a?x=1
        surt             com,example)/a?x=1
        surt-ordinary    com,example,www)/A?PHPSESSID={SESSION}&x=1
        scrapy           http://www.Example.com/A?PHPSESSID={SESSION}&x=1
        whatwg           http://www.example.com/A?PHPSESSID={SESSION}&x=1
    """):
        assert apply(url, rules=rules).lower() == form.lower()


REFUSED = {
    "": "empty",
    "/relative": "no scheme",
    "http:x": "no //",
    "http://": "no host",
    "http://a..example/": "host is invalid",
    "http://a.example:99999/": "out of bounds",
    "http://a.example/" + "x" * MAX_LENGTH: "2083",
    "http://a.example/" + "é" * 500: "2083",
}


def test_heritrix_rules_refuse_an_invalid_url_with_a_reason():
    for url, reason in REFUSED.items():
        with pytest.raises(InvalidURL, match=reason) as caught:
            apply(url, rules="heritrix")
        assert caught.value.url == url


SHORT = r"""www. WWW2. a B.org x-y . / /../ /./ // /.. \\ ? & = %20 %zz :80 :443 :8080
    :0 :080 @ [::1] é é.com İ # { | ^ _ ~ ; jsession=3 cfid=1&cftoken=2"""
PIECES = [
    *(*SHORT.split(), " ", "\t", "\u2028", "x" * 64, "x" * 2000),
    *(f"PHPSESSID={SESSION}", f"&sid={SESSION}", f"aspsessionidABCDEFGH={'z' * 24}"),
]


def test_every_short_way_leads_where_the_long_one_does():
    dice = random.Random(5)
    steps = [STEPS[name] for name in NAMED["heritrix"].steps[1:]]
    for _ in range(3_000):
        start = dice.choice(("http://", "https://", "HTTP://", "ftp://", "http://a.b/"))
        url = start + "".join(dice.choices(PIECES, k=dice.randrange(9)))
        assert form_of(usable, url) == form_of(lambda u: str(fixed(u)), url), url
        assert heritrix.default(url) == reduce(lambda u, f: f(u), steps, url), url


def form_of(function, url):
    try:
        return function(url)
    except InvalidURL:
        return None


FORMS = {
    # URLParser: the authority has to begin with something, and an IPv6 address
    # is only seen where there is no user before it.
    "surt": """
        http://                           -
        http://?x                         -
        http://:80/                       -
        http://user@[::1]/                -
        http://[::1]:8080/x               ::1:8080)/x
        http://[::ffff:1.2.3.4]/          4],3,2,[::ffff:1)/
        http://a.example:0000000000080/   example,a)/
    """,
    # java.net.IDN: no empty label, and no character that Unicode 3.2 had not.
    "commons.basic(google)": """
        http://é..example/                http://%C3%A9.example/
        http://😀.example/                http://%F0%9F%98%80.example/
        http://é.example./                http://xn--9ca.example/
    """,
    # LaxURI: what was put together is parsed once more.
    "commons.UsableURI": """
        ftp:////b.example/x               ftp://b.example/x
        ftp://///..                       ftp:///
        dns:a|b                           -
        dns:a/b|c                         dns:a/b|c
        ftp://a.example:000000000000021/  ftp://a.example:21/
    """,
}


def test_url_forms_without_a_vector_follow_the_original_source():
    for rules, table in FORMS.items():
        for url, form in rows(table):
            found = form_of(partial(apply, rules=rules), url)
            assert (found or "-") == form, url
    # WaybackURLKeyMaker: no key was made, so the URL is its own.
    assert apply(" dns:a.example", "surt") == " dns:a.example"
    assert apply(" dns:(a.example", "surt") == "a.example"
    assert form_of(partial(apply, rules="surt"), "  ") is None


def test_a_host_is_asked_from_one_queue_whatever_its_page():
    for rules in NAMED:
        www = rules in {"surt-ordinary", "whatwg"}
        host = None if rules == "scrapy" else f"{'www.' * www}a.example:8080"
        assert host_of_origin("http://www.a.example:8080", rules) == host
