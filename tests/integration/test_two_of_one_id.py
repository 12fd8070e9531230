"""Two processes with one FRONTIER_NODE_ID: the first goes, and both places say so."""

import re

from conftest import DEADLINE, after, until

from frontier.status.membership_log import log_call, read_log
from frontier.status.snapshot import snapshot
from frontier.store.keys import CrawlKeys


def test_the_first_stops_and_it_is_said_where_the_other_is(cluster, serve):
    server = serve(urls=150, hosts=4, calendar_months=3, until=after(20))
    seeds = f"seeds={','.join(server.seeds)}"
    first = cluster.start("same", "-a", seeds)
    cluster.join("same")
    second = cluster.start("same", "-a", seeds)
    until(lambda: "; it came later" in cluster.text_of("same"), "that it is said")
    server.go_on()
    cluster.wait("same")
    first.wait(DEADLINE)

    assert (first.returncode, second.returncode) == (1, 0)
    said = cluster.text_of("same")
    found = re.search(
        r"crawl site-1 as same too(, process (\d+) on \S+)?; it came", said
    )
    assert found, said[-2000:]
    assert found[2] == str(second.pid)
    assert "give each node a FRONTIER_NODE_ID of its own" in said
    keys = CrawlKeys("frontier", "site-1")
    seen = snapshot(cluster.store, "frontier", "site-1")
    assert seen.state == "finished"
    assert seen.twice == "same"
    assert seen.created_ms < seen.twice_ms < seen.finished_ms
    noted = [one.what for one in read_log(cluster.store.call(log_call(keys)))[0]]
    assert noted[-3:] == ["twice", "replaced", "joined"]
    assert noted[0] == "left"
    shown = cluster.ask("crawl", "status").stdout
    assert "two processes had the id same at" in shown
    log = server.requests()
    assert log.missing(server.expected) == set()
