import struct
import zlib

import msgpack
import pytest

from frontier.errors import CodecError, LeaseLost
from frontier.model import Lease, Order
from frontier.queue.dead_letters import letter
from frontier.queue.spill_blocks import (
    BLOCK,
    BLOCK_BYTES,
    MARK,
    done,
    fitting,
    pack,
    spill_call,
    unpack,
    unspill_call,
)

A = "0:a.example"


def items(count, start=0):
    return [b"0%d" % n for n in range(start, start + count)]


def test_a_block_has_its_items_in_their_order():
    made = [b"0" + bytes([n % 256]) * n for n in range(BLOCK)]

    assert unpack(pack(made)) == made
    assert len(pack(made)) < sum(map(len, made)) / 10


def block_of(body, count=2, version=1):
    return struct.pack(">BI", version, count) + zlib.compress(body)


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        (b"", "not a block"),
        (b"\x01", "not a block"),
        (block_of(msgpack.packb(items(2)), version=2), "not a block"),
        (block_of(msgpack.packb(items(2)), count=2**31), "not a block"),
        (pack(items(2))[:-1], "is cut"),
        (pack(items(2))[:7] + b"xxxxx", "cannot be inflated"),
        (block_of(bytes(2**24)), "larger than blocks are"),
        (block_of(b"\xc1"), "not msgpack"),
        (block_of(msgpack.packb({"1": 2})), "other items"),
        (block_of(msgpack.packb(items(3))), "other items"),
        (block_of(msgpack.packb([b"01", "02"])), "not an item"),
        (block_of(msgpack.packb([b"01", MARK])), "not an item"),
    ],
)
def test_what_is_no_block_is_refused(block, reason):
    with pytest.raises(CodecError, match=reason):
        unpack(block)


def test_a_block_is_full_by_items_or_by_bytes():
    large = b"0" * BLOCK_BYTES

    assert fitting([]) == []
    assert fitting(items(BLOCK + 1)) == items(BLOCK)
    assert fitting([large, b"01", b"02"]) == [large]
    assert fitting([b"01", large]) == [b"01"]
    assert fitting([b"01", b"02", large]) == [b"01", b"02"]
    assert fitting([large + b"0", b"01"]) == [large + b"0"]


class Lists:
    """A list of 30 URLs, and what a holder does with it."""

    def __init__(self, node, lease, db):
        self.node, self.lease, self.db = node, lease, db
        self.keys = node.keys
        node.push_urls([b"%d" % n for n in range(30)])

    def blocks(self):
        return self.db("LRANGE", self.keys.spilled(A), 0, -1)

    def spill(self, found, lease=None):
        call = spill_call(self.keys, lease or self.lease, A, len(self.blocks()), found)
        return done(self.node.store.call(call), lease or self.lease)

    def next(self):
        """The call that puts the next block back."""
        blocks = self.blocks()
        block = blocks[0 if self.node.order is Order.BFS else -1]
        return unspill_call(
            self.keys, self.lease, self.node.order, A, len(blocks), block
        )

    def restore(self):
        return done(self.node.store.call(self.next()), self.lease)

    def items(self):
        return self.db("LRANGE", self.keys.ready(A), 0, -1)

    def reserve(self, count):
        return [r.item for r in self.node.reserve(self.lease, count)]


@pytest.fixture
def lists(client, grant, db):
    return lambda order=Order.BFS: Lists(client(order=order), grant(), db)


def test_oldest_first_stays_oldest_first(lists, db):
    made = lists()
    assert made.spill(items(10, 5))
    assert made.spill(items(10, 15))
    made.node.push_urls([b"%d" % n for n in range(30, 33)])

    assert made.items() == [*items(5), MARK, *items(8, 25)]
    scan = made.node.scan()
    assert (scan.ready, scan.spilled) == (33, 20)
    assert scan.spilled_bytes == sum(map(len, made.blocks()))

    assert made.reserve(3) == items(3)
    assert made.reserve(9) == items(2, 3), "the next are in a block"
    assert made.reserve(9) == []
    assert db("ZRANGE", made.keys.queues, 0, -1) == [A.encode()]
    assert made.restore()
    assert made.reserve(9) == items(9, 5)
    assert made.restore()
    assert not db("EXISTS", made.keys.spilled(A))
    assert made.reserve(99) == items(19, 14)
    scan = made.node.scan()
    assert (scan.ready, scan.reserved, scan.spilled, scan.spilled_bytes) == (
        0,
        33,
        0,
        0,
    )
    assert not db("EXISTS", made.keys.queues)


