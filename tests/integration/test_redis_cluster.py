"""Two nodes whose store is a Redis Cluster."""

import itertools
import json

import pytest
from click.testing import CliRunner
from conftest import HELD, Cluster, after, until

from frontier.cli import app
from tests.topologies import ClusterServers, slot_of

ENOUGH = 16
"""Moves of slots before the last page is served; there are more after that."""


@pytest.fixture
def shared(tmp_path):
    """Servers of a cluster, and nodes that use them."""
    servers = ClusterServers()
    try:
        servers.start()
        nodes = Cluster(tmp_path, servers)
        try:
            yield servers, nodes
        finally:
            nodes.close()
    finally:
        servers.remove()


@pytest.mark.long
def test_slots_that_move_during_a_crawl_lose_nothing(serve, shared, tmp_path):
    servers, nodes = shared
    site = serve(urls=120, hosts=3, calendar_months=6, delay=HELD, until=after(20))
    for node in ("node-1", "node-2"):
        nodes.start(node, "-a", f"seeds={','.join(site.seeds)}", FRONTIER_PARTITIONS=16)
    nodes.join()
    site.delay = 0.02
    until(lambda: len(site.answered) >= 20, "some pages")
    tags = [f"{{frontier:site-1:{n}}}" for n in range(16)] + ["{frontier:site-1}"]
    turns = itertools.cycle(servers.primaries)
    moved = 0
    for tag in itertools.cycle(tags):
        if any(process.poll() is not None for process in nodes.nodes.values()):
            break
        slot, target = slot_of(tag), next(turns)
        if servers.owner(slot) is not target:
            servers.move(slot, target)
            moved += 1
            if moved > ENOUGH:
                site.go_on()

    assert nodes.wait() == [0, 0]
    log = site.requests()
    assert log.missing(site.expected) == set()
    assert not log.repeated()
    assert moved > ENOUGH
    assert not any("Traceback" in nodes.text_of(node) for node in nodes.nodes)
    assert_commands_work(servers.url, tmp_path)


def assert_commands_work(url, tmp_path):
    """Look at a finished crawl, and feed another one, through the commands."""

    def run(*words):
        done = CliRunner().invoke(app, [*words, "--redis-url", url])
        assert done.exit_code == 0, done.output
        return done.stdout

    status = json.loads(run("crawl", "status", "--json"))
    assert status["state"] == "finished"
    assert "site-1" in run("crawl", "list")
    (listed,) = json.loads(run("collection", "list", "--json"))["collections"]
    assert listed == json.loads(run("collection", "status", "--json"))
    (committed,) = listed["crawls"]
    assert (committed["crawl_id"], committed["state"]) == ("site-1", "committed")
    assert run("crawl", "dead")
    exported = str(tmp_path / "seen.bin")
    run("seen", "export", exported)
    run("seen", "import", exported, "--new", "site-7")
    assert "site-7" in run("crawl", "list")
