"""Live control of a crawl on two real nodes: pause, exclude, set."""

import json
from itertools import pairwise
from urllib.parse import urlsplit

from conftest import HELD, after, until

from frontier.status.snapshot import snapshot
from frontier.store.keys import CrawlKeys

KEYS = CrawlKeys("frontier", "site-1")
BOTH = ("node-1", "node-2")
LATER = ("node-3", "node-4")


def beats(cluster):
    """When each node on the map was last heard of, on the server's clock."""
    found = cluster.db("HGETALL", KEYS.nodes)
    return {name.decode(): int(value.split()[0]) for name, value in found.items()}


def more_beats(cluster, *nodes, count=2):
    """Return when each of *nodes* has said *count* times more that it lives."""
    for _ in range(count):
        before = beats(cluster)
        until(
            lambda was=before: all(beats(cluster)[n] > was[n] for n in nodes), "a beat"
        )


def start(cluster, server, *nodes, **settings):
    for node in nodes:
        cluster.start(node, "-a", f"seeds={','.join(server.seeds)}", **settings)


def log_lines(cluster):
    """What the crawl logs of all nodes have."""
    files = cluster.warc_dir.glob("*.crawl.log*")
    return [line for file in sorted(files) for line in file.read_text().splitlines()]


def of_host(server, host):
    """When requests of *host* came."""
    entries = server.requests().entries
    return sorted(e.start for e in entries if urlsplit(e.url).hostname == host)


def test_exclusion_delay_and_pause_hold_for_nodes_that_join_later(serve, cluster):
    """Also when those that were told were killed and stopped meanwhile."""
    server = serve(
        urls=300, hosts=8, nodes=BOTH, calendar_months=3, delay=HELD, until=after(60)
    )
    even = {"RANDOMIZE_DOWNLOAD_DELAY": "False", "CONCURRENT_REQUESTS_PER_DOMAIN": "1"}
    start(cluster, server, *BOTH, **even)
    cluster.share("site-1")
    server.delay = 0.02
    until(lambda: len(server.answered) >= 60, "pages")
    slow, quick, *_, host = (urlsplit(url).hostname for url in server.seeds)

    plan = cluster.ask("crawl", "exclude", host)
    assert plan.returncode == 2
    assert host in plan.stdout
    assert "site-1" in plan.stdout
    assert "add --yes" in plan.stderr
    assert "nothing is excluded" in cluster.ask("crawl", "exclude").stdout
    delay = ("crawl", "set", "DOWNLOAD_DELAY=0.5", "--host", slow)
    excluded, *told = (
        cluster.shown(*words)
        for words in (
            ("crawl", "exclude", host, "--yes"),
            delay,
            ("crawl", "pause"),
        )
    )
    assert excluded["skipped"] > 0
    assert [one["nodes"] for one in (excluded, *told)] == 3 * [list(BOTH)]
    server.go_on()
    more_beats(cluster, *BOTH)  # what was in flight has ended
    asked = len(server.requests().entries)
    of_excluded, of_slow = len(of_host(server, host)), len(of_host(server, slow))
    assert asked < len(server.expected)

    cluster.kill("node-1")
    cluster.do("node", "remove", "node-1", "--force")
    # A node that is told to stop does so, though it waits, and gives back what it has.
    cluster.nodes["node-2"].terminate()
    cluster.finish("node-2")
    cluster.do("crawl", "resume")
    assert "no node runs now" in cluster.ask("crawl", "pause").stdout
    start(cluster, server, *LATER, **even)
    cluster.join(*LATER)
    for node in LATER:
        until(
            lambda n=node: "the crawl is paused since" in cluster.text_of(n), "a word"
        )
    more_beats(cluster, *LATER)
    assert len(server.requests().entries) == asked
    status = cluster.ask("crawl", "status").stdout
    for text in (
        "PAUSED for",
        ": frontier crawl resume --crawl site-1",
        f"Excluded: host {host}",
        "Changed: DOWNLOAD_DELAY = 0.5",
    ):
        assert text in status
    assert " paused " in cluster.ask("crawl", "list").stdout
    again = cluster.ask("crawl", "pause")
    assert again.returncode == 0
    assert "site-1 is paused since" in again.stdout

    cluster.do("crawl", "resume")
    until(lambda: len(of_host(server, slow)) >= of_slow + 6, "pages of the slow host")
    times = of_host(server, slow)[of_slow:]
    count = len(times) - 2  # gaps; of all, as the first or last may have come late
    assert times[-1] - times[1] >= 0.5 * count - 0.5 - server.late
    times = of_host(server, quick)
    assert min(later - sooner for sooner, later in pairwise(times)) < 0.3 + server.late
    listed = cluster.ask("crawl", "set", "--list")
    (row,) = [line for line in listed.stdout.splitlines() if slow in line]
    assert row.split()[:3] == ["DOWNLOAD_DELAY", slow, "0.5"]
    again = cluster.do("crawl", "set", "--unset", "DOWNLOAD_DELAY", "--host", slow)
    assert "each node's own again on 2 of 2 nodes" in again.stdout

    cluster.finish(*LATER)
    log = server.requests()
    assert len(of_host(server, host)) == of_excluded
    others = {url for url in server.expected if urlsplit(url).hostname != host}
    # A redirect of the excluded host is all that leads to this page.
    assert log.missing(others) <= {f"{server.seeds[0]}landing"}
    assert log.repeated() == {}
    seen = snapshot(cluster.store, "frontier", "site-1")
    assert seen.state == "finished"
    assert seen.queue.skipped == excluded["skipped"]
    assert seen.queue.pushed == seen.queue.acked + seen.queue.skipped
    assert seen.totals.excluded + seen.totals.refused > 0
    assert seen.totals.errors == 0
    entries = cluster.shown("crawl", "status", "--log")["entries"]
    assert all("@" in entry["who"] for entry in entries)
    verbs = ["excluded", "skipped", "set", *2 * ["paused", "resumed"], "unset"]
    assert [entry["verb"] for entry in entries] == verbs
    assert entries[2]["what"] == f"DOWNLOAD_DELAY=0.5 for {slow}"
    assert entries[-1]["what"] == f"DOWNLOAD_DELAY for {slow}"
    logged = [line.split()[3] for line in log_lines(cluster) if " frontier:" in line]
    # Those that came later have all of it, the first two what was before their ends.
    assert logged.count("frontier:paused") == 6
    assert logged.count("frontier:resumed") == 4
    assert "what:DOWNLOAD_DELAY=0.5" in "".join(log_lines(cluster))


