"""From the tiers of a crawl to a file, and into another crawl, on real servers."""

import json

import pytest

from frontier.cluster.shared_settings import crawl_settings
from frontier.errors import (
    CannotCarry,
    ConfigurationError,
    KeyDamaged,
    SeenFileMismatch,
)
from frontier.queue.push import TEST, Push, push_call, pushed
from frontier.seen.config import MAX_URLS, LayoutStale, SeenLayout, seen_config
from frontier.seen.export import Header, Import, SeenFile, SeenFileWriter, export
from frontier.seen.seen_set import layout_call, layout_of, stored_crawl
from frontier.settings.config import Config
from frontier.store.client import Call
from frontier.store.keys import SCHEMA, CrawlKeys
from frontier.store.scripts import SEEN_GIVE_UP
from frontier.urls.fingerprint import seen_hash

PARTITIONS = 3
FINGERPRINTER = "scrapy.utils.request.RequestFingerprinter"
RATE = 1e-6


class Crawl:
    """A crawl in the store, as its nodes would make it."""

    def __init__(self, store, name, tiers="bloom,set", **given):
        self.store, self.keys = store, CrawlKeys("test", name)
        config = Config.from_settings(
            {
                "FRONTIER_SEEN_TIERS": tiers,
                "FRONTIER_PARTITIONS": PARTITIONS,
                "FRONTIER_BLOOM_CAPACITY": 1_000,
                "FRONTIER_BLOOM_ERROR_RATE": RATE,
                **given,
            }
        )
        self.shape = seen_config(config)
        stored = json.dumps(crawl_settings(config))
        parts = ("state", "open", "spider", "s", "shape", stored, "schema", SCHEMA)
        store.call(Call.command("HSET", self.keys.meta(), *parts))

    @property
    def stored(self):
        return stored_crawl(self.store, "test", self.keys.crawl_id)

    def layout(self, number):
        keys = self.keys.partition(number)
        return layout_of(self.store.call(layout_call(keys)))

    def push(self, first, end):
        """Push the URLs of these numbers; return their verdicts."""
        verdicts = {}
        for number in range(PARTITIONS):
            mine = [n for n in range(first, end) if n % PARTITIONS == number]
            layout, keys = SeenLayout(), self.keys.partition(number)
            while mine:
                some = mine[:MAX_URLS]
                pushes = [Push(TEST, seen_hash(b"%d" % n), "", 0, b"") for n in some]
                reply = self.store.call(push_call(keys, self.shape, layout, pushes))
                try:
                    done = pushed(reply, pushes)
                except LayoutStale as stale:
                    layout = stale.layout
                    continue
                layout = done.layout
                verdicts |= zip(some, done.verdicts, strict=True)
                del mine[:MAX_URLS]
        return "".join(verdicts[n] for n in range(first, end))

    def give_up(self, number):
        keys, layout = self.keys.partition(number), self.layout(number)
        call = Call.to(SEEN_GIVE_UP, [keys.seen], [layout.era, layout.count, 1])
        assert self.store.call(call) == 1

    def export(self, path):
        return export(self.store, self.stored, self.shape, path, FINGERPRINTER)

    def take(self, path):
        with Import(path, FINGERPRINTER) as source:
            source.run(self.store, self.stored, self.shape)
        return source.read, source.added


@pytest.fixture
def make(blocking, unique):
    def make(name, tiers="bloom,set", **given):
        return Crawl(blocking(), f"{unique}-{name}", tiers, **given)

    return make


@pytest.mark.parametrize("tiers", ["set", "bloom", "bloom,set"])
def test_what_one_crawl_saw_the_next_has_seen(make, tmp_path, tiers):
    old, new = make("old", tiers), make("new", tiers)
    assert set(old.push(0, 5_000)) == {"n"}

    urls = old.export(tmp_path / "f")
    new.take(tmp_path / "f")

    assert urls == (5_000 if "set" in tiers else 0)
    assert set(new.push(0, 5_000)) == {"s" if "set" in tiers else "b"}
    assert set(new.push(5_000, 6_000)) == {"n"}
    assert [new.layout(n).blooms for n in range(PARTITIONS)] == [
        old.layout(n).blooms for n in range(PARTITIONS)
    ]


def test_a_set_can_be_put_into_filters_and_into_short_sets(make, tmp_path):
    old = make("old", "set")
    old.push(0, 3_000)
    old.export(tmp_path / "f")

    for name, tiers, bits in (("b", "bloom", 64), ("s", "set", 32)):
        new = make(name, tiers, FRONTIER_SEEN_SET_BITS=bits)
        assert new.take(tmp_path / "f")[0] == 3_000
        assert set(new.push(0, 3_000)) <= {"b", "s"}


def test_a_set_that_was_never_given_up_needs_no_filters(make, tmp_path):
    old, new = make("old", "bloom,set"), make("new", "set")
    old.push(0, 1_000)
    old.export(tmp_path / "f")
    new.take(tmp_path / "f")
    assert set(new.push(0, 1_000)) == {"s"}

    filters = make("filters", "bloom")
    filters.push(0, 1_000)
    filters.export(tmp_path / "g")
    with pytest.raises(CannotCarry):
        make("without", "set").take(tmp_path / "g")


