import datetime as dt
import enum
import threading
from collections import Counter, OrderedDict, defaultdict, deque
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import lxml.html
import msgpack
import pytest
from hypothesis import given, strategies as st

from frontier.errors import CodecError, NotSerializable
from frontier.queue import item as codec
from frontier.queue.item import MAX_BYTES, decode, encode
from tests.harness.same import same

ZONES = st.one_of(
    st.none(),
    st.integers(-840, 840).map(lambda m: dt.timezone(dt.timedelta(minutes=m))),
)
ATOMS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.uuids(),
    st.timedeltas(),
    st.times(timezones=ZONES),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
    st.dates(),
    st.datetimes(timezones=ZONES),
    st.decimals(allow_nan=False),
)
HASHABLE = st.one_of(
    ATOMS, st.tuples(ATOMS, st.tuples(ATOMS)), st.frozensets(ATOMS, max_size=3)
)
VALUES = st.recursive(
    HASHABLE,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.lists(inner, max_size=4).map(deque)
        | st.dictionaries(HASHABLE, inner, max_size=4)
        | st.dictionaries(HASHABLE, inner, max_size=4).map(OrderedDict)
        | st.sets(HASHABLE, max_size=4)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), VALUES, max_size=4))
def test_decoded_record_keeps_its_values_and_types(meta):
    record = {"url": "http://a.example/", "meta": meta}

    assert same(decode(encode(record)), record)


@pytest.mark.parametrize(
    "value",
    [
        defaultdict(list, {"a": [1]}),
        defaultdict(None, {1: 2}),
        Counter("abca"),
        deque([1, (2,)], maxlen=3),
        -(2**200),
        dt.datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin")),
        dt.datetime(2026, 10, 25, 2, 30, tzinfo=dt.UTC, fold=1),
        dt.time(2, 30, tzinfo=ZoneInfo("Europe/Berlin")),
        Path("/a/b"),
    ],
)
def test_values_that_json_would_change_stay_as_they_are(value):
    record = {"url": "u", "cb_kwargs": {"value": value}}

    assert same(decode(encode(record)), record)


SITES = st.sampled_from(["a.example", "a.example:8000", "[::1]:81", "*", "a/b", ""])


@given(
    st.sampled_from(["https://", "http://", "ftp://", ""]),
    SITES | st.text(max_size=9),
    st.sampled_from(["", "/", "/x?y#z", "//", ":443/", "~slot/"]) | st.text(max_size=9),
    SITES | st.text(max_size=9),
)
def test_a_url_comes_back_whatever_queue_it_is_in(scheme, host, path, key):
    record, queue = {"url": scheme + host + path, "method": "POST"}, f"-3:{key}"

    assert decode(encode(record, queue), queue) == record


@pytest.mark.parametrize("scheme", ["https", "http"])
def test_an_item_lacks_what_the_name_of_its_queue_says(scheme):
    site, queue = f"{scheme}://a.example:8000", "0:a.example:8000"
    short = encode({"url": f"{site}/page", "callback": "parse"}, queue)

    assert short.endswith(b"\x00\xa5/page\x01\xa5parse")
    for other in (f"{site}1/", site, f"{scheme}://u@a.example:8000/", f"{site}?x"):
        assert encode({"url": other}, queue) == encode({"url": other})


@pytest.mark.parametrize("version", codec.SHORT)
def test_a_url_without_its_host_is_never_taken_for_a_whole_one(version):
    short = encode({"url": "http://a.example/page"}, "0:a.example")
    assert decode(short, "7@0123456789ab:a.example")["url"] == "http://a.example/page"
    for queue in ("", "a.example", "0:"):
        with pytest.raises(CodecError, match="no host"):
            decode(short, queue)

    for url in ("page", "", "@b.example/", "https://b.example/"):
        odd = b"0" + bytes([version]) + msgpack.packb({"url": url})
        with pytest.raises(CodecError, match="no host"):
            decode(odd, "0:a.example")


class Unknown:
    pass


