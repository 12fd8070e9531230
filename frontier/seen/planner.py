"""The planner: which keys of a partition's seen-set a script is given, and growth.

What always holds:

1.  The keys of a plan are computed from the `SeenLayout` of the seen-set. Its script
    does nothing if that is not the current one, and returns the one that is.
2.  Growth is a script of its own, which queues and marks nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgpack

from frontier.errors import CrawlLost, KeyDamaged
from frontier.seen.config import SeenLayout
from frontier.store.client import Call
from frontier.store.scripts import SEEN_GROW

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frontier.seen.config import SeenConfig
    from frontier.store.keys import PartitionKeys
    from frontier.store.scripts import Script

# Lua's msgpack is older than the type for bytes.
pack = msgpack.Packer(use_bin_type=False).pack


PLAN = 4
"""URLs that take a server as long as what a plan takes it beside its URLs."""
MOST = 150
"""URLs of one call, with its plans as so many: half a millisecond of the server."""


class Plan(NamedTuple):
    """A push to one partition, or what makes room for it there, for a script."""

    script: Script
    names: list[str]
    """Its keys."""
    packed: bytes
    urls: int
    """How many it pushes, or makes room for."""


class PlanKeys:
    """The keys of a plan, and where in them those of its buckets and lists are."""

    def __init__(self, keys: PartitionKeys, era: int) -> None:
        self.names: list[str] = []
        self._keys = keys
        self._era = era
        self._places: dict[int, int] = {}

    def buckets(self, numbers: Sequence[int]) -> list[int]:
        """Where the keys of buckets are, from 1."""
        places, names, found = self._places, self.names, []
        for number in numbers:
            place = places.get(number)
            if place is None:
                names.append(self._keys.bucket(self._era, number))
                place = places[number] = len(names)
            found.append(place)
        return found

    def lists(
        self, queues: Sequence[str], priorities: Sequence[int]
    ) -> tuple[list[tuple[int, str, int]], list[int]]:
        """The ready lists, and which of them each URL goes to, from 1; 0 is none."""
        known, found = {"": 0}, []
        lists: list[tuple[int, str, int]] = []
        for queue, priority in zip(queues, priorities, strict=True):
            target = known.get(queue)
            if target is None:
                self.names.append(self._keys.ready(queue))
                lists.append((len(self.names), queue, -priority))
                target = known[queue] = len(lists)
            found.append(target)
        return lists, found if lists else []


def grow_plan(
    keys: PartitionKeys,
    tiers: SeenConfig,
    layout: SeenLayout,
    total: int,
    urls: int = 0,
    *,
    begins: bool = False,
) -> Plan:
    """What `joined` needs to give a set *total* buckets, for *urls* more URLs.

    If it *begins* a Bloom generation, that is for more URLs, too. The reply is for
    `grown`.
    """
    made, space = PlanKeys(keys, layout.era), tiers.space
    known = layout.buckets or space.groups
    made.names += [keys.counts, keys.seen]
    splits = [
        (*made.buckets((split.source, split.target)), str(split.threshold))
        for split in (space.splits(known, total) if total > known else ())
    ]
    generation: Sequence[float] = ()
    if begins:
        made.names.append(keys.bloom(layout.blooms))
        # A filter of the server's grows by itself: each part has half the error
        # of the one before, and the first has half of what is asked.
        generation = (0, tiers.first, tiers.error_rate)
        if not tiers.native:
            generation = (tiers.generation(layout.blooms).bits,)
    at = (known, layout.blooms, layout.era)
    head = (len(made.names), keys.born, at, space.groups)
    return Plan(SEEN_GROW, made.names, pack((*head, splits, generation)), urls)


def grow_call(
    keys: PartitionKeys, tiers: SeenConfig, layout: SeenLayout, total: int
) -> Call:
    """The call that gives a partition's set *total* buckets; see `grown`."""
    (call,) = joined([grow_plan(keys, tiers, layout, total)], alone=False)
    return call


def joined(plans: Sequence[Plan], *, alone: bool) -> list[Call]:
    """Few calls for *plans*, of different partitions.

    All their replies, one after the other, have one for each plan. A call is of one
    partition, unless the store is *alone*: takes keys of several slots.
    """
    groups: list[list[Plan]] = []
    effort = 0
    for plan in plans:
        last = groups[-1] if groups and alone else []
        effort += PLAN + plan.urls
        if last and effort <= MOST and last[0].script is plan.script:
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
    """The layout after the call of `grow_call`, as its *reply* says.

    Raises:
        CrawlLost: The store has lost what was in the partition.
        KeyDamaged: A value in the partition is none that can be.
    """
    return layout_of(reply[0])


def layout_of(reply: list[Any]) -> SeenLayout:
    """The layout that the reply to a plan has; raises as `grown` does."""
    if reply[0] == -2:
        raise KeyDamaged("", "", reply[1].decode("utf-8", "replace"))
    if reply[0] < 0:
        raise CrawlLost
    return SeenLayout(*reply[1:6])
