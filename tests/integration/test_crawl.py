"""Two nodes and a third: one crawl, one archive."""

from conftest import HELD, after, until

from frontier.testing.oracle import RequestLog


def test_two_nodes_and_a_late_third_fetch_every_url_once(serve, cluster):
    server = serve(urls=180, hosts=5, calendar_months=12, delay=HELD, until=after(50))
    seeds = ",".join(server.seeds)
    cluster.start("node-1", "-a", f"seeds={seeds}")
    cluster.start("node-2", "-a", f"seeds={seeds}")
    cluster.join()
    server.delay = 0.03
    until(lambda: len(server.answered) >= 50, "a part of the crawl")
    cluster.start("node-3", "-a", f"seeds={seeds}")
    cluster.join("node-3")
    server.go_on()

    assert cluster.wait() == [0, 0, 0]
    log = server.requests()
    assert log.missing(server.expected) == set()
    assert log.unexpected(server.expected) == set()
    assert not log.repeated()
    # A redirect's target carries the header of the node that was sent away, also
    # where its host has changed hands.
    targets = ("/landing", "/loop/a", "/loop/b")
    own = [entry for entry in log.entries if not entry.url.endswith(targets)]
    assert not RequestLog(own).overlaps()
    for node in cluster.nodes:
        assert "Spider closed (finished)" in cluster.text_of(node)
