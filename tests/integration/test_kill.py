"""kill -9 of a node: no URL is lost, none is fetched twice without need."""

import json

from conftest import HELD, until


def hub_served(answered, _):
    return any(target == "/hub" for _, target in answered)


def test_a_killed_node_costs_only_what_it_had_in_flight(serve, cluster, tmp_path):
    server = serve(urls=300, hosts=4, calendar_months=12, delay=HELD, until=hub_served)
    seeds = ",".join(server.seeds)
    # A live node must not lose its lease, however busy the machine is.
    lease = {"FRONTIER_LEASE_TTL": "8"}
    for node in ("node-1", "node-2"):
        feed = tmp_path / f"{node}.jsonl"
        cluster.start(node, "-a", f"seeds={seeds}", "-o", str(feed), **lease)
    cluster.join()
    server.delay = 0.02
    until(lambda: hub_served(server.answered, None), "the hub")
    cluster.kill("node-1")
    in_flight = set(cluster.reserved("site-1"))
    server.go_on()

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
