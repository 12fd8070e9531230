"""``frontier crawl delete`` as a process; what it does is tested in ``tests/node``."""

import json

import pytest

from frontier.cluster.controls import change
from frontier.cluster.crawls import enter
from frontier.cluster.shared_settings import crawl_settings
from frontier.errors import NoStore
from frontier.settings.config import Config
from frontier.store.keys import RegistryKeys, collection_keys
from tests.harness import commands


@pytest.fixture
def ended(server, store, unique, db):
    """A crawl that has ended, and how to name it."""

    async def ended():
        shape = crawl_settings(Config(partitions=16))
        # The default collection is the whole server's, and no other test has this id.
        keys = await enter(store.run, unique, unique, "", shape)
        db("HSET", keys.meta, "state", "finished")
        where = ("--redis-url", server.url, "--namespace", unique)
        return keys, (*where, "--crawl", keys.crawl_id)

    return ended


async def test_crawl_delete_requires_yes_and_reports_the_collection_kept(
    ended, frontier, db, unique
):
    keys, named = await ended()

    asked = frontier("crawl", "delete", *named)
    assert asked.returncode == 2
    assert "add --yes" in asked.stderr
    assert "finished" in asked.stdout
    assert db("EXISTS", keys.meta) == 1

    done = frontier("crawl", "delete", *named, "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{keys.crawl_id} is deleted: 17 keys" in done.stdout
    assert "frontier collection purge" in done.stdout
    assert db("EXISTS", keys.meta) == 0

    again = frontier("crawl", "delete", *named, "--yes")
    assert again.returncode == 4


async def test_what_is_left_of_a_crawl_without_meta_can_be_deleted(
    ended, frontier, db, unique
):
    keys, named = await ended()
    queued = keys.partition(3).counts
    db("HSET", queued, "ready", 1)
    db("DEL", keys.meta)

    asked = frontier("crawl", "delete", *named)
    assert asked.returncode == 2
    assert db("EXISTS", queued) == 1
    done = frontier("crawl", "delete", *named, "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert "16 keys, and no meta" in done.stdout
    assert db("EXISTS", queued) == 0
    assert frontier("crawl", "delete", *named, "--yes").returncode == 4
    db("SADD", RegistryKeys(unique).crawls, keys.crawl_id)
    assert frontier("crawl", "delete", *named, "--yes").returncode == 0


def test_an_order_says_that_the_crawl_has_ended_meanwhile(
    crawl, server, frontier, db, monkeypatch, put_crawl
):
    """Its nodes, which may have done it, have left."""
    put_crawl(crawl)
    db("HSET", crawl.meta, "shape", '{"FRONTIER_PARTITIONS": 4}')
    named = ("--redis-url", server.url, "--namespace", "test", crawl.crawl_id)

    def change_and_end(*order):
        done = change(*order)
        db("HSET", crawl.meta, "state", "finished")
        return done

    monkeypatch.setattr("frontier.cluster.controls.change", change_and_end)
    said = frontier("crawl", "pause", *named).stdout
    assert "is paused; the crawl has ended meanwhile" in said


async def test_on_a_terminal_it_asks(ended, terminal, db):
    keys, named = await ended()

    code, said = terminal("crawl", "delete", *named, answer="n\n")
    assert code == 2
    assert f"Delete {keys.crawl_id}?" in said
    assert db("EXISTS", keys.meta) == 1
    code, said = terminal("crawl", "delete", *named, answer="y\n")
    assert code == 0, said
    assert db("EXISTS", keys.meta) == 0


async def test_a_crawl_in_use_or_not_committed_is_refused_and_one_cut_off_is_listed(
    ended, frontier, db, unique, blocking
):
    keys, named = await ended()
    where = named[:4]
    db("HSET", keys.nodes, "n1", f"{int(db('TIME')[0]) * 1000} 1 0 abc 1 600000")
    lives = frontier("crawl", "delete", *named, "--yes")
    assert lives.returncode == 5
    assert "n1" in lives.stderr

    db("DEL", keys.nodes)
    within = collection_keys(blocking(), unique)
    db("SADD", within.uncommitted, keys.crawl_id)
    waits = frontier("crawl", "delete", *named, "--yes", "--collection", unique)
    assert waits.returncode == 5
    assert "frontier collection commit" in waits.stderr

    db("HSET", keys.meta, "deleting_ms", "1")
    (listed,) = json.loads(frontier("crawl", "list", *where, "--json").stdout)["crawls"]
    assert listed["state"] == "deleting"
    done = frontier("crawl", "delete", *named, "--yes", "--json")
    assert json.loads(done.stdout)["keys"] == 17


@pytest.fixture
def uncommitted(db, unique, blocking):
    """Have a crawl's payloads be uncommitted in a collection that it has joined."""

    def uncommitted(keys):
        within = collection_keys(blocking(), unique)
        db("SADD", RegistryKeys(unique).collections, unique)
        db("SADD", within.uncommitted, keys.crawl_id)
        return within

    return uncommitted


async def test_a_close_says_who_commits(ended, frontier, db, unique, uncommitted):
    keys, named = await ended()
    db("HSET", keys.meta, "state", "open")
    uncommitted(keys)

    done = frontier("crawl", "end", *named, "--yes")
    assert done.returncode == 0
    in_it = f"--crawl {keys.crawl_id} --collection {unique}"
    assert f"frontier collection commit {in_it}" in done.stderr


async def test_what_is_discarded_is_forgotten_in_the_collection_that_it_is_in(
    ended, frontier, db, uncommitted
):
    keys, named = await ended()
    db("HSET", keys.meta, "state", "open")
    within = uncommitted(keys)

    done = frontier("crawl", "end", *named, "--discard", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert db("SMEMBERS", within.uncommitted) in (set(), [])


@pytest.mark.parametrize(
    ("state", "verb"),
    [("finished", "commit"), ("limit", "commit"), ("canceled", "cancel")],
)
async def test_the_status_of_a_crawl_that_nobody_has_committed_is_not_ok(
    ended, frontier, db, unique, uncommitted, state, verb
):
    keys, named = await ended()
    db("HSET", keys.meta, "state", state)
    within = uncommitted(keys)
    alone = frontier("crawl", "status", *named)
    assert alone.returncode == 6
    in_it = f"--crawl {keys.crawl_id} --collection {unique}"
    assert f"frontier collection {verb} {in_it}" in alone.stderr

    db("HSET", within.owners, keys.crawl_id, "another store")
    assert frontier("crawl", "status", *named).returncode == 0
    db("DEL", within.owners)
    later = int(db("TIME")[0]) * 1000 + 600_000  # however long the process takes
    db("HSET", keys.nodes, "n1", f"{later} 1 0 abc")
    assert frontier("crawl", "status", *named).returncode == 0
    db("DEL", keys.nodes)
    db("DEL", within.uncommitted)
    assert frontier("crawl", "status", *named).returncode == 0


async def test_no_collection_of_a_crawl_need_be_named_to_keep_it(
    ended, frontier, db, uncommitted
):
    keys, named = await ended()
    uncommitted(keys)

    refused = frontier("crawl", "delete", *named, "--yes")
    assert refused.returncode == 5
    assert "not committed, and cannot be" in refused.stderr
    assert db("EXISTS", keys.meta)


async def test_a_crawl_is_named_by_its_id_alone(ended, frontier, db):
    keys, named = await ended()
    where = named[: named.index("--crawl")]

    neither = frontier("crawl", "delete", *where, "--yes")
    assert neither.returncode == 2
    assert "CRAWL_ID" in neither.stderr
    both = frontier("crawl", "delete", "site-2", *named, "--yes")
    assert both.returncode == 2
    assert f"site-2 and --crawl {keys.crawl_id}" in both.stderr
    status = frontier("crawl", "status", "site-9", *where)
    assert status.returncode == 4
    assert db("EXISTS", keys.meta) == 1
    done = frontier("crawl", "delete", keys.crawl_id, *where, "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert db("EXISTS", keys.meta) == 0


def test_a_directory_on_the_command_line_beats_a_server_of_the_environment(
    tmp_path, monkeypatch
):
    """Else what is deleted would be the server's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:1/0")
    delete = ["crawl", "delete", "site-1", "--yes", "--store-dir", "mine"]

    alone = commands.run(*delete)
    both = commands.run(*delete, "--redis-url", "redis://127.0.0.1:2/0")

    assert alone.returncode == NoStore.code
    assert str(tmp_path / "mine") in alone.stderr
    assert both.returncode == 2
    assert "name two stores" in both.stderr


def test_unread_project_settings_are_reported(tmp_path, frontier):
    (tmp_path / "scrapy.cfg").touch()

    told = frontier("crawl", "status")

    assert told.returncode == 3
    assert "the settings of the project here are not read" in told.stderr
