"""Limits of a whole crawl, on several nodes, of which one is killed."""

from collections import Counter
from urllib.parse import urlsplit

from conftest import HELD, after, until

from frontier.status.snapshot import snapshot
from frontier.store.keys import CrawlKeys

KEYS = CrawlKeys("frontier", "site-1")
NO_ROBOTS = {"ROBOTSTXT_OBEY": "False"}


def look(cluster):
    return snapshot(cluster.store, "frontier", "site-1")


def spent(cluster, name="pages"):
    return int(cluster.db("HGET", KEYS.spent, name) or 0)


def pages(server):
    """What the site has sent that Scrapy calls a page: no redirects."""
    return sum(e.status not in {301, 302} for e in server.requests().entries)


def start(cluster, server, *nodes, **settings):
    for node in nodes:
        seeds = ",".join(server.seeds)
        cluster.start(node, "-a", f"seeds={seeds}", **{**NO_ROBOTS, **settings})


def test_two_nodes_get_as_many_pages_as_the_crawl_may_have(serve, cluster):
    server = serve(urls=150, hosts=5, calendar_months=12, delay=HELD)
    start(cluster, server, "node-1", "node-2", CLOSESPIDER_PAGECOUNT="40")
    cluster.join()
    server.delay = 0.02

    cluster.finish()
    assert pages(server) == 40
    seen = look(cluster)
    assert (seen.state, seen.limit, seen.limit_value) == ("limit", "pages", 40)
    assert seen.queue.reserved == 0
    for node in cluster.nodes:
        assert "Spider closed (closespider_pagecount)" in cluster.text_of(node)
        assert "at its limit: 40 pages (CLOSESPIDER_PAGECOUNT)" in cluster.text_of(node)
    report = cluster.ask("crawl", "status").stdout
    assert "site-1, spider site: limit in" in report
    assert "ended at its limit: 40 pages (CLOSESPIDER_PAGECOUNT)" in report
    # It is closed: to start again is to begin the next.
    start(cluster, server, "node-3", CLOSESPIDER_PAGECOUNT="10")
    cluster.finish("node-3")
    assert pages(server) == 50
    assert "is in crawl site-2" in cluster.text_of("node-3")


def test_hosts_have_their_quotas_over_nodes_kills_and_hand_overs(serve, cluster):
    server = serve(urls=220, hosts=3, calendar_months=12, delay=HELD, until=after(20))
    quota = {"FRONTIER_HOST_MAX_PAGES": "30", "CONCURRENT_REQUESTS_PER_DOMAIN": "2"}
    start(cluster, server, "node-1", "node-2", **quota)
    cluster.join()
    server.delay = 0.05
    until(lambda: len(server.answered) >= 20, "pages")
    cluster.kill("node-1")
    in_flight = len(cluster.reserved("site-1"))
    start(cluster, server, "node-3", **quota)
    cluster.join("node-3")
    cluster.do("node", "remove", "node-1", "--force")
    server.go_on()

    cluster.finish("node-2", "node-3")
    log = server.requests()
    by_host = Counter(
        urlsplit(e.url).netloc for e in log.entries if e.status not in {301, 302}
    )
    assert set(by_host.values()) <= set(range(30, 30 + in_flight + 1))
    assert sum(by_host.values()) <= 90 + in_flight
    seen = look(cluster)
    assert seen.state == "finished"
    assert seen.queue.skipped == seen.queue.pushed - seen.queue.acked > 0
    assert f"{seen.queue.skipped:,} not fetched: their host had its quota" in (
        cluster.ask("crawl", "status").stdout
    )
    logs = cluster.text_of("node-2") + cluster.text_of("node-3")
    assert "hosts were not sent: over FRONTIER_HOST_MAX_PAGES" in logs
