"""Back-offs as the store has them: the scripts, and what is believed of their keys."""

import pytest

from frontier.errors import KeyDamaged
from frontier.queue.back_off import (
    MOST,
    BackOff,
    Failure,
    Limits,
    answered_call,
    failed_call,
    is_changed,
    read,
    read_call,
    read_entry,
    said,
)
from frontier.settings.config import Config

HOST = "a.example"
LIMITS = Limits(first=2.0, growth=3.0, most=100.0, times=4)


@pytest.fixture
def store(blocking):
    return blocking()


@pytest.fixture
def fail(store, keys):
    """Note a failure of a host, and return what the store has of it then."""

    def fail(*, host=HOST, reason="throttled", ago=0.0, asked=0.0, jitter=0.0):
        failure = Failure(host, reason, ago, asked, jitter)
        return said(store.call(failed_call(keys.back_off, failure, LIMITS)))

    return fail


@pytest.fixture
def later(db, keys):
    """Have back-offs begin so many seconds earlier than they did."""

    def later(seconds, host=HOST):
        until, since, *rest = db("HGET", keys.back_off, host).split(b" ")
        moved = [b"%d" % (int(time) - round(seconds * 1000)) for time in (until, since)]
        db("HSET", keys.back_off, host, b" ".join([*moved, *rest]))

    return later


@pytest.fixture
def known(store, keys):
    """What a node that takes the partition reads."""
    return lambda mark=b"": read(store.call(read_call(keys.back_off, mark)))[1]


def test_each_back_off_in_a_row_is_longer_up_to_the_longest(fail, later):
    waits = []
    for _ in range(6):
        waits.append(fail().left)
        later(waits[-1] + 1)

    assert waits == [2, 6, 18, 54, 100, 100]


def test_what_the_host_asks_for_counts_if_it_is_longer(fail, later):
    assert fail(asked=1.0).left == 2
    later(5)
    assert fail(asked=1000.0).left == 1000


def test_a_part_of_it_is_added(fail):
    assert fail(asked=10.0, jitter=0.1).left == 11


def test_what_was_on_the_way_is_no_further_failure(fail, later):
    fail()
    again = fail(ago=0.5)

    assert again.failures == 1
    assert again.left <= 2
    later(3)  # it is over, but this was sent before it began
    assert fail(ago=60).failures == 1
    assert fail().failures == 2


def test_what_was_on_the_way_may_ask_for_longer(fail):
    fail()
    longer = fail(ago=1.0, asked=50.0)

    assert longer.failures == 1
    assert 49 < longer.left <= 50
    assert fail(ago=1.0, asked=5.0).left > 49


def test_to_say_it_twice_is_to_say_it_once(fail):
    first = fail(asked=10.0)
    second = fail(asked=10.0)

    assert second.failures == first.failures == 1
    assert second.left == pytest.approx(10, abs=1)


def test_an_answer_ends_it_unless_it_is_to_what_was_sent_before(
    store, keys, fail, later, known
):
    fail()
    later(3)

    assert store.call(answered_call(keys.back_off, [(HOST, 60.0)])) == 0
    assert HOST in known()
    assert store.call(answered_call(keys.back_off, [(HOST, 0.0)])) == 1
    assert known() == {}
    assert fail().failures == 1


@pytest.mark.parametrize(
    ("reason", "ends"), [("throttled", 0), ("unavailable", 0), ("unconnected", 1)]
)
def test_a_server_that_wants_to_be_left_alone_is_even_if_it_answers_another_node(
    store, keys, fail, known, reason, ends
):
    """That node had not heard of it. One that could not be reached can be again."""
    fail(reason=reason, asked=60.0)

    assert store.call(answered_call(keys.back_off, [(HOST, 0.0)])) == ends
    assert (HOST in known()) is not bool(ends)


def test_the_key_goes_with_its_last_host_and_by_itself(store, keys, fail, later, db):
    fail()
    fail(host="b.example", asked=86_400.0)

    assert 7 * 86_400 < db("TTL", keys.back_off) <= 8 * 86_400
    later(3)
    later(86_401, host="b.example")
    store.call(answered_call(keys.back_off, [(HOST, 0.0), ("b.example", 0.0)]))
    assert not db("EXISTS", keys.back_off)


def test_a_node_reads_what_is_left(fail, later, known):
    fail(reason="unresolved")
    later(0.5)
    fail(host="b.example")
    later(10, host="b.example")

    found = known()
    assert found[HOST].reason == "unresolved"
    assert 1 < found[HOST].left <= 1.5
    assert found["b.example"].left == 0
    assert found["b.example"].age == pytest.approx(10, abs=1)


def test_nothing_is_read_again_until_it_changes(store, keys, fail, db):
    fail()
    mark, _ = read(store.call(read_call(keys.back_off)))

    assert not is_changed(store.call(read_call(keys.back_off, mark)), mark)
    fail(host="b.example", reason="tls")
    reply = store.call(read_call(keys.back_off, mark))
    assert is_changed(reply, mark)
    assert set(read(reply)[1]) == {HOST, "b.example"}
    store.call(answered_call(keys.back_off, [("b.example", 0.0)]))
    assert is_changed(store.call(read_call(keys.back_off, mark)), mark)


@pytest.mark.parametrize("kind", ["SET", "LPUSH", "SADD"])
def test_a_key_of_another_type_is_an_error(store, keys, fail, known, db, kind):
    db(kind, keys.back_off, "x")
    answered = answered_call(keys.back_off, [(HOST, 0.0)])

    for call in (known, fail, lambda: store.call(answered)):
        with pytest.raises(KeyDamaged, match="back_off"):
            call()
    assert db("TYPE", keys.back_off) != b"hash"


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"7",
        b"abc",
        b"\xff\xfe\x00\n",
        b"9" * 30,
        b"-5 1 1 throttled",
        b"1 2 3",
        b"1 2 0 throttled",
        b"99999999999999 1 9999999 throttled",
        b"1 2 3 no_reason",
        b"1 2 3 throttled\n",
        b"1e9 2 3 throttled",
    ],
)
def test_garbage_is_no_back_off_and_is_written_over(keys, fail, known, db, value):
    db("HSET", keys.back_off, HOST, value)

    assert known() == {}
    assert fail().failures == 1
    assert known()[HOST].failures == 1


@pytest.mark.parametrize("name", [b"", b"\xff.example", b"a\nb", b"x" * 601])
def test_what_is_no_name_of_a_host_is_left_out(name):
    assert read_entry(b"x", b"9 1 1 tls", 5) == BackOff(0.004, 0.004, 1, "tls")
    assert read_entry(name, b"9 1 1 tls", 5) is None


def test_a_mark_that_is_garbage_ends_by_itself(store, keys, fail, known, db):
    fail()
    db("HSET", keys.back_off, "", "9" * 500)

    assert HOST in known()
    fail(host="b.example")
    assert set(known()) == {HOST, "b.example"}
    assert len(db("HGET", keys.back_off, "")) < 40


def test_a_node_reads_so_many_and_no_more(keys, known, db):
    pairs = [(f"h{number}.example", "9 1 1 tls") for number in range(3 * MOST)]
    for first in range(0, len(pairs), 10_000):
        db("HSET", keys.back_off, *sum(pairs[first : first + 10_000], ()))

    assert MOST <= len(known()) < 2 * MOST


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
