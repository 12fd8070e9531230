"""Partitions that are lent, and claims whose processes are gone."""

import pytest

from frontier.cluster.lease import Acquired
from frontier.node.lending import ASK, GRACE, MAX_ASKED, SLICE
from frontier.queue.item import Origin, claim_of, decode, encode
from frontier.queue.priority import queue_name
from frontier.queue.push import CLAIM, FORCE, Push
from frontier.queue.reserve import requeue_calls
from frontier.urls.fingerprint import seen_hash

URL = "https://c.example/"
PARENT = Origin(0, "0:p.example", encode({"url": "https://p.example/"}))


class Request:
    """What a process alone can make."""

    def __init__(self, url=URL):
        self.url = url

    def copy(self):
        return Request(self.url)


@pytest.fixture
def pair(parts, start):
    """Two nodes that have settled on half of 16 partitions each."""

    async def pair(**options):
        nodes = [parts(name, partitions=16, **options) for name in ("a", "b")]
        for node in nodes:
            node.clock.stop()  # a slow machine takes longer than a slice
            start(node.outbox.run(), node.inbox.run(), node.acks.run())
        await settle(*nodes)
        return nodes

    return pair


async def settle(*nodes):
    for _ in range(10):
        if all([await node.heartbeat.beat() for node in nodes]):
            return
    raise AssertionError("partitions still change hands")


async def claim(node, partition, url=URL, origins=(PARENT,), start_id="", mode=CLAIM):
    """Have *node* make a request that it alone has, of a host in *partition*."""
    request, number = Request(url), seen_hash(url.encode())
    queue = queue_name("c.example", 0, node.claims.process)
    marks = ((partition, number),) if mode == CLAIM else ()
    made = node.claims.make(
        request, request.copy, url, (partition, queue), origins, marks, start_id
    )
    await node.claims.announce()
    await node.push(partition, Push(mode, number, queue, 0, made.item(), request))
    (verdict,) = [v for push, v in node.verdicts if push.tag is request]
    if verdict in "nf":
        node.claims.stored(request)
    else:
        node.claims.refused(request)
    return request


async def rounds(*nodes, until, most=60):
    """Let *nodes* look, and beat, in turn, until something is so."""
    for _ in range(most):
        if until():
            return
        for node in nodes:
            await node.lending.look()
            await node.heartbeat.beat()
    raise AssertionError("it did not become so")


def pass_time(node, seconds):
    node.clock.ahead += seconds


async def take(node, until):
    """Start what is reserved next at *node*, as its scheduler would."""
    reservation = await until(node.inbox.take, "a reservation")
    found = claim_of(decode(reservation.item), 16)
    return reservation, node.claims.take(found, reservation)


def own(node):
    return node.membership.ring.owned_by(node.membership._member.node_id)


async def test_a_partition_is_lent_and_comes_back_when_nothing_is_left(pair, until):
    a, b = await pair()
    lent = own(a)[0]
    request = await claim(b, lent)

    await a.inbox.load_queues([lent])
    await a.lending.look()
    await a.heartbeat.beat()
    assert lent not in a.leases.held, "a has nothing there to finish"
    await b.heartbeat.beat()
    assert lent in b.leases.held
    reservation, found = await take(b, until)
    assert found is request
    assert reservation.lease == b.leases.held[lent]

    b.acks.complete(reservation)
    await b.acks.drain()
    assert b.claims.partitions() == set()
    pass_time(a, 2 * GRACE)
    await rounds(b, a, until=lambda: lent in a.leases.held)
    assert set(a.leases.held) == set(own(a))
    assert set(b.leases.held) == set(own(b))


async def test_what_was_started_is_finished_before_a_partition_is_lent(
    pair, until, new_push
):
    a, b = await pair()
    lent = own(a)[0]
    await a.push(lent, new_push(b"x"))
    await a.inbox.load_queues([lent])
    started = await until(a.inbox.take, "a reservation")
    await claim(b, lent)
    await a.inbox.load_queues([lent])
    for _ in range(5):
        await a.lending.look()
        await a.heartbeat.beat()
        await b.heartbeat.beat()
    assert lent in a.leases.held

    a.acks.complete(started)
    await a.acks.drain()
    await rounds(a, b, until=lambda: lent in b.leases.held)


