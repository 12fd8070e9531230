"""What is excluded leaves the queues; all else stays, in its order."""

import pytest

from frontier.model import Order
from frontier.queue import purge as purging
from frontier.queue.item import Classes, Codec
from frontier.queue.purge import WINDOW
from frontier.queue.reserve import Scan, reserve_call, reserved, scan_call
from frontier.settings.config import Config
from frontier.urls.exclusions import HOST, PATTERN, Exclusions, rule_of

A, B = "0:a.example", "0:b.example"
CODEC = Codec(Classes())
CONFIG = Config(partitions=16)


def item(url, queue=A):
    return CODEC.encode({"url": url}, queue)


def pages(count, host="a.example"):
    return [f"https://{host}/{n % 2}/{n}" for n in range(count)]


@pytest.fixture
def fill(db, keys):
    """Queue URLs in partition 7, as pushes do."""

    def fill(urls, queue=A):
        for first in range(0, len(urls), 500):
            some = [item(url, queue) for url in urls[first : first + 500]]
            db("RPUSH", keys.ready(queue), *some)
        db("ZADD", keys.queues, 0, queue)
        db("HINCRBY", keys.counts, "ready", len(urls))

    return fill


@pytest.fixture
def left(db, keys):
    """The URLs that a queue has, in their order."""

    def left(queue=A):
        found = db("LRANGE", keys.ready(queue), 0, -1)
        return [CODEC.decode(one, queue)["url"] for one in found if one != b"*"]

    return left


@pytest.fixture
def purge(blocking, crawl):
    store = blocking()

    def purge(*rules, dry=False, config=CONFIG):
        rules = Exclusions(rule_of(*rule) for rule in rules)
        told = []
        tell = told.append
        done = purging.purge(store, crawl, config, rules, dry=dry, progress=tell)
        assert told == [*range(1, config.partitions + 1)]
        return done

    return purge


@pytest.fixture
def scan(blocking, keys):
    store = blocking()
    return lambda: Scan(*store.call(scan_call(keys))[2:])


ODD = (PATTERN, r"\.example/1/")


@pytest.mark.parametrize("count", [1, 2, WINDOW, 2 * WINDOW + 7])
def test_purge_by_pattern_keeps_the_order_of_the_rest(fill, left, purge, scan, count):
    urls = pages(count)
    fill(urls)
    plan = purge(ODD, dry=True)
    assert (plan.queued, plan.found, plan.taken) == (count, count // 2, 0)
    assert left() == urls

    done = purge(ODD)
    assert (done.found, done.taken) == (count // 2, count // 2)
    assert left() == [url for url in urls if "/0/" in url]
    assert (scan().ready, scan().skipped) == (count - count // 2, count // 2)
    assert purge(ODD).found == 0


def test_a_whole_host_leaves_with_all_its_queues_and_no_other(
    fill, left, purge, scan, db, keys
):
    fill(pages(WINDOW + 3))
    fill(pages(5), "7:a.example")
    fill(pages(4, "b.example"), B)

    assert purge((HOST, "a.example"), dry=True).found == WINDOW + 8
    done = purge((HOST, "a.example"))
    assert (done.queued, done.taken) == (WINDOW + 12, WINDOW + 8)
    assert left(B) == pages(4, "b.example")
    assert db("ZRANGE", keys.queues, 0, -1) == [B.encode()]
    assert (scan().ready, scan().queues) == (4, 1)


def test_purge_by_host_reads_the_items_of_domain_queues(fill, left, purge):
    fill(pages(3, "x.a.example") + pages(3, "y.a.example"))
    config = Config(partitions=16, queue_key="domain")

    assert purge((HOST, "x.a.example"), config=config).taken == 3
    assert left() == pages(3, "y.a.example")


def test_purge_keeps_all_other_urls_while_some_are_reserved(
    fill, left, purge, blocking, keys, grant, monkeypatch
):
    urls = pages(2 * WINDOW)
    fill(urls)
    store, lease, own = blocking(), grant(), purging._purge_call
    taken = []

    def busy(*args, **named):
        reply = store.call(reserve_call(keys, lease, Order.BFS, {A: 3}))
        taken.extend(r.item for r in reserved(reply, lease, {A: 3})[0])
        return own(*args, **named)

    monkeypatch.setattr(purging, "_purge_call", busy)
    done = purge(ODD)
    while purge(ODD).taken:  # what has moved from one window to the one before
        pass
    had = [CODEC.decode(one, A)["url"] for one in taken]
    assert [*had, *left()] == [u for u in urls if "/0/" in u or u in had]
    assert done.taken > 0


def test_purge_removes_waiting_urls_and_their_empty_bucket(purge, scan, db, keys):
    for bucket, urls in (("5000", pages(6)), ("7000", pages(3)[1:2])):
        elements = [f"{A}\n".encode() + item(url) for url in urls]
        db("RPUSH", keys.waiting(bucket), *elements)
        db("ZADD", keys.due, bucket, bucket)
        db("HINCRBY", keys.counts, "waiting", len(urls))
    plan = purge(ODD, dry=True)
    assert (plan.queued, plan.found) == (7, 4)

    assert purge(ODD).taken == 4
    assert (scan().waiting, scan().skipped, scan().ready) == (3, 4, 0)
    assert db("ZRANGE", keys.due, 0, -1) == [b"5000"]
    found = db("LRANGE", keys.waiting("5000"), 0, -1)
    assert [CODEC.decode(one.partition(b"\n")[2], A)["url"] for one in found] == [
        url for url in pages(6) if "/0/" in url
    ]
