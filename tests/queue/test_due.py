import datetime as dt
import math
import time

import pytest

from frontier.errors import LeaseLost
from frontier.queue import due
from frontier.queue.due import Again, ServerClock, bucket_of, read_due
from frontier.queue.push import MARK, TEST
from frontier.queue.reserve import Scan

A, B = "0:a.example", "7:b.example"
HOUR = 3_600_000
NOW = 1_795_000_000_000.0


@pytest.fixture
def due_push(new_push):
    return lambda url, when, mode=TEST, queue=A: new_push(url, mode, queue)._replace(
        due=math.ceil(when)
    )


@pytest.mark.parametrize("now", [NOW, NOW + 0.4, NOW + 12_345])
@pytest.mark.parametrize("wait", [0, 1, 63, 500, 4096, 4097, 60_000, 90 * 24 * HOUR])
def test_a_bucket_is_not_before_its_url_and_not_long_after_it(now, wait):
    bucket, delay = bucket_of(now + wait, now)

    assert now + wait <= int(bucket) <= now + wait + max(due.LEAST, wait / due.PART) + 1
    assert delay == wait


def test_due_delay_is_capped_at_the_longest():
    bucket, delay = bucket_of(1e300, NOW)

    assert delay == due.LONGEST
    assert int(bucket) <= NOW + due.LONGEST * (1 + 1 / due.PART)


@pytest.mark.parametrize(
    ("value", "wait"),
    [
        (90, 90_000),
        (0.25, 250),
        (0, None),
        (-5, None),
        (math.inf, due.LONGEST),
        (10**300, due.LONGEST),
        (dt.datetime(1, 1, 1, tzinfo=dt.UTC), None),
        (dt.datetime(9999, 12, 31, tzinfo=dt.UTC), due.LONGEST),
        (
            dt.datetime.max.replace(tzinfo=dt.timezone(dt.timedelta(hours=-12))),
            due.LONGEST,
        ),
        (dt.datetime.fromtimestamp(NOW / 1000 + 60, dt.timezone.max), 60_000),
    ],
)
def test_a_due_time_is_seconds_from_now_or_a_datetime(value, wait):
    assert read_due(value, NOW) == (0 if wait is None else NOW + wait)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (dt.datetime(2027, 1, 1), "a datetime without a time zone"),  # noqa: DTZ001
        ("tomorrow", "is a str"),
        (None, "is a NoneType"),
        (True, "is a bool"),
        (math.nan, "is nan"),
        (dt.timedelta(1), "is a timedelta"),
    ],
)
def test_invalid_due_time_is_refused_with_the_reason(value, why):
    with pytest.raises(ValueError, match=why):
        read_due(value, NOW)


def test_the_clock_of_the_server_is_never_said_to_be_behind():
    clock = ServerClock(lambda: 50_000.0)
    assert abs(clock() - time.time() * 1000) < 10_000
    clock.note(NOW, 49_999.8)  # the answer took 0.2 s at most

    assert clock() == NOW + 200


def test_request_not_yet_due_is_counted_as_pushed_and_not_reserved(
    client, grant, due_push, server_ms
):
    node, lease = client(), grant()
    when = server_ms() + HOUR
    pushes = [due_push(b"1", when), due_push(b"2", when, queue=B)]
    done = node.push(pushes)

    assert done.verdicts == "nn"
    assert node.push(pushes).verdicts == "ss", "a push that is sent again waits once"
    assert done.became_ready == (due.DUE,)
    scan = node.scan()
    assert scan == Scan(pushed=2, seen=2, waiting=2, due=scan.due)
    assert when <= scan.due <= when + HOUR / due.PART + 1
    assert node.move_due(lease)[0] == 0
    assert node.reserve(lease, 5) == []


def test_due_requests_become_ready_in_their_queues_and_not_early(
    client, grant, due_push, server_ms, until_due, db, keys
):
    node, lease = client(), grant()
    when = server_ms() + 150
    node.push([due_push(b"%d" % n, when, queue=(A, B)[n % 2]) for n in range(6)])
    last_of_all = last_due(db, keys)
    early = node.move_due(lease)[0]
    assert not early or server_ms() >= when  # for so long the machine stood still
    until_due(last_of_all)
    assert server_ms() >= when

    count, last = node.move_due(lease)

    assert (early + count, last.bucket) == (6, b"")
    assert node.scan() == Scan(ready=6, pushed=6, seen=6, queues=2)
    assert [r.item for r in node.reserve(lease, 9)] == [b"00", b"02", b"04"]
    assert [r.item for r in node.reserve(lease, 9, B)] == [b"01", b"03", b"05"]


