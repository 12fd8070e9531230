"""Pushing: one script call per partition tests, marks and queues its URLs.

What always holds:

1.  A URL is never marked as seen without being queued: both are one script.
    Only a push that names no queue is marked alone, for callers that have a
    queue of their own.
2.  The keys of a push are computed from the `SeenLayout` of the partition's
    seen-set. The script does nothing if that is not the current one, or if
    others have pushed so much since that there is no room for this push; the
    caller tries again with the layout that it returned.
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
from frontier.seen.config import LayoutStale, SeenLayout
from frontier.store.client import Call
from frontier.store.scripts import QUEUE_PUSH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frontier.seen.config import SeenConfig
    from frontier.store.keys import PartitionKeys

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
    """A push to one partition, for the script."""

    names: list[str]
    """Its keys."""
    packed: bytes


@dataclass(frozen=True, slots=True)
class Pushed:
    """What a push did."""

    layout: SeenLayout
    verdicts: str
    """A letter per URL, in the order of the pushes."""
    risen: tuple[str, ...]
    """Queues that were empty before: their owner may not know of them."""


def push_call(
    keys: PartitionKeys,
    shape: SeenConfig,
    layout: SeenLayout,
    pushes: Sequence[Push],
    turn: Turn | None = None,
) -> Call:
    """The call that pushes *pushes*, at most `MAX_URLS`, to one partition.

    Without a *turn* it may be done twice if it is sent twice.
    """
    return joined([push_plan(keys, shape, layout, pushes, turn)])


def push_plan(
    keys: PartitionKeys,
    shape: SeenConfig,
    layout: SeenLayout,
    pushes: Sequence[Push],
    turn: Turn | None = None,
) -> Plan:
    """What `joined` needs to push *pushes*, at most `MAX_URLS`, to one partition."""
    modes, marks, queues, priorities, items, _ = zip(*pushes, strict=True)
    made = _Planner(keys, shape, layout, len(marks), turn)
    texts: Sequence[str] = ()
    members: Sequence[str] = ()
    places: Sequence[int] = ()
    if shape.has_set:
        space = shape.space
        total = made.grow(space.wanted(layout.count + len(marks)))
        places = made.places(space.numbers(marks, total))
        if shape.set_bits != 64:
            members = [str(space.member(space.entry(mark))) for mark in marks]
    if shape.has_set or shape.has_bloom:
        texts = [str(mark) for mark in marks]
    targets = made.targets(queues, priorities)
    return made.done(
        "".join(modes), texts, members, places, targets, items if targets else ()
    )


def split_call(
    keys: PartitionKeys, shape: SeenConfig, layout: SeenLayout, total: int
) -> Call:
    """The call that gives a partition's set *total* buckets, and pushes nothing."""
    made = _Planner(keys, shape, layout, 0)
    made.grow(total)
    return joined([made.done("", (), (), (), (), ())])


def joined(plans: Sequence[Plan]) -> Call:
    """One call for *plans*, of different partitions; its reply has one for each.

    Of several partitions only where the store takes keys of several slots.
    """
    names = [name for plan in plans for name in plan.names]
    return Call.to(QUEUE_PUSH, names, [plan.packed for plan in plans])


class _Planner:
    """Puts together what a push tells the script, and the keys that it names."""

    def __init__(
        self,
        keys: PartitionKeys,
        shape: SeenConfig,
        layout: SeenLayout,
        adding: int,
        turn: Turn | None = None,
    ) -> None:
        self._turn = turn or ()
        self._keys, self._layout, self._space = keys, layout, shape.space
        made = list(shape.filters(layout, adding)) if adding else []
        self._names = [keys.counts, keys.queues, keys.seen, keys.pushers]
        self._names.append(keys.claimed)
        self._names += [keys.bloom(number) for number in range(len(made))]
        self._room = [NO_LIMIT, NO_LIMIT]
        if made and len(made) == layout.blooms and not shape.native:
            self._room[1] = shape.generation(layout.blooms - 1).capacity
        self._known = layout.buckets or self._space.groups
        self._made, self._splits, self._lists = made, list[Any](), list[Any]()
        self._places: dict[int, int] = {}

    def grow(self, wanted: int) -> int:
        """Split buckets until there are *wanted*; return how many there will be."""
        total = max(self._known, wanted)
        self._room[0] = self._space.room(total)
        if total > self._known:
            for split in self._space.splits(self._known, total):
                ends = self.places((split.source, split.target))
                self._splits.append((*ends, str(split.threshold)))
        return total

    def places(self, numbers: Sequence[int]) -> list[int]:
        """Where the keys of buckets are."""
        places, names, found = self._places, self._names, []
        for number in numbers:
            place = places.get(number)
            if place is None:
                names.append(self._keys.bucket(self._layout.era, number))
                place = places[number] = len(names)
            found.append(place)
        return found

    def targets(self, queues: Sequence[str], priorities: Sequence[int]) -> list[int]:
        """Which of the ready lists each URL goes to, from 1; 0 is none."""
        known, found = {"": 0}, []
        for queue, priority in zip(queues, priorities, strict=True):
            target = known.get(queue)
            if target is None:
                self._names.append(self._keys.ready(queue))
                self._lists.append((len(self._names), queue, -priority))
                target = known[queue] = len(self._lists)
            found.append(target)
        return found if self._lists else []

    def done(self, modes: str, *urls: Sequence[Any]) -> Plan:
        """The plan, given *modes* and the other columns of its URLs."""
        layout = (self._known, self._layout.blooms, self._layout.era)
        tiers = (self._space.groups, self._room, self._made, self._splits)
        head = (len(self._names), self._keys.born, self._turn, layout)
        plan = (*head, *tiers, self._lists, modes, *urls)
        return Plan(self._names, _pack(plan))


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
    if reply[0] == -2:
        raise KeyDamaged("", "", reply[1].decode("utf-8", "replace"))
    if reply[0] < 0:
        raise CrawlLost
    layout = SeenLayout(*reply[1:6])
    if reply[0] == 0:
        raise LayoutStale(layout)
    if reply[0] == 2:
        raise PushForgotten
    risen: tuple[str, ...] = ()
    if reply[7]:
        queues = list(dict.fromkeys(push.queue for push in pushes if push.queue))
        risen = tuple(queues[number - 1] for number in reply[7])
    return Pushed(layout, reply[6].decode("ascii"), risen)