def test_what_was_given_up_is_carried_over_by_its_filters(make, tmp_path):
    # Of a set of 32 bits Bloom has all from the beginning.
    old, new = (make(name, FRONTIER_SEEN_SET_BITS=32) for name in ("old", "new"))
    old.push(0, 3_000)
    old.give_up(1)
    old.push(3_000, 4_000)
    old.export(tmp_path / "f")

    new.take(tmp_path / "f")

    assert "n" not in new.push(0, 4_000)
    assert set(new.push(4_000, 5_000)) == {"n"}


def test_short_sets_fit_only_sets_made_for_as_many(make, tmp_path):
    old = make("old", "set", FRONTIER_SEEN_SET_BITS=32)
    assert "n" in old.push(0, 3_000)
    old.export(tmp_path / "f")

    alike = make("alike", "set", FRONTIER_SEEN_SET_BITS=32)
    alike.take(tmp_path / "f")
    assert "n" not in alike.push(0, 3_000)
    for other in (
        make("wide", "set"),
        make("big", "set", FRONTIER_SEEN_SET_BITS=32, FRONTIER_BLOOM_CAPACITY=90_000),
    ):
        with pytest.raises(SeenFileMismatch, match="FRONTIER_SEEN_SET_BITS"):
            other.take(tmp_path / "f")
        assert other.layout(0) == SeenLayout()


@pytest.mark.parametrize(("generation", "at"), [(1, 0), (0, 1 << 20)])
def test_bits_outside_of_the_filters_of_a_file_are_refused(
    make, tmp_path, generation, at
):
    new = make("new", "bloom")
    header = Header(FINGERPRINTER, "old", "s", new.stored.shape)
    with SeenFileWriter(tmp_path / "f", header) as file:
        file.add_layout(0, blooms=1, last=5)
        file.add_bits(0, generation, at, b"x")

    with pytest.raises(ConfigurationError, match="outside of its filters"):
        new.take(tmp_path / "f")


def test_filters_are_not_mixed_with_what_a_crawl_has_seen(make, tmp_path):
    old, busy = make("old", "bloom"), make("busy", "bloom")
    old.push(0, 2_000)
    busy.push(1_000, 2_500)
    old.export(tmp_path / "f")

    with pytest.raises(CannotCarry, match="seen URLs already"):
        busy.take(tmp_path / "f")
    assert set(busy.push(5_000, 5_100)) == {"n"}


@pytest.mark.parametrize("tiers", ["set", "bloom", "bloom,set"])
def test_an_import_can_be_made_again(make, tmp_path, tiers):
    old, new = make("old", tiers), make("new", tiers)
    old.push(0, 2_000)
    old.export(tmp_path / "f")

    new.take(tmp_path / "f")
    assert new.take(tmp_path / "f")[1] == 0
    assert "n" not in new.push(0, 2_000)


def test_a_crawl_that_keeps_nothing_takes_nothing_and_gives_nothing(make, tmp_path):
    old, none = make("old", "set"), make("none", "recent")
    old.push(0, 10)
    old.export(tmp_path / "f")

    with pytest.raises(CannotCarry, match="keeps nothing"):
        none.take(tmp_path / "f")
    with pytest.raises(CannotCarry, match="keeps nothing"):
        none.export(tmp_path / "g")
    assert not (tmp_path / "g").exists()


@pytest.mark.parametrize("name", ["", "a b", "../x", "x\n", "{x}"])
def test_a_crawl_is_made_only_under_a_name_of_one(make, blocking, tmp_path, name):
    old = make("old", "set")
    old.push(0, 10)
    old.export(tmp_path / "f")

    with (
        Import(tmp_path / "f", FINGERPRINTER) as source,
        pytest.raises(ConfigurationError, match="cannot be the id of a crawl"),
    ):
        source.create(blocking(), "test", name)


def test_a_partition_that_cannot_have_the_mark_of_a_new_crawl_is_named(
    make, blocking, db, unique, tmp_path
):
    old = make("old", "set")
    old.push(0, 10)
    old.export(tmp_path / "f")
    counts = CrawlKeys("test", f"{unique}-new").partition(1).counts
    db("SET", counts, "abc")

    with (
        Import(tmp_path / "f", FINGERPRINTER) as source,
        pytest.raises(KeyDamaged, match="counts"),
    ):
        source.create(blocking(), "test", f"{unique}-new")


def test_a_file_that_is_refused_is_closed(make, tmp_path, monkeypatch):
    old = make("old", "set")
    old.push(0, 10)
    old.export(tmp_path / "f")
    closed = []

    class Noted(SeenFile):
        def close(self):
            super().close()
            closed.append(self)

    monkeypatch.setattr("frontier.seen.export.SeenFile", Noted)
    with pytest.raises(SeenFileMismatch, match="fingerprinter"):
        Import(tmp_path / "f", "of.another.Fingerprinter")

    assert len(closed) == 1
