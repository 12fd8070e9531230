"""The arithmetic of the Bloom tier: sizes, generations, error. No I/O.

A partition's filter is a series of generations. The first is sized for the partition's
share of ``FRONTIER_BLOOM_CAPACITY``; each next one holds `GROWTH` times as many URLs at
a quarter of the error, so that the errors of all generations sum to less than
``FRONTIER_BLOOM_ERROR_RATE``, however many there are.

A filter of minimal size sets 10 bits per URL at an error of 0.001, and setting bits is
what costs the server. So it sets as few as a filter `SPARE` times as large allows: 5 at
that error.

The positions of a URL are ``x``, ``x + a``, ``x + a + (a + b)`` and so on, ``b + i``
being added to ``a`` with each step: triple hashing (Dillinger and Manolios, "Bloom
Filters in Probabilistic Verification", 2004). With two hashes only, a filter of 500
URLs misses an error of 1e-6 by a factor of 20. ``x``, ``a`` and ``b`` are the digits to
base ``bits`` of the mark as a number of 53 bits, with which Lua can compute.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from frontier.model import frozen

GROWTH = 4
SPARE = 1.25
MAX_BITS = 1 << 32
"""The longest bitmap that Redis allows. Generations stop growing there."""
STEPS = 64
"""Points at which the error of a generation is sampled to sum it up."""


@frozen
class Generation:
    """One Bloom filter."""

    capacity: int
    """URLs that it can hold at its error rate."""
    error_rate: float
    bits: int
    hashes: int


def _hashes(error_rate: float) -> int:
    least = -math.log(error_rate) / math.log(2) ** 2
    best = max(1, round(-math.log2(error_rate)))
    enough = (k for k in range(1, best) if _bits_for(error_rate, k) <= SPARE * least)
    return next(enough, best)


def _bits_for(error_rate: float, hashes: int) -> float:
    return -hashes / math.log1p(-(error_rate ** (1 / hashes)))


def positions(mark: int, made: Generation) -> list[int]:
    """The bits of *mark* in *made*."""
    rest, x = divmod(int(float(mark)) >> 10, made.bits)
    rest, a = divmod(rest, made.bits)
    b = rest % made.bits
    found = []
    for i in range(made.hashes):
        found.append(x)
        x, a = (x + a) % made.bits, (a + b + i) % made.bits
    return found


def share(capacity: int, partitions: int) -> int:
    """URLs to expect in the fullest of *partitions* that share *capacity*.

    This is the mean plus four standard deviations of a Poisson distribution.
    """
    mean = capacity / partitions
    return math.ceil(mean + 4 * math.sqrt(mean))


@functools.cache
def generation(number: int, capacity: int, error_rate: float) -> Generation:
    """Generation *number*, from 0, of a filter whose first holds *capacity*.

    It is small, and quick to write.
    """
    # The errors sum to 0.91 of the bound, as real ones may exceed the expected.
    rate = error_rate * 0.68 / 4**number
    hashes = _hashes(rate)
    per_url = _bits_for(rate, hashes)
    holds = min(capacity * GROWTH**number, int(MAX_BITS / per_url))
    return Generation(holds, rate, max(math.ceil(holds * per_url), 64), hashes)


def false_rate(bits: int, hashes: int, urls: float) -> float:
    """The chance that a filter with *urls* in it calls a new one seen."""
    return float((1 - math.exp(-hashes * urls / bits)) ** hashes)


def error_after(filters: Sequence[Generation], urls: float) -> float:
    """The chance that *filters*, with *urls* in them, call a new URL seen.

    They are filled one after the other; any excess goes into the last.
    """
    right = 0.0
    for each in filters:
        inside = urls if each is filters[-1] else min(urls, each.capacity)
        wrong = false_rate(each.bits, each.hashes, inside)
        right += math.log1p(-min(wrong, 1 - 1e-16))
        urls -= inside
        if urls <= 0:
            break
    return max(0.0, -math.expm1(right))  # no -0.0


def lost(filters: Sequence[Generation], urls: float) -> float:
    """How many of *urls*, all new, *filters* are expected to call seen."""
    found, begin = 0.0, 0.0
    for each in filters:
        inside = min(urls - begin, each.capacity)
        points = (begin + inside * (n + 0.5) / STEPS for n in range(STEPS))
        found += sum(error_after(filters, at) for at in points) * inside / STEPS
        begin += inside
    return found
