"""Keys of the store that somebody else has written: the rest of the crawl goes on."""

import json

import pytest
from conftest import until

from frontier.store.client import Call
from frontier.store.keys import CrawlKeys

SETTINGS = {
    "FRONTIER_LEASE_TTL": "4",
    "CONCURRENT_REQUESTS": "4",
    "FRONTIER_PARTITIONS": "16",
}
"""Few partitions, of which most have a host; leases that end while a test waits."""


def served(site, count):
    return lambda: (log := site.requests()) and len(log.entries) >= count


@pytest.fixture
def crawling(cluster, serve):
    """Begin a crawl with two nodes, and return its site and what starts a node."""

    def crawling(pages=40, **settings):
        site = serve(urls=300, hosts=8, calendar_months=6, delay=0.03)
        seeds = ",".join(site.seeds)

        def start(*node_ids):
            for node_id in node_ids:
                chosen = {**SETTINGS, **settings}
                cluster.start(node_id, "-a", f"seeds={seeds}", **chosen)

        start("node-1", "node-2")
        until(served(site, pages), "some pages")
        return site, start

    return crawling


def keys_of(cluster):
    """The keys of the crawl, and of a partition in which much is ready."""
    keys = CrawlKeys("frontier", "site-1")

    def fullest():
        names = [keys.partition(n).counts for n in range(16)]
        calls = [Call.command("HGET", name, "ready") for name in names]
        ready = [int(count or 0) for count in cluster.store.run(calls)]
        return (ready.index(max(ready)),) if max(ready) > 5 else None

    (number,) = until(fullest, "a partition with URLs")
    return keys, number


@pytest.mark.parametrize("what", ["counts", "fence"])
def test_a_damaged_partition_is_set_aside_and_whole_after_its_repair(
    crawling, cluster, what
):
    site, start = crawling()
    keys, number = keys_of(cluster)
    part = keys.partition(number)
    if what == "counts":
        cluster.store.call(Call.command("HSET", part.counts, "ready", "abc"))
    else:
        cluster.store.call(Call.command("SET", part.fence, "abc"))
        cluster.store.call(Call.command("DEL", part.lease))

    assert cluster.wait() == [1, 1]
    for node in ("node-1", "node-2"):
        text = cluster.text_of(node)
        assert "Traceback" not in text
        assert "has ended incomplete" in text
        assert f"{number} ({what}: " in text
        assert "(frontier_incomplete)" in text
    status = cluster.ask("crawl", "status", "site-1", "--json")
    assert status.returncode == 6
    seen = json.loads(status.stdout)
    assert seen["state"] == "incomplete"
    assert [(one["partition"], one["key"]) for one in seen["harmed"]] == [
        (number, what)
    ]
    missing = site.requests().missing(site.expected)
    assert missing

    done = cluster.ask("crawl", "repair", "site-1")
    assert done.returncode == 0, done.stderr
    start("node-3")
    assert cluster.wait("node-3") == [0]
    assert site.requests().missing(site.expected) == set()
    assert cluster.ask("crawl", "status", "site-1").returncode == 0
