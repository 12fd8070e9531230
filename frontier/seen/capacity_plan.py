"""What the seen test costs and loses, before it is run. No I/O.

The Bloom tier is computed from the generations that the crawl itself would make.
The set tier takes 8 or 4 bytes a URL and `BUCKET_BYTES` for each bucket, the recent
tier `RECENT_BYTES` for each entry of each node.

How URLs fall into partitions is for the crawl to show: hosts differ. So there
are two bounds, all partitions alike and everything in one.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from frontier.errors import ConfigurationError
from frontier.seen import bloom

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from frontier.seen.bloom import Generation
    from frontier.seen.intset import Space

BUCKET_BYTES = 130
"""Memory of a bucket beside its URLs: 0.65 bytes a URL at 200 a bucket."""
RECENT_BYTES = 150
"""Memory of a node for each entry of its recent tier, about."""
MAX_URLS = 10**12
MAX_GENERATIONS = 40
"""More than these ask a filter for an error that no hash of ours can give."""
STEPS = 64
"""Points at which the error of a generation is taken to sum it up."""
_NUMBER = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([kmgbt]?)", re.IGNORECASE)
_FACTORS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "b": 10**9, "t": 10**12}


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a seen-set of some tiers will be when all URLs are in it."""

    tiers: tuple[str, ...]
    one_partition: bool
    """Whether all URLs are in one partition, as those of a single site are."""
    bloom_bytes: int
    set_bytes: int
    set_bits: int
    """Of each URL in the set; 0 without one."""
    recent_bytes: int
    """On each node, not in the store."""
    generations: tuple[Generation, ...]
    """Bloom filters of a partition."""
    lost: float
    """New URLs that are called seen, as expected over the whole crawl."""

    @property
    def store_bytes(self) -> int:
        """Memory of the shared tiers while no set is given up."""
        if self.set_bits == 64:  # then its Bloom filters are made, not before
            return self.set_bytes
        return self.bloom_bytes + self.set_bytes


def count_of(text: str) -> int:
    """The number of URLs that *text* means: ``2000``, ``50M``, ``1.5G``.

    Raises:
        ConfigurationError: It means none, or less than 1 or more than `MAX_URLS`.
    """
    plain = text.strip().replace(",", "").replace("_", "")
    match = _NUMBER.fullmatch(plain)
    if match is None or len(plain) > 30:
        raise ConfigurationError(
            f"{text[:40]!r} is not a number of URLs; write 2000, 50M or 1.5G"
        )
    count = round(float(match[1]) * _FACTORS[match[2].lower()])
    if not 1 <= count <= MAX_URLS:
        raise ConfigurationError(
            f"{text[:40]!r} is not a number of URLs between 1 and {MAX_URLS:,}"
        )
    return count


def rate_of(text: str) -> float:
    """The error rate that *text* means: ``0.001``, ``1e-6``, ``0.1%``.

    Raises:
        ConfigurationError: It means none that is more than 1e-15 and less than 1.
    """
    plain = text.strip()
    try:
        rate = float(plain.removesuffix("%")) / (100 if plain.endswith("%") else 1)
    except ValueError:
        rate = math.nan
    if not 1e-15 <= rate < 1:
        raise ConfigurationError(
            f"{text[:40]!r} is not an error rate; write 0.001, 1e-6 or 0.1%, "
            "at least 1e-15 and less than 1"
        )
    return rate


def generations(
    generation: Callable[[int], Generation], urls: float
) -> tuple[Generation, ...]:
    """The filters that a partition of *urls* has; *generation* makes each of them.

    Raises:
        ConfigurationError: There would be more than `MAX_GENERATIONS`.
    """
    made: list[Generation] = []
    room = 0
    while room < urls:
        if len(made) == MAX_GENERATIONS:
            raise ConfigurationError(
                f"{urls:,.0f} URLs in one partition need more than {MAX_GENERATIONS} "
                "Bloom generations; plan with --tiers recent,set or fewer URLs"
            )
        made.append(generation(len(made)))
        room += made[-1].capacity
    return tuple(made)


def error_after(filters: Sequence[Generation], urls: float) -> float:
    """The chance that *filters*, with *urls* in them, call a new URL seen.

    They are filled one after the other; what is over goes into the last.
    """
    right = 0.0
    for each in filters:
        inside = urls if each is filters[-1] else min(urls, each.capacity)
        wrong = bloom.false_rate(each.bits, each.hashes, inside)
        right += math.log1p(-min(wrong, 1 - 1e-16))
        urls -= inside
        if urls <= 0:
            break
    return max(0.0, -math.expm1(right))  # no -0.0


def lost_to_bloom(filters: Sequence[Generation], urls: float) -> float:
    """New URLs of *urls* that *filters* are expected to call seen."""
    lost, begin = 0.0, 0.0
    for each in filters:
        inside = min(urls - begin, each.capacity)
        points = (begin + inside * (n + 0.5) / STEPS for n in range(STEPS))
        lost += sum(error_after(filters, at) for at in points) * inside / STEPS
        begin += inside
    return lost


def lost_to_set(space: Space, urls: float) -> float:
    """New URLs of *urls* in one partition whose entry another has already."""
    return urls * (urls - 1) / 2 / space.end if urls > 1 else 0.0


def set_error(space: Space, urls: float) -> float:
    """The chance that the set of a partition of *urls* calls a new one seen."""
    return urls / space.end


def set_bytes(space: Space, urls: float, buckets: int | None = None) -> int:
    """Memory of the set tier of a partition of *urls*."""
    if urls <= 0:
        return 0
    used = space.wanted(math.ceil(urls)) if buckets is None else buckets
    return round(space.member_bytes * urls + BUCKET_BYTES * used)


def forecast(
    tiers: tuple[str, ...],
    generation: Callable[[int], Generation],
    space: Space,
    urls: int,
    partitions: int,
    recent_size: int,
) -> Forecast:
    """What a crawl of *urls*, alike in all *partitions*, will need and lose.

    Raises:
        ConfigurationError: A partition would have too many URLs for Bloom filters.
    """
    used = min(urls, partitions)  # an empty one costs nothing
    each = urls / used
    filters = generations(generation, each) if "bloom" in tiers else ()
    in_set = "set" in tiers
    lost = lost_to_set(space, each) if in_set else lost_to_bloom(filters, each)
    bits = sum(-(-made.bits // 8) for made in filters)
    return Forecast(
        tiers=tiers,
        one_partition=partitions == 1,
        bloom_bytes=bits * used,
        set_bytes=set_bytes(space, each) * used if in_set else 0,
        set_bits=8 * space.member_bytes if in_set else 0,
        recent_bytes=RECENT_BYTES * min(recent_size, urls) if "recent" in tiers else 0,
        generations=filters,
        lost=lost * used,
    )


def curve(
    generation: Callable[[int], Generation], partitions: int, most: int
) -> list[tuple[float, float]]:
    """URLs of a crawl and the error then, from a hundredth of *most* to *most*."""
    points = []
    for n in range(201):
        urls = most * 10 ** (n / 100 - 2)
        each = urls / partitions
        points.append((urls, error_after(generations(generation, each), each)))
    return points
