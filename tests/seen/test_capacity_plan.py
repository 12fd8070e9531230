import random

import pytest

from frontier.errors import ConfigurationError
from frontier.seen import bloom
from frontier.seen.capacity_plan import (
    BUCKET_BYTES,
    count_of,
    curve,
    error_after,
    forecast,
    generations,
    lost_to_bloom,
    lost_to_set,
    rate_of,
    set_bytes,
)
from frontier.seen.intset import Space, space
from frontier.urls.fingerprint import seen_hash

TIERS = ("recent", "bloom", "set")


def made(capacity=1_000, rate=0.01):
    return lambda number: bloom.generation(number, capacity, rate)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("1", 1),
        ("2000", 2_000),
        ("50M", 50_000_000),
        ("1.5G", 1_500_000_000),
        ("1.5b", 1_500_000_000),
        (" 20k ", 20_000),
        (".5m", 500_000),
        ("1,000,000", 1_000_000),
        ("1_000", 1_000),
        ("1T", 10**12),
    ],
)
def test_numbers_are_read_as_people_write_them(text, count):
    assert count_of(text) == count


@pytest.mark.parametrize(
    "text", ["", "x", "50X", "-5", "0", "0.2", "1e6", "2T", "M", "9" * 50, "\u0665"]
)
def test_what_is_no_number_of_urls_is_named(text):
    with pytest.raises(ConfigurationError, match="number of URLs"):
        count_of(text)


@pytest.mark.parametrize(
    ("text", "rate"), [("0.001", 0.001), ("1e-6", 1e-6), ("0.1%", 0.001)]
)
def test_rates_are_read_as_people_write_them(text, rate):
    assert rate_of(text) == pytest.approx(rate)


@pytest.mark.parametrize("text", ["", "x", "0", "1", "-1", "nan", "inf", "1e-20", "%"])
def test_what_is_no_rate_is_named(text):
    with pytest.raises(ConfigurationError, match="error rate"):
        rate_of(text)


@pytest.mark.parametrize("urls", [1, 1_000, 1_001, 77_000])
def test_generations_are_as_many_as_the_urls_need(urls):
    filters = generations(made(), urls)

    assert sum(each.capacity for each in filters) >= urls
    assert sum(each.capacity for each in filters[:-1]) < urls


def test_more_generations_than_can_work_are_refused():
    with pytest.raises(ConfigurationError, match="recent,set"):
        generations(made(10, 1e-15), 10**12)


@pytest.mark.parametrize("urls", [10, 1_000, 4_000, 50_000, 2_000_000])
def test_the_error_stays_below_what_was_asked(urls):
    assert 0 < error_after(generations(made(), urls), urls) < 0.01


def test_losses_are_what_filters_lose():
    urls, filters = 3_000, generations(made(rate=0.1), 3_000)
    chance, lost = random.Random(5), 0
    for _ in range(20):
        bits, used, last = [set() for _ in filters], [0] * len(filters), 0
        for _ in range(urls):
            new = seen_hash(chance.randbytes(20))
            places = [set(bloom.positions(new, each)) for each in filters]
            if any(p <= b for p, b in zip(places, bits, strict=True)):
                lost += 1
            last += used[last] >= filters[last].capacity
            bits[last] |= places[last]
            used[last] += 1

    assert lost / 20 == pytest.approx(lost_to_bloom(filters, urls), rel=0.1)


def test_what_is_lost_to_bloom_is_the_sum_over_its_urls():
    filters = generations(made(), 4_000)
    each = [error_after(filters, n + 0.5) for n in range(4_000)]

    assert lost_to_bloom(filters, 4_000) == pytest.approx(sum(each), rel=0.001)


def test_a_set_loses_nothing_that_matters():
    assert lost_to_set(Space(), 1) == 0
    assert lost_to_set(Space(), 50_000_000) < 0.001


def test_each_two_urls_of_a_short_set_may_have_the_same_entry():
    assert lost_to_set(Space(30, 1), 1) == 0
    assert lost_to_set(Space(30, 1), 2) == 1 / 2**30
    assert lost_to_set(Space(30, 2), 3) == 3 / 2**31


@pytest.mark.parametrize("urls", [3_000, 100_000])
@pytest.mark.parametrize("kept", [Space(), space(32, 3_000)])
def test_the_bytes_of_a_set_are_what_a_server_takes(urls, kept, db, keys):
    total = kept.wanted(urls)
    inside = {}
    for n in range(urls):
        entry = kept.entry(seen_hash(b"%d" % n))
        number = kept.bucket_of(entry, total)
        inside.setdefault(number, []).append(kept.member(entry))
    taken = 0
    for number, members in inside.items():
        db("SADD", keys.bucket(0, number), *members)
        taken += db("MEMORY USAGE", keys.bucket(0, number))

    assert taken == pytest.approx(set_bytes(kept, urls), rel=0.15)


def test_a_plan_has_the_bytes_of_all_generations():
    spread = forecast(TIERS, made(), Space(), 400_000, 100, 10)
    single = forecast(("bloom",), made(), Space(), 400_000, 1, 10)

    assert [g.capacity for g in spread.generations] == [1_000, 4_000]
    assert spread.bloom_bytes == sum(-(-g.bits // 8) for g in spread.generations) * 100
    assert spread.set_bytes == 100 * (8 * 4_000 + 20 * BUCKET_BYTES)
    assert spread.store_bytes == spread.bloom_bytes + spread.set_bytes
    assert spread.recent_bytes == 1_500
    assert len(single.generations) == 6
    assert (single.one_partition, single.set_bytes, single.recent_bytes) == (True, 0, 0)
    assert 0 < single.lost < 4_000
    assert spread.lost < 1e-6


def test_an_empty_partition_costs_nothing():
    few = forecast(("bloom", "set"), made(), Space(), 5, 1_024, 10)

    assert few.bloom_bytes == 5 * -(-made()(0).bits // 8)


def test_a_curve_rises_to_the_end():
    points = curve(made(), 10, 100_000)

    assert points[0][0] == pytest.approx(1_000)
    assert points[-1][0] == pytest.approx(100_000)
    assert points[0][1] < points[-1][1] < 0.01


def test_the_curve_of_a_crawl_is_that_of_each_of_its_partitions():
    one, four = curve(made(), 1, 5_000), curve(made(), 4, 20_000)

    assert [error for _, error in four] == pytest.approx([error for _, error in one])
    assert four[-1][0] == pytest.approx(20_000)
