"""From the tiers of a crawl to a file, and into another crawl, on real servers."""

import gzip
import random
import threading

import msgpack
import pytest

from frontier.errors import ConfigurationError, InputBroken
from frontier.queue.push import TEST, Push
from frontier.seeds.seeder import Seeder
from frontier.seen.config import (
    SeenConfig,
    seen_config,
)
from frontier.seen.export import VERSION, Import, export, reserve
from frontier.seen.seen_set import layout_call, layout_of, stored_crawl
from frontier.store.client import Call
from frontier.urls.fingerprint import seen_hash
from tests.harness import crawls

PARTITIONS = 3
RATE = 1e-6


class Crawl:
    """A crawl in the store, as its nodes would make it."""

    def __init__(self, store, name, tiers="bloom,set", **given):
        settings = {
            "FRONTIER_SEEN_TIERS": tiers,
            "FRONTIER_PARTITIONS": PARTITIONS,
            "FRONTIER_BLOOM_CAPACITY": 1_000,
            "FRONTIER_BLOOM_ERROR_RATE": RATE,
            **given,
        }
        self.store = store
        self.keys, config = crawls.make(store, "test", name, **settings)
        self.shape = seen_config(config)

    @property
    def stored(self):
        return stored_crawl(self.store, "test", self.keys.crawl_id)

    def layout(self, number):
        keys = self.keys.partition(number)
        return layout_of(self.store.call(layout_call(keys)))

    def push(self, first, end):
        """Push the URLs of these numbers; return their verdicts."""
        pushes = [
            (n % PARTITIONS, Push(TEST, seen_hash(b"%d" % n), "", 0, b"", n))
            for n in range(first, end)
        ]
        found = crawls.push(self.store, self.keys, self.shape, pushes)
        return "".join(found[n] for n in sorted(found))

    def give_up(self, number):
        keys, layout = self.keys.partition(number), self.layout(number)
        call = Call.to("seen_give_up", [keys.seen], [layout.era, layout.count])
        assert self.store.call(call) == 1

    def export(self, path):
        told = []
        urls = export(self.store, self.stored, self.shape, path, told.append)
        assert told == [*range(1, len(told) + 1)]
        return urls

    def take(self, path):
        source = Import(path)
        source.run(self.store, self.stored, self.shape)
        return source.read, source.added


@pytest.fixture
def make(blocking, unique):
    def make(name, tiers="bloom,set", **given):
        return Crawl(blocking(), f"{unique}-{name}", tiers, **given)

    return make


@pytest.mark.parametrize("tiers", ["set", "bloom", "bloom,set"])
def test_exported_urls_are_seen_by_the_importing_crawl(make, tmp_path, tiers):
    old, new = make("old", tiers), make("new", tiers)
    assert set(old.push(0, 5_000)) == {"n"}

    urls = old.export(tmp_path / "f")
    new.take(tmp_path / "f")
    assert new.take(tmp_path / "f")[1] == 0

    assert urls == (5_000 if "set" in tiers else 0)
    assert set(new.push(0, 5_000)) == {"s" if "set" in tiers else "b"}
    assert set(new.push(5_000, 6_000)) == {"n"}
    assert [new.layout(n).blooms for n in range(PARTITIONS)] == [
        old.layout(n).blooms for n in range(PARTITIONS)
    ]


def test_set_export_fits_every_tier_but_a_bloom_export_needs_bloom(make, tmp_path):
    old, new, filters = make("old"), make("new", "set"), make("filters", "bloom")
    old.push(0, 3_000)
    old.export(tmp_path / "f")
    new.take(tmp_path / "f")
    filters.take(tmp_path / "f")
    assert set(new.push(0, 3_000)) == {"s"}
    assert set(filters.push(0, 3_000)) == {"b"}

    filters.export(tmp_path / "g")
    with pytest.raises(ConfigurationError, match="has no Bloom tier"):
        make("without", "set").take(tmp_path / "g")


def test_given_up_set_is_exported_through_its_bloom_filters(make, tmp_path):
    old, new = make("old"), make("new")
    old.push(0, 3_000)
    old.give_up(1)
    old.push(3_000, 4_000)
    old.export(tmp_path / "f")

    new.take(tmp_path / "f")

    assert "n" not in new.push(0, 4_000)
    assert set(new.push(4_000, 5_000)) == {"n"}


def test_no_bucket_that_was_imported_is_too_large(make, db, tmp_path):
    old, new = make("old", "set"), make("new", "set")
    old.push(0, 30_000)
    old.export(tmp_path / "f")
    new.take(tmp_path / "f")

    keys, layout = new.keys.partition(0), new.layout(0)
    assert layout.count == 10_000
    names = [keys.bucket(0, number) for number in range(layout.buckets)]
    assert {db("OBJECT ENCODING", name) for name in names} == {b"intset"}


