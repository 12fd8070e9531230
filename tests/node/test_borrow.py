"""Deliveries that wait for what one process alone can send, and borrowed partitions."""

import pytest

from frontier.node.borrow import ASK, GRACE, MAX_ASKED, SLICE
from frontier.node.delivery import Delivery
from frontier.queue.due import Again
from frontier.queue.push import CLAIM, Push
from frontier.queue.reserve import list_reserved, read_reserved
from frontier.urls.fingerprint import seen_hash
from tests.node.conftest import settle

QUEUE = "0:c.example"


@pytest.fixture
def pair(parts, start):
    """Two nodes that have settled on half of 16 partitions each."""

    async def pair(**options):
        nodes = [parts(name, partitions=16, **options) for name in ("a", "b")]
        for node in nodes:
            node.monotonic.stop()  # a slow machine takes longer than a slice
            start(node.outbox.run(), node.inbox.run(), node.acks.run())
        await settle(*nodes)
        return nodes

    return pair


async def rounds(*nodes, until, most=60):
    """Let *nodes* look, and beat, in turn, until something is so."""
    for _ in range(most):
        if until():
            return
        for node in nodes:
            await node.borrow.look()
            node.reclaim.doubt(node.leases.held.values())
            await node.heartbeat.beat()
    raise AssertionError("it did not become so")


def pass_time(node, seconds):
    node.monotonic.ahead += seconds


def own(node):
    return node.membership.ring.owned_by(node.membership._member.node_id)


async def root_of(node, partition, until, new_push):
    """A delivery of a page that *node* has reserved in *partition*."""
    await node.push(partition, new_push(b"page", "p.example"))
    await node.ready.load([partition])
    reservation = await until(node.inbox.take, "a reservation")
    return reservation.delivery


async def adopt(node, partition, parent, url=b"https://c.example/"):
    """Have *parent* adopt a request of a host in *partition*; its verdict."""
    made = Delivery(
        name=b"%d" % parent.next_id(url),
        parents=(parent,),
        request=[url],
        partition=partition,
        queue=QUEUE,
        mark=seen_hash(url),
    )
    if not node.deliveries.may_test(made):
        return made, "here"
    push = Push(CLAIM, made.mark, "", 0, b"", made, 0, made.owner, made)
    await node.push(partition, push)
    (verdict,) = [v for push, v in node.verdicts if push.tag is made]
    if verdict == "n":
        node.deliveries.accept(made)
    else:
        node.deliveries.end(made)
    return made, verdict


async def kept(node, partition, until, new_push, child_in):
    """A delivery that is through, with a child that waits to be sent."""
    root = await root_of(node, partition, until, new_push)
    child, verdict = await adopt(node, child_in, root)
    assert verdict == "n"
    node.deliveries.through(root.reservation)
    own_key = root.reservation.key
    await until(lambda: own_key not in node.inbox.open, "that it is kept")
    return root, child


async def lend(a, b, until, new_push):
    """Have *a* lend a partition to *b*, which keeps a page for it."""
    lent = own(a)[0]
    await kept(b, own(b)[0], until, new_push, lent)
    await rounds(b, a, until=lambda: lent in b.leases.held)
    return lent


async def entry(node, partition):
    """The only reservation in *partition*, as the store has it."""
    reply = await node.store.call(list_reserved(node.keys.partition(partition)))
    ((key, value),) = reply.items()
    return read_reserved(key, value)


async def is_acked(node, partition):
    await node.acks.drain()
    scan = await node.scan(partition)
    return not scan.reserved and not scan.ready


async def test_a_delivery_is_acked_after_what_it_has_adopted(pair, until, new_push):
    a, _ = await pair()
    first, second = own(a)[:2]
    root, child = await kept(a, first, until, new_push, second)
    await a.acks.drain()
    assert (await entry(a, first)).keeper == a.leases.name
    assert not a.is_idle()

    reservation = await until(a.inbox.take, "the child")
    assert reservation.lease == a.leases.held[second]
    assert (reservation.delivery, child.take()) == (child, [b"https://c.example/"])
    _, verdict = await adopt(a, second, child)
    assert (verdict, root.left) == ("here", 1)
    a.deliveries.through(reservation)
    assert await is_acked(a, first)
    assert a.deliveries.kept == {}
    assert (second, "", b"") in a.journal, "a rebuilt crawl has its mark"
    for asking in (root, Delivery(root.reservation, b"other")):
        _, verdict = await adopt(a, second, asking)
        assert verdict == "s", "it is seen for good"


