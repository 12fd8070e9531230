"""The store of a crawl is lost: it is rebuilt from the journals and goes on."""

import json
import signal
from collections import Counter

from conftest import HELD, after, until

from frontier.node.journal.entries import Acked, Pushed, digest_of, read


def rebuild(cluster, *journals, **options):
    words = ["crawl", "rebuild", "--json", "--crawl", "site-1"]
    words += [f"--journal={directory}" for directory in journals]
    words += [f"--{name}={value}" for name, value in options.items()]
    done = cluster.do(*words)
    return json.loads(done.stdout)


def test_a_crawl_whose_store_is_lost_goes_on(serve, cluster, tmp_path):
    """Also with what a node had done that was killed before."""
    nodes = ("node-1", "node-2")
    server = serve(
        urls=220,
        hosts=4,
        nodes=nodes,
        calendar_months=12,
        delay=HELD,
        until=each_has(20, nodes),
    )
    seeds = ",".join(server.seeds)
    journals = [tmp_path / "j1", tmp_path / "j2"]
    for node, journal in zip(nodes, journals, strict=True):
        cluster.start(node, "-a", f"seeds={seeds}", FRONTIER_JOURNAL_DIR=journal)
    cluster.join()
    # Slow, so that the first node has pages left when the other has its hosts.
    server.delay = 0.5
    until(lambda: server.until(server.answered, None), "a beginning by both")
    server.delay = 0.02
    until(lambda: acked(journals[0], least=1), "acks in a journal")
    cluster.kill("node-1")
    cluster.do("node", "remove", "node-1", "--force")
    server.until = after(120)
    until(lambda: len(server.answered) >= 120, "the middle of the crawl")
    # The last acks are not in the journal yet: their pages are fetched again.
    until(lambda: acked(*journals, least=40), "acks in the journals")
    known = done_by(*journals)
    cluster.lose_store()
    server.go_on()

    assert len(known) >= 20
    assert cluster.wait("node-2") == [1]
    said = cluster.text_of("node-2")
    assert "the store has lost the crawl site-1, in whole or in part" in said
    assert "frontier crawl rebuild" in said
    assert "Closing spider (frontier_failed)" in said
    assert "Traceback" not in said
    assert not any(cluster.store.scan("{frontier:*"))
    gone = cluster.ask("crawl", "status", "--crawl", "site-1")
    assert gone.returncode != 0
    assert "site-1" in gone.stderr
    outcome = rebuild(cluster, *journals)
    assert outcome["bad"] == [] or all(b["reason"] for b in outcome["bad"])
    assert outcome["nodes"] == 2
    assert outcome["ready"] > 0
    assert outcome["done"] >= len(known)

    cluster.start("node-3", "-a", f"seeds={seeds}")
    cluster.finish("node-3")
    log = server.requests()
    assert log.fetched().keys() == server.expected
    assert "is in crawl site-1" in cluster.text_of("node-3")
    # Also what the site has logged only after the nodes' end.
    before = {entry.url for entry in log.entries if entry.node != "node-3"}
    assert set(log.repeated()) < before
    words = ("explain", server.seeds[0], "--warcs", str(cluster.warc_dir))
    assert "another crawl" not in cluster.ask(*words, "--crawl", "site-1").stdout


NAMED = {"FRONTIER_CRAWL_ID": "named"}


def start(cluster, node, server, journal):
    """Start *node* of the crawl ``named`` of *server*'s site."""
    seeds = ",".join(server.seeds)
    cluster.start(node, "-a", f"seeds={seeds}", FRONTIER_JOURNAL_DIR=journal, **NAMED)


def killed_half_way(serve, cluster, journal):
    """A crawl called ``named``, whose only node is killed at its middle; its site."""
    server = serve(urls=60, hosts=2, calendar_months=2, delay=0.02, until=after(40))
    start(cluster, "node-1", server, journal)
    until(lambda: len(server.answered) >= 40, "the middle of the crawl")
    until(lambda: acked(journal, least=10), "acks in the journals")
    cluster.kill("node-1")
    server.go_on()
    return server


