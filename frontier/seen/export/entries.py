"""Reading a crawl's set as a row of sorted entries, and adding such a row.

What always holds:

1.  Reading goes through the range of entries from below, and where it stands
    is an entry, not a bucket: when the set grows, it goes on from there. What
    was in the set when it began is read, exactly once.
2.  Adding splits the buckets that all will need before it adds the first.
    Sorted entries would else fill one bucket far over the server's limit.
3.  Adding again what is there changes nothing, so that an import which broke
    off can be made again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from frontier.errors import LayoutStale
from frontier.queue.push import NEW, TEST, Push, push_call, pushed, split_call
from frontier.seen.seen_set import layout_call, layout_of
from frontier.store.client import Call
from frontier.store.scripts import SEEN_READ

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from frontier.model import Layout
    from frontier.queue.push import SeenShape
    from frontier.seen.intset import Space
    from frontier.store.client import BlockingStore
    from frontier.store.keys import PartitionKeys

MAX_BUCKETS = 16
"""Buckets that are read with one call."""
MAX_SPLITS = 32
"""Splits that are made with one call."""


def entries(
    store: BlockingStore, keys: PartitionKeys, space: Space
) -> Iterator[list[int]]:
    """The entries of the partition's set, in sorted lists, each above the last."""
    layout = layout_of(store.call(layout_call(keys)))
    at = 0
    while at < space.end and layout.count:
        # Until the first split the store does not say how many buckets there are.
        total = layout.buckets or space.groups
        numbers, end = list[int](), at
        while end < space.end and len(numbers) < MAX_BUCKETS:
            numbers.append(space.bucket_of(end, total))
            end = space.range_of(end, total).stop
        names = [keys.seen, *(keys.bucket(layout.era, number) for number in numbers)]
        reply = store.call(Call.to(SEEN_READ, names, [layout.buckets, layout.era]))
        if reply[0] == 0:
            layout = replace(layout, buckets=int(reply[1]), era=int(reply[2]))
            continue
        found = sorted(
            space.entry_of(int(value), number)
            for number, bucket in zip(numbers, reply[1:], strict=True)
            for value in bucket
        )
        # A bucket of a set that has grown may begin below where this stands.
        if found := [entry for entry in found if at <= entry < end]:
            yield found
        at = end


def reserve(
    store: BlockingStore, keys: PartitionKeys, shape: SeenShape, count: int
) -> Layout:
    """Give the partition's set the buckets that *count* more entries will need."""
    layout = layout_of(store.call(layout_call(keys)))
    while shape.has_set:
        now = layout.buckets or shape.space.groups
        total = shape.space.wanted(layout.count + count)
        if total <= now:
            break
        call = split_call(keys, shape, layout, min(total, now + MAX_SPLITS))
        try:
            layout = pushed(store.call(call), ()).layout
        except LayoutStale as stale:
            layout = stale.layout
    return layout


def add(
    store: BlockingStore,
    keys: PartitionKeys,
    shape: SeenShape,
    layout: Layout,
    marks: Sequence[int],
) -> tuple[Layout, int]:
    """Add *marks*; return the layout and how many of them were new.

    They are at most as many as `frontier.queue.push.MAX_URLS`.
    """
    pushes = [Push(TEST, mark, "", 0, b"") for mark in marks]
    while True:
        call = push_call(keys, shape, layout, pushes)
        try:
            done = pushed(store.call(call), pushes)
        except LayoutStale as stale:
            layout = stale.layout
        else:
            return done.layout, done.verdicts.count(NEW)