class Text(str):
    __slots__ = ("note",)

    def __str__(self):
        return "other"


class Data(bytes):
    def __getitem__(self, key):
        return b"other"


class Number(int):
    def __int__(self):
        return 5


class Real(float):
    def __float__(self):
        return 5.0


class Zone(dt.tzinfo):
    def utcoffset(self, when):
        return dt.timedelta(hours=2)


EVENING = dt.datetime(2026, 1, 1, 20, tzinfo=dt.timezone(dt.timedelta(hours=2)))
LINK = lxml.html.fromstring("<a href=/>to <b>home</b></a>").xpath("//a/text()")[0]


@pytest.mark.parametrize(
    ("value", "base"),
    [
        (Text("x"), "x"),
        (LINK, "to "),
        (bytearray(b"x"), b"x"),
        ([memoryview(b"y")], [b"y"]),
        (EVENING.replace(tzinfo=Zone()), EVENING),
        (Data(b"x"), b"x"),
        (Number(7), 7),
        (Number(2**70), 2**70),
        (Real(1.5), 1.5),
        (type("Money", (Decimal,), {})("-1.10"), Decimal("-1.10")),
        ({Text("k"): [Text("v"), (Text("w"),)]}, {"k": ["v", ("w",)]}),
    ],
)
def test_a_subclass_a_buffer_or_a_zone_becomes_what_it_is_based_on(value, base):
    record = {"url": "u", "meta": {"value": value}}

    assert same(decode(encode(record)), {"url": "u", "meta": {"value": base}})


LOOP = []
LOOP.append(LOOP)


class Floating(dt.tzinfo):
    def utcoffset(self, when):
        return when and dt.timedelta(0)


class Level(enum.IntEnum):
    LOW = 1


@pytest.mark.parametrize(
    ("record", "where"),
    [
        ({"meta": {"good": 1, "bad": Unknown()}}, "meta['bad']"),
        ({"meta": {"deep": {"er": [Unknown()]}}}, "meta['deep']"),
        ({"cb_kwargs": {"lock": threading.Lock()}}, "cb_kwargs['lock']"),
        ({"cb_kwargs": {"f": print}}, "cb_kwargs['f']"),
        ({"meta": {"t": dt.time(1, tzinfo=Floating())}}, "meta['t']"),
        ({"meta": {"n": 2**8192}}, "meta['n']"),
        ({"meta": {"e": Level.LOW}}, "meta['e']"),
        ({"meta": {"d": defaultdict(lambda: 1)}}, "meta['d']"),
        ({"meta": {"d": type("Own", (dict,), {})()}}, "meta['d']"),
        ({"meta": {"when": type("T", (dt.datetime,), {})(2026, 1, 1)}}, "meta['when']"),
        ({"meta": {"surrogate": "\udc80"}}, "meta['surrogate']"),
        ({"meta": {"loop": LOOP}}, "meta['loop']"),
        ({"flags": [Unknown()]}, "flags"),
    ],
)
def test_value_that_cannot_be_stored_is_reported_by_its_key(record, where):
    with pytest.raises(NotSerializable) as caught:
        encode({"url": "http://a.example/", **record})

    assert caught.value.where == where
    assert caught.value.url == "http://a.example/"


def test_a_request_has_a_largest_size():
    with pytest.raises(NotSerializable, match="at most 4,194,304"):
        encode({"url": "u", "body": bytes(MAX_BYTES)})

    encode({"url": "u", "body": bytes(MAX_BYTES - 100)})


def nested(depth):
    value = ()
    for _ in range(depth):
        value = (value,)
    return value


def test_tuples_in_each_other_are_stored_as_deep_as_they_can_be_read():
    record = {"url": "u", "meta": {"deep": nested(codec.MAX_DEPTH - 1)}}
    assert decode(encode(record)) == record

    for depth in (codec.MAX_DEPTH, 3_000):
        with pytest.raises(NotSerializable) as caught:
            encode({"url": "u", "meta": {"deep": nested(depth)}})
        assert caught.value.where == "meta['deep']"
