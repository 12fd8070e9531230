"""Nodes that are told to go: by an operator, by a signal, by two signals."""

import signal

import pytest
from conftest import HELD, HOSTS, PARTITIONS, until

from frontier.status.snapshot import snapshot
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
    """A crawl on nodes of which each has its share and has fetched.

    It then waits for pages, until the site is to go on.
    """

    def running(*nodes, **settings):
        server = serve(
            urls=500, hosts=20, calendar_months=3, nodes=nodes, delay=HELD,
            until=enough, spared=BEGIN,
        )  # fmt: skip
        for node in nodes:
            cluster.start(node, "-a", f"seeds={','.join(server.seeds)}", **settings)
        cluster.share("site-1")
        server.delay = 0
        for node in nodes:
            until(lambda n=node: has_fetched(server, n), "pages, and some under way")
        return server

    return running


def has_fetched(server, node):
    return server.until(server.answered, node) and node in server.holds


def closes(cluster, node_id, reason):
    """Return when the node says that it closes for that."""
    line = f"Closing spider ({reason})"
    until(lambda: line in cluster.text_of(node_id), line)


def test_nodes_that_go_hand_over_at_once_and_lose_nothing(cluster, running):
    """However they go; what was under way at two of them alone is fetched again."""
    ways = ("drained", "removed", "signalled", "killed", "forced")
    server = running(*ways, "stays", FRONTIER_LEASE_TTL="600")

    def hands_over(node):
        until(lambda: cluster.held("site-1").get(node, 0) <= HOSTS, "the hand-over")

    assert cluster.ask("node", "drain", "node-9").returncode == 4
    cluster.do("node", "drain", "drained")
    closes(cluster, "drained", "frontier_drained")

    cluster.nodes["signalled"].send_signal(signal.SIGTERM)
    hands_over("signalled")
    assert cluster.nodes["signalled"].poll() is None, "it waits for its pages"

    cluster.nodes["forced"].send_signal(signal.SIGINT)
    again = "Send again to force"
    until(lambda: again in cluster.text_of("forced"), "the first signal")
    cluster.nodes["forced"].send_signal(signal.SIGINT)
    cluster.wait("forced")  # its pages would not come
    cluster.kill("killed")
    under_way = set(cluster.reserved("site-1"))
    refused = cluster.ask("node", "remove", "killed")
    assert refused.returncode == 5
    assert "killed of the crawl site-1 is alive" in refused.stderr
    for node in (
        "killed",
        "forced",
        "removed",
    ):  # else their leases would be waited for
        cluster.ask("node", "remove", node, "--force")
    closes(cluster, "removed", "frontier_removed")
    most = PARTITIONS - HOSTS
    until(lambda: cluster.held("site-1").get("stays", 0) >= most, "what all had")
    server.go_on()

    cluster.finish("drained", "signalled", "removed", "stays")
    for node, reason in (
        ("drained", "frontier_drained"),
        ("signalled", "shutdown"),
        ("removed", "frontier_removed"),
    ):
        assert f"Spider closed ({reason})" in cluster.text_of(node)
        assert "lost its last writes" not in cluster.text_of(node)
    log = server.requests()
    assert log.fetched().keys() == server.expected
    assert set(log.repeated()) <= under_way


def test_a_canceled_crawl_ends_on_all_its_nodes(cluster, running):
    both = ("node-1", "node-2")
    server = running(*both, FRONTIER_KEEP_FRONTIER="False", DOWNLOAD_DELAY="0.5")
    refused = cluster.ask("crawl", "end", "--discard", "--crawl", "site-1")
    assert refused.returncode == 2
    assert "not fetched" in refused.stdout

    done = cluster.do("crawl", "end", "--discard", "--crawl", "site-1", "--yes")

    assert "2 nodes will stop" in done.stderr
    for node in cluster.nodes:
        closes(cluster, node, "frontier_canceled")
    server.go_on()
    cluster.finish()
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
    names = [index.uncommitted, index.crawl("site-1"), index.alldupes]
    assert cluster.db("EXISTS", *names) == 0
    gone = cluster.ask("seen", "forget", "http://127.0.0.2/", "--crawl", "site-1")
    assert gone.returncode == 4
    assert "was removed" in gone.stderr
