"""One delay per host for the whole cluster, whoever has the host."""

import itertools
import signal

import pytest
from conftest import HELD, owned, until

from frontier.settings.config import Config
from frontier.store.client import Call
from frontier.store.keys import CrawlKeys
from frontier.urls.partition import shards_of

DELAY = 1.0
SLACK = 0.4
"""Seconds that requests take longer or shorter from the node to the log."""


@pytest.fixture
def polite(serve, cluster):
    def polite(nodes, **settings):
        server = serve(urls=1_000, hosts=16)
        for number in range(nodes):
            seeds = f"seeds={','.join(server.seeds)}"
            cluster.start(
                f"node-{number}",
                "-a",
                seeds,
                DOWNLOAD_DELAY=DELAY,
                DOWNLOAD_DELAY_JITTER=0,
                FRONTIER_LEASE_TTL=2,
                **settings,
            )
        until(lambda: pages(server) > 10, "pages")
        return server

    return polite


def pages(server):
    return len(server.answered)


def gaps(server):
    """Seconds between requests to one host; robots.txt has no delay in Scrapy."""
    starts = {}
    for entry in server.requests().entries:
        if not entry.url.endswith("/robots.txt"):
            starts.setdefault(entry.host, []).append(entry.start)
    for times in starts.values():
        yield from (b - a for a, b in itertools.pairwise(sorted(times)))


@pytest.mark.chaos
def test_no_host_is_asked_sooner_through_joins_leaves_kills_and_frozen_nodes(
    polite, cluster
):
    server = polite(2)
    late = ("-a", f"seeds={','.join(server.seeds)}")
    settings = {
        "DOWNLOAD_DELAY": DELAY,
        "DOWNLOAD_DELAY_JITTER": 0,
        "FRONTIER_LEASE_TTL": 2,
    }
    cluster.start("node-2", *late, **settings)
    until(lambda: alive(cluster) == 3, "a third node")
    cluster.nodes["node-0"].send_signal(signal.SIGTERM)
    cluster.wait("node-0")
    cluster.nodes["node-1"].send_signal(signal.SIGSTOP)
    until(lambda: alive(cluster) == 1, "the frozen node's removal")
    count = pages(server)
    until(lambda: pages(server) > count + 15, "pages of the node that is left")
    cluster.nodes["node-1"].send_signal(signal.SIGCONT)
    until(lambda: alive(cluster) == 2, "the frozen node's return")
    cluster.kill("node-2")
    cluster.start("node-3", *late, **settings)
    until(lambda: alive(cluster) == 2, "the killed node's removal")
    count = pages(server)
    until(lambda: pages(server) > count + 40, "pages of the nodes that are left")

    assert min(gaps(server)) >= DELAY - SLACK - server.late


def alive(cluster):
    key = CrawlKeys("frontier", "site-1").nodes()
    return cluster.store.call(Call.command("HLEN", key))


def test_the_nodes_that_share_a_host_ask_it_together_as_often_as_one(serve, cluster):
    delay, nodes = 0.04, ("node-1", "node-2")
    shares = {}
    while not all(shares.get(node, 0) >= 2 for node in nodes):  # of the host's shards
        server = serve(urls=130, hosts=1, calendar_months=1, delay=HELD)
        places = shards_of(server.hosts[0], 8, Config().partitions)
        shares = owned((place.partition for place in places), nodes)
    for node in nodes:
        cluster.start(
            node,
            "-a",
            f"seeds={server.seeds[0]}",
            DOWNLOAD_DELAY=delay,
            DOWNLOAD_DELAY_JITTER=0,
            FRONTIER_HOST_SHARDS=8,
        )
    cluster.share("site-1")
    server.delay = 0

    assert cluster.wait() == [0, 0]
    log = server.requests()
    assert log.missing(server.expected) == set()
    assert log.unexpected(server.expected) == set()
    by_node = {"node-1": 0, "node-2": 0}
    for entry in log.entries:
        by_node[entry.node] += 1
    assert min(by_node.values()) > 5
    starts = sorted(entry.start for entry in log.entries)
    fifty = [later - first for first, later in zip(starts, starts[50:], strict=False)]
    assert min(fifty) > 0.8 * 50 * delay - server.late