async def test_a_page_is_done_without_what_it_adopted_for_a_host_over_its_quota(
    pair, until, new_push
):
    a, _ = await pair()
    a.hosts.change_quotas(1, 0)
    first, second = own(a)[:2]
    await a.push(second, new_push(b"only", "c.example"))
    await a.ready.load([second])
    only = await until(a.inbox.take, "the only page")
    a.hosts.add(only, 1, 0)
    a.acks.complete(only)
    await kept(a, first, until, new_push, second)

    await until(lambda: not a.deliveries.kept, "that nothing is left")
    assert await is_acked(a, first)


async def test_adopted_request_not_sent_waits_on_its_node_again(pair, until, new_push):
    a, _ = await pair()
    first, second = own(a)[:2]
    _, child = await kept(a, first, until, new_push, second)
    reservation = await until(a.inbox.take, "the child")
    sent = child.take()

    await a.acks.put_back(reservation)
    again = await until(a.inbox.take, "the child again")
    assert (again.delivery, child.take()) == (child, sent)


async def test_a_partition_is_lent_and_comes_back_when_nothing_is_left(
    pair, until, new_push
):
    a, b = await pair()
    lent = await lend(a, b, until, new_push)
    assert lent not in a.leases.held
    reservation = await until(b.inbox.take, "the child")
    assert reservation.lease == b.leases.held[lent]

    b.deliveries.through(reservation)
    assert await is_acked(b, own(b)[0])
    pass_time(a, 2 * GRACE)
    await rounds(b, a, until=lambda: lent in a.leases.held)
    assert set(a.leases.held) == set(own(a))
    assert set(b.leases.held) == set(own(b))


async def test_what_waits_for_a_lease_does_not_wake_the_inbox(pair, until, new_push):
    a, b = await pair()
    await kept(b, own(b)[0], until, new_push, own(a)[0])
    b.ready.changed.clear()
    await b.inbox.fill()
    assert not b.ready.changed.is_set()


async def test_nodes_that_want_the_same_partition_take_turns(pair, until, new_push):
    a, b = await pair()
    a.hosts.most = b.hosts.most = lambda queue_key: 0.5  # nothing is ever sent
    both = own(a)[0]
    for node, url in ((a, b"https://c.example/"), (b, b"https://d.example/")):
        await adopt(node, both, Delivery(name=url), url)
    await a.borrow.look()
    for _ in range(3):
        await b.borrow.look()
        await b.heartbeat.beat()
        await a.borrow.look()
        await a.heartbeat.beat()
    assert both in a.leases.held, "it has only just begun"

    for _ in range(2):
        pass_time(a, SLICE)
        a.borrow.ask([both])  # as b does again and again
        await rounds(b, a, until=lambda: both in b.leases.held)
        await b.borrow.look()
        pass_time(a, 2 * GRACE)
        pass_time(b, SLICE)
        b.borrow.ask([both])
        await rounds(a, b, until=lambda: both in a.leases.held)
        await a.borrow.look()
        pass_time(b, 2 * GRACE)


async def test_a_node_that_leaves_gives_back_what_it_borrowed(pair, until, new_push):
    a, b = await pair()
    lent = await lend(a, b, until, new_push)

    b.heartbeat.leave()
    pass_time(a, 2 * GRACE)
    await rounds(b, a, until=lambda: lent in a.leases.held)
    assert b.leases.held == {}


