"""The seen test of a crawl from outside: how full, how wrong, and where it goes.

How many URLs of a list a crawl's set has, without taking any out.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from frontier.errors import ConfigurationError
from frontier.seen import intset
from frontier.seen.bloom import error_after
from frontier.seen.config import seen_config
from frontier.seen.seen_set import (
    MAX_MEMBERS,
    checked_shape,
    crawl_state,
    layout_call,
    layout_of,
)
from frontier.status.views import Outlook, Tiers
from frontier.store.client import Call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frontier.seen.config import SeenConfig, SeenLayout
    from frontier.seen.seen_set import PartitionState, SeenState
    from frontier.status.partitions import PartitionLook
    from frontier.store.client import BlockingStore
    from frontier.store.keys import PartitionKeys


def members(
    store: BlockingStore, keys: PartitionKeys, marks: Sequence[int]
) -> int | None:
    """How many of *marks* are in the set of a partition.

    ``None`` if a set of it was given up: a Bloom filter decides there.
    """
    layout, found, at = layout_of(store.call(layout_call(keys))), 0, 0
    while at < len(marks) and not layout.era:
        batch = marks[at : at + MAX_MEMBERS]
        *replies, current = store.run([*_calls(keys, layout, batch), layout_call(keys)])
        now = layout_of(current)
        if (now.buckets, now.era) == (layout.buckets, layout.era):
            found += sum(reply == 1 for reply in replies)
            at += len(batch)
        layout = now
    return None if layout.era else found


def _calls(keys: PartitionKeys, layout: SeenLayout, marks: Sequence[int]) -> list[Call]:
    numbers = intset.buckets_of(marks, layout.buckets)
    return [
        Call.command("SISMEMBER", keys.bucket(layout.era, number), mark)
        for number, mark in zip(numbers, marks, strict=True)
    ]


LATER = 24 * 3600.0
"""Seconds from now for which a forecast is made."""


def tiers_in(stored: Any) -> SeenConfig | None:
    """The tiers that a crawl was created with, as *stored*; ``None`` if not ours."""
    try:
        return seen_config(checked_shape(stored))
    except (ConfigurationError, ValueError, TypeError):
        return None


def tiers_of(
    tiers: SeenConfig | None, looks: Sequence[PartitionLook], seconds: float
) -> Tiers | None:
    """The *tiers* of a crawl whose partitions are as *looks* say.

    *seconds* is for how long an open crawl has lasted, 0 for one that is over.
    ``None`` if the tiers, or what the store has of them, are not this version's.
    """
    if tiers is None or any(look.is_foreign for look in looks):
        return None
    found = [look.tier for look in looks if look.tier is not None]
    state = crawl_state(tiers, found)
    return Tiers(
        has_set=tiers.has_set,
        has_bloom=tiers.has_bloom,
        state=state,
        outlook=_outlook(tiers, found, state, seconds),
    )


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
            later = math.ceil(urls * growth)
            size += intset.set_bytes(later, intset.wanted(later))
        if tiers.has_bloom:
            error += error_after(tiers.filled(urls * growth), urls * growth) * share
    return Outlook(LATER, round(state.urls * growth), size, error)
