"""The shared tiers of the seen test: their size, and the keys that a script is given.

What always holds:

1.  The keys of a push follow from the `SeenLayout` of the partition's seen-set, and
    from the crawl's `SeenConfig`, which never changes. So any node can compute them.
2.  A layout only grows, except when a set is dropped, which begins a new era. If the
    layout from which its keys were computed is not the current one, a script does
    nothing and returns the current one: `LayoutStale`.
3.  Growth is a script of its own, which queues and marks nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgpack

from frontier.errors import CrawlLost, StoreError
from frontier.model import frozen
from frontier.queue.due import bucket_of
from frontier.seen import bloom, intset
from frontier.store.calls import Call

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from frontier.settings.config import Config
    from frontier.store.keys import PartitionKeys

MAX_URLS = 100
"""URLs per call: each takes 3 to 10 microseconds of the server, which does nothing
else meanwhile."""
PLAN = 4
"""What a plan costs a server besides its URLs, in URLs that would take as long."""
MOST = 150
"""URLs of one call, each plan counting as `PLAN` more: half a millisecond of the
server."""
NO_LIMIT = 1 << 62
"""Room of a tier that no push can fill."""
MAX_BLOOMS = 32
"""Generations of a Bloom tier: each holds four times as many URLs as the one before."""

# Lua's msgpack is older than msgpack's type for bytes.
pack = msgpack.Packer(use_bin_type=False).pack


@frozen
class SeenLayout:
    """The size of a partition's seen-set."""

    buckets: int = 1
    """Buckets of the set tier."""
    count: int = 0
    """URLs in the set tier."""
    blooms: int = 0
    """Bloom generations."""
    last: int = 0
    """URLs in the last generation."""
    era: int = 0
    """How many sets were dropped before this one."""


class LayoutStale(StoreError):
    """A seen-set has grown since the keys of a push were computed."""

    def __init__(self, layout: SeenLayout) -> None:
        super().__init__(f"the seen-set has another layout: {layout}")
        self.layout = layout


@frozen
class SeenConfig:
    """The shared tiers of a crawl and what their first generation is sized for."""

    has_bloom: bool
    has_set: bool
    capacity: int
    """URLs that a partition's first Bloom generation holds."""
    error_rate: float

    def allows(self, layout: SeenLayout) -> bool:
        """Whether a seen-set that was only pushed to may have *layout*."""
        least = intset.wanted(layout.count)
        fits = least <= layout.buckets <= intset.MOST_BUCKETS or not self.has_set
        return fits and layout.blooms <= MAX_BLOOMS

    def generation(self, number: int) -> bloom.Generation:
        """Bloom generation *number* of a partition, from 0."""
        # At least a whole push, so that none begins with more than it can hold.
        first = max(self.capacity, MAX_URLS)
        return bloom.generation(number, first, self.error_rate)

    def generations(self, layout: SeenLayout) -> list[bloom.Generation]:
        """The Bloom generations of a partition with *layout*."""
        numbers = range(layout.blooms if self.has_bloom else 0)
        return [self.generation(number) for number in numbers]

    def filled(self, urls: float) -> list[bloom.Generation]:
        """The Bloom generations of a partition with *urls*; the last may overflow."""
        made: list[bloom.Generation] = []
        while urls > 0 and len(made) < MAX_BLOOMS:
            made.append(self.generation(len(made)))
            urls -= made[-1].capacity
        return made

    def room(self, layout: SeenLayout) -> tuple[int, int]:
        """How many URLs the set and the last generation of *layout* may have."""
        of_set = of_bloom = NO_LIMIT
        if self.has_set:
            of_set = intset.room(layout.buckets)
        if self.has_bloom and layout.blooms:
            of_bloom = self.generation(layout.blooms - 1).capacity
        return of_set, of_bloom

    def is_full(self, layout: SeenLayout, adding: int) -> bool:
        """Whether a push of *adding* URLs needs another Bloom generation."""
        if not self.has_bloom:
            return False
        return not layout.blooms or layout.last + adding > self.room(layout)[1]


def seen_config(config: Config) -> SeenConfig:
    """The shared tiers that *config* asks for."""
    return SeenConfig(
        has_bloom="bloom" in config.seen_tiers,
        has_set="set" in config.seen_tiers,
        capacity=bloom.share(config.bloom_capacity, config.partitions),
        error_rate=config.bloom_error_rate,
    )