async def test_kept_reservation_is_requeued_only_once_its_keeper_is_gone(
    pair, until, new_push
):
    a, b = await pair()
    of_b = own(b)[0]
    await kept(b, of_b, until, new_push, own(a)[0])
    b.heartbeat.leave()
    await rounds(b, a, until=lambda: of_b in a.leases.held)
    for _ in range(3):
        a.reclaim.doubt([a.leases.held[of_b]])
        await until(lambda: not a.reclaim._doubted, "a look")
        assert (await entry(a, of_b)).keeper == b.leases.name

    await b.membership.leave({})
    await a.heartbeat.beat()
    a.reclaim.doubt([a.leases.held[of_b]])
    again = await until(a.inbox.take, "the page once more")
    assert again.item == b"0page", "that was no delivery"


async def test_a_delivery_that_is_fetched_again_ends_under_a_borrowed_lease(
    pair, until, new_push
):
    a, b = await pair()
    moved, other = own(b)[:2]
    root, _ = await kept(b, moved, until, new_push, other)
    root.again = Again("0:p.example", b"0again", 0)
    reservation = await until(b.inbox.take, "the child")
    b.borrow.ask([moved])
    await b.heartbeat.beat()
    assert moved not in b.leases.held
    await a.leases.acquire([moved])

    b.deliveries.through(reservation)
    pass_time(b, 2 * GRACE)
    await rounds(b, a, until=lambda: not b.deliveries.kept)
    scan = await b.scan(moved)
    assert (scan.reserved, scan.waiting) == (0, 1)


async def test_a_page_is_given_up_for_what_a_child_is_given_up_for(
    pair, until, new_push, db
):
    a, _ = await pair()
    first, second = own(a)[:2]
    await kept(a, first, until, new_push, second)
    child = await until(a.inbox.take, "the child")
    await adopt(a, second, child.delivery, b"https://c.example/2")
    a.deliveries.through(child)
    last = await until(a.inbox.take, "the child of the child")
    assert (child.id, last.id) == (-1, -2)
    last.delivery.reason = "its callback failed"
    a.deliveries.through(last)

    letter = a.keys.partition(first).dead
    (dead,) = await until(lambda: db("LRANGE", letter, 0, -1), "a dead letter")
    assert dead.startswith(b"its callback failed")


async def test_a_kept_page_is_dropped_once_its_node_comes_back_as_another(
    pair, until, new_push, caplog
):
    a, _ = await pair()
    await kept(a, own(a)[0], until, new_push, own(a)[1])
    a.deliveries.look()
    assert len(a.deliveries.kept) == 1

    a.start_over()
    a.deliveries.look()
    assert a.deliveries.kept == {}

    await a.leases.acquire([own(a)[0]])
    for said in (True, False):  # then it holds nothing, and has nothing to push again
        caplog.clear()
        a.start_over()
        assert ("may have lost its last writes" in caplog.text) is said


async def test_a_tree_is_dropped_when_its_root_is_lost(pair, until, new_push):
    a, _ = await pair()
    first, second = own(a)[:2]
    root = await root_of(a, first, until, new_push)
    child, _ = await adopt(a, second, root)
    reservation = await until(a.inbox.take, "the child")
    assert not a.has_lost(root.reservation)
    a.inbox.lose_all([a.leases.held[first]])

    assert a.has_lost(root.reservation)
    assert a.deliveries.has_lost(child)
    await a.acks.put_back(reservation)
    assert a.deliveries.waiting == {}


def test_borrow_asks_for_many_partitions_in_turn(parts):
    node = parts("a", partitions=256)
    root = Delivery(name=b"start")
    for partition in range(100):
        url = b"%d" % partition
        node.deliveries.wait(
            Delivery(name=url, parents=(root,), partition=partition, queue=QUEUE)
        )

    asked = [node.borrow.chosen(set()) for _ in range(2)]

    assert [len(some) for some in asked] == [MAX_ASKED] * 2
    assert set.union(*asked) == set(range(100))


async def test_push_to_a_borrowed_partition_is_found_by_its_borrower(
    pair, until, new_push
):
    a, b = await pair()
    lent = await lend(a, b, until, new_push)
    await until(b.inbox.take, "the child")  # b keeps the partition until that is done
    await a.push(lent, new_push(b"x", "x.example"))

    pass_time(b, 2 * ASK)
    await b.borrow.look()
    found = await until(b.inbox.take, "a reservation")
    assert found.item == b"0x"
