"""The shared tiers of the seen test: how a crawl has configured them, and their size.

What always holds:

1.  The keys of a push follow from the `SeenLayout` of the partition's seen-set, and
    from the crawl's `SeenConfig`, which never changes. So any node can compute them.
2.  A layout only grows, but for a set that is dropped, with its era. A script does
    nothing if the layout that its keys were computed from is not the current one, and
    returns that: `LayoutStale`.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from frontier.errors import StoreError
from frontier.seen import bloom, intset
from frontier.seen.intset import LEVELS

if TYPE_CHECKING:
    from frontier.settings.config import Config

MAX_URLS = 100
"""URLs per call: each takes 3 to 10 microseconds of the server, which does nothing
else meanwhile."""

NO_LIMIT = 1 << 62
"""Room of a tier that no push fills."""
MAX_BLOOMS = 32
"""Generations of a Bloom tier: each holds four times as many URLs as the one before."""

_space = functools.cache(intset.space)


@dataclass(frozen=True, slots=True)
class SeenLayout:
    """The size of a partition's seen-set."""

    buckets: int = 0
    """Of the set tier; 0 before anything was put into it."""
    count: int = 0
    """URLs in the set tier."""
    blooms: int = 0
    """Bloom generations."""
    last: int = 0
    """URLs in the last of them."""
    era: int = 0
    """How many sets were dropped before this one."""


class LayoutStale(StoreError):
    """A seen-set has grown since the keys of a push were computed."""

    def __init__(self, layout: SeenLayout) -> None:
        super().__init__(f"the seen-set has another layout: {layout}")
        self.layout = layout


@dataclass(frozen=True, slots=True)
class SeenConfig:
    """The shared tiers of a crawl and what their first generation is sized for."""

    has_bloom: bool
    has_set: bool
    capacity: int
    """URLs that a partition's first Bloom generation holds."""
    error_rate: float
    set_bits: int = 64
    native: bool = False
    """Whether the server's own filter (``BF.*``) is the Bloom tier."""

    @property
    def first(self) -> int:
        """URLs for which a partition's first generation is made."""
        # At least a whole push, so that none begins with more than it may hold.
        return max(self.capacity, MAX_URLS)

    @property
    def fills_later(self) -> bool:
        """Whether the Bloom tier has nothing until a set is about to be given up.

        What a set of 64 bits keeps are marks, so it can be copied then. From one of 32
        bits marks cannot be made again: Bloom is written beside it from the beginning.
        """
        return self.has_bloom and self.has_set and self.set_bits == 64

    @property
    def space(self) -> intset.Space:
        """What the set keeps of a mark, and where."""
        return _space(self.set_bits, self.first)

    def allows(self, layout: SeenLayout) -> bool:
        """Whether a seen-set that was only pushed to may have *layout*."""
        buckets = max(layout.buckets, self.space.groups)
        most = self.space.groups << LEVELS
        fits = self.space.wanted(layout.count) <= buckets <= most
        return (fits or not self.has_set) and layout.blooms <= MAX_BLOOMS

    def generation(self, number: int) -> bloom.Generation:
        """Bloom generation *number* of a partition, from 0."""
        return bloom.generation(number, self.first, self.error_rate)

    def filters(self, layout: SeenLayout) -> list[tuple[int, ...]]:
        """What the script must know of each Bloom generation."""
        if self.native:
            return [(0,)] if layout.blooms else []
        numbers = range(layout.blooms if self.has_bloom else 0)
        return [(made.bits, made.hashes) for made in map(self.generation, numbers)]

    def room(self, layout: SeenLayout) -> tuple[int, int]:
        """How many URLs the set may have with *layout*, and its last generation."""
        of_set = of_bloom = NO_LIMIT
        if self.has_set:
            of_set = self.space.room(layout.buckets or self.space.groups)
        if self.has_bloom and layout.blooms and not self.native:
            of_bloom = self.generation(layout.blooms - 1).capacity
        return of_set, of_bloom

    def is_full(self, layout: SeenLayout, adding: int) -> bool:
        """Whether a push of so many URLs needs another Bloom generation.

        A filter of the server's own grows by itself.
        """
        if not self.has_bloom or (self.fills_later and not layout.blooms):
            return False
        if layout.blooms == 0 or self.native:
            return layout.blooms == 0
        return layout.last + adding > self.generation(layout.blooms - 1).capacity


def seen_config(config: Config) -> SeenConfig:
    """The shared tiers that *config* asks for."""
    return SeenConfig(
        has_bloom="bloom" in config.seen_tiers,
        has_set="set" in config.seen_tiers,
        capacity=bloom.share(config.bloom_capacity, config.partitions),
        error_rate=config.bloom_error_rate,
        set_bits=config.seen_set_bits,
        native=config.bloom_native == "yes" and "bloom" in config.seen_tiers,
    )
