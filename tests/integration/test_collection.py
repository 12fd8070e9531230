"""What becomes of a crawl's payloads when it ends."""

from conftest import after, until

from frontier.collection.check import Check
from frontier.collection.rounds import Committer
from frontier.collection.summary import look, runs
from frontier.store.client import Call
from frontier.store.keys import collection_keys


def test_canceled_crawl_leaves_no_digest_and_the_next_is_committed(serve, cluster):
    server = serve(urls=70, hosts=2, delay=0.05, until=after(30))
    seeds = f"seeds={','.join(server.seeds)}"
    cluster.start("a1", "-a", seeds)
    until(lambda: cluster.has_store, "a store")
    store = cluster.store
    keys = collection_keys(store, "")
    until(lambda: store.call(Call.command("HLEN", keys.crawl("site-1"))), "a payload")

    assert runs(store, "frontier", "site-1")
    assert not Committer(store, keys, "site-1").cancel(running=True)
    assert [crawl.state for crawl in look(store, keys).crawls] == ["canceled"]
    server.go_on()

    cluster.finish("a1")
    seen = look(store, keys)
    assert (seen.crawls, seen.digests) == ((), 0)
    assert store.call(Call.command("EXISTS", keys.crawl("site-1"))) == 0
    assert "canceled: its payload" in cluster.text_of("a1")

    cluster.start("b1", "-a", seeds)
    cluster.finish("b1")
    seen = look(store, keys)
    (crawl,) = seen.crawls
    assert (crawl.crawl_id, crawl.state) == ("site-2", "committed")
    assert crawl.digests == seen.digests > 10
    assert crawl.urls == seen.counts["totalUrls"] > crawl.digests
    assert crawl.revisits == seen.counts.get("dupeUrls", 0)
    assert Check(store, keys).run().sound
