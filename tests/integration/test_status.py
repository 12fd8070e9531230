"""What is seen of a real crawl, while it runs and when it has ended."""

from conftest import SHORT, after, until

from frontier.status.document import watch_document
from frontier.status.watch import Watch
from tests.json_schema import check

BOTH = ("node-1", "node-2")


def has_reports(seen):
    """*seen*, if both nodes have told what they measure; else `None`."""
    totals = seen.crawl.totals
    figures = [node.figures for node in seen.crawl.nodes if node.figures is not None]
    whole = len(figures) == 2 and all(f.memory_bytes and f.holds for f in figures)
    return seen if whole and totals.pages >= 30 and totals.lately.pages else None


def test_status_and_watch_describe_a_crawl_while_it_runs_and_when_ended(serve, cluster):
    server = serve(urls=200, hosts=6, nodes=BOTH, calendar_months=2, until=after(40))
    for node in BOTH:
        cluster.start(node, "-a", f"seeds={','.join(server.seeds)}", **SHORT)
    cluster.share("site-1")
    until(lambda: len(server.answered) >= 40, "pages")
    watch = Watch(cluster.store, "frontier", "site-1")
    first = watch.look()
    seen = until(lambda: has_reports(watch.look()), "reports")

    check("crawl", cluster.shown("crawl", "status"))
    check("crawls", cluster.shown("crawl", "list"))
    check("watched", watch_document(seen))
    assert set(BOTH) <= set(seen.holders) <= {*BOTH, ""}
    assert first.epoch == seen.epoch > 0
    for node in seen.crawl.nodes:
        figures = node.figures
        assert figures.memory_bytes > 20_000_000
        assert figures.disk_total_bytes > figures.disk_free_bytes > 0
        assert figures.pid == cluster.nodes[node.node_id].pid
        held = figures.holds.removesuffix(",...")
        numbers = [n for part in held.split(",") for n in part.split("-")]
        assert all(0 <= int(n) < seen.crawl.partitions for n in numbers)

    cluster.kill("node-1")
    server.go_on()
    cluster.finish("node-2")
    last = Watch(cluster.store, "frontier", "site-1").look()
    check("crawl", cluster.shown("crawl", "status"))
    check("watched", watch_document(last))
    log = {(event.node_id, event.what) for event in last.membership}
    assert log >= {("node-1", "joined"), ("node-1", "died"), ("node-2", "left")}
    assert last.time_left.seconds == 0
    said = " ".join(cluster.ask("crawl", "status").stdout.split())
    assert "Lost nodes node-1: the sums lack what was done after" in said
    assert seen.crawl.totals.lately.pages > 0
