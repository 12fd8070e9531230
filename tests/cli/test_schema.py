"""What commands do with a crawl that another version of this package made."""

import asyncio
import json

import pytest

from frontier.cluster.crawls import enter
from frontier.cluster.shared_settings import crawl_settings
from frontier.settings.config import Config
from frontier.store.client import Call
from frontier.store.keys import SCHEMA


@pytest.fixture
def newer(blocking, unique):
    """The keys of an open crawl of the next version, and what the store has of it."""
    store = blocking()

    async def run(calls):
        return store.run(calls)

    shape = crawl_settings(Config(partitions=16))
    keys = asyncio.run(enter(run, f"schema-{unique}", "site", "", shape))
    store.call(Call.command("HSET", keys.meta, "schema", SCHEMA + 1))
    return keys


def state_of(store, keys):
    names = [keys.meta, *(keys.partition(number).counts for number in range(16))]
    return store.run([Call.command("HGETALL", name) for name in names])


@pytest.mark.parametrize(
    "command",
    [
        ["crawl", "status", "--crawl", "site-1"],
        ["crawl", "status"],
        ["crawl", "end", "--crawl", "site-1", "--yes", "--remove-frontier"],
        ["crawl", "end", "--discard", "--crawl", "site-1", "--yes"],
        ["crawl", "repair", "--crawl", "site-1"],
        ["crawl", "dead"],
        ["crawl", "requeue", "--all"],
        ["crawl", "seed", "seeds.txt"],
        ["crawl", "status", "--nodes"],
        ["node", "drain", "n1"],
        ["seen", "forget", "http://h/", "--yes"],
        ["seen", "export", "file"],
    ],
    ids=" ".join,
)
def test_a_crawl_of_another_version_is_refused_in_one_line(
    frontier, server, newer, blocking, tmp_path, command
):
    (tmp_path / "seeds.txt").write_text("http://h/\n")
    before = state_of(blocking(), newer)

    done = frontier(*command, "--redis-url", server.url, "--namespace", newer.namespace)

    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert f"site-1 has schema version {SCHEMA + 1}, " in done.stderr
    assert f"writes {SCHEMA}; use the frontier that made it" in done.stderr
    assert state_of(blocking(), newer) == before


def test_a_list_has_the_crawls_of_other_versions_and_says_so(frontier, server, newer):
    options = ["--redis-url", server.url, "--namespace", newer.namespace]

    done = frontier("crawl", "list", *options)
    crawls = json.loads(frontier("crawl", "list", "--json", *options).stdout)["crawls"]

    assert done.returncode == 6
    assert "site-1" in done.stdout
    assert done.stderr.count("\n") == 1
    assert f"site-1 has schema version {SCHEMA + 1}, " in done.stderr
    assert [crawl["schema"] for crawl in crawls] == [str(SCHEMA + 1)]
