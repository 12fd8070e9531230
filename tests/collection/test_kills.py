"""What changes an index, killed before any of its calls, ends as if it was not."""

import json

import pytest

from frontier.collection.purge import Captures, remove_captures
from frontier.collection.rounds import CHUNK, Collection
from frontier.dedupe.digest_index import Entry
from frontier.store.client import BlockingStore
from tests.collection.samples import (
    digest,
    line,
    make_manifest,
    make_wacz,
    resource,
    revisit,
)
from tests.kill_points import KILLS, check_kills

pytestmark = pytest.mark.store
DATE = "2026-01-02T03:04:05.678901Z"
MANY = CHUNK + 7


def put_crawl(index, crawl_id, numbers):
    """A committed crawl with the payloads *numbers*."""
    keys, numbers = index.keys, list(numbers)
    index("SADD", keys.committed, crawl_id)
    flat = [(digest(n), f"0 20260102030405 http://a/{n} 9") for n in numbers]
    index("HSET", keys.crawl(crawl_id), *(x for pair in flat for x in pair))
    index("HSET", keys.alldupes, *(x for d, _ in flat for x in (d, crawl_id)))
    index("HSET", keys.counts(crawl_id), "totalUrls", len(numbers), "dupeUrls", 5)
    index("RPUSH", keys.waczs(crawl_id), json.dumps({"filename": f"{crawl_id}.wacz"}))
    index("SADD", keys.done, f"{crawl_id}.wacz")
    index("HINCRBY", keys.allcounts, "totalUrls", len(numbers))
    index("HINCRBY", keys.allcounts, "dupeUrls", 5)


def node_of(index, **more):
    store = BlockingStore.from_settings({"REDIS_URL": index.url})
    return Collection(store, index.name, "a", revisits=True, **more)


def crawl(index, place, **more):
    """A crawl that has ended, whose payloads are not committed."""
    put_crawl(index, "first", range(5))
    node = node_of(index, **more)
    node.begin()
    for at in range(0, MANY, 500):
        numbers = range(at, min(at + 500, MANY))
        node.add([Entry(digest(n), DATE, f"http://a/{n}", 100) for n in numbers])
    node.count(MANY, 7, 7)
    index("RPUSH", index.keys.waczs("a"), json.dumps({"filename": "a.wacz"}))


def crawl_in_rounds(index, place):
    crawl(index, place, every_s=1e-3)


def some_crawls(index, place):
    for name, step in (("y", 1), ("x", 2), ("z", 5)):
        put_crawl(index, name, range(0, MANY, step))
    kept = [{"path": f"{name}.wacz", "crawlId": name} for name in ("y", "z")]
    make_manifest(place / "kept.json", kept)


def waczs(index, place):
    """Three WACZ files of two crawls, with revisits before and after originals."""
    if (place / "all.json").exists():
        return
    found = []
    for name, crawl_id, numbers in (
        ("a1", "a", range(700)),
        ("a2", "a", range(500, 1_100)),
        ("b1", "b", range(900, 1_300)),
    ):
        lines = [line(n) for n in numbers]
        lines += [revisit(n, of=(n * 7) % 1_300) for n in numbers if n % 10 == 0]
        lines += [revisit(n, of=f"never-{name}") for n in (1, 2)]
        found.append(resource(make_wacz(place / f"{name}.wacz", lines), crawl_id))
    make_manifest(place / "all.json", found)


def damage(index, place):
    some_crawls(index, place)
    index("HDEL", index.keys.alldupes, *map(digest, range(0, MANY, 3)))
    index("HDEL", index.keys.crawl("z"), *map(digest, range(0, MANY, 10)))
    index("HSET", index.keys.allcounts, "totalUrls", 1)


def command(*words):
    def run(index, place):
        names = [place / word if "." in word else word for word in words]
        code, _, said = index.run(*names)
        assert code == 0, said

    return run


def removal(index, place):
    urls = frozenset(f"http://a/{n}" for n in range(0, MANY, 150))
    store = BlockingStore.from_settings({"REDIS_URL": index.url})
    remove_captures(store, index.keys, Captures(urls, frozenset()))


OPERATIONS = {  # name to what is there before, and what is done
    "commit": (crawl, lambda index, _: node_of(index).commit()),
    "commit-in-rounds": (crawl_in_rounds, lambda index, _: node_of(index).commit()),
    "round": (
        crawl_in_rounds,
        lambda index, _: node_of(index, every_s=1e-3).commit_round(),
    ),
    "cancel": (crawl_in_rounds, lambda index, _: node_of(index).cancel()),
    "import": (waczs, command("import", "all.json")),
    "import-as-browsertrix": (
        waczs,
        command("import", "all.json", "--compat", "browsertrix"),
    ),
    "purge": (some_crawls, command("purge", "kept.json", "--yes")),
    "removal": (some_crawls, removal),
    "repair": (damage, command("check", "--repair")),
}
WHEN = ("commitrounds:a", "frontier:committer")
"""Keys with the time of what was done."""


class Operation:
    """One, on an index of its own."""

    def __init__(self, index, place, prepare, work):
        prepare(index, place)
        self.index, self.place, self.work = index, place, work
        self.is_damaged = prepare is damage

    def run(self):
        """Do it."""
        self.work(self.index, self.place)

    def after_kill(self):
        """Others can look up all that leads somewhere; nobody waits for its lease."""
        keys = self.index.keys
        owners = self.index.hash(keys.alldupes)
        held = {
            crawl: self.index.hash(keys.crawl(crawl)) for crawl in {*owners.values()}
        }
        assert self.is_damaged or all(d in held[owners[d]] for d in owners)
        self.index("DEL", keys.committer)

    def end(self):
        """What all see, and how far rounds are."""
        rounds = self.index.hash(self.index.keys.commit_rounds("a"))
        return self.index.everything(*WHEN), rounds.get("committed")


@KILLS
@pytest.mark.parametrize("name", OPERATIONS)
def test_killed_operation_ends_the_same_when_repeated(
    make_index, tmp_path, name, kills
):
    def made(moment):
        index = make_index(f"{name}{moment}")
        return Operation(index, tmp_path, *OPERATIONS[name])

    check_kills(made, kills)
