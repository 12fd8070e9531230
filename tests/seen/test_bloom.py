import random

import mmh3
import pytest
from bitarray import bitarray
from bitarray.util import zeros
from hypothesis import given, strategies as st

from frontier.seen.bloom import (
    MAX_BITS,
    Generation,
    error_after,
    false_rate,
    generation,
    lost,
    positions,
    share,
)
from frontier.urls.fingerprint import seen_hash

CAPACITIES = st.integers(1, 10**12)
RATES = st.floats(1e-12, 0.999)


class Filter:
    """Generations as the server has them, in this process."""

    def __init__(self, capacity, error_rate):
        self.capacity, self.error_rate = capacity, error_rate
        self.filled: list[tuple[object, bitarray]] = []
        self.last = 0

    def add(self, url):
        """Note *url*; return whether it was called seen."""
        if not self.filled or self.last >= self.filled[-1][0].capacity:
            made = generation(len(self.filled), self.capacity, self.error_rate)
            self.filled.append((made, zeros(made.bits)))
            self.last = 0
        for made, bits in self.filled:
            if all(bits[p] for p in positions(seen_hash(url), made)):
                return True
        made, bits = self.filled[-1]
        for p in positions(seen_hash(url), made):
            bits[p] = 1
        self.last += 1
        return False


def test_new_urls_called_seen_stay_under_the_bound_over_generations():
    bloom = Filter(capacity=600, error_rate=0.01)
    urls = [b"%d" % n for n in range(40_000)]

    false = sum(bloom.add(url) for url in urls)

    assert len(bloom.filled) == 4
    assert 0 < false < 0.01 * len(urls)


@given(CAPACITIES, RATES)
def test_a_full_filter_errs_as_often_as_was_asked(capacity, error_rate):
    made = generation(0, capacity, error_rate)

    assert made.bits >= 64
    assert made.hashes >= 1
    # Hashes are whole, so it errs a little more than the formula's ideal.
    wrong = false_rate(made.bits, made.hashes, made.capacity)
    assert wrong < 1.3 * made.error_rate + 1e-9


@given(CAPACITIES, RATES)
def test_the_errors_of_all_generations_sum_to_less_than_the_bound(capacity, error_rate):
    rates = [generation(n, capacity, error_rate).error_rate for n in range(30)]

    assert sum(rates) <= error_rate * (1 + 1e-12)
    assert sorted(rates, reverse=True) == rates


@given(st.integers(500, 10**12), RATES, st.integers(0, 40))
def test_a_generation_never_outgrows_the_largest_bitmap(capacity, error_rate, number):
    made = generation(number, capacity, error_rate)

    assert made.bits <= MAX_BITS
    assert made.capacity >= 1


@pytest.mark.parametrize("partitions", [1, 16, 1024])
def test_the_share_is_enough_for_the_fullest_partition(partitions):
    counts = [0] * partitions
    for n in range(100_000):
        counts[mmh3.hash(b"%d" % n, signed=False) % partitions] += 1

    assert max(counts) <= share(100_000, partitions) < 100_000 / partitions * 1.5 + 5


def test_positions_are_the_same_everywhere_and_for_ever():
    made = Generation(1, 0.5, 10_007, 4)

    assert positions(seen_hash(b"http://a.example/"), made) == [73, 6055, 2149, 8370]


def filters_for(urls, rate=0.01):
    made, room = [], 0
    while room < urls:
        made.append(generation(len(made), 1_000, rate))
        room += made[-1].capacity
    return made


def test_losses_are_what_filters_lose():
    urls, filters = 3_000, filters_for(3_000, rate=0.1)
    chance, count = random.Random(5), 0
    for _ in range(20):
        bits, used, last = [set() for _ in filters], [0] * len(filters), 0
        for _ in range(urls):
            new = seen_hash(chance.randbytes(20))
            places = [set(positions(new, each)) for each in filters]
            if any(p <= b for p, b in zip(places, bits, strict=True)):
                count += 1
            last += used[last] >= filters[last].capacity
            bits[last] |= places[last]
            used[last] += 1

    assert count / 20 == pytest.approx(lost(filters, urls), rel=0.1)
    each = [error_after(filters, n + 0.5) for n in range(urls)]
    assert lost(filters, urls) == pytest.approx(sum(each), rel=0.001)
