"""A node that is killed while it copies a set into Bloom loses no URL.

The oracle is that of a crawl: what counts as seen was queued, and once.
"""

import asyncio
import os
import signal
import time
from collections import Counter

import pytest

from frontier.cluster.lease import Leases
from frontier.queue.push import ARE_SEEN, NEW, TEST, Push, push_to
from frontier.seen.config import MAX_URLS, SeenConfig, SeenLayout
from frontier.seen.memory_limit import SeenMemoryLimit
from frontier.store.client import Store
from frontier.store.outage_retry import OutageRetry
from frontier.urls.fingerprint import seen_hash

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]
# So small an error that no URL of the trial is taken for a seen one.
SHAPE = SeenConfig(has_bloom=True, has_set=True, capacity=2_000, error_rate=1e-9)
PARTITIONS, FIRST, KILLS = 2, 24_000, 6
QUEUE = "0:a.example"
DEADLINE = 60.0


def give_up(url, keys):
    """Give up all sets, as the node does that holds partition 0."""

    async def look():
        store = Store.from_settings({"REDIS_URL": url})
        outage_retry = OutageRetry(store)
        leases = Leases(outage_retry.call, keys, "a", ttl=60.0)
        limit = SeenMemoryLimit(
            outage_retry, keys, leases, SHAPE, partitions=PARTITIONS, max_bytes=1
        )
        await limit.look()
        await store.close()

    asyncio.run(look())


def begin(url, keys):
    """A process that gives up all sets."""
    child = os.fork()
    if not child:
        code = 1
        try:
            give_up(url, keys)
            code = 0
        finally:
            os._exit(code)
    return child


class Pushing:
    """Pushes URLs, and knows what became of each."""

    def __init__(self, store, keys):
        self._store, self._keys = store, keys
        self.count = 0

    def push(self, numbers):
        """Push the URLs *numbers*; return how many got which verdict."""
        verdicts = Counter()
        for partition in range(PARTITIONS):
            mine = [n for n in numbers if n % PARTITIONS == partition]
            for first in range(0, len(mine), MAX_URLS):
                pushes = [
                    Push(TEST, seen_hash(b"%d" % n), QUEUE, 0, b"0%d" % n)
                    for n in mine[first : first + MAX_URLS]
                ]
                keys = self._keys.partition(partition)
                done = push_to(self._store, keys, SHAPE, SeenLayout(), pushes)
                verdicts.update(done.verdicts)
        return verdicts

    def push_new(self, count):
        """Push *count* URLs that nobody has pushed."""
        numbers = range(self.count, self.count + count)
        self.count += count
        assert self.push(numbers) == {NEW: count}


def copied(db, keys):
    """How far the copies are: the buckets copied, and the sets given up."""
    names = [keys.partition(number).seen for number in range(PARTITIONS)]
    return [db("HMGET", name, "copied", "era") for name in names]


def test_what_counts_as_seen_was_queued_though_nodes_are_killed_in_between(
    server, db, blocking, crawl
):
    if not hasattr(server, "socket"):
        pytest.skip("the child of a fork has a connection of its own, to one server")
    pushing = Pushing(blocking(), crawl)
    pushing.push_new(FIRST)
    within = 0
    for _ in range(KILLS):
        before = copied(db, crawl)
        child = begin(server.url, crawl)
        limit = time.monotonic() + DEADLINE
        while copied(db, crawl) == before and time.monotonic() < limit:
            pushing.push_new(20)
        os.kill(child, signal.SIGKILL)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
        within += any(count for count, _ in copied(db, crawl))
        old = range(0, pushing.count, 7)
        assert not set(pushing.push(old)) - set(ARE_SEEN)
    assert within, "no copy was under way at any kill"

    last = begin(server.url, crawl)
    assert os.waitpid(last, 0)[1] == 0
    # A killed one may have given up the first, and what was pushed then is a set, too.
    assert all(int(era) >= 1 for _, era in copied(db, crawl))
    assert not set(pushing.push(range(pushing.count))) - set(ARE_SEEN)
    pushing.push_new(500)

    queued = Counter()
    for number in range(PARTITIONS):
        queued.update(db("LRANGE", crawl.partition(number).ready(QUEUE), 0, -1))
    assert queued == Counter({b"0%d" % n: 1 for n in range(pushing.count)})