def test_a_set_that_grows_while_it_is_read_is_exported_whole(
    make, tmp_path, monkeypatch
):
    monkeypatch.setattr("frontier.seen.export.MAX_BUCKETS", 2)
    old, new, at = make("old", "set"), make("new", "set"), 6_000
    old.push(0, at)
    run = old.store.run

    def growing(calls):
        nonlocal at
        if any(call.name == "SMEMBERS" for call in calls) and at < 24_000:
            at += 1_000
            old.push(at - 1_000, at)
        return run(calls)

    monkeypatch.setattr(old.store, "run", growing)
    old.export(tmp_path / "f")

    assert old.layout(0).buckets > 20
    new.take(tmp_path / "f")
    assert set(new.push(0, 6_000)) == {"s"}


def test_filters_are_not_mixed_with_what_a_crawl_has_seen(make, tmp_path):
    old, busy = make("old", "bloom"), make("busy", "bloom")
    old.push(0, 2_000)
    busy.push(1_000, 2_500)
    old.export(tmp_path / "f")

    with pytest.raises(ConfigurationError, match="seen URLs already"):
        busy.take(tmp_path / "f")
    assert set(busy.push(5_000, 5_100)) == {"n"}


def test_a_crawl_is_made_only_under_a_name_of_one(make, blocking, tmp_path):
    old = make("old", "set")
    old.push(0, 10)
    old.export(tmp_path / "f")

    for name in ("", "a b", "../x", "x\n", "{x}"):
        with pytest.raises(ConfigurationError, match="cannot be the id of a crawl"):
            Import(tmp_path / "f").create(blocking(), "test", name)


def write(path, *messages, **facts):
    header = {"format": "frontier-seen", "version": VERSION, "crawl_id": "c"}
    every = [header | {"spider": "s", "shape": {}} | facts, *messages]
    path.write_bytes(gzip.compress(b"".join(map(msgpack.packb, every))))
    return path


def test_bits_outside_of_the_filters_of_a_file_are_refused(make, tmp_path):
    new = make("new", "bloom")
    for place in ((0, 1, 0), (0, 0, 1 << 20), (1, 0, 0)):
        every = (["partition", 0, 0, 1, 5], ["bits", *place, b"x"], ["end", 0])
        path = write(tmp_path / "f", *every, shape=new.stored.shape)

        with pytest.raises(ConfigurationError, match="outside of its filters"):
            new.take(path)


def test_every_cut_and_every_changed_byte_is_an_error(make, tmp_path):
    old, path = make("old", "set"), tmp_path / "f"
    old.push(0, 3_000)
    old.export(path)
    data, chance = path.read_bytes(), random.Random(1)
    assert len(data) < 9 * 3_000
    assert list(tmp_path.iterdir()) == [path]
    for size in [0, 1, 13, *chance.sample(range(len(data)), 40), len(data) - 1]:
        path.write_bytes(data[:size])
        with pytest.raises(InputBroken):
            Import(path)
    for at in [0, 1, 2, *chance.sample(range(10, len(data)), 40), len(data) - 1]:
        path.write_bytes(data[:at] + bytes([data[at] ^ 255]) + data[at + 1 :])
        with pytest.raises(InputBroken):
            Import(path)


def test_export_of_another_version_or_of_other_rules_is_refused(make, tmp_path):
    with pytest.raises(InputBroken, match="version 2, but 4"):
        Import(write(tmp_path / "f", ["end", 0], version=2))
    new = make("new", "set")
    for name in ("REQUEST_FINGERPRINTER_CLASS", "canonicalization"):
        other = new.stored.shape | {name: "of.another"}
        write(tmp_path / "f", ["end", 0], shape=other)
        with pytest.raises(InputBroken, match=f"made with {name} 'of.another', but"):
            new.take(tmp_path / "f")
    write(tmp_path / "f", ["what", 0], shape=new.stored.shape)
    with pytest.raises(InputBroken, match="it has a message that is none"):
        new.take(tmp_path / "f")


def test_many_add_at_once_and_nothing_is_lost(blocking, crawl, keys):
    start, tiers = threading.Barrier(8), SeenConfig(False, True, 1_100, 0.01)
    marks, new = sorted(seen_hash(b"%d" % n) for n in range(30_000)), []

    def one(some):
        store = blocking()
        seeder = Seeder(store, crawl, tiers)
        start.wait()
        reserve(store, keys, tiers, len(some))
        seeder.push((7, Push(TEST, mark, "", 0, b"", mark)) for mark in some)
        new.append(seeder.new)

    threads = [threading.Thread(target=one, args=(marks[n::8],)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sum(new) == len(marks)
    assert layout_of(blocking().call(layout_call(keys))).count == len(marks)