class Plan(NamedTuple):
    """A push to one partition, or growth to make room for it, for a script."""

    script: str
    names: list[str]
    """Its keys."""
    packed: bytes
    urls: int
    """How many it pushes, or makes room for."""


class PlanKeys:
    """The keys of a plan, and the places of its buckets and lists among them."""

    def __init__(self, keys: PartitionKeys, era: int) -> None:
        self.names: list[str] = []
        self._keys = keys
        self._era = era
        self._places: dict[int, int] = {}

    def buckets(self, numbers: Sequence[int]) -> list[int]:
        """The places of the buckets' keys, from 1."""
        places, names, found = self._places, self.names, []
        for number in numbers:
            place = places.get(number)
            if place is None:
                names.append(self._keys.bucket(self._era, number))
                place = places[number] = len(names)
            found.append(place)
        return found

    def lists(
        self,
        queues: Sequence[str],
        priorities: Sequence[int],
        dues: Sequence[int],
        clock: Callable[[], float],
    ) -> tuple[list[tuple[Any, ...]], list[int]]:
        """The lists, and to which of them each URL goes, from 1; 0 means none.

        Ready lists come before those of URLs that wait until they are due.
        """
        known, found = {"": 0}, []
        lists: list[tuple[Any, ...]] = []
        waits = any(dues)
        for queue, priority, due in zip(queues, priorities, dues, strict=True):
            target = known.get(queue) if not (waits and due and queue) else -1
            if target is None:
                self.names.append(self._keys.ready(queue))
                lists.append((len(self.names), queue, -priority))
                target = known[queue] = len(lists)
            found.append(target)
        if waits:
            self._waiting_lists(dues, clock(), lists, found)
        return lists, found if lists else []

    def _waiting_lists(
        self,
        dues: Sequence[int],
        now: float,
        lists: list[tuple[Any, ...]],
        found: list[int],
    ) -> None:
        """Add the lists of waiting URLs to *lists*, and which is whose to *found*."""
        known: dict[str, tuple[int, int]] = {}
        self.names.append(self._keys.due)
        due_place = len(self.names)
        for number, target in enumerate(found):
            if target >= 0:
                continue
            bucket, delay = bucket_of(dues[number], now)
            if bucket not in known:
                self.names.append(self._keys.waiting(bucket))
                lists.append(())
                known[bucket] = len(lists), len(self.names)
            found[number], place = known[bucket]
            longest = max(delay, *(lists[found[number] - 1][4:] or (0,)))
            lists[found[number] - 1] = (place, "", bucket, due_place, longest)


def grow_plan(
    keys: PartitionKeys,
    tiers: SeenConfig,
    layout: SeenLayout,
    total: int,
    urls: int,
    *,
    begins: bool = False,
) -> Plan:
    """What `joined` needs to give a set *total* buckets, for *urls* more URLs.

    If it *begins* a Bloom generation, that also makes room. `grown` reads the reply.
    """
    made = PlanKeys(keys, layout.era)
    made.names += [keys.counts, keys.seen]
    splits = [
        (*made.buckets((source, target)), str(threshold))
        for source, target, threshold in intset.splits(layout.buckets, total)
    ]
    bits = 0
    if begins:
        made.names.append(keys.bloom(layout.blooms))
        bits = tiers.generation(layout.blooms).bits
    at = (layout.buckets, layout.blooms, layout.era)
    packed = pack((len(made.names), keys.born, at, splits, bits))
    return Plan("seen_grow", made.names, packed, urls)


def joined(plans: Sequence[Plan], *, alone: bool) -> list[Call]:
    """As few calls as possible for *plans*, of different partitions.

    Their replies, one after another, have one reply for each plan. A call is for one
    partition, unless the store is *alone*, and so takes keys of several slots.
    """
    groups: list[list[Plan]] = []
    effort = 0
    for plan in plans:
        last = groups[-1] if groups and alone else []
        effort += PLAN + plan.urls
        if last and effort <= MOST and last[0].script == plan.script:
            last.append(plan)
        else:
            groups.append([plan])
            effort = PLAN + plan.urls
    return [
        Call.to(
            group[0].script,
            [name for one in group for name in one.names],
            [one.packed for one in group],
        )
        for group in groups
    ]


def grown(reply: list[Any]) -> SeenLayout:
    """The layout in the *reply* to a plan.

    Raises:
        CrawlLost: The store has lost what was in the partition.
    """
    if reply[0] < 0:
        raise CrawlLost
    return SeenLayout(*reply[1:6])