def test_a_limit_that_is_set_ends_a_crawl_that_had_none(serve, cluster):
    server = serve(urls=400, hosts=4, nodes=BOTH, calendar_months=2, delay=HELD)
    start(cluster, server, *BOTH, ROBOTSTXT_OBEY="False")
    cluster.share("site-1")
    cluster.do("crawl", "pause")
    cluster.do("crawl", "set", "CLOSESPIDER_PAGECOUNT=50", "DEPTH_LIMIT=9")
    cluster.do("crawl", "resume")
    server.delay = 0.02

    cluster.finish()
    seen = snapshot(cluster.store, "frontier", "site-1")
    assert (seen.state, seen.limit, seen.limit_value) == ("limit", "pages", 50)
    late = cluster.ask("crawl", "set", "CLOSESPIDER_PAGECOUNT=90")
    assert late.returncode == 4
    assert "has ended" in late.stderr


def test_invalid_control_is_refused_and_lifted_exclusion_is_fetched(serve, cluster):
    """By a scope that is widened, and by an exclusion that is taken back."""
    server = serve(urls=120, hosts=3, calendar_months=2, delay=HELD)
    seed = server.seeds[0]
    cluster.start("node-1", "-a", f"seeds={seed}", ROBOTSTXT_OBEY="False")
    cluster.join()
    for words, said in (
        (["set", "FRONTIER_LEASE_TTL=9"], "is read when a node starts"),
        (["set"], "--list"),
        (["exclude", "--pattern", r"(a)\1"], "of RE2"),
    ):
        refused = cluster.ask("crawl", *words)
        assert refused.returncode == 2, words
        assert said in refused.stderr, words
    words = ["crawl", "exclude", "--pattern", "/article/", "--json"]
    cluster.do(*words, "--yes")
    for is_there in (True, False):
        gone = cluster.ask(*words, "--remove")
        assert gone.returncode == 0
        assert json.loads(gone.stdout)["changed"] is is_there
    cluster.do("crawl", "set", "scope=all")
    server.delay = 0

    cluster.finish()
    assert server.requests().missing(server.expected) == set()