async def test_two_nodes_that_want_a_partition_of_each_other_get_it(pair, until):
    a, b = await pair()
    of_a, of_b = own(a)[0], own(b)[0]
    wanted = [await claim(a, of_b), await claim(b, of_a, "https://d.example/")]
    await a.inbox.load_queues([of_a])
    await b.inbox.load_queues([of_b])
    await rounds(a, b, until=lambda: of_b in a.leases.held and of_a in b.leases.held)

    for node, request in zip((a, b), wanted, strict=True):
        reservation, found = await take(node, until)
        assert found is request
        node.acks.complete(reservation)
        await node.acks.drain()
    for node in (a, b):
        pass_time(node, 2 * GRACE)
    await rounds(a, b, until=lambda: of_a in a.leases.held and of_b in b.leases.held)


async def test_nodes_that_want_the_same_partition_take_turns(pair):
    a, b = await pair(cap=0)  # so that nothing is ever done with
    both = own(a)[0]
    await claim(a, both)
    await claim(b, both, "https://d.example/")
    await a.inbox.load_queues([both])
    for _ in range(3):
        await a.lending.look()
        await a.heartbeat.beat()
        await b.heartbeat.beat()
    assert both in a.leases.held, "it has only just begun"

    for _ in range(2):
        pass_time(a, SLICE)
        await a.lending.look()
        await rounds(a, b, until=lambda: both in b.leases.held)
        await b.lending.look()
        pass_time(a, 2 * GRACE)
        pass_time(b, SLICE)
        await rounds(b, a, until=lambda: both in a.leases.held)
        await a.lending.look()
        pass_time(b, 2 * GRACE)


async def test_a_node_that_leaves_gives_back_what_it_borrowed(pair, until):
    a, b = await pair()
    lent = own(a)[0]
    await claim(b, lent)
    await a.inbox.load_queues([lent])
    await rounds(a, b, until=lambda: lent in b.leases.held)

    b.heartbeat.leave()
    pass_time(a, 2 * GRACE)
    await rounds(b, a, until=lambda: lent in a.leases.held)
    assert b.leases.held == {}


@pytest.fixture
def gone(db, crawl):
    """Have the process of a node be gone, as the store sees it."""
    return lambda node: db("DEL", crawl.process(node.claims.process))


async def test_what_led_to_a_claim_is_queued_once_when_its_process_is_gone(pair, gone):
    a, b = await pair()
    first, second = own(a)[:2]
    await claim(b, first)
    await claim(b, second, "https://d.example/")
    gone(b)
    await a.inbox.load_queues([first, second])
    await a.lending.look()
    await a.acks.drain()

    assert await a.items(0, "0:p.example") == [PARENT.item]
    for partition in (first, second):
        scan = await a.scan(partition)
        assert (scan.ready, scan.reserved, scan.acked) == (0, 0, 1)
    assert not [one for one in a.journal if one[0] == "ack"], "it is not done"
    again = Push(CLAIM, seen_hash(URL.encode()), "0:c.example", 0, b"0again")
    await a.push(first, again, again)
    assert [verdict for _, verdict in a.verdicts[-2:]] == ["n", "c"]


async def test_who_dies_while_it_resolves_leaves_it_to_the_next(pair, gone):
    a, b = await pair()
    first = own(a)[0]
    await claim(b, first)
    gone(b)
    await a.inbox.load_queues([first])
    queue = queue_name("c.example", 0, b.claims.process)
    (reservation,) = await a.recovery._reserve(first, [queue])
    found = claim_of(decode(reservation.item), 16)
    await a.recovery._renew([(reservation, found)])
    await a.leases.release([first])  # and is no more

    await b.leases.acquire([first])
    lease = b.leases.held[first]
    b.inbox._process = "f" * 12  # a process that knows nothing of it
    await b.heartbeat._take_over([Acquired(lease, ready=0, reserved=1)])
    await b.lending.look()
    await b.acks.drain()
    assert await b.items(0, "0:p.example") == [PARENT.item]
    scan = await b.scan(first)
    assert (scan.ready, scan.reserved, scan.dead) == (0, 0, 0)


