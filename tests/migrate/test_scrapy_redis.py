"""Requests and fingerprints as scrapy-redis and Scrapy have made them.

`requests.json` was written by scrapy-redis's own queue and Scrapy 2.5.1, 2.6.3, 2.11.2
and 2.19.0: three requests each, and what they were in its filter.
"""

import base64
import json
import pickle
from pathlib import Path

import msgpack
import pytest
from hypothesis import given, strategies as st
from scrapy import Request
from scrapy.utils.request import fingerprint
from scrapy_redis.dupefilter import RFPDupeFilter

from frontier.migrate.scrapy_redis import ItemFault, Keys, request_of
from frontier.seen.imported_filter import marks_of, others_fingerprints
from frontier.urls.fingerprint import seen_hash

WRITTEN = json.loads(Path(__file__).with_name("requests.json").read_text("utf-8"))


@pytest.mark.parametrize("written", WRITTEN, ids=lambda one: one["scrapy"])
def test_requests_of_each_scrapy_are_read_as_they_were(written):
    page, form, posted = (request_of(base64.b64decode(i)) for i in written["items"])

    assert page["url"] == "http://a.example/?b=2&a=1#x"
    assert (page["callback"], page["errback"]) == ("parse_item", "failed")
    assert (page["priority"], page["dont_filter"]) == (7, False)
    assert page["meta"] == {"depth": 2, "link_text": "x", "t": (1, 2.5, None)}
    assert page["headers"] == {b"Referer": [b"http://a.example/"]}
    assert (page["cookies"], page["flags"]) == ({"k": "v"}, ["f"])
    assert (page["cb_kwargs"], page["encoding"]) == ({"n": 1}, "utf-8")
    assert (form["method"], form["body"]) == ("POST", b"q=%C3%BC")
    assert form["dont_filter"] is True
    assert posted["body"] == b'{"k": [1]}'


@pytest.mark.parametrize(
    ("version", "name", "place"),
    [
        ("2.5.1", "fp26", 1),
        ("2.6.3", "fp26", 1),
        ("2.11.2", "fp26", 1),
        ("2.11.2", "fp27", 2),
        ("2.19.0", "fp27", 2),
    ],
)
def test_fingerprints_are_those_that_each_scrapy_made(version, name, place):
    (written,) = (one for one in WRITTEN if one["scrapy"] == version)
    made = []
    for item in written["items"]:
        found = request_of(base64.b64decode(item))
        facts = (found["url"], found.get("method", "GET"), found.get("body", b""))
        made.append(others_fingerprints(*facts)[place])

    assert [one.decode() for one in made] == written[name]
    assert len(made) == 3


@given(
    st.sampled_from(["GET", "POST", "HEAD"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=30),
    st.binary(max_size=10),
)
def test_so_they_are_of_any_request(method, path, body):
    request = Request("http://a.example/" + path, method=method, body=body)
    redis, _, scrapy = others_fingerprints(request.url, method, body)

    assert redis.decode() == RFPDupeFilter(None, "").request_fingerprint(request)
    assert scrapy == fingerprint(request).hex().encode()


def test_a_fingerprint_is_known_by_the_mark_of_its_bytes():
    made, *_ = others_fingerprints("http://a.example/")

    mark = seen_hash(bytes.fromhex(made.decode()))
    assert marks_of([made, made.upper()]) == [mark] * 2
    assert marks_of([b"x" * 40, b"", made[1:], made[2:]]) == []


FACTS = {"url": "http://a.example/", "meta": {"a": [1, None]}, "priority": 2}


@pytest.mark.parametrize(
    "data",
    [
        json.dumps(FACTS).encode(),
        msgpack.packb(FACTS),
        *(pickle.dumps(FACTS, protocol) for protocol in range(6)),
    ],
)
def test_json_msgpack_and_pickle_serializers_are_detected(data):
    found = request_of(data)

    assert (found["url"], found["meta"]) == ("http://a.example/", {"a": [1, None]})
    assert found["priority"] == 2


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"meta": {}}, "no url"),
        (["http://a/"], "no url"),
        ({"url": "u", "priority": float("nan")}, "priority nan"),
        ({"url": "u", "priority": 0.5}, "priority 0.5"),
        ({"url": "u", "priority": 2**60}, "is not a whole number"),
    ],
)
def test_invalid_request_is_refused_with_a_reason(facts, reason):
    with pytest.raises(ItemFault, match=reason):
        request_of(pickle.dumps(facts))


@pytest.mark.parametrize(
    "data", [b"", b"{", b"{" * 100_000, b"\x81", b"\xde\xff\xff", b"\x80", b"http://a/"]
)
def test_so_has_what_cannot_be_read(data):
    with pytest.raises(ItemFault):
        request_of(data)


def test_keys_are_named_as_the_settings_name_them():
    assert Keys.of({}, "shop") == Keys(
        "shop:requests", "shop:dupefilter", "shop:start_urls"
    )
    settings = {
        "SCHEDULER_QUEUE_KEY": "q:%(spider)s",
        "SCHEDULER_DUPEFILTER_KEY": "seen",
        "REDIS_START_URLS_KEY": "s:%(name)s",
    }
    assert Keys.of(settings, "shop") == Keys("q:shop", "seen", "s:shop")
    assert Keys.of(settings, "shop", "%(spider)s", "", "own") == Keys(
        "shop", "seen", "own"
    )