def test_some_wait_and_some_do_not_in_one_push(client, grant, due_push, new_push):
    node, lease = client(), grant()
    pushes = [due_push(b"1", NOW * 2), new_push(b"2"), new_push(b"3", queue=B)]
    done = node.push([*pushes, due_push(b"4", NOW * 2, MARK, B), new_push(b"2")])

    assert done.verdicts == "nnnfs"
    assert sorted(done.became_ready) == [A, B, due.DUE]
    assert [r.item for r in node.reserve(lease, 9)] == [b"02"]
    assert node.scan().waiting == 2


def test_only_a_new_earliest_due_time_is_reported(client, due_push, server_ms):
    node, now = client(), server_ms()

    def told(url, when):
        return node.push([due_push(url, when)]).became_ready

    assert told(b"1", now + HOUR) == (due.DUE,)
    assert told(b"2", now + HOUR) == ()
    assert told(b"3", now + 9 * HOUR) == ()
    assert told(b"4", now + HOUR / 2) == (due.DUE,)


def test_a_node_whose_clock_is_behind_has_nothing_be_ready_early(
    client, due_push, server_ms, keys
):
    node = client()
    from frontier.queue.push import push_plan
    from frontier.seen.config import joined

    node.push([due_push(b"0", 0)])  # the layout is known from now on
    behind = server_ms() - HOUR
    plan = push_plan(
        keys,
        node.shape,
        node.layout,
        [due_push(b"1", behind + 60_000)],
        lambda: behind,
    )
    (call,) = joined([plan], alone=False)
    node.store.call(call)

    assert node.scan().due >= server_ms() + 59_000


def test_more_than_one_call_moves_comes_in_several(client, grant, db, keys):
    node, lease = client(), grant()
    many = due.MOST + 20
    db("ZADD", keys.due, 1000, "1000")
    for n in range(many):
        db("RPUSH", keys.waiting("1000"), f"{n % 3}:a.example\n0{n}")
    db("HSET", keys.counts, "waiting", many, "pushed", many)
    found = node.look_for_due(lease, "1000", ["0:a.example"])
    assert found.moved == 1  # what is behind one whose queue is not named stays there
    assert set(found.lacking) == {b"1:a.example", b"2:a.example"}

    assert node.move_due(lease)[0] == many - 1
    scan = node.scan()
    assert (scan.ready, scan.waiting, scan.queues) == (many, 0, 3)


def last_due(db, keys):
    """When the last of what waits is due, milliseconds."""
    (bucket,) = db("ZRANGE", keys.due, -1, -1)
    return float(db("ZSCORE", keys.due, bucket))


def test_put_again_acks_the_reservation_and_queues_its_item_once(
    client, grant, server_ms, until_due, db, keys
):
    node, lease = client(), grant()
    node.push_urls([b"1", b"2", b"3"])
    one, two, three = node.reserve(lease, 3)
    when = math.ceil(server_ms() + 100)
    entries = [(one.id, Again(A, b"0new", when)), (two.id, Again(B, b"0other", when))]

    assert node.put_again(lease, *entries, clock=server_ms) == 2
    assert node.put_again(lease, *entries, clock=server_ms) == 0  # a reply was lost
    scan = node.scan()
    expected = Scan(reserved=1, pushed=5, acked=2, seen=3, waiting=2, due=scan.due)
    assert scan == expected

    until_due(last_due(db, keys))
    assert node.move_due(lease)[0] == 2
    assert [r.item for r in node.reserve(lease, 9)] == [b"0new"]
    assert [r.item for r in node.reserve(lease, 9, B)] == [b"0other"]
    assert node.ack(lease, three) == 1


def test_a_stale_token_neither_moves_nor_puts_again(client, grant, db, keys):
    node, old = client(), grant()
    node.push_urls([b"1"])
    (one,) = node.reserve(old)
    db("ZADD", keys.due, 1000, "1000")
    before, lease = node.scan(), grant()

    with pytest.raises(LeaseLost):
        node.put_again(old, (one.id, Again(A, b"0new", 5)))
    with pytest.raises(LeaseLost):
        node.look_for_due(old, "1000")
    assert node.scan() == before
    assert node.reclaim(lease) == (1, 0)


def test_a_bucket_without_a_list_is_removed(client, grant, db, keys):
    node, lease = client(), grant()
    db("ZADD", keys.due, 1000, "1000", "-inf", "abc")

    assert node.move_due(lease)[1].bucket == b""
    assert db("EXISTS", keys.due) == 0
