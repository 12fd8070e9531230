"""Pickles as data: what builtin containers and scalars make, and nothing else."""

import codecs
import contextlib
import datetime as dt
import os
import pickle
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from lxml import html

from frontier.migrate.pickles import MAX_STEPS, Opaque, PickleRefused, loads
from frontier.queue.item import MAX_BYTES

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)
BYTES = [b"x", bytearray(b"y"), {2}, frozenset((3,))]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.tuples(inner) | st.dictionaries(st.text(), st.lists(inner)),
    ),
    st.sampled_from(PROTOCOLS),
)
def test_data_comes_back_as_it_was_from_each_protocol(value, protocol):
    assert repr(loads(pickle.dumps(value, protocol))) == repr(value)


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (pickle.dumps(BYTES, 5), BYTES),
        (b"\x80\x02}q\x01U\x03urlq\x02U\x08http://aq\x03s.", {"url": "http://a"}),
        (b"U\x01\xff.", b"\xff"),
    ],
)
def test_bytes_and_sets_are_read_and_pickles_of_python_2(data, value):
    assert loads(data) == value


class Evil:
    def __init__(self, function, *arguments, state=None):
        self.made = (function, arguments, *([state] if state else []))

    def __reduce__(self):
        return self.made


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_the_text_of_a_link_is_text(protocol):
    """`CrawlSpider` has it in the meta of all requests, of a class of lxml."""
    text = html.fromstring("<a href='/'>Home</a>").xpath("//text()")[0]
    assert type(text) is not str

    found = loads(pickle.dumps({"meta": {"link_text": text, "rule": 0}}, protocol))

    assert found == {"meta": {"link_text": "Home", "rule": 0}}
    assert type(found["meta"]["link_text"]) is str
    empty = type(text)("")
    assert loads(pickle.dumps([empty, empty], protocol)) == ["", ""]


OFFSETS = st.timedeltas(-dt.timedelta(hours=23), dt.timedelta(hours=23))
ZONES = st.none() | st.just(dt.UTC) | st.builds(dt.timezone, OFFSETS)


@given(
    st.dates()
    | st.datetimes(timezones=ZONES)
    | st.times(timezones=ZONES)
    | st.timedeltas()
    | st.decimals(allow_nan=False)
    | st.uuids(),
    st.sampled_from([3, 4, 5]),
)
def test_dates_decimals_and_uuids_are_data(value, protocol):
    found = loads(pickle.dumps({"meta": [value, value]}, protocol))

    assert found == {"meta": [value, value]}
    assert {type(one) for one in found["meta"]} == {type(value)}


def ran(path):
    """What would be seen of a pickle that was run."""
    return Path(path).exists()


def short(text):
    data = text.encode()
    return b"\x8c" + bytes([len(data)]) + data


@pytest.fixture
def trap(tmp_path):
    return str(tmp_path / "ran")


def hostile(trap):
    """Pickles that do something when `pickle` reads them, and what they name."""
    for protocol in PROTOCOLS:
        for function, *arguments in (
            (os.system, f"touch {trap}"),
            (eval, f"open({trap!r}, 'w')"),
            (exec, f"open({trap!r}, 'w')"),
            (getattr, os, "system") if protocol > 5 else (getattr, "", "join"),
            (subprocess.call, ["touch", trap]),
            (open, trap, "w"),
            (pickle.loads, pickle.dumps(Evil(os.mkdir, trap))),
        ):
            yield pickle.dumps({"url": "u", "x": Evil(function, *arguments)}, protocol)
    touch = f"touch {trap}".encode()
    yield b"cos\nsystem\n(S'" + touch + b"'\ntR."
    yield b"(S'" + touch + b"'\nios\nsystem\n."
    call = short("os") + short("system") + b"\x93" + short(touch.decode())
    yield b"\x80\x04" + call + b"\x85\x81."
    yield b"\x80\x04" + call + b"\x85}\x92."
    yield b"cbuiltins\nobject\n)\x81}b."
    yield b"ccopyreg\nadd_extension\n(S'os'\nS'system'\nI1\ntR."
    yield from (b"\x82\x01.", b"\x83\x01\x00.", b"\x84\x01\x00\x00\x00.")
    yield from (b"Pid\n.", b"S'id'\nQ.", b"\x80\x05\x97.", b"\x80\x05\x97\x98.")
    yield b"c__main__\n__dict__\n."


def test_pickle_globals_are_never_imported_or_called(trap):
    pickle.loads(pickle.dumps(Evil(os.mkdir, trap)))
    assert ran(trap)
    Path(trap).rmdir()
    pickles = list(hostile(trap))
    codecs.lookup("raw_unicode_escape")
    before = set(sys.modules)

    for data in pickles:
        with pytest.raises(PickleRefused) as refused:
            loads(data)
        assert "no plain data" in str(refused.value), data
        assert not ran(trap), data

    assert len(pickles) > 45
    assert set(sys.modules) == before


def test_refused_pickle_keeps_its_other_values_and_names_the_fault():
    value = {"url": "http://a/", "cb_kwargs": {"part": Fraction(1, 2)}, "priority": 3}
    said = "its ['cb_kwargs']['part'] is a fractions.Fraction, which is no plain data"
    for protocol in PROTOCOLS:
        with pytest.raises(PickleRefused, match=re.escape(said)) as refused:
            loads(pickle.dumps(value, protocol))

        known = refused.value.value
        assert isinstance(known.pop("cb_kwargs")["part"], Opaque)
        assert known == {"url": "http://a/", "priority": 3}


def laughs():
    """Lists of the same list: few bytes that would be many when written out."""
    value = ["ha" * 100]
    for _ in range(40):
        value = [value] * 10
    return pickle.dumps(value, 4)


def nested(depth, opening, closing):
    return b"\x80\x04" + opening * depth + closing


def itself():
    value = {}
    value["me"] = value
    return pickle.dumps(value, 4)


LONG = "x" * 1_000_000
LARGE = [
    laughs(),
    pickle.dumps([LONG] * 1000, 4),
    itself(),
    b"]q\x00h\x00a.",
    nested(100_000, b"]", b"a" * 99_999 + b"."),
    nested(100_000, b")", b"\x85" * 100_000 + b"."),
    b"I" + b"9" * 100_000 + b"\n.",
    b"L" + b"9" * 100_000 + b"L\n.",
    b"N" * (MAX_STEPS + 1) + b".",
    b"]" * 1_000_000 + b".",
    b"x" * (MAX_BYTES + 1),
]


BROKEN = [
    *(b"", b"N", b"(e.", b"}(Nu.", b"h\x00.", b"p-1\n.", b"I1", b"\xff.", b"{}"),
    *(b"\x96" + b"\xff" * 8 + b".", b"\x8b" + b"\xff" * 4 + b"."),
]


def test_oversized_deep_or_broken_pickle_is_refused():
    for data in (*LARGE, *BROKEN):
        with pytest.raises(PickleRefused):
            loads(data)


@given(st.data())
def test_so_it_is_with_a_pickle_of_which_a_byte_was_changed(data):
    value = {"url": "http://a/", "meta": [1, b"x", None], "d": dt.date(2026, 1, 1)}
    pickled = bytearray(pickle.dumps(value, data.draw(st.sampled_from(PROTOCOLS))))
    at = data.draw(st.integers(0, len(pickled) - 1))
    pickled[at] = data.draw(st.integers(0, 255))
    with contextlib.suppress(PickleRefused):
        loads(bytes(pickled))


def test_a_number_that_a_place_is_takes_no_memory():
    assert loads(b"Nr\xff\xff\xff\xff.") is None
