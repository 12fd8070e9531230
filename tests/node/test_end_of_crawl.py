import pytest

from frontier.model import Member
from frontier.node import end_of_crawl as ending


class Clock:
    """A clock by which an interval passes from each question to the next."""

    def __init__(self):
        self.asked = 0

    def monotonic(self):
        self.asked += 1
        return self.asked * ending.INTERVAL


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    monkeypatch.setattr(ending, "INTERVAL", 0.005)
    monkeypatch.setattr(ending, "LOOK", 0.005)
    clock = Clock()
    monkeypatch.setattr(ending, "time", clock)
    return clock


@pytest.fixture
def idle_node(parts, start, db, crawl):
    """Make a node with nothing to do, which looks for the end of its crawl."""

    async def idle_node(at_each_look=None, partitions=300, rank=0):
        node = parts(partitions=partitions)
        node.looks = 0
        db("HSET", crawl.meta, "state", "open")
        await node.heartbeat.beat()
        before = tuple(Member(f"!{number}", 1) for number in range(rank))
        node.membership._members = before

        def is_idle():
            node.looks += 1
            if at_each_look is not None:
                at_each_look(node.looks)
            return True

        node.is_idle = is_idle
        start(node.end_of_crawl.run())
        return node

    return idle_node


@pytest.fixture
def some_looks(until):
    """Wait until a node has looked several times."""
    return lambda node: until(lambda: node.looks > 6, "some looks")


async def test_a_crawl_with_nothing_left_ends_after_a_second_look_at_once(
    idle_node, db, crawl, clock
):
    node = await idle_node()
    await node.finished.wait()

    assert db("HGET", crawl.meta, "state") == b"finished"
    assert node.looks == 2
    assert clock.asked == 2  # when it began, and once more: no interval between


async def test_the_first_look_is_at_once(idle_node, clock, monkeypatch):
    monkeypatch.setattr(clock, "monotonic", lambda: 0.0)
    node = await idle_node()
    await node.finished.wait()

    assert node.looks == 2


async def test_node_no_longer_busy_reports_idle_without_its_heartbeat_loop(
    parts, start, db, crawl
):
    node = parts()
    db("HSET", crawl.meta, "state", "open")
    node.busy = True
    await node.heartbeat.beat()  # the only one: its loop does not run
    start(node.end_of_crawl.run())
    node.busy = False
    await node.finished.wait()


async def test_a_node_says_that_it_is_idle_each_time_it_becomes_so_and_once(
    idle_node, db, crawl, some_looks
):
    db("HSET", crawl.partition(0).reserved, 1, b"%d\n0:a.example\n0url" % (10**14))
    node = await idle_node()
    idle, said = node.is_idle, []
    node.is_idle = lambda: idle() and node.looks != 4

    async def say_idle():
        said.append(node.looks)

    node.heartbeat.say_idle = say_idle
    await some_looks(node)

    assert said == [1, 5]


async def test_no_second_look_by_a_node_that_got_something_to_do(
    idle_node, db, crawl, some_looks
):
    node = await idle_node()
    idle = node.is_idle
    node.is_idle = lambda: idle() and node.looks % 2 == 1  # never before the second
    await some_looks(node)

    assert not node.finished.is_set()


@pytest.mark.parametrize("partition", [0, 150, 299])
async def test_not_while_something_is_reserved_anywhere(
    idle_node, db, crawl, some_looks, partition
):
    keys = crawl.partition(partition)
    db("HSET", keys.reserved, 1, b"%d\n0:a.example\n0url" % (10**14))
    node = await idle_node()
    await some_looks(node)
    assert not node.finished.is_set()

    db("HDEL", keys.reserved, 1)
    await node.finished.wait()


async def test_ready_queue_keeps_the_crawl_open_and_is_noted_by_its_holder(
    idle_node, db, crawl, some_looks
):
    keys = crawl.partition(7)
    db("HSET", keys.counts, "ready", 1)
    db("ZADD", keys.queues, 0, "0:a.example")
    node = await idle_node()
    await some_looks(node)

    assert not node.finished.is_set()
    assert node.ready.knows(7)


async def test_not_while_urls_come_and_go_between_the_looks(idle_node, db, crawl):
    def push_and_ack(look):
        if look <= 6:  # a child that was queued, fetched and acked meanwhile
            db("HINCRBY", crawl.partition(look).counts, "pushed", 1)

    node = await idle_node(push_and_ack)
    await node.finished.wait()

    assert node.looks == 7  # the sixth look and the seventh saw the same


async def test_not_while_a_node_is_busy(idle_node, db, crawl, some_looks):
    beat = int(db("TIME")[0]) * 1000
    db("HSET", crawl.nodes, "other", b"%d 1 1" % beat)  # loads seeds, say
    node = await idle_node()
    await some_looks(node)
    assert not node.finished.is_set()

    db("HSET", crawl.nodes, "other", b"%d 1 0" % beat)
    await node.finished.wait()


async def test_requests_that_are_left_are_ready_waiting_or_reserved(parts, db, crawl):
    keys = crawl.partition(1)
    db("HSET", keys.counts, "ready", 2, "waiting", 3)
    db("HSET", keys.reserved, 1, b"5\n0:a.example\n0url")

    assert await parts().end_of_crawl.left() == 6


async def test_first_fetched_page_is_stored_once_and_again_after_a_failover(
    parts, db, crawl
):
    fetched = parts().fetched
    db("HSET", crawl.meta, "state", "open")
    db("HSET", crawl.partition(1).counts, "pushed", 3)
    await fetched.before_ack()
    assert db("HGET", crawl.meta, "fetched") is None
    assert await fetched.without() == (3, 0)

    fetched.page("http://a.example/1")
    await fetched.before_ack()
    assert db("HGET", crawl.meta, "fetched") == b"http://a.example"
    db("HDEL", crawl.meta, "fetched")
    await fetched.before_ack()
    assert db("HGET", crawl.meta, "fetched") is None
    fetched.went_back()
    await fetched.before_ack()
    assert db("HGET", crawl.meta, "fetched") == b"http://a.example"
    db("DEL", crawl.meta)
    fetched.went_back()
    await fetched.before_ack()
    assert not db("EXISTS", crawl.meta), "a page makes no crawl"
