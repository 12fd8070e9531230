import pytest

from frontier.errors import CodecError, LeaseLost
from frontier.model import Lease, Order
from frontier.queue import reserve as p
from frontier.queue.priority import queue_name, split_name
from frontier.queue.reserve import (
    MAX_TRIES,
    Scan,
    reserve_call,
    reserved,
)
from frontier.store.client import Call

A = "0:a.example"


def numbers(count, start=0):
    return [b"%d" % n for n in range(start, start + count)]


@pytest.fixture
def filled(client, grant):
    """Make a node that has a lease, and so many URLs in a queue."""

    def filled(count):
        node = client()
        node.push_urls(numbers(count))
        return node, grant()

    return filled


def urls_of(reservations):
    """The URLs of *reservations*, which are all delivered for the first time."""
    assert all(r.item[:1] == b"0" for r in reservations)
    return [r.item[1:] for r in reservations]


@pytest.mark.parametrize("priority", [-100, -1, 0, 7, 10**9])
@pytest.mark.parametrize("key", ["a.example", "a.example:8080", "[::1]", "", "*"])
def test_the_name_of_a_queue_says_priority_and_key(priority, key):
    assert split_name(queue_name(key, priority)) == (priority, key)


@pytest.mark.parametrize("name", ["", "a.example", "x:a.example", ":a"])
def test_invalid_queue_name_is_refused(name):
    with pytest.raises(CodecError, match="not the name of a queue"):
        split_name(name)


@pytest.mark.parametrize(
    ("order", "expected"),
    [(Order.BFS, numbers(5)), (Order.DFS, numbers(5)[::-1])],
)
def test_the_order_is_the_order_that_was_asked_for(client, grant, order, expected):
    node, lease = client(order=order), grant()
    node.push_urls(numbers(5))

    assert urls_of(node.reserve(lease, 2) + node.reserve(lease, 9)) == expected


@pytest.mark.parametrize("born", ["", "0123456789abcdef"])
@pytest.mark.parametrize(
    ("there", "found"),
    [
        ([], {}),
        ([("HSET", "counts", "ready", 2)], {"ready": 2}),
        ([("HSET", "counts", "pushed", 3, "acked", 3)], {"pushed": 3, "acked": 3}),
        ([("HSET", "counts", "skipped", 1)], {"skipped": 1}),
        ([("HSET", "reserved", 1, b"x")], {"reserved": 1}),
        ([("HSET", "seen", "count", 5)], {"seen": 5}),
        ([("ZADD", "queues", 0, A)], {"queues": 1}),
    ],
)
def test_a_scan_overlooks_nothing_in_a_partition_that_has_little(
    client, db, keys, born, there, found
):
    if born:
        db("HSET", keys.counts, "born", born)
    for command, key, *rest in there:
        db(command, getattr(keys, key), *rest)
    mark, _, *figures = client().store.call(p.scan_call(keys))

    assert Scan(*figures) == Scan(**found)
    assert mark == born.encode()


def test_reserved_items_are_not_reserved_again_and_acked_once(filled):
    node, lease = filled(3)
    taken = node.reserve(lease, 3)

    assert node.reserve(lease, 3) == []
    assert (node.scan().ready, node.scan().reserved) == (0, 3)

    assert node.ack(lease, *taken) == 3
    assert (node.scan().reserved, node.scan().acked) == (0, 3)
    assert node.ack(lease, *taken) == 0  # a repeated ack is no second one
    assert node.scan().acked == 3
    for n in (4, 5):
        node.push_urls(numbers(1, start=n - 1))
        (more,) = node.reserve(lease)
        assert node.ack(lease, more) == 1
        assert more.key == (7, lease.token, n), "no id comes again"


def test_a_queue_says_how_much_it_has_left_and_leaves_when_it_is_empty(
    filled, db, keys
):
    node, lease = filled(3)

    node.reserve(lease, 2)
    assert db("ZRANGE", keys.queues, 0, -1) == [A.encode()]
    taken = node.reserve(lease, 1)
    assert db("ZRANGE", keys.queues, 0, -1) == []
    assert db("EXISTS", keys.ready(A)) == 0
    node.give_back(lease, taken)
    assert db("ZRANGE", keys.queues, 0, -1) == [A.encode()]


