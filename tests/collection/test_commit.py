"""A crawl's payloads are offered to all crawls, or forgotten."""

import json

import pytest

from frontier.collection.rounds import CHUNK, Collection
from frontier.dedupe.digest_index import Entry
from frontier.errors import NotUncommitted
from frontier.store.client import Call
from frontier.store.keys import CollectionKeys, CrawlKeys
from tests.collection.samples import digest

DATE = "2026-01-02T03:04:05.678Z"


def crawled(index, crawl_id, numbers):
    """A crawl that has stored the payloads *numbers* and is not committed."""
    crawl = Collection(index.store, index.name, crawl_id, revisits=True)
    crawl.begin()
    numbers = list(numbers)
    for at in range(0, len(numbers), 1000):
        part = numbers[at : at + 1000]
        crawl.add([Entry(digest(n), DATE, f"http://a/{n}", 100) for n in part])
    index("HSET", index.keys.counts(crawl_id), "totalUrls", 7, "dupeUrls", 3)
    entry = json.dumps({"filename": f"{crawl_id}.wacz"})
    index("RPUSH", index.keys.waczs(crawl_id), entry, "no json")
    return crawl


def test_a_commit_offers_everything_and_counts_once(index):
    crawled(index, "a", range(CHUNK * 2 + 5))

    done = index.committer().finish()
    again = index.committer().finish()

    assert (done.digests, done.added, done.first) == (2005, 2005, True)
    assert (again.added, again.first) == (0, False)
    found = index.everything()
    assert set(found["alldupes"].values()) == {"a"}
    assert len(found["alldupes"]) == 2005
    assert found["allcounts"] == {"totalUrls": "7", "dupeUrls": "3"}
    assert found["src:d"] == {"a.wacz"}
    assert found["allcrawls"] == {"a"}
    assert "uncommittedcrawls" not in found
    assert found["commitrounds:a"].keys() == {"committed", "at_ms"}


def test_digests_added_after_a_commit_are_offered_and_summed_once(index):
    """It was frozen, or the crawl was committed by hand while it ran."""
    crawl = crawled(index, "a", range(5))
    index.committer().finish()
    crawl.add([Entry(digest(9), DATE, "http://a/9", 100)])
    crawl.count(4, 1, 50)
    again = crawl.commit()

    assert (again.digests, again.added, again.first) == (0, 0, False)
    assert set(index.everything()["alldupes"]) == {digest(n) for n in [*range(5), 9]}
    sums = {"totalUrls": "11", "dupeUrls": "4", "conservedSize": "50"}
    assert index.everything()["allcounts"] == sums
    assert index.everything()["h:a:counts"] == sums


def test_a_crawl_that_has_stored_nothing_is_committed(index):
    Collection(index.store, index.name, "a", revisits=True).begin()

    assert index.committer().finish().first
    assert not index.committer().finish().first

    assert index.members(index.keys.committed) == {"a"}
    assert index.members(index.keys.uncommitted) == set()


def test_a_canceled_crawl_leaves_nothing(index):
    crawled(index, "a", [1, 2])

    assert index.committer().cancel(running=False)

    assert index.everything() == {}
    with pytest.raises(NotUncommitted):
        index.committer().cancel(running=False)


def test_the_commands(index, unique):
    crawled(index, "a", [1, 2])
    crawled(index, "b", [3])
    open_crawl = CrawlKeys(unique, "c").meta
    index.store.call(Call.command("HSET", open_crawl, "state", "open"))
    crawled(index, "c", [4])

    assert index.run("commit", "--crawl", "x")[0] == 4
    assert index.run("commit", "--crawl", "a")[0] == 0
    assert index.run("commit", "--crawl", "c", "--namespace", unique)[0] == 5
    code, out, _ = index.run("cancel", "--crawl", "b")
    assert (code, "1 payload digests of b are forgotten now" in out) == (2, True)
    assert index.run("cancel", "--crawl", "b", "--yes")[0] == 0
    assert index.run("cancel", "--crawl", "c", "--yes", "--namespace", unique)[0] == 0

    assert index.members(index.keys.canceled) == {"c"}
    code, out, _ = index.run("status", "--json")
    said = json.loads(out)
    states = {crawl["crawl_id"]: crawl["state"] for crawl in said["crawls"]}
    assert states == {"a": "committed", "c": "canceled"}
    assert (said["digests"], said["counts"]["totalUrls"]) == (2, 7)
    listed = json.loads(index.run("list", "--json")[1])["collections"]
    assert index.name in [each["name"] for each in listed]
    index("DEL", index.keys.waczs("a"))  # nodes add no files
    out = index.run("status")[1]
    (row,) = [line.split() for line in out.splitlines() if line.startswith("a ")]
    assert (row[1], row[-1]) == ("committed", "-")
    assert "at least 7," in out


def test_a_damaged_collection_is_named_and_the_others_are_listed(index, unique):
    crawled(index, "a", [1])
    damaged = CollectionKeys(f"damaged-{unique}", index.keys.tagged)
    index.store.run(
        [
            Call.command("SADD", damaged.uncommitted, "a"),
            Call.command("SET", damaged.alldupes, "not a hash"),
        ]
    )
    code, out, err = index.run("list", "--json")
    index.store.call(Call.command("DEL", damaged.alldupes, damaged.uncommitted))

    names = [each["name"] for each in json.loads(out)["collections"]]
    assert (code, index.name in names) == (6, True)
    assert f"the key {damaged.alldupes}" in err
