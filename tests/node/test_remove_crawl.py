"""What is left of a crawl that was deleted, or whose frontier was removed."""

import asyncio

import pytest
from owner import fetch, push

from frontier.cluster.crawls import NOBODY, Launch, enter
from frontier.cluster.endings import begin_removal, cancel
from frontier.cluster.job import Job
from frontier.cluster.shared_settings import crawl_settings
from frontier.errors import CrawlInUse, StoreUnavailable, UnknownCrawl
from frontier.node import remove_crawl
from frontier.node.archiving import claim
from frontier.node.remove_crawl import (
    delete_crawl,
    remove_frontier,
)
from frontier.seen.seen_set import stored_crawl
from frontier.settings.config import Config
from frontier.store.client import BlockingStore
from frontier.store.keys import CrawlKeys, RegistryKeys, collection_keys
from tests.store.test_keys import names_of

PARTITIONS = 16
RUN = Launch("job-7", Job.of("site", {}, []))
CONFIG = Config(partitions=PARTITIONS, seen_tiers=("recent", "bloom", "set"))


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
        db("HSET", keys.meta, "state", state)
        return keys

    return ended


def links(url):
    """The seed has links to some pages; they have none."""
    return [(b"%d" % n, f"h{n % 7}.example") for n in range(2, 60) if url == b"1"]


async def delete(store, keys):
    return await asyncio.to_thread(delete_crawl, store, keys, "site")


def fill(db, keys):
    """Put something into every key that *keys* can name, of whatever type."""
    for crawl in (keys, keys.partition(0), keys.partition(PARTITIONS - 1)):
        for name in names_of(crawl).values():
            if db("TYPE", name) == b"none":
                db("RPUSH", name, "x")


OTHERS = ("mine:5-1", "mine-1", "min", "mine[1]")
"""Crawls whose names begin like that of one, or like those of its partitions."""


@pytest.mark.parametrize("crawl_id", ["mine", "mi*e", "[m]ine"])
async def test_each_key_that_a_crawl_may_have_goes_and_no_other(
    ended, blocking, everything, db, unique, crawl_id
):
    for other in OTHERS:
        fill(db, await ended(other))
    others = everything.new
    keys = await ended(crawl_id)
    fill(db, keys)
    size = len(everything.new - others)
    assert size > 70

    await asyncio.to_thread(remove_frontier, blocking(), keys)
    left = everything.new - others
    kinds = {name.split(b"}:")[1].split(b":")[0].decode() for name in left}
    assert kinds == {
        *("meta", "nodes", "epoch", "membership", "reports", "seed_lists", "start"),
        *("hints", "order", "spent", "controls", "control_log"),
        *("counts", "dead"),
    }, "what tells about the crawl"
    done = await delete(blocking(), keys)

    registry = RegistryKeys(unique)
    assert everything.new == others | {registry.deleted.encode()}
    assert set(db("SMEMBERS", registry.crawls)) == {o.encode() for o in OTHERS}
    assert done.keys == len(left)
    with pytest.raises(UnknownCrawl):
        stored_crawl(blocking(), unique, crawl_id)


async def test_deleted_crawl_that_nodes_have_run_leaves_no_keys(
    new_node, server, blocking, everything, unique
):
    a, b = (new_node(server, name) for name in "ab")
    a.owner.is_busy = True
    await a.open()
    await b.open()
    push(a, b"1", "h1.example")
    await a.outbox.flush()
    a.owner.is_busy = False
    await asyncio.gather(fetch(a, links, []), fetch(b, links, []))
    with pytest.raises(CrawlInUse, match=r"are alive: a, b; stop them first"):
        begin_removal(blocking(), a.keys, "")
    await a.close()
    await b.close()

    await delete(blocking(), a.keys)

    # the number of the next crawl, and nothing of this one
    registry = RegistryKeys(unique)
    kept = {registry.spider("site").encode(), registry.deleted.encode()}
    assert everything.new == kept


class CutOff(BlockingStore):
    """A store that answers so many round trips."""

    def __init__(self, store, most):
        vars(self).update(vars(store), left=most, scan=store.scan)

    def run(self, calls, **how):
        if calls:
            self.left -= 1
        if self.left < 0:
            raise StoreUnavailable("here", "cut off")
        return super().run(calls, **how)


async def test_a_deletion_that_is_cut_off_anywhere_can_be_repeated(
    ended, blocking, everything, db, unique, monkeypatch
):
    monkeypatch.setattr(remove_crawl, "BATCH", 5)
    keys = await ended("mine", run=RUN)
    fill(db, keys)
    store, sizes = blocking(), [len(everything.new)]
    for most in range(1, 200):
        try:
            await delete(CutOff(store, most), keys)
        except StoreUnavailable:
            found = len(everything.new)
            assert found <= sizes[-1]
            sizes.append(found)
        else:
            break
    else:
        pytest.fail("it never ends")

    assert len(set(sizes)) > 5, "it was cut off at many places"
    assert everything.new == {RegistryKeys(unique).deleted.encode()}


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


async def test_crawl_that_has_not_ended_is_not_deleted(ended, blocking, everything, db):
    for state in ("open", "rebuilding"):
        keys = await ended(f"mine-{state}", state=state)
        before = everything.now()

        with pytest.raises(CrawlInUse, match="frontier crawl end"):
            await delete(blocking(), keys)

        assert everything.now() == before
        assert db("HGET", keys.meta, "deleting_ms") is None


async def test_crawl_that_is_being_deleted_is_not_joined(ended, blocking, db):
    keys = await ended(state="open")
    db("HSET", keys.nodes, "n1", "1 1 0 abc")
    cancel(blocking(), keys)
    with pytest.raises(StoreUnavailable):
        await delete(CutOff(blocking(), 2), keys)

    assert (await ended()).crawl_id == "site-2"


async def test_a_name_whose_payloads_are_in_the_collection_is_not_given_again(
    server, db, blocking, unique
):
    config = Config(namespace=unique, collection=unique)
    keys, settings = CrawlKeys(unique, "news"), {"REDIS_URL": server.url}
    assert await claim(config, settings, keys)
    assert await claim(config, settings, keys), "its node died, and is there again"
    db("SADD", collection_keys(blocking(), unique).committed, "news")

    assert not await claim(config, settings, keys)
    db("HSET", keys.meta, "state", "open")
    assert await claim(config, settings, keys), "a node that joins it"
