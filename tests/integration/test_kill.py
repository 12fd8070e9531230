"""kill -9 of a node: no URL is lost, none is fetched twice without need."""

import json

import pytest
from conftest import until


def served(server, count):
    def enough():
        log = server.requests()
        return log is not None and len(log.entries) >= count

    return enough


def hub_served(server):
    def some():
        log = server.requests()
        return log is not None and any(e.url.endswith("/hub") for e in log.entries)

    return some


@pytest.mark.parametrize(
    "moment", ["early", "hub", pytest.param("late", marks=pytest.mark.chaos)]
)
def test_a_killed_node_costs_only_what_it_had_in_flight(
    serve, cluster, moment, tmp_path
):
    server = serve(urls=300, hosts=4, calendar_months=12, delay=0.02)
    seeds = ",".join(server.seeds)
    # A live node must not lose its lease, however busy the machine is.
    lease = {"FRONTIER_LEASE_TTL": "8" if moment == "early" else "60"}
    for node in ("node-1", "node-2"):
        feed = tmp_path / f"{node}.jsonl"
        cluster.start(node, "-a", f"seeds={seeds}", "-o", str(feed), **lease)
    condition = {
        "early": served(server, 10),
        "hub": hub_served(server),
        "late": served(server, 200),
    }[moment]
    until(condition, moment)
    cluster.kill("node-1")
    in_flight = set(cluster.reserved("site-1"))
    if moment != "early":
        done = cluster.ask("node", "remove", "node-1", "--force")
        assert done.returncode == 0, done.stderr

    assert cluster.wait("node-2") == [0]
    log = server.requests()
    assert log.missing(server.expected) == set()
    assert log.unexpected(server.expected) == set()
    assert set(log.repeated()) <= in_flight
    assert "finished" in cluster.text_of("node-2")
    feeds = [tmp_path / f"{node}.jsonl" for node in ("node-1", "node-2")]
    written = [feed.read_text() for feed in feeds if feed.exists()]  # or it had no page
    lines = [line for text in written for line in text.splitlines()]
    articles = {url for url in server.expected if "/article/" in url}
    assert articles
    assert articles <= {json.loads(line)["url"] for line in lines}
