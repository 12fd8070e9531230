"""What becomes of a crawl's payloads when it ends."""

import json

from conftest import SHORT, after, until
from fastwarc import ArchiveIterator

from frontier.collection.check import Check
from frontier.collection.commit import Canceled, Collection, cancel
from frontier.collection.summary import look, pairs, runs
from frontier.store.client import Call
from frontier.store.keys import CrawlKeys, collection_keys


def test_one_crawl_is_canceled_while_it_runs_and_the_next_is_committed(serve, cluster):
    server = serve(urls=70, hosts=2, delay=0.05, until=after(30))
    seeds = f"seeds={','.join(server.seeds)}"
    cluster.start("a1", "-a", seeds)
    until(lambda: cluster.has_store, "a store")
    store = cluster.store
    keys = collection_keys(store, "")
    until(lambda: store.call(Call.command("HLEN", keys.crawl("site-1"))), "a payload")

    assert runs(store, "frontier", "site-1")
    assert cancel(store, keys, "site-1", running=True) is Canceled.WHEN_IT_ENDS
    assert [crawl.state for crawl in look(store, keys).crawls] == ["canceled"]
    server.go_on()

    assert cluster.wait("a1") == [0]
    seen = look(store, keys)
    assert (seen.crawls, seen.digests) == ((), 0)
    assert store.call(Call.command("EXISTS", keys.crawl("site-1"))) == 0
    assert "canceled: no payload" in cluster.text_of("a1")

    cluster.start("b1", "-a", seeds)
    assert cluster.wait("b1") == [0]
    seen = look(store, keys)
    (crawl,) = seen.crawls
    assert (crawl.crawl_id, crawl.state) == ("site-2", "committed")
    assert crawl.digests == seen.digests > 10
    assert crawl.urls == seen.counts["totalUrls"] > crawl.digests
    assert crawl.revisits == seen.counts.get("dupeUrls", 0)
    assert Check(store, keys).run().sound


def test_a_crawl_commits_in_rounds_and_its_committer_is_killed(serve, cluster):
    server = serve(urls=90, hosts=3, delay=0.02, until=after(30))
    seeds = f"seeds={','.join(server.seeds)}"
    names = ("a1", "a2")
    for name in names:
        cluster.start(name, "-a", seeds, FRONTIER_COMMIT_EVERY=1, **SHORT)
    until(lambda: cluster.has_store, "a store")
    store = cluster.store
    keys = collection_keys(store, "")

    def seen():
        crawls = {crawl.crawl_id: crawl for crawl in look(store, keys).crawls}
        return crawls.get("site-1")

    def all_committed():
        crawl = seen()
        return crawl and crawl.rounds and not crawl.uncommitted and crawl

    before = until(all_committed, "a round")
    _, found = store.call(Call.command("HSCAN", keys.alldupes(), 0, "COUNT", 1000))
    digest = pairs(found)[0][0].decode()
    other = Collection(store, "", "other", revisits=True)
    assert other.lookup([digest])[digest].crawl_id == "site-1"
    told = "round 1: committed"
    committer = next(name for name in names if told in cluster.text_of(name))
    cluster.kill(committer)
    # As long as it is on the map, it is the one that would leave last, and commit.
    there = Call.command("HEXISTS", CrawlKeys("frontier", "site-1").nodes(), committer)
    until(lambda: not store.call(there), "its removal")
    server.go_on()
    (survivor,) = set(names) - {committer}

    assert cluster.wait(survivor) == [0]
    crawl = seen()
    assert (crawl.state, crawl.uncommitted) == ("committed", 0)
    assert crawl.rounds > before.rounds
    assert crawl.digests > before.digests
    assert Check(store, keys).run().sound
    assert list(store.scan("*~*")) == []


def records(files):
    """The headers of the records in *files*, with small letters."""
    for path in files:
        with path.open("rb") as stream:
            for record in ArchiveIterator(stream, parse_http=False):
                yield {name.lower(): value for name, value in record.headers.items()}


def test_a_crawl_that_was_deleted_is_still_referred_to_by_record_ids(serve, cluster):
    server = serve(urls=70, hosts=2)
    for node in ("a", "b"):
        cluster.start(node, "-a", f"seeds={','.join(server.seeds)}")
        assert cluster.wait(node) == [0]
    done = cluster.ask("crawl", "delete", "--crawl", "site-1", "--yes")
    assert done.returncode == 0, done.stderr
    cluster.start("c", "-a", f"seeds={','.join(server.seeds)}")
    assert cluster.wait("c") == [0]

    first = {r["warc-record-id"] for r in records(cluster.warc_dir.glob("site-1-*.gz"))}
    third = list(records(cluster.warc_dir.glob("site-3-*.gz")))
    revisits = [r for r in third if r["warc-type"] == "revisit"]
    assert len(revisits) > 20
    assert {r.get("warc-refers-to") for r in revisits} <= first


def test_crawls_of_another_namespace_are_not_listed(serve, cluster):
    server = serve(urls=40, hosts=1)
    seeds = ("-a", f"seeds={server.seeds[0]}")
    cluster.start("a", *seeds, FRONTIER_NAMESPACE="other", FRONTIER_CRAWL_ID="theirs")
    cluster.start("b", *seeds, FRONTIER_CRAWL_ID="ours")
    assert cluster.wait() == [0, 0]

    listed = cluster.ask("crawl", "list", "--json")
    found = json.loads(listed.stdout)["crawls"]
    assert [crawl["crawl_id"] for crawl in found] == ["ours"]
    assert cluster.store.call(Call.command("SCARD", "frontier:crawls")) == 1
