"""The seen test of a crawl from outside: how full and how wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from frontier.errors import ConfigurationError
from frontier.seen.config import SeenConfig, seen_config
from frontier.seen.seen_set import checked_shape, crawl_state
from frontier.status.views import Tiers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frontier.status.partitions import PartitionLook


def tiers_in(stored: Any) -> SeenConfig | None:
    """The tiers in a crawl's *stored* settings; ``None`` if not this version's."""
    try:
        return seen_config(checked_shape(stored))
    except (ConfigurationError, ValueError, TypeError):
        return None


def tiers_of(tiers: SeenConfig | None, looks: Sequence[PartitionLook]) -> Tiers | None:
    """The *tiers* of a crawl whose partitions are as *looks* say.

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
    )
