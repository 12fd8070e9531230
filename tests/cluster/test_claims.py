"""Crawls of several stores that share a collection: no two of them have one name."""

import asyncio

import pytest

from frontier.cluster.crawls import enter
from frontier.errors import ConfigurationError
from frontier.node.archiving import claim
from frontier.node.journal.rebuild import REBUILDING
from frontier.settings.config import Config
from frontier.store.keys import SCHEMA, CrawlKeys, RegistryKeys, collection_keys

SHAPE = {"FRONTIER_PARTITIONS": 64}


@pytest.fixture
def machine(store, server, unique):
    """Enter a crawl on a store of its own; all have one collection."""
    settings = {"REDIS_URL": server.url}

    async def begin(name, crawl_id="", *, spider="site", shared=True):
        namespace = f"{unique}{name}"
        config = Config.from_settings(
            {"FRONTIER_NAMESPACE": namespace, "FRONTIER_COLLECTION": unique}
        )
        return await enter(
            store.run,
            namespace,
            spider,
            crawl_id,
            SHAPE,
            claim=(lambda keys: claim(config, settings, keys)) if shared else None,
        )

    return begin


async def test_the_second_store_takes_the_next_number(machine, caplog):
    first = await machine("a")
    second = await machine("b")
    again = [await machine(name) for name in ("a", "b", "a", "b")]

    assert (first.crawl_id, second.crawl_id) == ("site-1", "site-2")
    assert again == [first, second] * 2
    (told,) = [each for each in caplog.messages if "takes the next number" in each]
    assert "has a crawl site-1 already" in told


async def test_nodes_that_come_at_once_are_in_one_crawl_of_their_store(machine):
    entering = [machine(name) for name in "ab" * 4]

    found = await asyncio.gather(*entering)

    assert len({keys.crawl_id for keys in found}) == 2
    assert len(set(found)) == 2  # of each store all nodes are in the same


async def test_a_name_that_was_given_is_refused_and_not_changed(machine):
    await machine("a", "mine")

    with pytest.raises(ConfigurationError, match="has a crawl mine already"):
        await machine("b", "mine")
    assert (await machine("a", "mine")).crawl_id == "mine"


async def test_the_name_of_a_crawl_that_was_imported_is_taken(
    machine, db, blocking, unique
):
    db("SADD", collection_keys(blocking(), unique).committed, "site-1")

    assert (await machine("a")).crawl_id == "site-2"


async def test_a_crawl_from_before_keeps_its_name(machine, db, blocking, unique):
    old = await machine("a", shared=False)  # as an older version has entered it
    within = collection_keys(blocking(), unique)
    db("SADD", within.uncommitted, old.crawl_id)

    assert await machine("a") == old
    assert db("HLEN", within.owners) == 1


async def test_an_open_crawl_whose_name_is_taken_is_not_left_behind(machine, db):
    old = await machine("b", shared=False)
    assert (await machine("a")).crawl_id == old.crawl_id

    with pytest.raises(ConfigurationError, match="FRONTIER_CRAWL_ID"):
        await machine("b")
    assert db("HGET", RegistryKeys(old.namespace).spider("site"), "open") == b"site-1"


async def test_a_crawl_that_was_rebuilt_has_its_name_again(machine, db, names_like):
    keys = await machine("a")
    for each in names_like(f"*{keys.namespace}*"):  # the store is lost
        db("DEL", each)
    meta = CrawlKeys(keys.namespace, keys.crawl_id).meta
    facts = ("state", REBUILDING, "rebuilt", 1, "schema", SCHEMA)
    db("HSET", meta, *facts)
    db("HSET", meta, "state", "open", "shape", '{"FRONTIER_PARTITIONS": 64}')

    assert (await machine("a", keys.crawl_id)).crawl_id == keys.crawl_id
