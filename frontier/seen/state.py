"""How full the shared tiers of a crawl are, and what that costs. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from frontier.seen.capacity_plan import lost_to_bloom, lost_to_set, set_bytes, set_error
from frontier.seen.seen_set import LAYOUT, bloom_error, in_bloom, layout_of
from frontier.store.client import Call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frontier.seen.config import SeenConfig, SeenLayout
    from frontier.store.keys import PartitionKeys

FIELDS = (*LAYOUT, "lost_from", "given_up", "old")


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The tiers of one partition."""

    layout: SeenLayout
    lost_from: int | None
    """URLs in Bloom when the first set was given up; ``None`` if none was."""
    given_up: int
    """URLs of sets that were given up."""
    old: tuple[int, int] | None
    """Era and buckets of a set that was given up and is being deleted."""
    set_bytes: int


@dataclass(frozen=True, slots=True)
class SeenState:
    """The tiers of a crawl."""

    urls: int = 0
    """Different URLs, as far as the tiers can tell."""
    set_urls: int = 0
    set_bytes: int = 0
    set_error: float = 0.0
    """Chance that the set calls a new URL seen."""
    bloom_urls: int = 0
    """At most: a generation may end a little early."""
    bloom_bytes: int = 0
    bloom_fill: float = 0.0
    """URLs in the Bloom tier, by those it has room for without growing."""
    bloom_error: float = 0.0
    """Chance, at most, that the Bloom tier calls a new URL seen."""
    generations: int = 0
    """Bloom generations of the partition that has most."""
    given_up: int = 0
    lost: float = 0.0
    """New URLs that were called seen, as expected."""


def state_call(keys: PartitionKeys) -> Call:
    """The call whose reply `partition_state` reads."""
    return Call.command("HMGET", keys.seen, *FIELDS)


def partition_state(
    tiers: SeenConfig, reply: Sequence[bytes | None]
) -> PartitionState | None:
    """The state that *reply* tells; ``None`` if nothing was ever put in there.

    Raises:
        ValueError: It is no reply of this version's.
    """
    if not any(reply):
        return None
    layout = layout_of(reply[: len(LAYOUT)])
    lost_from, given_up, old = reply[len(LAYOUT) :]
    era, buckets = (old or b"0 0").split()
    has = layout.count if tiers.has_set else 0
    return PartitionState(
        layout,
        None if lost_from is None else int(lost_from),
        int(given_up or 0),
        None if old is None else (int(era), int(buckets)),
        set_bytes(tiers.space, has, layout.buckets or tiers.space.groups),
    )


def crawl_state(tiers: SeenConfig, partitions: Sequence[PartitionState]) -> SeenState:
    """What *partitions* are together; errors are those of the mean new URL."""
    urls = [_urls(tiers, each) for each in partitions]
    total = sum(urls)
    shares = [count / total for count in urls] if total else [0.0 for _ in urls]
    pairs = list(zip(partitions, shares, strict=True))
    made = [_room(tiers, each) for each in partitions]
    room = sum(room for room, _ in made)
    in_filters = sum(in_bloom(tiers, each.layout) for each in partitions)
    return SeenState(
        urls=total,
        set_urls=sum(each.layout.count for each in partitions),
        set_bytes=sum(each.set_bytes for each in partitions),
        set_error=sum(
            set_error(tiers.space, each.layout.count) * share for each, share in pairs
        ),
        bloom_urls=in_filters,
        bloom_bytes=sum(size for _, size in made),
        bloom_fill=in_filters / room if room else 0.0,
        bloom_error=sum(bloom_error(tiers, e.layout) * share for e, share in pairs),
        generations=max((each.layout.blooms for each in partitions), default=0),
        given_up=sum(each.given_up for each in partitions),
        lost=sum(lost(tiers, each) for each in partitions),
    )


def lost(tiers: SeenConfig, state: PartitionState) -> float:
    """New URLs of a partition that were called seen, as expected."""
    layout = state.layout
    by_set = lost_to_set(tiers.space, layout.count) if tiers.has_set else 0.0
    since = state.lost_from if tiers.has_set else 0
    if since is None or not layout.blooms:
        return by_set
    inside = in_bloom(tiers, layout)
    if tiers.native:
        return by_set + tiers.error_rate * (inside - since)
    made = [tiers.generation(number) for number in range(layout.blooms)]
    return by_set + lost_to_bloom(made, inside) - lost_to_bloom(made, since)


def _urls(tiers: SeenConfig, state: PartitionState) -> int:
    if tiers.has_set and (state.given_up or not state.layout.era):
        return state.given_up + state.layout.count
    return in_bloom(tiers, state.layout)  # at most; a generation may end early


def _room(tiers: SeenConfig, state: PartitionState) -> tuple[int, int]:
    """URLs that the Bloom tier has room for, and the bytes that it takes."""
    if tiers.native:
        return max(tiers.first, state.layout.last) if state.layout.blooms else 0, 0
    made = [tiers.generation(number) for number in range(state.layout.blooms)]
    return sum(each.capacity for each in made), sum(-(-each.bits // 8) for each in made)
