import pytest

from frontier.node.context import Part


class Barrier(Part):
    """What acks wait for, and what it is told of them."""

    def __init__(self, archived):
        self.archived, self.over = archived, []

    def ended(self, reservations):
        self.over += reservations

    async def before_ack(self, reservations):
        await self.archived()


@pytest.fixture
def started(parts, start, new_push, until):
    """Make a node that has started what is in its partitions."""

    async def started(*partitions):
        node = parts()
        start(node.outbox.run(), node.inbox.run())
        for partition in partitions:
            url = b"%d" % partition
            await node.push(partition, new_push(url, f"{partition}.example"))
        await node.leases.acquire(partitions)
        await node.ready.load(partitions)
        await until(lambda: len(node.inbox) == len(partitions))
        taken = [node.inbox.take() for _ in partitions]
        return node, sorted(taken, key=lambda r: r.lease.partition)

    return started


async def test_an_ack_waits_for_the_links_and_then_for_the_archive(started, new_push):
    node, (taken,) = await started(0)
    at_the_barrier = []

    async def archived():
        at_the_barrier.append((node.outbox.pending, await node.scan(0)))

    barrier = Barrier(archived)
    node.parts.add(barrier)
    for n in range(100):
        node.outbox.put(1, new_push(b"child %d" % n))
    node.acks.complete(taken)
    await node.acks.drain()

    ((pending, scan),) = at_the_barrier
    assert pending == 0
    assert (scan.reserved, scan.acked) == (1, 0)
    assert barrier.over == [taken]
    assert (await node.scan(0)).acked == 1
    assert (await node.scan(1)).ready == 100


async def test_an_archive_that_fails_keeps_everything_reserved(started):
    node, (taken,) = await started(0)

    async def archived():
        raise OSError("the disk is full")

    node.parts.add(Barrier(archived))
    node.acks.complete(taken)
    with pytest.raises(OSError, match="full"):
        await node.acks.drain()

    assert (await node.scan(0)).reserved == 1


async def test_a_lost_lease_costs_no_other_partition_its_acks(
    started, db, crawl, caplog
):
    node, taken = await started(0, 1, 2)
    node.journal.clear()
    db("HSET", crawl.partition(1).lease, "token", 1)  # a rival has it
    for reservation in taken:
        node.acks.complete(reservation)
    await node.acks.drain()

    assert node.acks.acked == 2
    assert sorted(node.leases.held) == [0, 2]
    assert (await node.scan(1)).reserved == 1
    assert [partition for _, partition, *_ in node.journal] == [0, 2]
    assert not node.inbox.open
    assert caplog.text.count("the leases on 1 partition are lost (1); 1 request ") == 1


async def test_the_journal_has_the_links_before_an_ack_and_the_ack_after_it(
    started, new_push
):
    node, (taken,) = await started(0)
    node.journal.clear()
    at_the_barrier = []

    async def archived():
        at_the_barrier.extend(node.journal)

    node.parts.add(Barrier(archived))
    child = new_push(b"child")
    for _ in range(2):  # also what was seen: who had "new" may be dead
        node.outbox.put(1, child)
    node.acks.complete(taken)
    await node.acks.drain()

    assert at_the_barrier == [(1, child.queue, child.item)] * 2
    assert node.journal[2:] == [("ack", 0, taken.queue, taken.item)]


@pytest.mark.parametrize("what", ["put back", "buried"])
async def test_requeue_or_bury_under_a_stale_token_changes_nothing(started, db, what):
    node, (taken,) = await started(0)
    keys = node.keys.partition(0)
    db("HSET", keys.lease, "token", taken.lease.token + 1, "holder", "other")
    if what == "buried":
        await node.acks.bury(taken, "no such callback")
    else:
        await node.acks.put_back(taken)

    scan = await node.scan(0)
    assert (scan.reserved, scan.ready + scan.dead) == (1, 0)
    assert not node.inbox.open
    assert 0 not in node.leases.held
