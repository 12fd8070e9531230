"""Where no host answers, it is the node's own way to the web, and not the hosts."""

import socket
import urllib.request
from functools import partial

import pytest
from conftest import until

from tests.rawsite import RawSite, answer, page
from tests.topologies import free_ports

SPACED = {
    "CONCURRENT_REQUESTS_PER_DOMAIN": "1",
    "DOWNLOAD_DELAY": "0.05",
    "ROBOTSTXT_OBEY": "True",
    "FRONTIER_UPLINK_PROBE": "0.3",
    "FRONTIER_BACKOFF_UNREACHABLE_AFTER": "4",
    "FRONTIER_BACKOFF_UNREACHABLE_MIN": "1",
    "FRONTIER_BACKOFF_UNREACHABLE_MAX": "1",
    "FRONTIER_BACKOFF_UNREACHABLE_TIMES": "3",
}
"""A dead host is given up in some four seconds."""


class Web:
    """Hosts with pages 1 to *pages*, which can be taken off and put back."""

    def __init__(self, hosts=5, pages=20):
        self.paths = ["/", *(f"/{number}" for number in range(pages))]
        self.answered = set()
        self._listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(hosts)]
        self.ports = [each.getsockname()[1] for each in self._listeners]
        self._serve()

    def _serve(self):
        for listener in self._listeners:
            port = listener.getsockname()[1]
            RawSite({}, answer=partial(self._answer, port), listener=listener)

    def _answer(self, port, path, _):
        path = path.removeprefix("http://").partition("/")[2]
        self.answered.add((port, f"/{path}"))
        known = page(*(() if path else self.paths))
        is_there = f"/{path}" in self.paths
        return known if is_there else answer(status="404 Not Found")

    def down(self):
        for listener in self._listeners:
            listener.shutdown(socket.SHUT_RDWR)  # else who accepts goes on
            listener.close()

    def up(self):
        ports = self.ports
        self._listeners = [socket.create_server(("127.0.0.1", port)) for port in ports]
        self._serve()

    @property
    def seeds(self):
        return ",".join(f"http://127.0.0.1:{port}/" for port in self.ports)

    def lacks(self):
        """The pages that were not fetched."""
        every = {(port, path) for port in self.ports for path in self.paths}
        return every - self.answered


@pytest.fixture
def web():
    made = Web()
    yield made
    made.down()


def figures(cluster, node):
    told = cluster.shown("crawl", "status")
    (found,) = [one["figures"] for one in told["nodes"] if one["node_id"] == node]
    return found or {}


def has_paused(cluster, node):
    return "no host answers" in cluster.text_of(node)


def test_no_request_is_given_up_while_the_uplink_is_down(cluster, web):
    ports = dict(zip(("node-1", "node-2"), free_ports(2), strict=True))
    for node, port in ports.items():
        settings = {**SPACED, "FRONTIER_METRICS_PORT": port}
        cluster.start(node, "-a", f"seeds={web.seeds}", **settings)
    until(lambda: len(web.answered) > 30, "some pages")
    web.down()
    for node in ports:
        until(partial(has_paused, cluster, node), f"{node} pauses")
    # many times as long as it takes to give all hosts up
    until(lambda: figures(cluster, "node-1")["uplink_seconds"] > 8, "a long outage")
    report = cluster.ask("crawl", "status").stdout
    where = f"http://127.0.0.1:{ports['node-1']}/metrics"
    metrics = urllib.request.urlopen(where).read().decode()
    web.up()

    cluster.finish()
    assert web.lacks() == set()
    assert "node-1 waits: no host has answered it for" in " ".join(report.split())
    (paused,) = [
        line
        for line in metrics.splitlines()
        if line.startswith("frontier_uplink_pause_seconds")
    ]
    assert float(paused.rpartition(" ")[2]) > 1
    for node in ports:
        assert "hosts answer again" in cluster.text_of(node)
        assert "is given up" not in cluster.text_of(node)
    assert "nothing was given up" in cluster.ask("crawl", "dead").stdout
