import asyncio
import contextlib
import time
from functools import partial
from typing import NamedTuple

import pytest
from owner import Owner

from frontier.errors import StoreUnavailable
from frontier.model import Order
from frontier.node import end_of_crawl as ending
from frontier.node.context import Part
from frontier.node.crawl_limits import NO_LIMITS
from frontier.node.hosts import Concurrency
from frontier.node.node import Node
from frontier.node.parts import AllFeatures
from frontier.queue.priority import queue_name
from frontier.queue.push import CLAIM, TEST, Push, Pusher
from frontier.queue.reserve import Scan, scan_call
from frontier.seen.config import SeenConfig
from frontier.settings.config import Config
from frontier.store.client import BlockingStore, Call
from frontier.store.outage_retry import OutageRetry
from frontier.urls.fingerprint import seen_hash

TTL = 600.0
SHAPE = SeenConfig(has_bloom=True, has_set=True, capacity=1000, error_rate=0.001)


async def settle(*nodes):
    """Let *nodes* beat in turn until each has exactly what it should."""
    for _ in range(10):
        if all([await node.heartbeat.beat() for node in nodes]):
            return
    raise AssertionError("partitions still change hands")


def a_push(url, queue_key="a.example", priority=0, mode=TEST):
    queue = queue_name(queue_key, priority)
    return Push(mode, seen_hash(url), queue, priority, b"0" + url)


@pytest.fixture
def own_crawl(own_server, crawl):
    """That crawl on the test's own server: open, and without a mark."""
    store = BlockingStore.from_settings({"REDIS_URL": own_server.url})
    with contextlib.closing(store):
        store.call(Call.command("HSET", crawl.meta, "state", "open"))
    return crawl


class Clock:
    """This process's monotonic clock, and what the test adds to it."""

    ahead = 0.0
    stopped = None
    """When it stopped, if it goes on only as the test has it."""

    def stop(self):
        self.stopped = time.monotonic()

    def __call__(self):
        now = time.monotonic() if self.stopped is None else self.stopped
        return now + self.ahead


class Allowance(NamedTuple):
    """How many URLs a node has at once, in all and of one host."""

    waiting: int
    per_host: int
    is_slow: bool = False

    def reserved(self):
        return self.per_host


class Written(Part):
    """Has in a list what a journal would have."""

    def __init__(self):
        self.lines, self.verdicts = [], []

    def stored(self, pushes, verdicts):
        self.verdicts += zip(pushes, verdicts, strict=True)

    def pushed(self, partition, pushes):
        noted = (push for push in pushes if push.mode != CLAIM)
        self.lines += ((partition, push.queue, push.item) for push in noted)

    def acked(self, reservation, again):
        partition = reservation.lease.partition
        more = () if again is None else (again,)
        self.lines.append(
            ("ack", partition, reservation.queue, reservation.item, *more)
        )


class Parts(Node):
    """A node that is built, and of which a test runs or asks the parts itself."""

    def __init__(self, store, crawl, name, *, partitions=4, size=16, cap=8, **options):
        settings = {
            "order": options.get("order", Order.BFS),
            **options.get("settings", {}),
        }
        config = Config(
            node_id=name, partitions=partitions, lease_ttl=TTL, busy_max=0, **settings
        )
        super().__init__(config, {}, Owner(), spider="site")
        self.keys, self.store = crawl, store
        self.outage_retry = options.get("outage_retry") or OutageRetry(store)
        self.monotonic = Clock()
        self.host_concurrency = Allowance(size, cap)
        self.became_ready = []
        self.busy = False
        self.finished = asyncio.Event()
        self.build()
        self.outbox.pusher = Pusher(crawl, options.get("shape", SHAPE))
        self.outbox.note_ready = self.note_ready
        # As if a heartbeat had been answered. The first that is finds another name.
        self.membership._number, self.membership._is_spent = 1, False
        self.membership._beaten = self.monotonic()
        written = Written()
        self.journal, self.verdicts = written.lines, written.verdicts
        self.parts.add(written)

    def report(self):
        return {}

    def is_busy(self):
        return self.busy

    def tell_end(self, state):
        self.finished.set()

    def note_ready(self, became_ready):
        self.became_ready += became_ready
        return []

    async def push(self, partition, *pushes):
        """Push and return when it is stored; the outbox has to run."""
        for push in pushes:
            self.outbox.put(partition, push)
        await self.outbox.flush()

    async def scan(self, partition):
        reply = await self.store.call(scan_call(self.keys.partition(partition)))
        return Scan(*reply[2:])

    async def items(self, partition, queue="0:a.example"):
        name = self.keys.partition(partition).ready(queue)
        return await self.store.call(Call.command("LRANGE", name, 0, -1))


@pytest.fixture
def new_push():
    return a_push


@pytest.fixture
def start(stack):
    """Run coroutines until the end of the test; one that fails fails the test."""

    def start(*coroutines):
        for coroutine in coroutines:
            task = asyncio.ensure_future(coroutine)
            stack.push_async_callback(stop, task)

    async def stop(task):
        while not task.done():  # redis-py may swallow a cancellation
            task.cancel()
            await asyncio.wait([task], timeout=0.05)
        with contextlib.suppress(asyncio.CancelledError):
            task.result()

    return start


@pytest.fixture
def parts_on(crawl):
    """Make what a node on the given store is made of."""
    return lambda store, name="a", **options: Parts(store, crawl, name, **options)


@pytest.fixture
def parts(parts_on, store):
    """Make what a node is made of."""
    return partial(parts_on, store)


class Wrapped:
    """A store that does something beside the runs of a script."""

    def __init__(self, store, script):
        self._store, self._script = store, script

    def __getattr__(self, name):
        return getattr(self._store, name)

    def _is_meant(self, calls):
        return any(call.script is self._script for call in calls)


class Flaky(Wrapped):
    """A store whose connection breaks before one run of a script."""

    def __init__(self, store, script, run_number):
        super().__init__(store, script)
        self._left = run_number

    async def run(self, calls, **options):
        self._left -= self._is_meant(calls)
        if self._left == 0 and self._is_meant(calls):
            raise StoreUnavailable(self.where, "the connection broke")
        return await self._store.run(calls, **options)


@pytest.fixture
def flaky(store):
    return lambda script, run_number: Flaky(store, script, run_number)


class Late(Wrapped):
    """A store whose replies to a script are on their way until `go` is set."""

    def __init__(self, store, script):
        super().__init__(store, script)
        self.done, self.go = asyncio.Event(), asyncio.Event()

    async def run(self, calls, **options):
        replies = await self._store.run(calls, **options)
        if self._is_meant(calls):
            self.done.set()
            await self.go.wait()
        return replies


@pytest.fixture
def late():
    return Late


@pytest.fixture
def new_node(unique, monkeypatch):
    monkeypatch.setattr(ending, "INTERVAL", 0.02)

    def new_node(server, node_id, redis=None, limits=NO_LIMITS, **settings):
        usual = {"partitions": 16, "lease_ttl": TTL, "store_wait": TTL}
        usual["warc_enabled"] = False
        config = Config(namespace=unique, node_id=node_id, **{**usual, **settings})
        found = redis or {"REDIS_URL": server.url}
        few = Concurrency(requests=8, per_host=4)
        return Node(
            config,
            found,
            Owner(),
            spider="site",
            concurrency=few,
            features=AllFeatures(limits),
        )

    return new_node
