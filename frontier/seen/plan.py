"""What the seen test costs and loses, before it is run. No I/O.

The Bloom tier is computed from the generations that the crawl itself would make. How
URLs spread over partitions only the crawl will show: hosts differ. So there are two
bounds: all partitions alike, and everything in one.
"""

from __future__ import annotations

import math
import re

from frontier.errors import ConfigurationError
from frontier.model import frozen
from frontier.seen import bloom, intset
from frontier.seen.config import MAX_BLOOMS, seen_config
from frontier.settings.config import Config

RECENT_BYTES = 150
"""Approximate memory of a node for each entry of its recent tier."""
MAX_URLS = 10**12
_NUMBER = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([kmgbt]?)", re.IGNORECASE)
_FACTORS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "b": 10**9, "t": 10**12}


@frozen
class Forecast:
    """The shared tiers once all URLs are in them."""

    tiers: tuple[str, ...]
    one_partition: bool
    """Whether all URLs are in one partition, as those of a single site are."""
    store_bytes: int
    bytes_per_url: float
    lost: float
    """New URLs expected to be called seen over the whole crawl."""


def count_of(text: str) -> int:
    """The number of URLs that *text* means: ``2000``, ``50M``, ``1.5G``.

    Raises:
        ConfigurationError: It is not a number from 1 to `MAX_URLS`.
    """
    match = _NUMBER.fullmatch(text.strip().replace(",", "").replace("_", "")[:30])
    count = round(float(match[1]) * _FACTORS[match[2].lower()]) if match else 0
    if not 1 <= count <= MAX_URLS:
        raise ConfigurationError(
            f"{text[:40]!r} is not a number of URLs from 1 to {MAX_URLS:,}; write "
            "2000, 50M or 1.5G"
        )
    return count


def planned(urls: int, rate: float, tiers: str, partitions: int) -> Config:
    """The settings of a crawl of *urls* with *tiers*.

    Raises:
        ConfigurationError: There are no such tiers.
    """
    return Config.from_settings(
        {
            "FRONTIER_BLOOM_CAPACITY": urls,
            "FRONTIER_BLOOM_ERROR_RATE": rate,
            "FRONTIER_SEEN_TIERS": tiers,
            "FRONTIER_PARTITIONS": partitions,
        }
    )


def forecast(config: Config, urls: int, partitions: int) -> Forecast:
    """What *urls*, spread evenly over *partitions*, need and lose.

    Raises:
        ConfigurationError: A partition would have too many URLs for Bloom filters.
    """
    tiers = seen_config(config)
    used = min(urls, partitions)  # an empty one costs nothing
    each = math.ceil(urls / used)
    size, lost = 0, 0.0
    if tiers.has_bloom:
        filters = tiers.filled(each)
        if sum(made.capacity for made in filters) < each:
            raise ConfigurationError(
                f"{each:,} URLs in one partition need more than {MAX_BLOOMS} Bloom "
                "generations; plan with --tiers recent,set or fewer URLs"
            )
        size += sum(-(-made.bits // 8) for made in filters)
        lost = bloom.lost(filters, each)
    if tiers.has_set:
        size += intset.set_bytes(each, intset.wanted(each))
        lost = 0.0  # the set decides
    return Forecast(
        config.seen_tiers, partitions == 1, size * used, size / each, lost * used
    )
