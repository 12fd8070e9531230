"""Live control of a crawl on two real nodes: pause, exclude, set."""

import json
from itertools import pairwise
from urllib.parse import urlsplit

from conftest import HELD, after, until

from frontier.status.snapshot import snapshot
from frontier.store.client import Call
from frontier.store.keys import CrawlKeys

KEYS = CrawlKeys("frontier", "site-1")
BOTH = ("node-1", "node-2")
LATER = ("node-3", "node-4")


def beats(cluster):
    """When each node on the map was last heard of, on the server's clock."""
    found = cluster.store.call(Call.command("HGETALL", KEYS.nodes()))
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


def test_a_paused_crawl_sends_nothing_survives_a_kill_and_goes_on(serve, cluster):
    server = serve(
        urls=300, hosts=8, nodes=BOTH, calendar_months=3, delay=HELD, until=after(40)
    )
    start(cluster, server, *BOTH)
    cluster.share("site-1")
    server.delay = 0.02
    until(lambda: len(server.answered) >= 40, "pages")

    done = cluster.ask("crawl", "pause", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["nodes"] == list(BOTH)
    server.go_on()
    more_beats(cluster, *BOTH)  # what was in flight has ended
    asked = len(server.requests().entries)
    assert asked < len(server.expected)

    cluster.kill("node-1")
    assert cluster.ask("node", "remove", "node-1", "--force").returncode == 0
    # A node that is told to stop does so, though it waits, and gives back what it has.
    cluster.nodes["node-2"].terminate()
    assert cluster.wait("node-2") == [0]
    assert cluster.ask("crawl", "resume").returncode == 0
    assert "no node runs now" in cluster.ask("crawl", "pause").stdout
    start(cluster, server, *LATER)
    cluster.join(*LATER)
    for node in LATER:
        until(
            lambda n=node: "the crawl is paused since" in cluster.text_of(n), "a word"
        )
    more_beats(cluster, *LATER)
    assert len(server.requests().entries) == asked
    status = cluster.ask("crawl", "status").stdout
    assert "PAUSED for" in status
    assert ": frontier crawl resume --crawl site-1" in status
    assert " paused " in cluster.ask("crawl", "list").stdout
    again = cluster.ask("crawl", "pause")
    assert again.returncode == 0
    assert "site-1 is paused since" in again.stdout

    assert cluster.ask("crawl", "resume").returncode == 0
    assert cluster.wait(*LATER) == [0, 0]
    log = server.requests()
    assert log.missing(server.expected) == set()
    assert log.repeated() == {}
    assert snapshot(cluster.store, "frontier", "site-1").state == "finished"
    told = json.loads(cluster.ask("crawl", "status", "--log", "--json").stdout)[
        "entries"
    ]
    assert [entry["verb"] for entry in told] == 2 * ["paused", "resumed"]
    assert all("@" in entry["who"] for entry in told)
    verbs = [line.split()[3] for line in log_lines(cluster) if " frontier:" in line]
    # Those that came later have all of it, the first two what was before their ends.
    done = 6 * ["frontier:paused"] + 4 * ["frontier:resumed"]
    assert sorted(verb for verb in verbs if verb != "frontier:born") == done


def test_a_host_that_is_excluded_in_mid_crawl_is_not_asked_again(serve, cluster):
    server = serve(
        urls=500, hosts=6, nodes=BOTH, calendar_months=3, delay=HELD, until=after(60)
    )
    slow = {"CONCURRENT_REQUESTS_PER_DOMAIN": "1"}
    start(cluster, server, *BOTH, **slow)
    cluster.share("site-1")
    server.delay = 0.02
    until(lambda: len(server.answered) >= 60, "pages")
    host = urlsplit(server.seeds[-1]).hostname

    plan = cluster.ask("crawl", "exclude", host)
    assert plan.returncode == 2
    assert host in plan.stdout
    assert "site-1" in plan.stdout
    assert "add --yes" in plan.stderr
    assert "nothing is excluded" in cluster.ask("crawl", "exclude").stdout

    done = cluster.ask("crawl", "exclude", host, "--yes", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["nodes"] == list(BOTH)
    assert told["skipped"] > 0
    server.go_on()
    more_beats(cluster, *BOTH)  # what was in flight has ended
    before = of_host(server, host)
    start(cluster, server, "node-3", **slow)  # it comes later, with the same seeds
    cluster.join("node-3")
    server.delay = 0

    assert cluster.wait() == [0, 0, 0]
    assert of_host(server, host) == before
    log = server.requests()
    others = {url for url in server.expected if urlsplit(url).hostname != host}
    # A redirect of the excluded host is all that leads to this page.
    assert log.missing(others) <= {f"{server.seeds[0]}landing"}
    assert {url for url, _ in log.repeated().items()} == set()
    seen = snapshot(cluster.store, "frontier", "site-1")
    assert seen.state == "finished"
    assert seen.queue.skipped == told["skipped"]
    assert seen.queue.pushed == seen.queue.acked + seen.queue.skipped
    assert seen.totals.excluded + seen.totals.refused > 0
    assert seen.totals.errors == 0
    status = cluster.ask("crawl", "status").stdout
    assert f"Excluded: host {host}" in status
    log = json.loads(cluster.ask("crawl", "status", "--log", "--json").stdout)[
        "entries"
    ]
    assert [entry["verb"] for entry in log] == ["excluded", "skipped"]


def of_host(server, host):
    """How often the site was asked for something of *host*."""
    return sum(urlsplit(e.url).hostname == host for e in server.requests().entries)


def arrivals(server, host, since):
    """When the requests of *host* came, after so many had."""
    entries = [e for e in server.requests().entries if urlsplit(e.url).hostname == host]
    return sorted(entry.start for entry in entries)[since:]


def test_a_delay_that_is_set_is_kept_from_then_on_and_taken_back(serve, cluster):
    server = serve(urls=220, hosts=4, nodes=BOTH, calendar_months=2, delay=HELD)
    even = {"RANDOMIZE_DOWNLOAD_DELAY": "False", "CONCURRENT_REQUESTS_PER_DOMAIN": "1"}
    start(cluster, server, *BOTH, **even)
    cluster.share("site-1")
    server.delay = 0.05
    until(lambda: len(server.answered) >= 30, "pages")
    slow, quick = (urlsplit(url).hostname for url in server.seeds[:2])

    words = ["crawl", "set", "DOWNLOAD_DELAY=0.5", "--json"]
    done = cluster.ask(*words, "--host", slow)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["nodes"] == list(BOTH)
    since = of_host(server, slow)
    until(lambda: of_host(server, slow) >= since + 6, "some pages of the slow host")
    times = arrivals(server, slow, since)
    count = len(times) - 2  # gaps; of all, as the first or last may have come late
    assert count >= 3
    assert times[-1] - times[1] >= 0.5 * count - 0.5 - server.late
    times = arrivals(server, quick, 0)
    assert min(later - sooner for sooner, later in pairwise(times)) < 0.3

    listed = cluster.ask("crawl", "set", "--list")
    assert listed.returncode == 0, listed.stderr
    (row,) = [line for line in listed.stdout.splitlines() if slow in line]
    assert row.split()[:3] == ["DOWNLOAD_DELAY", slow, "0.5"]
    assert "Changed: DOWNLOAD_DELAY = 0.5" in cluster.ask("crawl", "status").stdout
    again = cluster.ask("crawl", "set", "--unset", "DOWNLOAD_DELAY", "--host", slow)
    assert again.returncode == 0, again.stderr
    assert "each node's own again on 2 of 2 nodes" in again.stdout
    server.delay = 0
    assert cluster.wait() == [0, 0]
    assert server.requests().missing(server.expected) == set()
    log = json.loads(cluster.ask("crawl", "status", "--log", "--json").stdout)[
        "entries"
    ]
    assert [(e["verb"], e["what"]) for e in log] == [
        ("set", f"DOWNLOAD_DELAY=0.5 for {slow}"),
        ("unset", f"DOWNLOAD_DELAY for {slow}"),
    ]


def test_a_limit_that_is_set_ends_a_crawl_that_had_none(serve, cluster):
    server = serve(urls=400, hosts=4, nodes=BOTH, calendar_months=2, delay=HELD)
    start(cluster, server, *BOTH, ROBOTSTXT_OBEY="False")
    cluster.share("site-1")
    assert cluster.ask("crawl", "pause").returncode == 0
    done = cluster.ask("crawl", "set", "CLOSESPIDER_PAGECOUNT=50", "DEPTH_LIMIT=9")
    assert done.returncode == 0, done.stderr
    assert cluster.ask("crawl", "resume").returncode == 0
    server.delay = 0.02

    assert cluster.wait() == [0, 0]
    seen = snapshot(cluster.store, "frontier", "site-1")
    assert (seen.state, seen.limit, seen.limit_value) == ("limit", "pages", 50)
    late = cluster.ask("crawl", "set", "CLOSESPIDER_PAGECOUNT=90")
    assert late.returncode == 4
    assert "has ended" in late.stderr


def test_what_cannot_be_is_refused_and_what_is_allowed_again_is_fetched(serve, cluster):
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
    assert cluster.ask(*words, "--yes").returncode == 0
    for is_there in (True, False):
        gone = cluster.ask(*words, "--remove")
        assert gone.returncode == 0
        assert json.loads(gone.stdout)["changed"] is is_there
    assert cluster.ask("crawl", "set", "scope=all").returncode == 0
    server.delay = 0

    assert cluster.wait() == [0]
    assert server.requests().missing(server.expected) == set()
