"""What the last node does is done, whoever else was killed or stands still."""

import signal
from collections import Counter

import pytest
from conftest import HELD, after, until

from frontier.cli.output import ExitCode
from frontier.collection.check import Check
from frontier.collection.summary import look
from frontier.status.snapshot import snapshot
from frontier.store.client import Call
from frontier.store.keys import CrawlKeys, collection_keys
from tests.warc.judges import records_in

NODES = ("node-1", "node-2")


@pytest.fixture
def running(serve, cluster, tmp_path):
    """A crawl of one host on two nodes; return the site, who fetches, and who idles."""

    def running(**settings):
        server = serve(urls=70, hosts=1, delay=HELD, until=after(30))
        settings = {
            "FRONTIER_LEASE_TTL": "120",
            "FRONTIER_KEEP_FRONTIER": "False",
            "FRONTIER_WACZ_DIR": str(tmp_path / "wacz"),
            **settings,
        }
        for node in NODES:
            cluster.start(node, "-a", f"seeds={server.seeds[0]}", **settings)
        cluster.share("site-1")
        server.delay = 0
        until(lambda: server.holds, "a request that is not answered")
        (busy,) = server.holds
        (idle,) = set(NODES) - {busy}
        # Else the crawl does not end before the lease of one that is stopped.
        until(lambda: is_idle(cluster, idle), "a heartbeat that says so")
        return server, busy, idle

    return running


def is_idle(cluster, node):
    """Whether *node* has said with its last heartbeat that it has nothing in hand."""
    there = Call.command("HGET", CrawlKeys("frontier", "site-1").nodes, node)
    return cluster.store.call(there).split()[2] == b"0"


def assert_is_done(cluster):
    """The crawl is committed once, and its frontier is removed."""
    keys = collection_keys(cluster.store, "")
    seen = look(cluster.store, keys)
    (crawl,) = seen.crawls
    assert (crawl.state, crawl.uncommitted) == ("committed", 0)
    assert crawl.urls == seen.counts["totalUrls"] > crawl.digests > 10
    assert Check(cluster.store, keys).run().sound
    assert snapshot(cluster.store, "frontier", "site-1").removed_ms


def assert_all_is_done(cluster, tmp_path):
    """That, and its WACZ is made."""
    assert_is_done(cluster)
    assert (tmp_path / "wacz" / "site-1.wacz").exists()


def test_the_survivor_of_a_node_that_was_killed_commits(running, cluster, tmp_path):
    server, busy, idle = running()
    cluster.kill(idle)
    server.go_on()
    waits = f"has ended; nothing was heard of {idle} since"
    until(lambda: waits in cluster.text_of(busy), "that it waits for the other")
    cluster.do("node", "remove", idle, "--force")

    cluster.finish(busy)
    assert_all_is_done(cluster, tmp_path)
    assert cluster.ask("collection", "check").returncode == ExitCode.OK
    revisits, captures = captures_in(cluster.warc_dir)
    seen = look(cluster.store, collection_keys(cluster.store, ""))
    # Its counts may lack what the killed node has stored in its last seconds.
    assert seen.crawls[0].revisits <= revisits
    assert seen.crawls[0].urls <= captures


def captures_in(directory):
    """How many revisits of payloads, and captures, the WARC files have."""
    found = records_in(directory.glob("*.warc.gz*"))
    kinds = Counter(headers["WARC-Type"] for headers, _ in found)
    return kinds["revisit"], kinds["revisit"] + kinds["response"]


def test_crawl_is_committed_once_when_a_node_is_stopped_at_its_end(
    running, cluster, tmp_path
):
    """It may leave last, and not have heard of the end by a heartbeat."""
    server, busy, idle = running()
    cluster.nodes[idle].send_signal(signal.SIGSTOP)
    server.go_on()
    until(lambda: "Closing spider (finished)" in cluster.text_of(busy), "the end")
    cluster.nodes[idle].send_signal(signal.SIGTERM)
    cluster.nodes[idle].send_signal(signal.SIGCONT)

    cluster.finish()
    texts = [cluster.text_of(node) for node in (busy, idle)]
    assert sum("payload digests to the collection" in text for text in texts) == 1
    assert_all_is_done(cluster, tmp_path)
