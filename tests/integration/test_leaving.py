"""Nodes that are told to go: by an operator, by a signal, by two signals."""

import signal

import pytest
from conftest import HELD, until

from frontier.errors import FrontierError
from frontier.status.snapshot import snapshot
from frontier.store.client import Call
from frontier.store.keys import collection_keys

BEGIN = ("/robots.txt", "/")
"""The first that is asked of each host. The node that came first may have asked for
these of all hosts; what it does not get, it cannot hand over, and the other would have
nothing to fetch."""


def enough(answered, node):
    """For `Held.until`: *node* has 15 answers."""
    return sum(who == node for who, _ in answered) >= 15


@pytest.fixture
def running(serve, cluster):
    """A crawl on two nodes, each of which has its share and has fetched.

    It then waits for pages, until the site is to go on.
    """

    def running(**settings):
        both = ("node-1", "node-2")
        server = serve(
            urls=500, hosts=20, calendar_months=3, nodes=both, least=4, delay=HELD,
            until=enough, spared=BEGIN,
        )  # fmt: skip
        for node in both:
            cluster.start(node, "-a", f"seeds={','.join(server.seeds)}", **settings)
        cluster.share("site-1")
        server.delay = 0
        for node in both:
            until(lambda n=node: has_fetched(server, n), "pages, and some under way")
        return server

    return running


def has_fetched(server, node):
    return server.until(server.answered, node) and node in server.holds


def nodes(cluster):
    try:
        seen = snapshot(cluster.store, "frontier", "site-1")
    except FrontierError:  # it is only just being created
        return {}
    return {node.node_id: node for node in seen.nodes}


def closes(cluster, node_id, reason):
    """Return when the node says that it closes for that."""
    line = f"Closing spider ({reason})"
    until(lambda: line in cluster.text_of(node_id), line)


def complete(server):
    log = server.requests()
    assert log.missing(server.expected) == set()
    assert log.unexpected(server.expected) == set()
    return log


def test_a_drained_node_hands_over_and_exits_clean(cluster, running):
    server = running()
    assert cluster.ask("node", "drain", "node-9").returncode == 4
    done = cluster.ask("node", "drain", "node-1")

    assert done.returncode == 0, done.stderr
    closes(cluster, "node-1", "frontier_drained")
    server.go_on()
    assert cluster.wait("node-1") == [0]
    assert "Spider closed (frontier_drained)" in cluster.text_of("node-1")
    assert cluster.wait("node-2") == [0]
    assert complete(server).repeated() == {}


def test_a_dead_node_is_removed_and_its_share_taken_at_once(cluster, running):
    server = running(FRONTIER_LEASE_TTL="600")
    cluster.kill("node-1")
    in_flight = set(cluster.reserved("site-1"))
    refused = cluster.ask("node", "remove", "node-1")
    assert refused.returncode == 5
    assert "node-1 of the crawl site-1 is alive" in refused.stderr

    done = cluster.ask("node", "remove", "node-1", "--force")
    assert done.returncode == 0, done.stderr
    until(lambda: nodes(cluster)["node-2"].held == 1024, "node-2 has all")
    server.go_on()
    assert cluster.wait("node-2") == [0]
    assert set(complete(server).repeated()) <= in_flight


def test_a_live_node_that_is_removed_stops(cluster, running):
    server = running(FRONTIER_LEASE_TTL="600")
    assert cluster.ask("node", "remove", "node-1", "--force").returncode == 0
    closes(cluster, "node-1", "frontier_removed")
    server.go_on()

    assert cluster.wait("node-1") == [0]
    assert "Spider closed (frontier_removed)" in cluster.text_of("node-1")
    assert cluster.wait("node-2") == [0]
    complete(server)


def test_a_signal_hands_over_at_once_also_while_pages_are_slow(cluster, running):
    server = running(FRONTIER_LEASE_TTL="600")
    cluster.nodes["node-1"].send_signal(signal.SIGTERM)
    until(lambda: nodes(cluster)["node-2"].held >= 1000, "the hand-over")

    assert cluster.nodes["node-1"].poll() is None, "it waits for its pages"
    server.go_on()
    assert cluster.wait("node-1") == [0]
    assert "Spider closed (shutdown)" in cluster.text_of("node-1")
    cluster.kill("node-2")
    assert server.requests().repeated() == {}


def test_a_second_signal_ends_it_at_once_and_loses_nothing(cluster, running):
    server = running()
    node = cluster.nodes["node-1"]
    node.send_signal(signal.SIGINT)
    until(
        lambda: "Send again to force" in cluster.text_of("node-1"), "the first signal"
    )
    node.send_signal(signal.SIGINT)
    cluster.wait("node-1")  # its pages would not come
    # Else its lease would be waited for.
    cluster.ask("node", "remove", "node-1", "--force")
    server.go_on()

    assert cluster.wait("node-2") == [0]
    complete(server)


def test_a_canceled_crawl_ends_on_all_its_nodes(cluster, running):
    server = running(FRONTIER_KEEP_FRONTIER="False", DOWNLOAD_DELAY="0.5")
    refused = cluster.ask("crawl", "end", "--discard", "--crawl", "site-1")
    assert refused.returncode == 2
    assert "not done and would not be fetched" in refused.stderr

    done = cluster.ask("crawl", "end", "--discard", "--crawl", "site-1", "--yes")

    assert done.returncode == 0, done.stderr
    assert "2 nodes will stop" in done.stderr
    for node in cluster.nodes:
        closes(cluster, node, "frontier_canceled")
    server.go_on()
    assert cluster.wait() == [0, 0]
    for node in cluster.nodes:
        assert "Spider closed (frontier_canceled)" in cluster.text_of(node)
    log = server.requests()
    assert log.missing(server.expected)
    assert log.repeated() == {}
    seen = snapshot(cluster.store, "frontier", "site-1")
    assert seen.state == "canceled"
    assert seen.queue.ready > 0
    assert seen.removed_ms
    index = collection_keys(cluster.store, "")
    names = [index.uncommitted(), index.crawl("site-1"), index.alldupes()]
    assert cluster.store.call(Call.command("EXISTS", *names)) == 0
    gone = cluster.ask("seen", "forget", "http://127.0.0.2/", "--crawl", "site-1")
    assert gone.returncode == 4
    assert "was removed" in gone.stderr
