"""The shared seen test of many clients whose server is killed.

URLs are numbers here. Capacities are small, so that buckets are split and Bloom
generations begun all the time.
"""

import hashlib
import random
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import pytest

from frontier.errors import StoreUnavailable
from frontier.queue.push import TEST, Push, Pusher
from frontier.seen.config import seen_config
from frontier.settings.config import Config
from frontier.store.address import address_of
from frontier.store.client import BlockingStore, Call
from frontier.store.keys import CrawlKeys
from frontier.urls.fingerprint import seen_hash

CLIENTS = 8
PARTITIONS = 2
EXACT = ["set", "bloom,set"]
QUEUE = "0:a.example"
PATIENCE = 240.0


@cache
def mark_of(url):
    return seen_hash(hashlib.sha1(b"https://a.example/%d" % url).digest())


def shape_of(tiers):
    given = {
        "FRONTIER_SEEN_TIERS": tiers,
        "FRONTIER_BLOOM_CAPACITY": 1,
        "FRONTIER_BLOOM_ERROR_RATE": 0.02,
        "FRONTIER_PARTITIONS": PARTITIONS,
    }
    return seen_config(Config.from_settings(given))


def new_crawl():
    return CrawlKeys("test", uuid.uuid4().hex[:12])


class Client:
    """A node's side of a crawl: a store, and the layouts as it knows them."""

    def __init__(self, store, crawl, shape, queue=""):
        self.store, self.queue = store, queue
        self.pusher = Pusher(crawl, shape)

    def push(self, urls):
        """Push *urls*; return a verdict for each, in their order."""
        made = []
        for at, url in enumerate(urls):
            push = Push(TEST, mark_of(url), self.queue, 0, b"%d" % url, at)
            made.append((url % PARTITIONS, push))
        verdicts = [""] * len(urls)
        for _, pushes, done in self.pusher.push(self.store, made):
            for push, verdict in zip(pushes, done.verdicts, strict=True):
                verdicts[push.tag] = verdict
        return verdicts


def shares(count, seed, clients=CLIENTS):
    """A list of URLs for each client; each URL is in two to five of them."""
    dice = random.Random(seed)
    lists = [[] for _ in range(clients)]
    for url in range(count):
        for mine in dice.sample(lists, dice.randint(2, min(5, clients))):
            mine.append(url)
    for mine in lists:
        dice.shuffle(mine)
        mine += mine[: len(mine) // 10]
    return lists


def cut(urls, seed):
    """*urls* in batches of any size."""
    dice, at = random.Random(seed), 0
    while at < len(urls):
        size = dice.choice([1, 20, 100, 300, 500])
        yield urls[at : at + size]
        at += size


def at_once(clients, work):
    """Do *work* for each client in a thread of its own; return what each returned."""
    begin = threading.Barrier(len(clients), timeout=PATIENCE)

    def run(number):
        begin.wait()
        return work(number, clients[number])

    with ThreadPoolExecutor(len(clients)) as pool:
        return list(pool.map(run, range(len(clients))))


@pytest.fixture(scope="module")
def durable(shared_server):
    """A server of the same kind that has confirmed nothing it may forget."""
    options = ["--appendonly", "yes", "--appendfsync", "always"]
    if not hasattr(shared_server, "socket"):
        pytest.skip("kills of a cluster and of Sentinel's primary: tests/store")
    made = type(shared_server)(shared_server.arguments[0], *options)
    made.start()
    yield made
    made.remove()


@pytest.fixture(scope="module")
def careful(durable):
    """Stores that never repeat by themselves what was not answered."""
    address = address_of({"REDIS_URL": durable.url})
    made = [BlockingStore.at(address, repeats=False) for _ in range(CLIENTS)]
    yield made
    for store in made:
        store.close()


def queued(store, crawl):
    """Every URL in the queues of *crawl*."""
    items = []
    for partition in range(PARTITIONS):
        ready = crawl.partition(partition).ready(QUEUE)
        items += store.call(Call.command("LRANGE", ready, 0, -1))
    return [int(item) for item in items]


@pytest.mark.parametrize("tiers", EXACT)
def test_a_kill_while_eight_clients_push_loses_nothing(durable, careful, tiers):
    count = 6_000
    lists, crawl, shape = shares(count, seed=7), new_crawl(), shape_of(tiers)
    clients = [Client(store, crawl, shape, QUEUE) for store in careful]
    half = threading.Semaphore(0)
    dead, refused = threading.Event(), threading.Event()

    def work(number, client):
        new, again = [], []
        every = list(cut(lists[number], seed=number))
        for batch in every:
            if batch is every[-1]:  # also on a machine that is slow to kill
                assert dead.wait(PATIENCE)
            limit = time.monotonic() + PATIENCE
            while True:
                try:
                    verdicts = client.push(batch)
                except StoreUnavailable:
                    assert time.monotonic() < limit
                    refused.set()
                    again += batch
                    time.sleep(0.005)
                else:
                    break
            new += [u for u, v in zip(batch, verdicts, strict=True) if v == "n"]
            half.release()
        return new, again

    def kill():
        for _ in range(25):
            assert half.acquire(timeout=PATIENCE)
        durable.kill()
        dead.set()
        assert refused.wait(PATIENCE)
        durable.start()

    killer = ThreadPoolExecutor(1)
    with killer:
        killed = killer.submit(kill)
        done = at_once(clients, work)
        killed.result(PATIENCE)
    new = [url for found, _ in done for url in found]
    again = {url for _, repeated in done for url in repeated}

    assert again, "the kill came too late"
    assert len(new) == len(set(new)), "what was confirmed was forgotten"
    assert set(range(count)) - set(new) <= again
    assert sorted(queued(careful[0], crawl)) == list(range(count))
    assert set(Client(careful[0], crawl, shape).push(new[:500])) == {"s"}