@pytest.mark.parametrize("order", list(Order))
def test_requeued_items_keep_their_old_order(client, grant, order):
    node, lease = client(order=order), grant()
    node.push_urls(numbers(1_200))
    taken = node.reserve(lease, 1_100)
    node.push_urls(numbers(1, start=5_000))

    assert node.give_back(lease, taken) == (1_100, 0)
    assert urls_of(node.reserve(lease, 1_100)) == urls_of(taken)


def test_to_be_given_back_is_no_delivery(filled, db, keys):
    node, lease = filled(1)
    for _ in range(2 * MAX_TRIES):
        assert node.give_back(lease, node.reserve(lease)) == (1, 0)

    assert urls_of(node.reserve(lease)) == numbers(1)
    assert db("LLEN", keys.dead) == 0


def test_the_third_delivery_without_an_ack_is_the_last(client, grant, db, keys):
    node = client()
    node.push_urls(numbers(1))
    for delivered in range(1, MAX_TRIES):
        node.reserve(grant())
        assert node.reclaim(grant()) == (1, 0)
        assert db("LRANGE", keys.ready(A), 0, -1) == [b"%d0" % delivered]
    node.reserve(grant())

    assert node.reclaim(grant()) == (0, 1)
    assert db("LRANGE", keys.dead, 0, -1) == [b"delivered 3 times\n0:a.example\n20"]
    scan = node.scan()
    assert (scan.ready, scan.reserved, scan.dead) == (0, 0, 1)


def taken_over(node, lease, former=None, ran=None):
    """Reclaim under *lease* what was started before; say what became of it.

    *former* was the lease before, under which *ran* ran when its node ended.
    """
    reply = node.store.call(p.list_reserved(node.keys))
    started = node.store.call(Call.command("SMEMBERS", node.keys.started))
    held = ("node-1/x/1", former.token) if former else ("", 0)
    notes = {"node-1/x/1": ran} if ran else {}
    left, done = p.entries_in(reply), []
    for kind, why, entries in p.weighed(lease.partition, left, started, held, notes):
        calls = p.requeue_calls(node.keys, lease, node.order, entries, kind, why)
        done += [p.fenced(one, lease) for one in node.store.run(calls)]
    node.store.call(Call.command("UNLINK", node.keys.started))
    return tuple(map(sum, zip(*done, strict=True)))


def elsewhere(lease):
    """What ran in another partition as the holder of *lease* ended."""
    return p.Ran(lease.partition + 1, lease.token, 1)


def start(node, reservations):
    ids = [one.id for one in reservations]
    node.store.call(p.start_call(node.keys, ids))


def test_running_request_counts_as_a_delivery_and_its_neighbour_a_third(
    client, grant, db, keys
):
    node = client()
    node.push_urls(numbers(3))
    lease = grant()
    ran, beside, _ = node.reserve(lease, 3)
    start(node, [beside])  # that the other was started may not be noted yet

    assert taken_over(node, grant(), lease, p.Ran(*ran.key)) == (3, 0)
    ready = db("LRANGE", keys.ready(A), 0, -1)
    assert sorted(item[:1] for item in ready) == [b"0", b"1", b"3"]
    assert ready[0][:1] == b"1", "it comes first again"


def test_request_beside_ended_nodes_is_given_up_after_nine_takeovers(
    client, grant, db, keys
):
    node = client()
    node.push_urls(numbers(1))
    for _ in range(3 * MAX_TRIES - 1):
        lease = grant()
        start(node, node.reserve(lease))
        assert taken_over(node, grant(), lease, elsewhere(lease)) == (1, 0)
    lease = grant()
    start(node, node.reserve(lease))

    assert taken_over(node, grant(), lease, elsewhere(lease)) == (0, 1)
    assert db("LRANGE", keys.dead, 0, -1) == [b"delivered 3 times\n0:a.example\n80"]


def test_takeover_without_a_note_counts_a_full_delivery_beside_thirds(
    client, grant, db, keys
):
    node = client()
    node.push_urls(numbers(1))
    lease = grant()
    start(node, node.reserve(lease))
    taken_over(node, grant(), lease, elsewhere(lease))
    start(node, node.reserve(grant()))

    assert taken_over(node, grant()) == (1, 0)
    assert db("LRANGE", keys.ready(A), 0, -1) == [b"40"]


