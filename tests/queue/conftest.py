import time

import pytest

from frontier.model import Order
from frontier.queue import due, reserve as p
from frontier.queue.push import TEST, Push, push_plan, pushed
from frontier.seen.config import MAX_URLS, LayoutStale, SeenConfig, SeenLayout, joined
from frontier.urls.fingerprint import seen_hash

SHAPES = {
    "bloom+set": SeenConfig(True, True, 500, 0.01),
    "set": SeenConfig(False, True, 500, 0.01),
    "bloom": SeenConfig(True, False, 500, 0.01),
    "none": SeenConfig(False, False, 500, 0.01),
}


def as_push(url, mode=TEST, queue="0:a.example", item=None):
    priority = int(queue.partition(":")[0])
    return Push(
        mode, seen_hash(url), queue, priority, b"0" + url if item is None else item
    )


class Client:
    """One node's side of a partition: a store, and the layout as it knows it."""

    def __init__(self, store, keys, shape=SHAPES["bloom+set"], order=Order.BFS):
        self.store, self.keys, self.shape, self.order = store, keys, shape, order
        self.layout = SeenLayout()
        self.stale = 0

    def push(self, pushes):
        """Push until the layout is the current one; return what was done."""
        while True:
            plan = push_plan(self.keys, self.shape, self.layout, pushes)
            (call,) = joined([plan], alone=False)
            try:
                done = pushed(self.store.call(call)[0], pushes)
            except LayoutStale as error:
                assert error.layout != self.layout, "the same again would be for ever"
                self.layout = error.layout
                self.stale += 1
            else:
                self.layout = done.layout
                return done

    def push_urls(self, urls, mode=TEST, queue="0:a.example"):
        """Push *urls* in batches; return their verdicts."""
        verdicts = ""
        for i in range(0, len(urls), MAX_URLS):
            batch = [as_push(url, mode, queue) for url in urls[i : i + MAX_URLS]]
            verdicts += self.push(batch).verdicts
        return verdicts

    def reserve(self, lease, count=1, queue="0:a.example"):
        wanted = {queue: count}
        call = p.reserve_call(self.keys, lease, self.order, wanted)
        return p.reserved(self.store.call(call), lease, wanted)[0]

    def ack(self, lease, *reservations):
        ids = [reservation.id for reservation in reservations]
        calls = p.ack_calls(self.keys, lease, ids)
        return sum(p.fenced(reply, lease) for reply in self.store.run(calls))

    def requeue(self, lease, entries, *, delivered):
        blame = p.Blame.FULL if delivered else p.Blame.NONE
        calls = p.requeue_calls(self.keys, lease, self.order, entries, blame)
        done = [p.fenced(reply, lease) for reply in self.store.run(calls)]
        return tuple(map(sum, zip(*done, strict=True))) if done else (0, 0)

    def give_back(self, lease, reservations):
        entries = [(r.id, r.queue) for r in reservations]
        return self.requeue(lease, entries, delivered=False)

    def reclaim(self, lease):
        """Take back what was reserved under older tokens."""
        reply = self.store.call(p.list_reserved(self.keys))
        left = [one for one in p.entries_in(reply) if one.token < lease.token]
        entries = [(one.id, one.queue) for one in left]
        return self.requeue(lease, entries, delivered=True)

    def bury(self, reservation, reason):
        reply = self.store.call(p.bury_call(self.keys, reservation, reason))
        return None if reply is None else reply[1]

    def look_for_due(self, lease, bucket="", queues=()):
        call = due.due_call(self.keys, lease, bucket, queues)
        return due.moved(self.store.call(call), lease)

    def move_due(self, lease):
        """Move what is due; return how many, and what is said last."""
        found, count = self.look_for_due(lease), 0
        while True:
            bucket = found.bucket.decode()
            queues = [queue.decode() for queue in found.lacking]
            found = self.look_for_due(lease, bucket, queues)
            count += found.moved
            is_same = found.bucket.decode() == bucket
            if is_same and not (found.moved or found.lacking):
                return count, found

    def put_again(self, lease, *entries, clock=due.wall_ms):
        """End reservations, and have others wait; return how many were ended."""
        calls = due.again_calls(self.keys, lease, entries, clock)
        return sum(p.fenced(r, lease)[0] for r in self.store.run(calls))

    def scan(self):
        return p.Scan(*self.store.call(p.scan_call(self.keys))[2:])


@pytest.fixture
def shapes():
    """The shared tiers of the seen test, in each combination."""
    return SHAPES


@pytest.fixture
def new_push():
    return as_push


@pytest.fixture
def client(blocking, keys):
    """Make clients of partition 7, with a connection each."""

    def client(shape="bloom+set", order=Order.BFS):
        return Client(blocking(), keys, SHAPES[shape], order)

    return client


@pytest.fixture
def server_ms(db):
    """The server's clock."""

    def server_ms():
        seconds, micros = db("TIME")
        return int(seconds) * 1000 + int(micros) / 1000

    return server_ms


@pytest.fixture
def until_due(server_ms):
    """Wait for a moment that the store has named: there is no event for it."""

    def until_due(at):
        while server_ms() <= at:
            time.sleep(0.005)

    return until_due
