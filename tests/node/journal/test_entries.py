import pytest
from hypothesis import given, settings, strategies as st

from frontier.node.journal.entries import (
    Acked,
    Bad,
    Header,
    Pushed,
    PutAgain,
    digest_of,
    frame,
    read,
    read_header,
    whole_bytes,
)
from frontier.urls.fingerprint import seen_hash
from tests.harness.cases import each

SHAPE = {"FRONTIER_PARTITIONS": 4}
HEADER = Header("frontier", "site-1", "site", "node-1", SHAPE, "0123456789abcdef")
PUSH = Pushed(3, "t", seen_hash(b"url"), "0:a.example", b"0\x01item")
ACK = Acked(3, digest_of("0:a.example", b"1\x01item"))


LATE = PUSH._replace(due=1_795_000_000_000)
PUT_AGAIN = PutAgain(3, ACK.digest, "0:a.example", b"0\x01next", 1_795_000_000_000)


@pytest.fixture
def written(tmp_path):
    def write(*parts):
        path = tmp_path / "a.journal"
        path.write_bytes(b"".join(parts))
        return path

    return write


def test_entries_are_read_as_written(written):
    path = written(*map(frame, (HEADER, PUSH, ACK, LATE, PUT_AGAIN)))

    assert list(read(path)) == [HEADER, PUSH, ACK, LATE, PUT_AGAIN]
    assert read_header(path) == HEADER
    assert whole_bytes(path) == path.stat().st_size


def test_a_request_is_known_again_however_often_it_was_delivered():
    first, third = (digest_of("0:a", digit + b"\x01item") for digit in (b"0", b"2"))

    assert first == third
    assert digest_of("0:b", b"0\x01item") != first
    assert digest_of("0:a", b"0\x01other") != first


@each("cut", range(1, len(frame(ACK))))
def test_a_torn_end_is_named_and_what_is_before_it_is_read(written, cut):
    path = written(frame(HEADER), frame(PUSH), frame(ACK)[:cut])
    whole = len(frame(HEADER)) + len(frame(PUSH))

    *entries, bad = read(path)
    assert entries == [HEADER, PUSH]
    assert (bad.offset, bad.length) == (whole, cut)
    assert whole_bytes(path) == whole


def test_an_empty_file_has_nothing(written):
    path = written()

    assert list(read(path)) == []
    assert read_header(path) is None
    assert whole_bytes(path) == 0


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 255)), max_size=8))
def test_no_corruption_is_read_as_an_entry(tmp_path_factory, changes):
    data = bytearray(b"".join(map(frame, (HEADER, PUSH, ACK, PUSH))))
    for at, value in changes:
        data[at % len(data)] = value
    path = tmp_path_factory.mktemp("journal") / "a.journal"
    path.write_bytes(data)
    entries = list(read(path))

    assert {e for e in entries if isinstance(e, Pushed)} <= {PUSH}
    assert {e for e in entries if isinstance(e, Acked)} <= {ACK}
    bad = sum(e.length for e in entries if isinstance(e, Bad))
    good = sum(len(frame(e)) for e in entries if not isinstance(e, Bad))
    assert bad + good == len(data)