def test_buried_item_becomes_a_dead_letter_with_its_reason(filled, db, keys):
    node, lease = filled(1)
    (taken,) = node.reserve(lease)

    assert node.bury(taken, "no such\ncallback\t here") == 1
    assert db("LRANGE", keys.dead, 0, -1) == [b"no such callback here\n0:a.example\n00"]
    assert node.bury(taken, "again") == 0
    scan = node.scan()
    assert (scan.ready, scan.reserved, scan.dead) == (0, 0, 1)


def test_any_bytes_survive_the_whole_way(client, new_push, grant, db, keys):
    node, item = client(), b"0\x01" + bytes(range(256)) + b"\n\n0\n%d\r\n\x00"
    node.push([new_push(b"url", item=item)])
    first, second = grant(), None
    assert node.reserve(first)[0].item == item

    second = grant()
    node.reclaim(second)
    (taken,) = node.reserve(second)
    assert taken.item == b"1" + item[1:]
    node.bury(taken, "r")
    assert db("LINDEX", keys.dead, 0) == b"r\n0:a.example\n1" + item[1:]


WRITES = {
    "reserve": lambda node, lease, taken: node.reserve(lease),
    "ack": lambda node, lease, taken: node.ack(lease, taken),
    "give back": lambda node, lease, taken: node.give_back(lease, [taken]),
    "reclaim": lambda node, lease, taken: node.requeue(
        lease, [(taken.id, A)], delivered=True
    ),
}


@pytest.mark.parametrize("has_ended", [False, True])
def test_a_node_that_wakes_up_late_can_do_no_harm(client, grant, db, keys, has_ended):
    node, stale = client(), grant()
    node.push_urls(numbers(2))
    (taken,) = node.reserve(stale)
    if has_ended:
        db("DEL", keys.lease)
    else:
        grant()  # ... node a was paused, node b has taken over
    before = node.scan()

    for write in WRITES.values():
        with pytest.raises(LeaseLost) as caught:
            write(node, stale, taken)
        assert (caught.value.partition, caught.value.token) == (7, stale.token)
    assert node.bury(taken, "reason") is None
    assert node.scan() == before


def test_a_token_is_compared_as_a_whole(filled):
    node, lease = filled(1)

    for token in (lease.token * 10, lease.token // 10, -lease.token, 0):
        with pytest.raises(LeaseLost):
            node.reserve(Lease(7, token))


def test_more_is_reserved_at_once_than_one_command_takes(client, grant):
    node, lease, count = client(), grant(), 1_203
    node.push_urls(numbers(count))

    made = node.reserve(lease, 5_000)

    assert urls_of(made) == numbers(count)
    assert [one.id for one in made] == list(range(1, count + 1))
    stored = node.store.call(p.list_reserved(node.keys))
    assert sorted(map(int, stored)) == list(range(1, count + 1))
    assert node.ack(lease, *made[:200]) == 200
    assert node.scan().ready == 0


def test_several_queues_have_ids_that_follow_one_another(client, grant):
    node, lease, other = client(), grant(), "0:b.example"
    node.push_urls(numbers(3))
    node.push_urls(numbers(3, 10), queue=other)
    wanted = {A: 2, "0:nobody.example": 2, other: 2}

    reply = node.store.call(reserve_call(node.keys, lease, Order.BFS, wanted))
    found, left = reserved(reply, lease, wanted)

    assert [(one.id, one.queue, one.item) for one in found] == [
        (1, A, b"00"),
        (2, A, b"01"),
        (3, other, b"010"),
        (4, other, b"011"),
    ]
    assert left == {A: 1, "0:nobody.example": 0, other: 1}


@pytest.mark.parametrize("taken", [(1,), (3,), (1, 2, 3), (2, 700), range(1, 1_100)])
def test_a_reservation_is_overwritten_by_none_though_the_counter_went_back(
    filled, taken
):
    """As when a damaged `counts` was counted again, or a failover lost the last."""
    node, lease = filled(8)
    before = {b"%d" % n: b"1\n%s\n0old" % A.encode() for n in taken}
    for n, value in before.items():
        node.store.call(Call.command("HSET", node.keys.reserved, n, value))

    made = node.reserve(lease, 5)
    more = node.reserve(lease, 3)

    assert urls_of(made + more) == numbers(8)
    stored = node.store.call(p.list_reserved(node.keys))
    assert before.items() <= stored.items()
    assert {b"%d" % one.id for one in made + more} == stored.keys() - before.keys()
