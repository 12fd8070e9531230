"""A store that was emptied under a crawl: nodes end badly, and a rebuild mends it."""

import pytest
from conftest import HELD, after, until

from frontier.store.client import Call

SETTINGS = {"FRONTIER_LEASE_TTL": "4", "CONCURRENT_REQUESTS": "4"}


def says_lost(text):
    return (
        "the store has lost the crawl site-1, in whole or in part" in text
        and "frontier crawl rebuild" in text
        and "Closing spider (frontier_failed)" in text
        and "Traceback" not in text
    )


@pytest.mark.one_server("the embedded one is emptied")
def test_an_emptied_store_ends_the_nodes_with_1(serve, cluster, tmp_path):
    site = serve(urls=300, hosts=4, calendar_months=6, delay=HELD, until=after(60))
    seeds = ",".join(site.seeds)
    journals = tmp_path / "journals"
    given = {**SETTINGS, "FRONTIER_JOURNAL_DIR": journals}
    for node in ("node-1", "node-2"):
        cluster.start(node, "-a", f"seeds={seeds}", **given)
    cluster.join()
    site.delay = 0.05
    until(lambda: len(site.answered) >= 60, "some pages")
    cluster.store.call(Call.command("FLUSHALL"))
    site.go_on()

    assert cluster.wait() == [1, 1]
    for node in ("node-1", "node-2"):
        assert says_lost(cluster.text_of(node))
    assert cluster.store.call(Call.command("KEYS", "{frontier:*")) == []
    gone = cluster.ask("crawl", "status", "--crawl", "site-1")
    assert gone.returncode != 0
    assert "site-1" in gone.stderr

    words = ("crawl", "rebuild", "--crawl", "site-1", "--journal", str(journals))
    done = cluster.ask(*words)
    assert done.returncode == 0, done.stderr
    site.delay = 0
    cluster.start("node-3", "-a", f"seeds={seeds}", **given)
    assert cluster.wait("node-3") == [0]
    assert site.requests().missing(site.expected) == set()
    words = ("explain", site.seeds[0], "--warcs", str(cluster.warc_dir))
    assert "another crawl" not in cluster.ask(*words, "--crawl", "site-1").stdout
