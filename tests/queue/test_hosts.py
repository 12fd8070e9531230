"""Records of hosts as the store has them, and what is believed of them."""

import msgpack
import pytest

from frontier.queue.hosts import (
    Limits,
    Record,
    failed,
    forget,
    list_call,
    note_call,
    read,
)
from frontier.settings.config import Config
from frontier.store.keys import CrawlKeys
from frontier.urls.partition import partition_of

HOST = "a.example"
FAILED = Record(until=9.5, since=1.25, failures=3, reason="tls", pages=7, size=900)


@pytest.fixture
def note(blocking, keys):
    """Write records under a lease, and return the reply."""
    store = blocking()

    def note(lease, records, *, for_ever=False):
        return store.call(note_call(keys, lease, records, for_ever=for_ever))

    return note


def test_a_record_is_read_as_it_was_written_on_whichever_clock():
    for one in (Record(), FAILED, Record(next=5.0, delay=0.25, skipped=3)):
        assert read(one.packed()) == one
        assert one.moved(100.0).moved(-100.0) == one
    assert FAILED.moved(100.0).until == 109.5
    assert FAILED.moved(100.0).next == 0.0


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"7",
        b"\xff\xfe\x00\n",
        msgpack.packb({}),
        msgpack.packb([0] * 9),
        msgpack.packb([0, 0, 0, 0, 1, "no_reason", 0, 0, 0]),
        msgpack.packb([0, 0, 0, 0, 1, "", 0, 0, 0]),
        msgpack.packb([-1, 0, 0, 0, 0, "", 0, 0, 0]),
        msgpack.packb([0, 0, 0, 0, 0, "", 1e30, 0, 0]),
        msgpack.packb([0, 0, 0, 0, 0, "", 10**16, 0, 0]),
    ],
)
def test_invalid_host_record_is_refused_and_not_counted_as_failed(value):
    assert read(value) is None
    assert failed({b"a.example": value, b"b.example": FAILED.packed()}) == {
        "b.example": FAILED
    }


def test_only_the_holder_writes_and_what_is_over_goes(note, grant, keys, db, blocking):
    old, lease = grant(), grant()

    assert note(old, {HOST: FAILED}) is None
    assert not db("EXISTS", keys.hosts)
    note(lease, {HOST: FAILED, "b.example": Record(delay=1.0)})
    reply = blocking().call(list_call(keys))
    assert failed(reply[1]) == {HOST: FAILED}
    assert 8 * 86_400 < db("TTL", keys.hosts) <= 16 * 86_400
    note(lease, {HOST: FAILED}, for_ever=True)
    assert db("TTL", keys.hosts) == -1
    note(lease, {HOST: None, "b.example": None})
    assert not db("EXISTS", keys.hosts)


@pytest.mark.parametrize(("hosts", "left"), [([HOST], 1), ([], 0)])
def test_an_operator_has_failures_forgotten_and_nothing_else(
    blocking, db, unique, hosts, left
):
    keys, config = CrawlKeys(unique, "c"), Config(partitions=4)
    records = {HOST: FAILED, "b.example": FAILED, "c.example": Record(pages=4)}
    for host, record in records.items():
        name = keys.partition(partition_of(host, 4)).hosts
        db("HSET", name, host, record.packed())

    assert forget(blocking(), keys, config, hosts) == 2 - left
    stored = {}
    for number in range(4):
        stored |= db("HGETALL", keys.partition(number).hosts)
    assert len(failed(stored)) == left
    assert read(stored[HOST.encode()]) == Record(pages=7, size=900)
    assert read(stored[b"c.example"]) == Record(pages=4)


def test_hosts_that_are_absent_have_limits_of_their_own():
    config = Config()

    busy, absent = (Limits.of(config, why) for why in ("unavailable", "unresolved"))
    assert [busy.wait(n, 0, 0) for n in (1, 2, 13)] == [1, 2, 3600]
    assert [absent.wait(n, 0, 0) for n in (1, 2, 3, 4, 5)] == [
        300,
        1200,
        4800,
        19200,
        21600,
    ]
    assert absent.times < busy.times
    assert busy.wait(10**9, 5, 0.5) == 5400
    assert busy.wait(1, 1000, 0.1) == 1100
