"""A crawl that was deleted has left nothing in the store, whatever it had there."""

import asyncio

import pytest
from owner import fetch, push

from frontier.cluster.crawls import NOBODY, Launch, cancel_call, enter
from frontier.cluster.job import Job
from frontier.cluster.shared_settings import crawl_settings
from frontier.errors import CrawlInUse, StoreUnavailable, UnknownCrawl
from frontier.node.archiving import claim
from frontier.node.delete_crawl import Deletion, forget_call
from frontier.seen.seen_set import stored_crawl
from frontier.settings.config import Config
from frontier.store.keys import CrawlKeys, RegistryKeys, collection_keys
from tests.store.test_keys import names_of

TTL = 15.0
PARTITIONS = 16
RUN = Launch("job-7", Job.of("site", {}, []))
CONFIG = Config(partitions=PARTITIONS, seen_tiers=("recent", "bloom", "set"))
MEMBERS = {  # what names other keys, as `names_of` names them
    "queues": (b"5:a", 0),
    "due": (b"1795000000000", 1),
    "cookies": (b"abc", 1),
    "sites": (b"news", 1),
}
FIELDS = {
    "meta": {"imported": "yes"},
    "seen": {"buckets": 1, "count": 1, "blooms": 1, "last": 1},
    "pushers": {"0123456789ab": "1 2 0"},
    "seed_lists": {"abc": "done"},
    "nodes": {"n1": "1 1 0 abc"},
    "reports": {"n1": "{}"},
    "allowances": {"n1": "p 1 0"},
}


class Everything:
    """All keys of a server, by what a test may know of them."""

    def __init__(self, store):
        self._store = store
        self.before = self.now()

    def now(self):
        return set(self._store.scan("*"))

    @property
    def new(self):
        return self.now() - self.before


@pytest.fixture
def everything(blocking):
    return Everything(blocking())


@pytest.fixture
def ended(unique, store, db):
    """Make a crawl that has ended, and that no node was ever in."""

    async def ended(crawl_id="", state="finished", run=NOBODY):
        shape = crawl_settings(CONFIG)
        keys = await enter(store.run, unique, "site", crawl_id, shape, run)
        db("HSET", keys.meta(), "state", state)
        return keys

    return ended


def links(url):
    """The seed has links to some pages; they have none."""
    return [(b"%d" % n, f"h{n % 7}.example") for n in range(2, 60) if url == b"1"]


def deletion_of(store, keys):
    crawl = stored_crawl(store, keys.namespace, keys.crawl_id)
    return Deletion(store, crawl, ttl=TTL)


async def delete(store, keys):
    return await asyncio.to_thread(deletion_of(store, keys).run)


def fill(db, keys):
    """Put something into every key that *keys* can name, and that stays."""
    for what, name in names_of(keys).items():
        if what == "process":
            continue  # expires when its process is gone
        if what in MEMBERS:
            member, score = MEMBERS[what]
            db("ZADD", name, score, member)
        elif what in FIELDS:
            db("HSET", name, *(each for pair in FIELDS[what].items() for each in pair))
        elif db("TYPE", name) == b"none":
            db("RPUSH", name, "x")


async def test_each_key_that_a_crawl_may_have_goes_and_no_other(
    ended, blocking, everything, db, unique
):
    keys, other = await ended("mine"), await ended("other")
    for each in (keys, other):
        fill(db, each)
        for number in (0, PARTITIONS - 1):
            fill(db, each.partition(number))
    others = {name for name in everything.new if b":other" in name}
    assert len([n for n in everything.new if b":mine" in n]) == len(others) > 70
    done = await delete(blocking(), keys)

    registry = RegistryKeys(unique)
    kept = {registry.crawls().encode(), registry.deleted().encode()}
    assert everything.new == others | kept
    assert db("SMEMBERS", registry.crawls()) in ({b"other"}, [b"other"])
    assert done.keys == len(others) - 6, "6 went with their last member"
    assert done.unreadable == []
    with pytest.raises(UnknownCrawl):
        stored_crawl(blocking(), unique, "mine")


async def test_nothing_is_left_of_a_crawl_that_nodes_have_run(
    new_node, server, blocking, everything, unique
):
    a, b = (new_node(server, name) for name in "ab")
    a._owner.is_busy = True
    await a.open()
    await b.open()
    push(a, b"1", "h1.example")
    await a.outbox.flush()
    a._owner.is_busy = False
    await asyncio.gather(fetch(a, links, []), fetch(b, links, []))
    with pytest.raises(CrawlInUse, match=r"are alive: a, b; stop them first"):
        deletion_of(blocking(), a.keys).check()
    await a.close()
    await b.close()

    await delete(blocking(), a.keys)

    # the number of the next crawl, and nothing of this one
    registry = RegistryKeys(unique)
    kept = {registry.spider("site").encode(), registry.deleted().encode()}
    assert everything.new == kept