def test_a_crawl_that_was_deleted_leaves_the_next_of_its_name_alone(
    serve, cluster, tmp_path
):
    journal = tmp_path / "j"
    server = killed_half_way(serve, cluster, journal)
    for words in (
        ["node", "remove", "node-1", "--force", "--crawl", "named"],
        ["crawl", "end", "--discard", "--crawl", "named", "--yes"],
        ["crawl", "delete", "--crawl", "named", "--yes"],
    ):
        done = cluster.do(*words)
    assert "journal" in done.stdout
    before = len(server.requests().entries)

    start(cluster, "node-2", server, journal)
    cluster.finish("node-2")
    entries = server.requests().entries[before:]
    assert {entry.url for entry in entries if entry.node == "node-2"} >= server.expected


def test_node_refuses_a_crawl_whose_store_is_lost_until_rebuilt(
    serve, cluster, tmp_path
):
    journal = tmp_path / "j"
    server = killed_half_way(serve, cluster, journal)
    cluster.lose_store()
    before = len(server.requests().entries)

    start(cluster, "node-2", server, journal)
    assert cluster.wait("node-2") == [1]
    assert "frontier crawl rebuild --crawl named --journal" in cluster.text_of("node-2")
    assert len(server.requests().entries) == before

    cluster.do("crawl", "rebuild", "--crawl", "named", f"--journal={journal}")
    start(cluster, "node-3", server, journal)
    cluster.finish("node-3")
    assert server.requests().missing(server.expected) == set()


def each_has(count, nodes):
    """For `Held.until`: each of *nodes* was answered so often.

    A count of both together may be reached before the later one has its hosts.
    """

    def is_reached(answered, _):
        counts = Counter(node for node, _ in answered)
        return all(counts[node] >= count for node in nodes)

    return is_reached


def entries_of(*journals):
    """What *journals* have, as far as they can be read now."""
    return [e for journal in journals for path in journal.glob("*") for e in read(path)]


def acked(*journals, least):
    """The acks that *journals* have, once there are so many."""
    found = {entry for entry in entries_of(*journals) if isinstance(entry, Acked)}
    return found if len(found) >= least else None


def done_by(*journals):
    """The digests of URLs whose push and whose ack *journals* have.

    A node that is killed may have noted an ack, and not yet the push of its URL: then
    the URL is rebuilt from its parent, and is fetched again.
    """
    entries = entries_of(*journals)
    pushed = {
        digest_of(entry.queue, entry.item)
        for entry in entries
        if isinstance(entry, Pushed) and entry.queue
    }
    return pushed & {entry.digest for entry in entries if isinstance(entry, Acked)}


def lose_everything(cluster):
    """Kill the nodes and the store, and delete its data."""
    for node in list(cluster.nodes):
        cluster.nodes[node].send_signal(signal.SIGSTOP)
    cluster.lose_store()
    for node in list(cluster.nodes):
        cluster.kill(node)


def test_each_job_finds_its_own_crawl_again(serve, cluster, tmp_path):
    server = serve(urls=120, hosts=2, calendar_months=0, delay=HELD, until=after(30))
    journals = {node: tmp_path / node for node in ("node-1", "node-2")}

    def start(node, seed, journal):
        words = ["-a", f"seeds={seed}"]
        return cluster.start(node, *words, FRONTIER_JOURNAL_DIR=journal)

    for (node, journal), seed in zip(journals.items(), server.seeds, strict=True):
        start(node, seed, journal)
        cluster.join(node)
    server.delay = 0
    until(lambda: server.holds == set(journals), "the middle of both crawls")
    for node, journal in journals.items():
        until(lambda journal=journal: acked(journal, least=1), f"acks of {node}")
    lose_everything(cluster)
    server.go_on()
    for number, journal in enumerate(journals.values(), 1):
        words = ["crawl", "rebuild", "--crawl", f"site-{number}"]
        cluster.do(*words, "--journal", str(journal))

    start("node-4", server.seeds[1], journals["node-2"])
    cluster.finish("node-4")
    start("node-3", server.seeds[0], journals["node-1"])
    cluster.finish("node-3")
    assert "is in crawl site-2 " in cluster.text_of("node-4")
    assert "is in crawl site-1 " in cluster.text_of("node-3")
    missing = server.requests().missing(server.expected)
    assert {
        url for url in missing if not url.endswith("/landing")
    } == set()  # elsewhere
