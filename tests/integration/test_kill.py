"""Two nodes, a third that comes late, and kill -9 of one: one crawl, one archive.

And what is seen of it, while it runs and when it has ended.
"""

import json

from conftest import HELD, until

from frontier.cdx.lines import parse
from frontier.status.document import watch_document
from frontier.status.watch import Watch
from frontier.testing.oracle import RequestLog
from tests.chaos.oracle import overlaps
from tests.json_schema import check
from tests.warc.judges import listed, read_listing

BOTH = ("node-1", "node-2")


def hub_served(answered, _):
    return any(target == "/hub" for _, target in answered)


def has_reports(seen):
    """*seen*, if both nodes hold partitions and have told what they measure."""
    told = [n.figures for n in seen.crawl.nodes if n.figures and n.figures.memory_bytes]
    has_all = len(told) == 2 and {*BOTH} <= {*seen.holders}
    return seen if has_all and seen.crawl.totals.lately.pages else None


def check_figures(cluster, seen):
    """What each node says of its process is so."""
    for node in seen.crawl.nodes:
        figures = node.figures
        assert figures.memory_bytes > 20_000_000
        assert figures.disk_total_bytes > figures.disk_free_bytes > 0
        assert figures.pid == cluster.nodes[node.node_id].pid


def test_a_killed_node_costs_only_what_it_had_in_flight(serve, cluster, tmp_path):
    server = serve(urls=220, hosts=4, calendar_months=12, delay=HELD, until=hub_served)
    # A live node must not lose its lease, however busy the machine is.
    settings = {"FRONTIER_LEASE_TTL": "8", "FRONTIER_WARC_MAX_BYTES": 20_000}

    def start(node):
        words = ["-a", f"seeds={','.join(server.seeds)}"]
        cluster.start(node, *words, "-o", str(tmp_path / f"{node}.jsonl"), **settings)

    for node in BOTH:
        start(node)
    cluster.join()
    server.delay = 0.02
    until(lambda: hub_served(server.answered, None), "the hub")
    watch = Watch(cluster.store, "frontier", "site-1")
    seen = until(lambda: has_reports(watch.look()), "reports")
    check_figures(cluster, seen)
    check("watched", watch_document(seen))
    check("crawl", cluster.shown("crawl", "status"))
    check("crawls", cluster.shown("crawl", "list"))
    assert {*seen.holders} <= {*BOTH, ""}
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

    last = Watch(cluster.store, "frontier", "site-1").look()
    check("crawl", cluster.shown("crawl", "status"))
    check("watched", watch_document(last))
    events = {(event.node_id, event.what) for event in last.membership}
    assert events >= {("node-1", "joined"), ("node-1", "died"), ("node-2", "left")}
    assert last.time_left.seconds == 0
    said = " ".join(cluster.ask("crawl", "status").stdout.split())
    assert "Lost nodes node-1: the sums lack what was done after" in said

    files = sorted(cluster.warc_dir.glob("*.warc.gz"))
    assert len(files) > 4
    for path in files:
        assert listed(path) == read_listing(path)
    found = [parse(line) for path in files for line in listed(path)]
    assert {"revisit", "response"} <= {one.kind for one in found}
    assert any(one.title for one in found)
    assert any(one.refers_to for one in found)