class CutOff:
    """A store that answers so many round trips."""

    def __init__(self, store, most):
        self._store, self._left = store, most
        self.where = store.where

    def run(self, calls, **how):
        self._left -= 1
        if self._left < 0:
            raise StoreUnavailable("here", "cut off")
        return self._store.run(calls, **how)

    def call(self, call):
        return self.run([call])[0]


async def test_a_deletion_that_is_cut_off_anywhere_can_be_repeated(
    ended, blocking, everything, db, unique
):
    keys = await ended("mine", run=RUN)
    fill(db, keys)
    for number in range(PARTITIONS):
        fill(db, keys.partition(number))
    store, sizes = blocking(), [len(everything.new)]
    for most in range(3, 200):
        deletion = deletion_of(store, keys)
        deletion._store = CutOff(store, most)
        try:
            await asyncio.to_thread(deletion.run)
        except StoreUnavailable:
            found = len(everything.new)
            assert found <= sizes[-1]
            sizes.append(found)
        else:
            break
    else:
        pytest.fail("it never ends")

    assert len(set(sizes)) > 5, "it was cut off at many places"
    assert everything.new == {RegistryKeys(unique).deleted().encode()}


async def test_runs_do_not_lead_to_it_any_more_and_its_number_is_not_used_again(
    ended, blocking, db, unique
):
    keys = await ended(run=RUN)
    spider = RegistryKeys(unique).spider("site")
    db("HSET", spider, f"run:{RUN.job.id}:job-6", "site-0")
    assert keys.crawl_id == "site-1"
    done = await delete(blocking(), keys)

    assert done.runs == 1
    known = db("HKEYS", spider)
    assert sorted(known) == [f"run:{RUN.job.id}:job-6".encode(), b"serial"]
    assert (await ended(run=RUN)).crawl_id == "site-2"


async def test_one_that_has_not_ended_is_not_deleted(ended, blocking, everything, db):
    for state in ("open", "rebuilding"):
        keys = await ended(f"mine-{state}", state=state)
        before = everything.now()

        with pytest.raises(CrawlInUse, match="frontier crawl end"):
            await delete(blocking(), keys)

        assert everything.now() == before
        assert db("HGET", keys.meta(), "deleting_ms") is None


async def test_nobody_joins_one_that_is_being_deleted(ended, blocking, db, store):
    keys = await ended(state="open")
    db("HSET", keys.nodes(), "n1", "1 1 0 abc")
    await store.run([cancel_call(keys, ttl=TTL)])
    deletion = deletion_of(blocking(), keys)
    deletion._store = CutOff(deletion._store, 4)
    with pytest.raises(StoreUnavailable):
        await asyncio.to_thread(deletion.run)

    assert (await ended()).crawl_id == "site-2"


async def test_what_cannot_be_read_is_told_and_goes(ended, blocking, everything, db):
    keys = await ended("mine")
    part, other = keys.partition(3), keys.partition(4)
    db("SET", part.queues, "x")
    db("RPUSH", part.ready("5:a"), "x")
    db("HSET", other.seen, "buckets", "9" * 30)
    db("SET", keys.nodes(), "x")
    before = everything.before

    done = await delete(blocking(), keys)

    assert sorted(set(done.unreadable)) == sorted(
        [part.queues, other.seen, keys.nodes()]
    )
    left = {name for name in everything.now() - before if b"mine" in name}
    assert left == {part.ready("5:a").encode()}, "nothing names it"


async def test_a_name_whose_payloads_are_in_the_collection_is_not_given_again(
    server, db, blocking, unique
):
    config = Config(namespace=unique, collection=unique)
    keys, settings = CrawlKeys(unique, "news"), {"REDIS_URL": server.url}
    assert await claim(config, settings, keys)
    assert await claim(config, settings, keys), "its node died, and is there again"
    db("SADD", collection_keys(blocking(), unique).committed(), "news")

    assert not await claim(config, settings, keys)
    db("HSET", keys.meta(), "state", "open")
    assert await claim(config, settings, keys), "a node that joins it"


def test_a_crawl_of_which_only_the_name_was_left_is_forgotten(blocking, db, unique):
    db("SADD", RegistryKeys(unique).crawls(), "mine")

    assert blocking().call(forget_call(unique, "mine")) == 1
    assert blocking().call(forget_call(unique, "mine")) == 0
