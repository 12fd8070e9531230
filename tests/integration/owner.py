"""What runs a node without Scrapy: it pushes, and fetches what it is given."""

import asyncio
import math

from frontier.queue.push import TEST
from frontier.urls.partition import QueueAddresses


class Owner:
    """What runs a node: a spider that follows links as it is told."""

    def __init__(self):
        self.ready, self.finished = asyncio.Event(), asyncio.Event()
        self.verdicts, self.failures, self.orders = [], [], []
        self.busy = False

    def on_ready(self):
        self.ready.set()

    def on_verdicts(self, pushes, verdicts):
        self.verdicts += zip((push.tag for push in pushes), verdicts, strict=True)

    def on_forgotten(self):
        self.forgot = True

    def on_undone(self):
        self.undone = True

    def on_nothing_fetched(self, queued, dead):
        self.on_finished()

    def on_finished(self):
        self.finished.set()
        self.ready.set()

    def on_failure(self, error):
        self.failures.append(error)

    def on_uplink(self):
        pass

    async def probe(self, target):
        return True

    def on_order(self, order):
        self.orders.append(order)

    def on_controls(self, controls):
        self.controls = controls

    async def start_again(self, start_ids):
        return set()

    def on_limit(self, limit):
        self.limit = limit
        self.finished.set()
        self.ready.set()

    def is_busy(self):
        return self.busy

    def figures(self):
        return {"pages": len(self.verdicts)}


def push(node, url, host, seconds=0):
    """Push *url*, to be fetched in so many seconds."""
    place = QueueAddresses(node.config).of(f"http://{host}/", url)
    node.push(
        fingerprint=url,
        queue=f"0:{place.queue_key}",
        partition=place.partition,
        priority=0,
        item=b"0" + url,
        mode=TEST,
        tag=url,
        due=math.ceil(node.server_ms() + seconds * 1000) if seconds else 0,
    )


async def fetch(node, children, fetched):
    """Fetch what the node is given, until the crawl is over."""
    owner = node._owner
    while not owner.finished.is_set():
        await owner.ready.wait()
        owner.ready.clear()
        while (reservation := node.take()) is not None:
            assert node.may_send(reservation)
            url = reservation.item[1:]
            fetched.append(url)
            for child, host in children(url):
                push(node, child, host)
            node.acks.complete(reservation)
            await asyncio.sleep(0)
        if not owner.finished.is_set():
            asyncio.get_running_loop().call_later(0.01, owner.ready.set)
