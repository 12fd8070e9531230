import pytest
from hypothesis import given, settings, strategies as st
from scrapy import Request
from scrapy.utils.request import RequestFingerprinter, fingerprint

from frontier.urls.fingerprint import Fingerprints

LABEL = st.text("abcxyz019", min_size=1, max_size=6)
HOST = st.lists(LABEL, min_size=1, max_size=3).map(".".join)
SEGMENT = st.text("abcXYZ019-._~!$&'()*+,=:@", max_size=8)
PATH = st.lists(SEGMENT, max_size=4).map(lambda parts: "/" + "/".join(parts))
WORD = st.text("abAB01-._~+", min_size=1, max_size=4)
PAIR = st.tuples(WORD, st.text("abAB01-._~+", max_size=4)).map("=".join)
QUERY = st.lists(PAIR, max_size=4).map(lambda p: "?" + "&".join(p) if p else "")
PORTS = ["80", "443", "1", "8080", "10000", "59999", "60000", "65535", "08080", "0"]
PORT = st.sampled_from(["", *(f":{port}" for port in PORTS)])
FRAGMENT = st.sampled_from(["", "#", "#top", "#a=b&c"])
LIKELY = st.tuples(
    st.sampled_from(["http://", "https://"]), HOST, PORT, PATH, QUERY, FRAGMENT
).map("".join)
ODD = st.text("aB/.:?&=#%+ ;\\é@[]~\t0", max_size=30).map(lambda t: f"http://a.b/{t}")


OURS = Fingerprints(RequestFingerprinter(), "scrapy")


def agrees(url):
    quick = OURS.of_get(url)
    if quick is not None:
        assert quick == fingerprint(Request(url, meta={}))
    return quick is not None


@given(LIKELY)
@settings(max_examples=500)
def test_quick_fingerprint_equals_that_of_scrapy(url):
    agrees(url)


@given(ODD)
@settings(max_examples=400)
def test_odd_urls_are_left_to_scrapy_or_agree(url):
    agrees(Request(url).url)


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/",
        "https://www.example.com/a/b.html?b=2&a=1#top",
        "http://example.com:38709/a",
        "http://example.com:59999/a",
        "http://127.0.0.2:8410/article/7?sid=0123456789abcdef0123456789abcdef",
    ],
)
def test_common_urls_are_quick(url):
    assert agrees(url)
