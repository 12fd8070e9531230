"""The seen test of a crawl from outside: how full, how wrong, and where it goes.

How many URLs of a list a crawl's set has, without taking any out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from frontier.errors import ConfigurationError, KeyDamaged
from frontier.seen.capacity_plan import error_after, set_bytes
from frontier.seen.config import seen_config
from frontier.seen.seen_set import (
    MAX_MEMBERS,
    checked_shape,
    crawl_state,
    layout_call,
    layout_of,
    partition_state,
    state_call,
)
from frontier.store.client import Call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frontier.seen.bloom import Generation
    from frontier.seen.config import SeenConfig, SeenLayout
    from frontier.seen.seen_set import PartitionState, SeenState
    from frontier.store.client import BlockingStore
    from frontier.store.keys import CrawlKeys, PartitionKeys


def members(
    store: BlockingStore, keys: PartitionKeys, tiers: SeenConfig, marks: Sequence[int]
) -> int | None:
    """How many of *marks* are in the set of a partition.

    ``None`` if a set of it was given up: a Bloom filter decides there.
    """
    layout, found, at = layout_of(store.call(layout_call(keys))), 0, 0
    while at < len(marks) and not layout.era:
        batch = marks[at : at + MAX_MEMBERS]
        *replies, current = store.run(
            [*_calls(keys, tiers, layout, batch), layout_call(keys)]
        )
        now = layout_of(current)
        if (now.buckets, now.era) == (layout.buckets, layout.era):
            found += sum(reply == 1 for reply in replies)
            at += len(batch)
        layout = now
    return None if layout.era else found


def _calls(
    keys: PartitionKeys, tiers: SeenConfig, layout: SeenLayout, marks: Sequence[int]
) -> list[Call]:
    space = tiers.space
    numbers = space.numbers(marks, layout.buckets or space.groups)
    return [
        Call.command(
            "SISMEMBER",
            keys.bucket(layout.era, number),
            str(space.member(space.entry(mark))),
        )
        for number, mark in zip(numbers, marks, strict=True)
    ]


BATCH = 128
"""Partitions per round trip."""
LATER = 24 * 3600.0
"""Seconds from now for which a forecast is made."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """The tiers when the crawl has gone on for some time at its mean pace."""

    seconds: float
    """From now."""
    urls: int
    set_bytes: int
    """As if no set was given up."""
    bloom_error: float
    """Chance that the Bloom tier will call a new URL seen."""


@dataclass(frozen=True, slots=True)
class Tiers:
    """The shared tiers of a crawl now, and later."""

    has_set: bool
    has_bloom: bool
    native: bool
    set_bits: int
    state: SeenState
    outlook: Outlook | None
    """``None`` if the crawl is over, or nothing was seen yet."""


def look_at_tiers(
    store: BlockingStore, keys: CrawlKeys, stored: Any, seconds: float
) -> Tiers | None:
    """The tiers of the crawl of *keys*, given its *stored* tiers.

    *seconds* is for how long an open crawl has lasted, 0 for one that is over.
    ``None`` if the tiers, or what the store has of the tiers, is not this
    version's.
    """
    try:
        config = checked_shape(stored)
        tiers = seen_config(config)
        found = _states(store, keys, tiers, config.partitions)
    except (ConfigurationError, ValueError, TypeError):
        return None
    state = crawl_state(tiers, found)
    return Tiers(
        has_set=tiers.has_set,
        has_bloom=tiers.has_bloom,
        native=tiers.native,
        set_bits=tiers.set_bits,
        state=state,
        outlook=_outlook(tiers, found, state, seconds),
    )


def _states(
    store: BlockingStore, keys: CrawlKeys, tiers: SeenConfig, partitions: int
) -> list[PartitionState]:
    found = []
    for first in range(0, partitions, BATCH):
        numbers = range(first, min(first + BATCH, partitions))
        calls = [state_call(keys.partition(number)) for number in numbers]
        replies = store.run(calls, tolerant=True)
        known = [reply for reply in replies if not isinstance(reply, KeyDamaged)]
        states = (partition_state(tiers, reply) for reply in known)
        found += [state for state in states if state is not None]
    return found


def _outlook(
    tiers: SeenConfig,
    partitions: Sequence[PartitionState],
    state: SeenState,
    seconds: float,
) -> Outlook | None:
    """Every partition grows as it has until now."""
    if not seconds or not state.urls:
        return None
    growth = 1 + LATER / seconds
    error, size = 0.0, 0
    for each in partitions:
        urls = each.given_up + each.layout.count or each.layout.last
        share = urls / state.urls
        if tiers.has_set:
            size += set_bytes(tiers.space, urls * growth)
        if tiers.native:
            error += tiers.error_rate * share
        elif tiers.has_bloom:
            error += _error(tiers, urls * growth) * share
    return Outlook(LATER, round(state.urls * growth), size, error)


def _error(tiers: SeenConfig, urls: float) -> float:
    made: list[Generation] = []
    room = 0
    while room < urls and len(made) < 40:
        made.append(tiers.generation(len(made)))
        room += made[-1].capacity
    return error_after(made, urls)
