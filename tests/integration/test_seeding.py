"""Seeds that are put into a crawl by command, whether nodes run or not."""

import json

import pytest
from conftest import PARTITIONS, until

from frontier.cluster import crawls
from frontier.cluster.shared_settings import crawl_settings
from frontier.queue.item import encode
from frontier.settings.config import Config
from frontier.status.snapshot import snapshot
from frontier.store.client import Call, infos
from frontier.store.keys import CrawlKeys
from frontier.urls.partition import partition_of

KEYS = CrawlKeys("frontier", "site-1")
RENEWAL = 150.0
"""Less than the seconds after which a node looks by itself at what was put in."""


@pytest.fixture
def said(cluster):
    """Run ``frontier`` to its end; return its code, its JSON and its messages."""

    def said(*arguments, given=""):
        done = cluster.ask(*arguments, "--json", given=given)
        out = json.loads(done.stdout) if done.stdout else None
        return done.returncode, out, done.stderr

    return said


@pytest.fixture
def an_open_crawl(cluster):
    """A crawl that no node has."""

    async def run(calls):
        return cluster.store.run(calls)

    entering = crawls.enter(
        run, "frontier", "site", "", crawl_settings(Config(partitions=PARTITIONS))
    )
    with pytest.raises(StopIteration):
        entering.send(None)
    return KEYS


def counts(cluster):
    return snapshot(cluster.store, "frontier", "site-1").queue


def shared(cluster, nodes=2, state="live"):
    """Whether so many nodes hold all partitions, and each its share."""
    seen = snapshot(cluster.store, "frontier", "site-1")
    held = [node.held for node in seen.nodes if node.state == state]
    return len(held) == nodes and sum(held) == seen.partitions and all(held)


def test_faulty_lines_are_named_and_the_rest_is_queued(
    cluster, said, an_open_crawl, tmp_path
):
    seeds = tmp_path / "seeds.txt"
    seeds.write_bytes(
        b"# seeds\nhttp://a.example/\n\nnonsense\nhttp://b.example/\xff\n"
        b'{"url": "http://c.example/", "callback": "nothing"}\n'
        b'{"url": "http://c.example/", "callback": "parse", "priority": 2}\n'
        b"http://a.example/\nhttp://" + b"x" * (5 << 20) + b"\nhttp://d.example/"
    )
    code, result, messages = said("crawl", "seed", str(seeds), "http://e.example/")

    assert code == 6
    assert result == {
        "crawl_id": "site-1",
        "queued": 4,
        "seen_already": 1,
        "left_out": 4,
    }
    for number, reason in [
        (4, "'nonsense' is not an http or https URL"),
        (5, "is not UTF-8"),
        (6, "its callback 'nothing' is not a callback of the spider"),
        (9, "takes more than 4,194,304 bytes"),
    ]:
        assert f"frontier: {seeds}:{number}: " in messages
        assert reason in messages
    assert messages.count("\n") == 4
    assert counts(cluster).ready == 4


def test_a_load_that_was_killed_is_completed_by_the_next(
    cluster, said, an_open_crawl, tmp_path
):
    total = 60_000
    seeds = tmp_path / "seeds.txt"
    seeds.write_text("".join(f"http://h{n % 500}.example/{n}\n" for n in range(total)))
    first = cluster.command("crawl", "seed", str(seeds))
    until(lambda: counts(cluster).pushed, "a batch")
    first.kill()
    first.communicate()
    before, scripts = counts(cluster).pushed, scripts_run(cluster)
    code, result, _ = said("crawl", "seed", str(seeds))

    assert code == 0
    assert scripts_run(cluster) - scripts < total / 5, "they are sent in batches"
    assert before < counts(cluster).pushed == total
    assert (result["queued"], result["seen_already"]) == (total - before, before)


def scripts_run(cluster):
    found = cluster.db("INFO", "commandstats")
    return sum(
        one.get("cmdstat_evalsha", {"calls": 0})["calls"] for one in infos(found)
    )


def test_a_crawl_that_waits_fetches_what_is_put_in_or_queued_again_at_once(
    serve, cluster, said
):
    server = serve(urls=130, hosts=4, calendar_months=12)
    seeds = [seed.rstrip("/") for seed in server.seeds]
    for node in ("node-1", "node-2"):
        cluster.start(
            node,
            *("-a", f"seeds={seeds[0]}/about", "-a", "scope=prefix"),
            FRONTIER_KEEP_ALIVE="True",
            FRONTIER_LEASE_TTL=4 * RENEWAL,  # else one would find them
        )

    def fetched(path):
        log = server.requests()
        return log and all(f"{seed}{path}" in log.fetched() for seed in seeds)

    until(lambda: server.requests() and server.requests().entries, "the first page")
    until(
        lambda: counts(cluster).acked and not counts(cluster).reserved, "the crawl idle"
    )
    until(lambda: shared(cluster), "the second node")
    pages = "".join(f"{seed}/empty\n" for seed in seeds)
    code, result, _ = said("crawl", "seed", "-", given=pages)
    until(lambda: fetched("/empty"), "the seeds", RENEWAL)
    assert code == 0
    assert result["queued"] >= 3  # a page may lead to one of them

    host, seed = seeds[0].partition("//")[2], seeds[0]
    partition = KEYS.partition(partition_of(host, PARTITIONS))
    values = [
        b"delivered 3 times\n0:%s\n2" % host.encode()
        + encode({"url": f"{seed}/post/{n}", "dont_filter": True})[1:]
        for n in range(2)
    ]
    cluster.store.run(
        [
            Call.command("RPUSH", partition.dead, *values, b"\x1b[2Jnonsense"),
            Call.command("HINCRBY", partition.counts, "dead", 3),
        ]
    )
    _, result, _ = said("crawl", "dead")
    assert result["dead"] == 3
    urls = [letter["url"] for letter in result["letters"]]
    assert urls == [f"{seed}/post/0", f"{seed}/post/1", ""]
    assert said("crawl", "requeue")[0] == 2
    code, result, messages = said("crawl", "requeue", f"{seed}/post/1", f"{seed}/nope")
    assert (code, result["requeued"], result["left"]) == (6, 1, 2)
    assert f"{seed}/nope" in messages
    until(lambda: f"{seed}/post/1" in server.requests().fetched(), "the page", RENEWAL)
    assert said("crawl", "requeue", "--all")[1]["requeued"] == 1
    until(lambda: f"{seed}/post/0" in server.requests().fetched(), "the other", RENEWAL)
    assert counts(cluster).dead == 1

    assert all(process.poll() is None for process in cluster.nodes.values())
    for process in cluster.nodes.values():
        process.terminate()
    cluster.finish()
