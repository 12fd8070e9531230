"""A holder that is killed while it compresses and restores loses nothing."""

import os
import random
import signal
import time

import pytest

from frontier.model import Order
from frontier.queue.spill_blocks import MARK, done, spill_call, unpack, unspill_call
from frontier.store.client import BlockingStore, Call

A = "0:a.example"
URLS = [b"0%d" % n for n in range(2_000)]
MANY = 40
KILLS = 5


def work_for_ever(url, keys, lease, order):
    """Make a block or put one back, by turns of chance."""
    store = BlockingStore.from_settings({"REDIS_URL": url})
    ready, spilled = keys.ready(A), keys.spilled(A)
    while True:
        blocks = store.call(Call.command("LLEN", spilled))
        if blocks and random.random() < 0.4:
            place = 0 if order is Order.BFS else -1
            block = store.call(Call.command("LINDEX", spilled, place))
            call = unspill_call(keys, lease, order, A, blocks, block)
        else:
            mark = store.call(Call.command("LPOS", ready, MARK))
            kept = 100 if order is Order.BFS else 0
            first = kept if mark is None else mark + 1
            read = Call.command("LRANGE", ready, first, first + MANY - 1)
            call = spill_call(keys, lease, A, blocks, store.call(read))
        done(store.call(call), lease)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("order", Order)
def test_it_has_every_url_once_and_in_order(server, db, keys, grant, order):
    if not hasattr(server, "socket"):
        pytest.skip("the child of a fork has a connection of its own, to one server")
    lease = grant()
    for first in range(0, len(URLS), 500):
        db("RPUSH", keys.ready(A), *URLS[first : first + 500])
    db("HSET", keys.counts, "ready", len(URLS))
    moves = 0
    for kill in range(KILLS):
        child = os.fork()
        if not child:
            random.seed(kill)
            try:
                work_for_ever(server.url, keys, lease, order)
            finally:
                os._exit(1)
        before = len(db("LRANGE", keys.spilled(A), 0, -1))
        limit = time.monotonic() + 30
        while db("LLEN", keys.spilled(A)) == before and time.monotonic() < limit:
            os.sched_yield()
        time.sleep(random.random() / 200)
        os.kill(child, signal.SIGKILL)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
        blocks = db("LRANGE", keys.spilled(A), 0, -1)
        moves += len(blocks) != before
        items = db("LRANGE", keys.ready(A), 0, -1)
        if blocks:
            at = items.index(MARK)
            packed = [item for block in blocks for item in unpack(block)]
            items[at : at + 1] = packed
            counts = db("HMGET", keys.counts, "spilled", "spilled_bytes", "blocks")
            sizes = sum(map(len, blocks))
            assert list(map(int, counts)) == [len(packed), sizes, len(blocks)]
        assert items == URLS
    assert moves, "nothing was done between any two kills"
