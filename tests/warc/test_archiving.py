"""A node's archive as a whole: its settings, its stores, its files."""

import asyncio

import pytest

from frontier.node import archiving
from frontier.node.archiving import Archive
from frontier.settings.config import Config
from frontier.store.client import BlockingStore, Call
from frontier.store.keys import CrawlKeys
from tests.warc.samples import an_exchange


@pytest.fixture
def elsewhere(server):
    """Another database of the server: its URL, and a way to ask it."""
    if not server.url.startswith("unix://"):
        pytest.skip("a cluster has one database")
    url = f"{server.url}?db=9"
    store = BlockingStore.from_settings({"REDIS_URL": url})
    store.call(Call.command("FLUSHDB"))
    yield url, lambda *parts: store.call(Call.command(*parts))
    store.call(Call.command("FLUSHDB"))
    store.close()


def test_collections_may_be_on_a_server_of_their_own(
    elsewhere, blocking, db, names_like, keys_of, unique, tmp_path
):
    url, ask = elsewhere
    keys = keys_of(unique)
    settings = {
        "FRONTIER_NAMESPACE": unique,
        "FRONTIER_COLLECTION": unique,
        "FRONTIER_COLLECTION_REDIS_URL": url,
        "FRONTIER_WARC_DIR": str(tmp_path),
    }

    async def crawl(crawl_id):
        config = Config.from_settings(settings)
        archive = Archive(config, blocking(), crawl_id, settings)
        await archive.enter()
        stored = archive.submit(an_exchange())
        await archive.before_ack()
        await archive.close()
        return stored.result()

    assert asyncio.run(crawl("one")).original is None
    assert ask("SMEMBERS", keys.uncommitted) == {b"one"}
    # Its last node died. That it has ended is told by the store of the crawls.
    db("HSET", CrawlKeys(unique, "one").meta, "state", "finished")
    assert asyncio.run(crawl("two")).original.crawl_id == "one"

    assert ask("SMEMBERS", keys.committed) == {b"one"}
    assert ask("HLEN", keys.alldupes) == 1
    assert not names_like(f"{unique}*")


def test_captures_of_a_node_are_counted_once(blocking, db, keys_of, unique, tmp_path):
    settings = {"FRONTIER_COLLECTION": unique, "FRONTIER_WARC_DIR": str(tmp_path)}

    async def crawl():
        archive = Archive(Config.from_settings(settings), blocking(), "one", settings)
        await archive.enter()
        archive.submit(an_exchange(0))
        archive.submit(an_exchange(1))
        await archive.finish()
        await archive.close()

    asyncio.run(crawl())
    assert len(list(tmp_path.glob("*.warc.gz"))) == 1
    assert len(list(tmp_path.glob("*.cdxj"))) == 1
    counts = keys_of(unique).counts("one")
    assert db("HMGET", counts, "totalUrls", "dupeUrls") == [b"2", b"1"]


async def test_archive_that_was_full_has_its_owner_look_again_once(
    blocking, unique, tmp_path, until, monkeypatch
):
    settings = {"FRONTIER_COLLECTION": unique, "FRONTIER_WARC_DIR": str(tmp_path)}
    config = Config.from_settings(settings)
    archive, told = Archive(config, blocking(), "one", settings), []
    archive.on_room = lambda: told.append(archive.room())
    monkeypatch.setattr(archiving, "DISK_DELAY", 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(archiving, "BACKLOG", -1)
        assert [archive.room(), archive.room()] == [False, False]

    await until(lambda: told)
    assert told == [True]
    await archive.close()