def test_newest_first_stays_newest_first(lists, db):
    made = lists(Order.DFS)
    assert made.spill(items(10))
    assert made.spill(items(10, 10))
    assert made.items() == [MARK, *items(10, 20)]

    assert made.reserve(99) == items(10, 20)[::-1]
    assert made.reserve(99) == []
    assert made.restore()
    made.node.push_urls([b"30"])
    assert made.reserve(99) == [b"030", *items(10, 10)[::-1]]
    assert made.restore()
    assert made.reserve(99) == items(10)[::-1]
    assert made.node.scan().spilled == 0
    assert not db("EXISTS", made.keys.queues)


@pytest.mark.parametrize("order", Order)
def test_what_is_put_back_comes_before_what_is_in_a_block(lists, order):
    made = lists(order)
    cold = items(10) if order is Order.DFS else items(10, 5)
    rest = [item for item in items(30) if item not in cold]
    if order is Order.DFS:
        rest.reverse()
    assert made.spill(cold)
    taken = made.node.reserve(made.lease, 4)
    made.node.give_back(made.lease, taken)

    assert made.reserve(4) == rest[:4]
    assert made.restore()
    expected = list(items(30)[:: 1 if order is Order.BFS else -1])
    assert made.reserve(99) == expected[4:]


@pytest.mark.parametrize("order", Order)
def test_a_block_that_is_restored_early_comes_in_its_place(lists, order):
    made = lists(order)
    cold = items(10) if order is Order.DFS else items(10, 5)
    assert made.spill(cold)
    assert made.restore()

    assert made.items() == items(30)
    assert made.spill(items(10) if order is Order.DFS else items(10, 5))


def test_a_call_that_comes_twice_does_nothing_the_second_time(lists):
    made = lists()
    call = spill_call(made.keys, made.lease, A, 0, items(10, 5))
    assert [made.node.store.call(call) for _ in range(2)] == [1, 0]
    assert made.spill(items(10, 15))

    call = made.next()
    assert [made.node.store.call(call) for _ in range(2)] == [1, 0]
    assert made.items() == [*items(15), MARK, *items(5, 25)]
    assert made.node.scan().spilled == 10


def test_equal_urls_are_none_too_many_and_none_too_few(lists, db):
    made = lists()
    db("LTRIM", made.keys.ready(A), 1, 0)
    db("RPUSH", made.keys.ready(A), *[b"07"] * 30)
    call = spill_call(made.keys, made.lease, A, 0, [b"07"] * 10)
    assert [made.node.store.call(call) for _ in range(2)] == [1, 0]
    assert made.spill([b"07"] * 10)
    call = made.next()
    assert [made.node.store.call(call) for _ in range(2)] == [1, 0]

    assert len(made.items()) == 21
    assert made.node.scan().spilled == 10


@pytest.mark.parametrize(
    "found",
    [
        items(10, 6)[::-1],  # others
        [*items(9, 5), b"0x"],
        items(25, 5),  # nothing would be left behind them
        [b"0x"],
    ],
)
def test_a_list_that_is_not_what_was_read_stays_as_it_is(lists, found):
    made = lists()

    assert not made.spill(found)
    assert made.items() == items(30)
    assert made.node.scan().spilled == 0


def test_urls_that_were_taken_meanwhile_do_not_matter(lists):
    made = lists()
    call = spill_call(made.keys, made.lease, A, 0, items(10, 5))
    made.reserve(3)
    made.node.push_urls([b"30"])

    assert made.node.store.call(call) == 1
    assert made.items() == [*items(2, 3), MARK, *items(16, 15)]


def test_a_stale_token_changes_nothing(lists, grant):
    made = lists()
    made.spill(items(10, 5))
    call = made.next()
    old, made.lease = made.lease, grant()

    with pytest.raises(LeaseLost):
        made.spill(items(10, 15), Lease(7, old.token, old.deadline))
    with pytest.raises(LeaseLost):
        done(made.node.store.call(call), old)
    assert made.node.scan().spilled == 10


@pytest.mark.parametrize("order", Order)
@pytest.mark.parametrize("cut", [1, 2])
def test_a_block_that_cannot_be_read_becomes_a_dead_letter(lists, db, order, cut):
    made = lists(order)
    cold = items(10) if order is Order.DFS else items(10, 5)
    for part in (cold[:5], cold[5:])[: 3 - cut]:
        made.spill(part)
    block = made.blocks()[0 if order is Order.BFS else -1]
    broken = block[:-1] + b"?"
    db("LSET", made.keys.spilled(A), 0 if order is Order.BFS else -1, broken)
    db("HSET", made.keys.counts, "spilled", 5 * (3 - cut))
    made.reserve(99)
    assert made.restore()

    scan = made.node.scan()
    assert (scan.dead, scan.spilled) == (1, 5 * (2 - cut))
    found = letter(7, db("LRANGE", made.keys.dead, 0, -1)[0])
    assert (found.url, found.queue) == ("", A)
    assert b"block" in found.reason
    if cut == 1:
        assert made.restore()
    while made.reserve(99):
        pass
    assert made.node.scan().ready == 0
