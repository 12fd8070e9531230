"""Pushing: one script call per partition tests, marks and queues its URLs.

What always holds:

1.  A URL is never marked as seen without being queued: both are one script.
    Only a push that names no queue is marked alone, for callers that have a
    queue of their own.
2.  The keys of a push are computed from the `SeenLayout` of the partition's
    seen-set. The script does nothing if that is not the current one, or if
    others have pushed so much since that there is no room for this push; the
    caller tries again with the layout that it returned. Where a push needs more
    room than there is, the seen-set grows by a script of its own first, which
    queues and marks nothing.
3.  Any node may push to any partition; no lease is needed.
4.  A push that has a `Turn` is done once, however often it is sent, and not at all
    where the store has forgotten an earlier one of the same process.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import msgpack

from frontier.errors import CrawlLost, KeyDamaged, PushForgotten
from frontier.seen.config import MAX_URLS, LayoutStale, SeenLayout
from frontier.store.client import Call
from frontier.store.scripts import QUEUE_PUSH, SEEN_GROW

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frontier.seen.config import SeenConfig
    from frontier.store.keys import PartitionKeys
    from frontier.store.scripts import Script

NO_LIMIT = 1 << 62
"""Room of a tier that this push does not fill."""

TEST, MARK, FORCE, CLAIM = "t", "m", "f", "l"
"""How a URL is pushed: if it is new; always, and it counts as seen from then
on; always, and nothing is remembered; if it is new, and only one process has its
request (see `frontier.queue.claims`)."""
GONE = "0123456789"
"""The mode of a mark that was claimed by a process that is gone, by the number of
times that it was delivered: the next push of it finds it new."""

NEW, SEEN, SEEN_BY_BLOOM, FORCED, CLAIMED, NOTED = "n", "s", "b", "f", "c", "o"
"""What the script says of a URL."""
ARE_SEEN = SEEN + SEEN_BY_BLOOM + CLAIMED


# Lua's msgpack is older than the type for bytes.
_pack = msgpack.Packer(use_bin_type=False).pack


class Push(NamedTuple):
    """One URL to be pushed."""

    mode: str
    mark: int
    queue: str
    """``<priority>:<queue key>``; empty if the URL is to be marked only."""
    priority: int
    item: bytes
    tag: Any = None
    """Whatever the caller wants back with the verdict."""


def held(push: Push) -> tuple[str, bytes]:
    """The name and the bytes of *push*, to be held; see `PartitionKeys.held`.

    What is tested is held once, however often it is pushed.
    """
    name = secrets.token_hex(12) if push.mode == FORCE else f"{push.mode}{push.mark}"
    fields = (push.mode, push.mark, push.queue, push.priority, push.item)
    packed: bytes = msgpack.packb(fields)
    return name, packed


def unheld(packed: bytes) -> Push | None:
    """The push that *packed*, of unknown origin, is; ``None`` if it is none."""
    try:
        mode, mark, queue, priority, item = msgpack.unpackb(packed)
        made = Push(str(mode), int(mark), str(queue), int(priority), bytes(item))
    except Exception:  # noqa: BLE001 (msgpack raises many types)
        return None
    known = len(made.mode) == 1 and made.mode in TEST + MARK + FORCE + CLAIM + GONE
    return made if known and 0 <= made.mark < 1 << 63 else None


class Turn(NamedTuple):
    """Which push of which process to a partition it is."""

    process: str
    number: int
    """Greater than that of each earlier push of the process."""
    before: int
    """The last that the store has confirmed there; 0 if it need not have it."""


class Plan(NamedTuple):
    """A push to one partition, or what makes room for it there, for a script."""

    script: Script
    names: list[str]
    """Its keys."""
    packed: bytes
    urls: int
    """How many it pushes, or makes room for."""


@dataclass(frozen=True, slots=True)
class Pushed:
    """What a push did."""

    layout: SeenLayout
    verdicts: str
    """A letter per URL, in the order of the pushes."""
    became_ready: tuple[str, ...]
    """Queues that were empty before: their owner may not know of them."""


def push_call(
    keys: PartitionKeys,
    shape: SeenConfig,
    layout: SeenLayout,
    pushes: Sequence[Push],
    turn: Turn | None = None,
) -> Call:
    """The call that pushes *pushes*, at most `MAX_URLS`, to one partition.

    Or that makes room for them, where there is none: see `push_plan`. Without a *turn*
    it may be done twice if it is sent twice.
    """
    (call,) = joined([push_plan(keys, shape, layout, pushes, turn)], alone=False)
    return call


def push_plan(
    keys: PartitionKeys,
    shape: SeenConfig,
    layout: SeenLayout,
    pushes: Sequence[Push],
    turn: Turn | None = None,
) -> Plan:
    """What `joined` needs to push *pushes*, at most `MAX_URLS`, to one partition.

    Where a seen-set of *layout* has no room for them, it is what `joined` needs to make
    it grow. Its reply has the layout that the push is then to be planned with, as that
    of a push that was planned with another than the current one.
    """
    modes, marks, queues, priorities, items, _ = zip(*pushes, strict=True)
    space, urls = shape.space, len(marks)
    total = layout.buckets or space.groups
    wanted = space.wanted(layout.count + urls) if shape.has_set else total
    begins = shape.has_bloom and shape.is_full(layout, urls)
    if wanted > total or begins:
        return grow_plan(keys, shape, layout, wanted, urls, begins=begins)
    made = _Keys(keys, layout.era)
    filters = shape.filters(layout)
    made.names += [keys.counts, keys.queues, keys.seen, keys.pushers, keys.claimed]
    made.names += [keys.bloom(number) for number in range(len(filters))]
    texts: Sequence[str] = ()
    members: Sequence[str] = ()
    places: Sequence[int] = ()
    room = [NO_LIMIT, NO_LIMIT]
    if shape.has_set:
        room[0] = space.room(total)
        places = made.buckets(space.numbers(marks, total))
        if shape.set_bits != 64:
            members = [str(space.member(space.entry(mark))) for mark in marks]
    if filters and not shape.native:
        room[1] = shape.generation(layout.blooms - 1).capacity
    if shape.has_set or shape.has_bloom:
        texts = [str(mark) for mark in marks]
    lists, targets = made.lists(queues, priorities)
    known = (total, layout.blooms, layout.era)
    head = (len(made.names), keys.born, turn or (), known, space.groups, room)
    columns = ("".join(modes), texts, members, places, targets)
    packed = _pack((*head, filters, lists, *columns, items if targets else ()))
    return Plan(QUEUE_PUSH, made.names, packed, urls)


def grow_plan(
    keys: PartitionKeys,
    shape: SeenConfig,
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
    made, space = _Keys(keys, layout.era), shape.space
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
        generation = (0, shape.first, shape.error_rate)
        if not shape.native:
            generation = (shape.generation(layout.blooms).bits,)
    at = (known, layout.blooms, layout.era)
    head = (len(made.names), keys.born, at, space.groups)
    return Plan(SEEN_GROW, made.names, _pack((*head, splits, generation)), urls)


def grow_call(
    keys: PartitionKeys, shape: SeenConfig, layout: SeenLayout, total: int
) -> Call:
    """The call that gives a partition's set *total* buckets; see `grown`."""
    (call,) = joined([grow_plan(keys, shape, layout, total)], alone=False)
    return call


