"""One primary of a cluster after the other hangs: the hosts of the others go on.

But for the primary of the crawl's own keys, without which no node can say that it
lives: all wait for that one (docs/decisions/leases.md).
"""

import contextlib
import signal
import time
from collections import Counter

import pytest
from conftest import Cluster, until

from frontier.settings.config import Config
from frontier.urls.partition import QueueAddresses
from tests.topologies import ClusterServers, slot_of

TTL = 6.0
BEFORE = 6.0
HANG = 12.0
"""Seconds: twice a lease."""
FIRST_LINE = 3.0
LEAST = 0.8
"""Of the rate before."""
NODES = ("node-1", "node-2")


def home_of(servers, site):
    """The primary of each host's partition, by host."""
    places = QueueAddresses(Config(partitions=1024))
    found = {}
    for seed in site.seeds:
        partition = places.of(seed, b"").partition
        tag = f"{{frontier:site-1:{partition}}}"
        found[seed.split("/")[2]] = servers.owner(slot_of(tag))
    return found


def rates(site, homes, since, till):
    """Pages per second of the hosts of each primary."""
    found = Counter(
        homes[entry.url.split("/")[2]].port
        for entry in site.requests().entries
        if since <= entry.start < till
    )
    return {port: count / (till - since) for port, count in found.items()}


@contextlib.contextmanager
def stopped(server):
    server.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        server.signal(signal.SIGCONT)


def lines(nodes):
    return [nodes.text_of(node).count("waiting for it") for node in NODES]


def going_on(site, homes, port, since):
    """Return when hosts of that primary are fetched from again."""
    what = "pages of the hosts of the primary that is back"
    until(lambda: rates(site, homes, since, time.time() + 1).get(port), what)


@pytest.mark.compat
def test_the_hosts_of_the_other_primaries_keep_their_rate(serve, tmp_path):
    options = ("--cluster-require-full-coverage", "no")
    servers = ClusterServers(3, 0, *options, "--cluster-node-timeout", "5000")
    servers.start()
    nodes = Cluster(tmp_path, servers)
    try:
        site = serve(urls=4500, hosts=15, calendar_months=3, delay=0.02)
        for node in NODES:
            nodes.start(
                node,
                *("-a", f"seeds={','.join(site.seeds)}"),
                FRONTIER_LEASE_TTL=str(TTL),
                DOWNLOAD_DELAY="0.4",
                RANDOMIZE_DOWNLOAD_DELAY="False",
                CONCURRENT_REQUESTS="32",
                CONCURRENT_REQUESTS_PER_DOMAIN="1",
            )
        until(lambda: (log := site.requests()) and len(log.entries) > 150, "pages")
        homes = home_of(servers, site)
        for server in servers.primaries:
            time.sleep(BEFORE + 1)
            told = lines(nodes)
            began = time.time()
            with stopped(server):
                until(
                    lambda before=told: all(
                        new > old for new, old in zip(lines(nodes), before, strict=True)
                    ),
                    "a line",
                )
                first = time.time() - began
                time.sleep(max(0.0, began + HANG - time.time()))
            before = rates(site, homes, began - BEFORE, began)
            during = rates(site, homes, began, began + HANG)
            print(f"{server.port}: first line {first:.1f} s", before, during)
            others = {home.port for home in homes.values()} - {server.port}
            if server.port == servers.owner(slot_of("{frontier:site-1}")).port:
                others = set()
            for port in others:
                assert during.get(port, 0.0) >= LEAST * before[port], (before, during)
            assert first <= FIRST_LINE
            going_on(site, homes, server.port, time.time())
        assert all(process.poll() is None for process in nodes.nodes.values())
        for process in nodes.nodes.values():
            process.send_signal(signal.SIGTERM)
        assert nodes.wait() == [0, 0]
        for node in NODES:
            assert "Traceback" not in nodes.text_of(node)
    finally:
        nodes.close()
        servers.remove()
