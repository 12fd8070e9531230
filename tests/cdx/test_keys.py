"""Index keys are those that pywb looks captures up by."""

import gzip
import json
import random
import re
import socket
from pathlib import Path

import pytest
from surt import surt  # AGPL: asked here, and nowhere in the package

from frontier.cdx.lines import key_under, sort_key
from frontier.urls.canon.rulesets import named

VECTORS = Path(__file__).parents[1] / "urls" / "canon" / "vectors.jsonl.gz"
HASH = "0123456789abcdefghijklemopqrstuv"
ASP = "4hqa0555fwsecu455xqckv45"
SCHEMES = (
    *["http://", "https://"] * 8,
    *("HTTP://", "HTTPS:", "http:", "http:/", "http:////", "  http://", "\thttp://"),
    *("https://https://", "http://http://", "httpx://", "ftp://", "ftps://", ""),
    *("file:///", "metadata://", "urn:", "urn:uuid:", "dns:", "data:", "mailto:"),
    *("screenshot:", "a+b:", "warcinfo:", "filedesc:"),
)
USERS = (*[""] * 12, "u@", "u:p@", "u:p@@w@", "@", "%40@", "a/b@")
HOSTS = (
    *("example.com", "www.example.com", "WWW.Example.COM", "www2.example.com"),
    *("www.www2.example.com", "www2.www.a.org", "www.www.", "www", "wwwfoo.a.com"),
    *("a..b.com", "a...b", ".a.com.", "..", "", "localhost", "a_b.com", "-a.com"),
    *("bücher.de", "xn--bcher-kva.de", "b%C3%BCcher.de", "日本.jp", "a。b", "。a.com"),
    *("%77ww.a.com", "a%2ecom", "www%2ea.com", "a%25b.com", "%", "a b.com", "a.b:c"),
    *("x.y.z.co.uk", "x" * 70 + "ü.de", "[::1]", "[2001:db8::1]", "abc.1"),
    *("%E9.de", "a%e9b.%25e9"),
)
PORTS = (*[""] * 10, ":80", ":443", ":8080", ":", ":0", ":99999", ":ab", ":00080")
SEGMENTS = (
    *("a", "B", "..", ".", "", "%41", "%2e", "%2E%2e", "%2f", "%e9", "%E9", "%C3%A9"),
    *("é", "日", "%", "%zz", "%25", "%2541", "%252541", "%25e9", "%00", "%0a", "%09"),
    *(" ", "+", "\\", "|", "{}", "^", "`", "'", '"', "<>", "~", "!", "*", "a:b", "@"),
    *("\u2028", "\x85", "\xa0", "\x00", "\x01", "\x7f", "%7f", "#f", "%23", "%3f"),
    *(f";jsessionid={HASH}", f"(S({ASP}))", f"({ASP})", "x.aspx", "index.html"),
)
ARGUMENTS = (
    *("a=1", "A=2", "b", "b=", "=x", "", "c=%41", "c=%26", "c=%3d", "d=é", "d=%e9"),
    *("d=%C3%A9", "u=http://x/?y", "%", "%2525", "+", " ", "?", "#x", "\u2028", "%23"),
    *(f"jsessionid={HASH}", f"PHPSESSID={HASH}", f"sid={HASH}", "cfid=1&cftoken=2"),
    "ASPSESSIONIDABCDEFGH=ABCDEFGHIJKLMNOPQRSTUVWX",
)


@pytest.fixture(autouse=True)
def no_name_server(monkeypatch):
    """The package asks one about hosts that are numbers, which is not looked at."""

    def refuse(*_):
        raise socket.gaierror

    monkeypatch.setattr(socket, "gethostbyname_ex", refuse)


def pywbs(url):
    """The key that pywb looks *url* up by."""
    try:
        key = surt(url)
    except Exception:  # noqa: BLE001 (the package raises what it likes)
        key = url  # as pywb does
    return re.sub(r"\s+", "%20", key) or "-"


def made_up(draw):
    url = draw.choice(SCHEMES) + draw.choice(USERS)
    url += draw.choice(HOSTS) + draw.choice(PORTS)
    if draw.random() < 0.9:
        url += "/" + "/".join(draw.choices(SEGMENTS, k=draw.choice((0, 1, 1, 2, 3, 4))))
    if draw.random() < 0.5:
        url += "?" + "&".join(draw.choices(ARGUMENTS, k=draw.choice((0, 1, 2, 2, 3))))
    return url


def is_filed_alike(url):
    """Whether the host of *url* cannot be a number."""
    number = r"\s*(?:[a-z]+://)?(?:[^/@]*@)?[0-9%]"
    return not re.match(number, url, re.ASCII | re.IGNORECASE)


@pytest.mark.parametrize("seed", range(4))
def test_keys_are_those_of_pywb(seed):
    draw = random.Random(seed)
    urls = [made_up(draw) for _ in range(2_000)]

    wrong = [(url, pywbs(url), sort_key(url)) for url in urls if is_filed_alike(url)]

    assert len(wrong) > 1_500
    assert [each for each in wrong if each[1] != each[2]] == []


def test_keys_of_the_urls_of_the_vectors_are_those_of_pywb():
    with gzip.open(VECTORS, "rt", encoding="utf-8") as file:
        urls = {json.loads(line)[1] for line in file}
    urls = {url for url in urls if isinstance(url, str) and is_filed_alike(url)}

    wrong = [(url, pywbs(url), sort_key(url)) for url in urls]

    assert len(wrong) > 1_000
    assert [each for each in wrong if each[1] != each[2]] == []


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("http://1.2.3.4/", "4,3,2,1)/"),
        ("http://0177.0.0.1:8080/", "1,0,0,127:8080)/"),
        ("http://2130706433/", "1,0,0,127)/"),
        ("http://[2001:db8::1]/", "2001:db8::1)/"),
        ("http://www.www.example.org/", "org,example,www)/"),
        ("http://a.example:port/x y", "http://a.example:port/x%20y"),
        ("http://h\ud800.example/\udc00", "example,h)/?"),
        ("", "-"),
    ],
)
def test_hosts_that_may_be_numbers_need_no_name_server(url, key):
    assert sort_key(url) == key


def test_rules_that_make_no_key_have_that_of_their_form():
    rules = named("heritrix")

    assert key_under(rules, "http://www.a.example/?x=1&jsessionid=" + HASH) == (
        sort_key("http://www.a.example/?x=1")
    )
