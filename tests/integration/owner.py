"""What runs a node without Scrapy: it pushes, and fetches what it is given."""

import asyncio
import math

from frontier.node.context import Owner as AnOwner
from frontier.node.ends import ORDERS, UNDONE
from frontier.queue.push import TEST, Push
from frontier.urls.fingerprint import seen_hash
from frontier.urls.partition import QueueAddresses


class Owner(AnOwner):
    """What runs a node: a spider that follows links as it is told."""

    def __init__(self):
        self.ready, self.finished = asyncio.Event(), asyncio.Event()
        self.verdicts, self.failures, self.ends = [], [], []
        self.is_busy = False

    def on_ready(self):
        self.ready.set()

    def stored(self, pushes, verdicts):
        self.verdicts += zip((push.tag for push in pushes), verdicts, strict=True)

    def on_end(self, end):
        self.ends.append(end)
        if end.error is not None:
            self.failures.append(end.error)
        elif end not in {UNDONE, *ORDERS.values()}:
            self.finished.set()
            self.ready.set()

    def busy(self):
        return self.is_busy

    def report(self):
        return {"pages": len(self.verdicts)}


def push(node, url, host, seconds=0):
    """Push *url*, to be fetched in so many seconds."""
    place = QueueAddresses(node.config).of(f"http://{host}/", url)
    due = math.ceil(node.clock() + seconds * 1000) if seconds else 0
    queue, mark = f"0:{place.queue_key}", seen_hash(url)
    push = Push(TEST, mark, queue, 0, b"0" + url, url, due)
    node.outbox.put(place.partition, push)


async def fetch(node, children, fetched):
    """Fetch what the node is given, until the crawl is over."""
    owner = node.owner
    while not owner.finished.is_set():
        await owner.ready.wait()
        owner.ready.clear()
        while (reservation := node.take()) is not None:
            assert node.leases.covers(reservation.lease)
            url = reservation.item[1:]
            fetched.append(url)
            for child, host in children(url):
                push(node, child, host)
            node.acks.complete(reservation)
            await asyncio.sleep(0)
        if not owner.finished.is_set():
            asyncio.get_running_loop().call_later(0.01, owner.ready.set)