async def test_a_process_that_was_taken_for_gone_forgets_what_it_had(pair, gone):
    a, b = await pair()
    first = own(a)[0]
    await claim(b, first)
    gone(b)
    await a.inbox.load_queues([first])
    await a.lending.look()
    await a.acks.drain()
    assert (await a.scan(first)).ready == 0
    await b.claims.announce()  # it wakes up

    assert b.claims.partitions() == {first}
    for _ in range(12):
        pass_time(a, GRACE)
        pass_time(b, GRACE)
        await a.lending.look()
        await a.heartbeat.beat()
        await b.heartbeat.beat()
        await b.lending.look()
    assert b.claims.partitions() == set()
    assert b.inbox.take() is None


@pytest.mark.parametrize("mode", [CLAIM, FORCE])
async def test_a_request_that_kills_its_process_three_times_is_given_up(
    pair, until, crawl, mode
):
    """The count goes with the mark; without one, with what leads to the request."""
    a, _ = await pair()
    first, parent = own(a)[0], PARENT
    queue = queue_name("c.example", 0, a.claims.process)
    for tries in range(3):
        assert (await a.scan(first)).dead == 0, f"after {tries} kills"
        await claim(a, first, origins=(parent,), mode=mode)
        await a.inbox.load_queues([first])
        reservation, _ = await take(a, until)
        if mode == CLAIM:
            assert reservation.item[:1] == b"%d" % tries
        lease = a.leases.held[first]
        entries = [(reservation.id, queue)]
        keys = crawl.partition(first)
        calls = requeue_calls(keys, lease, a.inbox._order, entries, delivered=True)
        await a.outage_retry.retry(calls)  # as its next holder does
        a.inbox._drop(reservation)
        a.claims.forget(next(iter(a.claims._kept)))
        await a.recovery.take({first: [queue]})
        await a.acks.drain()
        if items := await a.items(0, "0:p.example"):
            parent = PARENT._replace(item=items[-1])
    assert (await a.scan(first)).dead == 1


async def test_start_requests_are_made_again_or_wait_for_who_can(pair, gone, caplog):
    a, b = await pair()
    first = own(a)[0]
    await claim(b, first, origins=(), start_id="seeds")
    gone(b)
    for _ in range(2):
        await a.inbox.load_queues([first])
        await a.lending.look()
    assert (await a.scan(first)).ready == 1, "it waits"
    assert caplog.text.count("wait for a node that is started like that one") == 1

    a.recovery._stuck.clear()
    a.start_ids = {"seeds"}
    await a.inbox.load_queues([first])
    await a.lending.look()
    await a.acks.drain()
    assert a.started_again == [{"seeds"}, {"seeds"}]
    scan = await a.scan(first)
    assert (scan.ready, scan.reserved) == (0, 0)


async def test_a_claim_to_which_nothing_leads_goes_to_the_dead_letter(pair, gone):
    a, b = await pair()
    first = own(a)[0]
    await claim(b, first, origins=())
    gone(b)
    await a.inbox.load_queues([first])
    await a.lending.look()

    scan = await a.scan(first)
    assert (scan.ready, scan.reserved, scan.dead) == (0, 0, 1)


def keep(node, partition):
    """Have *node* keep a request that it alone has; return its claim."""
    request = Request(f"https://{partition}.example/")
    return request, node.claims.make(
        request, request.copy, request.url, (partition, "0:a"), (), (), ""
    )


def test_who_has_claims_in_many_partitions_asks_for_all_of_them_in_turn(parts):
    node = parts("a", partitions=256)
    for partition in range(100):
        request, _ = keep(node, partition)
        node.claims.stored(request)

    asked = [node.lending.chosen(set()) for _ in range(2)]

    assert [len(some) for some in asked] == [MAX_ASKED] * 2
    assert set.union(*asked) == set(range(100))


def test_a_request_that_is_forgotten_is_not_waited_for(parts):
    node = parts("a")
    _, made = keep(node, 0)
    assert node.claims.waiting

    node.claims.forget(made.number)
    assert not node.claims.waiting


async def test_what_others_queue_in_a_borrowed_partition_is_found(
    pair, until, new_push
):
    a, b = await pair()
    lent = own(a)[0]
    await claim(b, lent)
    await a.inbox.load_queues([lent])
    await rounds(a, b, until=lambda: lent in b.leases.held)
    await take(b, until)  # b keeps the partition until that is done
    await a.push(lent, new_push(b"x", "x.example"))

    pass_time(b, 2 * ASK)
    await b.lending.look()
    found = await until(b.inbox.take, "a reservation")
    assert found.item == b"0x"