def joined(plans: Sequence[Plan], *, alone: bool) -> list[Call]:
    """Few calls for *plans*, of different partitions.

    All their replies, one after the other, have one for each plan. A call is of one
    partition, unless the store is *alone*: takes keys of several slots.
    """
    groups: list[list[Plan]] = []
    for plan in plans:
        last = groups[-1] if groups and alone else []
        fits = sum(one.urls for one in last) + plan.urls <= MAX_URLS
        if last and fits and last[0].script is plan.script:
            last.append(plan)
        else:
            groups.append([plan])
    return [
        Call.to(
            group[0].script,
            [name for one in group for name in one.names],
            [one.packed for one in group],
        )
        for group in groups
    ]


class _Keys:
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


def pushed(reply: list[Any], pushes: Sequence[Push]) -> Pushed:
    """What *reply* to the call that pushed *pushes*, and nothing else, says.

    Raises:
        LayoutStale: Nothing was done; the error has the current layout.
        CrawlLost: Nothing was done; the store has lost what was in the partition.
        PushForgotten: Nothing was done.
        KeyDamaged: Nothing was queued; a value in the partition cannot be.
    """
    return pushed_one(reply[0], pushes)


def pushed_one(reply: list[Any], pushes: Sequence[Push]) -> Pushed:
    """What the reply to one of several plans says; raises as `pushed` does."""
    layout = _layout(reply)
    if reply[0] == 0:
        raise LayoutStale(layout)
    if reply[0] == 2:
        raise PushForgotten
    became_ready: tuple[str, ...] = ()
    if reply[7]:
        queues = list(dict.fromkeys(push.queue for push in pushes if push.queue))
        became_ready = tuple(queues[number - 1] for number in reply[7])
    return Pushed(layout, reply[6].decode("ascii"), became_ready)


def grown(reply: list[Any]) -> SeenLayout:
    """The layout after the call of `grow_call`, as its *reply* says.

    Raises:
        CrawlLost: The store has lost what was in the partition.
        KeyDamaged: A value in the partition is none that can be.
    """
    return _layout(reply[0])


def _layout(reply: list[Any]) -> SeenLayout:
    if reply[0] == -2:
        raise KeyDamaged("", "", reply[1].decode("utf-8", "replace"))
    if reply[0] < 0:
        raise CrawlLost
    return SeenLayout(*reply[1:6])
