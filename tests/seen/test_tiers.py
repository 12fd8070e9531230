"""The tiers of a crawl as `frontier crawl status` sees them, on a real server."""

import json

import pytest

from frontier.cluster.shared_settings import crawl_settings
from frontier.queue.push import TEST, Push, Pusher
from frontier.seen.config import MAX_URLS, seen_config
from frontier.settings.config import Config
from frontier.status.partitions import look_at
from frontier.status.seen_tiers import tiers_in, tiers_of
from frontier.urls.fingerprint import seen_hash


def look_at_tiers(store, keys, shape):
    tiers = tiers_in(shape)
    return tiers_of(tiers, list(look_at(store, keys, range(4), tiers)))


@pytest.fixture
def fill(blocking, crawl):
    """Put URLs into partitions of a crawl; return its shape."""

    def fill(tiers, count, **given):
        store = blocking()
        config = Config.from_settings(
            {
                "FRONTIER_SEEN_TIERS": tiers,
                "FRONTIER_PARTITIONS": 4,
                "FRONTIER_BLOOM_CAPACITY": 1_000,
                **given,
            }
        )
        pushes = [
            (n // MAX_URLS % 3, Push(TEST, seen_hash(b"%d" % n), "", 0, b""))
            for n in range(count)
        ]
        Pusher(crawl, seen_config(config)).push(store, pushes)
        return json.loads(json.dumps(crawl_settings(config)))

    return fill


def test_bloom_and_set_tiers_report_urls_sizes(blocking, crawl, fill):
    shape = fill("bloom,set", 6_000)
    tiers = look_at_tiers(blocking(), crawl, shape)
    state = tiers.state

    assert state.urls == state.set_urls == 6_000
    assert 6_000 <= state.bloom_urls < 1.2 * 6_000
    assert state.generations == 3
    assert 0 < state.bloom_fill < 1
    assert 0 < state.bloom_error < 0.001
    assert 8 * 6_000 < state.set_bytes < 8 * 7_500
    assert (state.given_up, state.lost) == (0, 0)


def test_bloom_alone_tells_what_it_may_have_lost(blocking, crawl, fill):
    shape = fill("bloom", 6_000, FRONTIER_BLOOM_ERROR_RATE=0.1)
    tiers = look_at_tiers(blocking(), crawl, shape)

    assert not tiers.has_set
    assert 30 < tiers.state.lost < 600


@pytest.mark.parametrize("shape", [{}, None, {"FRONTIER_PARTITIONS": 4}])
def test_incomplete_crawl_shape_yields_no_tiers(blocking, crawl, shape):
    assert look_at_tiers(blocking(), crawl, shape) is None


def test_damaged_seen_layout_yields_no_tiers(blocking, crawl, fill, db):
    shape = fill("bloom,set", 1_000)
    db("HSET", crawl.partition(1).seen, "count", "many")

    assert look_at_tiers(blocking(), crawl, shape) is None
