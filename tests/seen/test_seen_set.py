import json

import pytest

from frontier.cluster.shared_settings import crawl_settings
from frontier.errors import KeyDamaged, UnknownCrawl
from frontier.queue.push import TEST, Push, Pusher
from frontier.seen.config import MAX_BLOOMS, SeenConfig, SeenLayout, seen_config
from frontier.seen.seen_set import (
    PartitionState,
    SeenState,
    crawl_state,
    forget,
    layout_call,
    layout_of,
    look,
    stored_crawl,
)
from frontier.settings.config import Config
from frontier.store.keys import SCHEMA
from frontier.urls.fingerprint import seen_hash

MARKS = [seen_hash(b"%d" % n) for n in range(3_000)]


@pytest.fixture
def opened(db, crawl):
    """Open the crawl of the test with tiers, and push marks to its partition 7."""

    def opened(tiers="bloom,set", **given):
        config = Config.from_settings(
            {
                "FRONTIER_SEEN_TIERS": tiers,
                "FRONTIER_BLOOM_CAPACITY": 1_000,
                "FRONTIER_PARTITIONS": 8,
                **given,
            }
        )
        shape = json.dumps(crawl_settings(config))
        db(
            "HSET",
            crawl.meta,
            "state",
            "open",
            "spider",
            "s",
            "shape",
            shape,
            "schema",
            SCHEMA,
        )
        return config

    return opened


@pytest.fixture
def push(blocking, crawl):
    store = blocking()

    def push(config, marks):
        pushes = [(7, Push(TEST, m, "0:a.example", 0, b"")) for m in marks]
        stored = Pusher(crawl, seen_config(config)).push(store, pushes)
        return "".join(done.verdicts for *_, done in stored)

    return push


def ask(store, keys, config, of):
    return look(store, keys, of, seen_config(config))


def test_a_crawl_is_read_as_it_was_created(blocking, opened, crawl):
    config = opened("recent,set", FRONTIER_QUEUE_KEY="domain")
    found = stored_crawl(blocking(), "test", crawl.crawl_id)

    assert crawl_settings(found.config) == crawl_settings(config)
    assert (found.state, found.spider, found.keys) == ("open", "s", crawl)


def test_a_crawl_without_its_settings_is_damaged(blocking, db, crawl):
    with pytest.raises(UnknownCrawl):
        stored_crawl(blocking(), "test", "nowhere")
    for shape in ("", "[]", "{}", "{", '{"FRONTIER_PARTITIONS": 0}'):
        db("HSET", crawl.meta, "state", "open", "shape", shape, "schema", SCHEMA)

        with pytest.raises(KeyDamaged, match=rf"{crawl.crawl_id}\S* .* its shape"):
            stored_crawl(blocking(), "test", crawl.crawl_id)


@pytest.mark.parametrize("tiers", ["set", "bloom", "bloom,set"])
def test_each_tier_says_what_it_has(blocking, opened, push, keys, tiers):
    config, store = opened(tiers), blocking()
    push(config, MARKS[:2_900])
    known, new = (ask(store, keys, config, MARKS[n]) for n in (5, 2_990))

    assert (known.seen, new.seen) == (True, False)
    assert known.in_set is ("set" in tiers)
    assert any(known.filters) is ("bloom" in tiers)
    assert not any(new.filters)
    assert (known.bucket is None) is ("set" not in tiers)
    assert 0 <= known.bloom_error < config.bloom_error_rate


@pytest.mark.parametrize("tiers", ["set", "bloom,set"])
def test_forgotten_urls_are_new_again(blocking, opened, crawl, push, keys, tiers):
    config, store = opened(tiers), blocking()
    push(config, MARKS[:2_000])
    some = MARKS[1_300:2_100]
    done = forget(store, stored_crawl(store, "test", crawl.crawl_id), 7, some)

    assert done == [True] * 700 + [False] * 100
    assert layout_of(store.call(layout_call(keys))).count == 1_300
    assert push(config, MARKS[:2_100]) == "s" * 1_300 + "n" * 800


@pytest.mark.parametrize(
    ("has_set", "era", "given_up", "urls"),
    [(True, 0, 0, 30), (True, 1, 200, 230), (True, 1, 0, 700), (False, 0, 0, 700)],
)
def test_filters_say_how_many_urls_there_are_where_the_set_cannot(
    has_set, era, given_up, urls
):
    layout = SeenLayout(count=30, blooms=1, last=700, era=era)
    state = PartitionState(layout, None, given_up, old=None, set_bytes=0)

    tiers = SeenConfig(True, has_set, 1_000, 0.01)
    assert crawl_state(tiers, [state]).urls == urls
    assert crawl_state(tiers, []) == SeenState()  # nothing was ever pushed


def test_numbers_that_do_not_fit_each_other_are_no_layout():
    tiers = SeenConfig(True, True, 1_000, 0.01)
    for numbers, allowed in (
        ({}, True),
        ({"blooms": MAX_BLOOMS}, True),
        ({"blooms": MAX_BLOOMS + 1}, False),
        ({"buckets": 5, "count": 1_000}, True),
        ({"buckets": 4, "count": 1_000}, False),
        ({"buckets": 1 << 24}, True),
        ({"buckets": (1 << 24) + 1}, False),
    ):
        assert tiers.allows(SeenLayout(**numbers)) is allowed
