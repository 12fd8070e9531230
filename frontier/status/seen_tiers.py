"""The seen test of a crawl from outside: how full and how wrong, now and later."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from frontier.errors import ConfigurationError
from frontier.seen import intset
from frontier.seen.bloom import error_after
from frontier.seen.config import SeenConfig, seen_config
from frontier.seen.seen_set import PartitionState, SeenState, checked_shape, crawl_state
from frontier.status.forecast import LEAST_S
from frontier.status.views import Outlook, Tiers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frontier.status.partitions import PartitionLook


LATER = 24 * 3600.0
"""Seconds from now for which a forecast is made."""


def tiers_in(stored: Any) -> SeenConfig | None:
    """The tiers in a crawl's *stored* settings; ``None`` if not this version's."""
    try:
        return seen_config(checked_shape(stored))
    except (ConfigurationError, ValueError, TypeError):
        return None


def tiers_of(
    tiers: SeenConfig | None, looks: Sequence[PartitionLook], seconds: float
) -> Tiers | None:
    """The *tiers* of a crawl whose partitions are as *looks* say.

    *seconds* is how long the crawl has lasted, 0 if it is over.
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
    """The tiers in `LATER` seconds, if each partition grows as it has until now."""
    if seconds < LEAST_S or not state.urls:
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
