"""Pushing: one script call per partition tests, marks and queues its URLs.

What always holds:

1.  A URL is never marked as seen without being queued: both are one script.
    Only a push that names no queue is marked alone, for callers that have a
    queue of their own.
2.  The keys of a push are computed from the `Layout` of the partition's
    seen-set. The script does nothing if that is not the current one, or if
    others have pushed so much since that there is no room for this push; the
    caller tries again with the layout that it returned.
3.  Any node may push to any partition; no lease is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import msgpack

from frontier import bloom, buckets
from frontier.errors import LayoutStale
from frontier.model import Layout
from frontier.store.client import Call
from frontier.store.scripts import QUEUE_PUSH

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from frontier.hashing import Mark
    from frontier.store.keys import PartitionKeys

MAX_URLS = 500
"""URLs per call: 1,000 take more than a millisecond of the server."""

NO_LIMIT = 1 << 62
"""Room of a tier that this push does not fill."""

TEST, MARK, FORCE = "t", "m", "f"
"""How a URL is pushed: if it is new; always, and it counts as seen from then
on; always, and nothing is remembered."""

NEW, SEEN, SEEN_BY_BLOOM, FORCED = "n", "s", "b", "f"
"""What the script says of a URL."""


@dataclass(frozen=True, slots=True)
class SeenShape:
    """The shared tiers of a crawl and what their first generation is sized for."""

    has_bloom: bool
    has_set: bool
    capacity: int
    """URLs that a partition's first Bloom generation holds."""
    error_rate: float

    def generation(self, number: int) -> bloom.Generation:
        """Bloom generation *number* of a partition, from 0."""
        # At least a whole push, so that none begins with more than it may hold.
        first = max(self.capacity, MAX_URLS)
        return bloom.generation(number, first, self.error_rate)


class Push(NamedTuple):
    """One URL to be pushed."""

    mode: str
    mark: Mark
    queue: str
    """``<priority>:<queue key>``; empty if the URL is to be marked only."""
    priority: int
    item: bytes
    tag: Any = None
    """Whatever the caller wants back with the verdict."""


@dataclass(frozen=True, slots=True)
class Pushed:
    """What a push did."""

    layout: Layout
    verdicts: str
    """A letter per URL, in the order of the pushes."""
    risen: tuple[str, ...]
    """Queues that were empty before: their owner may not know of them."""


def push_call(
    keys: PartitionKeys, shape: SeenShape, layout: Layout, pushes: Sequence[Push]
) -> Call:
    """The call that pushes *pushes*, at most `MAX_URLS`, to one partition."""
    made = list(_generations(shape, layout, len(pushes)))
    names = [keys.counts, keys.queues, keys.seen]
    names += [keys.bloom(number) for number in range(len(made))]
    room = [NO_LIMIT, NO_LIMIT]
    if made and len(made) == layout.blooms:
        room[1] = shape.generation(layout.blooms - 1).capacity
    index: dict[str, int] = {}

    def position(name: str) -> int:
        at = index.get(name)
        if at is None:
            names.append(name)
            at = index[name] = len(names)
        return at

    total, splits = layout.buckets, []
    if shape.has_set:
        total = max(total, buckets.wanted(layout.count + len(pushes)))
        room[0] = buckets.room(total)
        for split in buckets.splits(layout.buckets, total):
            source = position(keys.bucket(split.source))
            target = position(keys.bucket(split.target))
            splits.append((source, target, str(split.threshold)))

    urls: list[Any] = []
    lists: dict[str, tuple[int, str, int]] = {}
    numbers: dict[str, int] = {}
    for mode, (h1, h2, member), queue, priority, item, _ in pushes:
        bucket = 0
        if shape.has_set and mode != FORCE:
            bucket = position(keys.bucket(buckets.bucket_of(member, total)))
        if queue and queue not in numbers:
            lists[queue] = (position(keys.ready(queue)), queue, -priority)
            numbers[queue] = len(lists)
        urls += (mode, h1, h2, str(member), bucket, numbers.get(queue, 0), item)
    found = list(lists.values())
    plan = (layout.buckets, layout.blooms, made, splits, found, urls, room)
    # Lua's msgpack is older than the type for bytes.
    return Call.to(QUEUE_PUSH, names, [msgpack.packb(plan, use_bin_type=False)])


def _generations(shape: SeenShape, layout: Layout, adding: int) -> Iterator[Any]:
    """Bits and hashes of each Bloom generation, of one more if the last is full."""
    if shape.has_bloom:
        for number in range(layout.blooms + _must_grow(shape, layout, adding)):
            made = shape.generation(number)
            yield (made.bits, made.hashes)


def pushed(reply: list[Any], pushes: Sequence[Push]) -> Pushed:
    """What *reply* to the call that pushed *pushes* says.

    Raises:
        LayoutStale: Nothing was done; the error has the current layout.
    """
    layout = Layout(*(int(value) for value in reply[1:5]))
    if reply[0] == 0:
        raise LayoutStale(layout)
    queues = list(dict.fromkeys(push.queue for push in pushes if push.queue))
    risen = tuple(queues[number - 1] for number in reply[6])
    return Pushed(layout, reply[5].decode("ascii"), risen)


def _must_grow(shape: SeenShape, layout: Layout, adding: int) -> bool:
    if layout.blooms == 0:
        return True
    return layout.last + adding > shape.generation(layout.blooms - 1).capacity
