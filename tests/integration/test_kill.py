"""Two nodes, a third that comes late, and kill -9 of one: one crawl, one archive."""

import json

from conftest import HELD, until

from frontier.cdx.lines import parse
from frontier.testing.oracle import RequestLog
from tests.chaos.oracle import overlaps
from tests.warc.judges import listed, read_listing


def hub_served(answered, _):
    return any(target == "/hub" for _, target in answered)


def test_a_killed_node_costs_only_what_it_had_in_flight(serve, cluster, tmp_path):
    server = serve(urls=220, hosts=4, calendar_months=12, delay=HELD, until=hub_served)
    # A live node must not lose its lease, however busy the machine is.
    settings = {"FRONTIER_LEASE_TTL": "8", "FRONTIER_WARC_MAX_BYTES": 20_000}

    def start(node):
        words = ["-a", f"seeds={','.join(server.seeds)}"]
        cluster.start(node, *words, "-o", str(tmp_path / f"{node}.jsonl"), **settings)

    start("node-1")
    start("node-2")
    cluster.join()
    server.delay = 0.02
    until(lambda: hub_served(server.answered, None), "the hub")
    start("node-3")
    cluster.join("node-3")
    cluster.kill("node-1")
    in_flight = set(cluster.reserved("site-1"))
    server.go_on()

    cluster.finish("node-2", "node-3")
    log = server.requests()
    assert log.fetched().keys() == server.expected
    assert set(log.repeated()) <= in_flight
    # A redirect's target carries the header of the node that was sent away, also
    # where its host has changed hands.
    targets = ("/landing", "/loop/a", "/loop/b")
    own = [entry for entry in log.entries if not entry.url.endswith(targets)]
    assert not overlaps(RequestLog(own))
    for node in ("node-2", "node-3"):
        assert "Spider closed (finished)" in cluster.text_of(node)
    # It may have had no page.
    written = [feed.read_text() for feed in tmp_path.glob("node-*.jsonl")]
    lines = [line for text in written for line in text.splitlines()]
    articles = {url for url in server.expected if "/article/" in url}
    assert articles
    assert articles <= {json.loads(line)["url"] for line in lines}

    files = sorted(cluster.warc_dir.glob("*.warc.gz"))
    assert len(files) > 4
    for path in files:
        assert listed(path) == read_listing(path)
    found = [parse(line) for path in files for line in listed(path)]
    assert {"revisit", "response"} <= {one.kind for one in found}
    assert any(one.title for one in found)
    assert any(one.refers_to for one in found)
