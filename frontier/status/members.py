"""How many URLs of a list a crawl's set has, without taking any out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frontier.seen.seen_set import MAX_MEMBERS, layout_call, layout_of
from frontier.store.client import Call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frontier.model import Layout
    from frontier.queue.push import SeenShape
    from frontier.store.client import BlockingStore
    from frontier.store.keys import PartitionKeys


def members(
    store: BlockingStore, keys: PartitionKeys, shape: SeenShape, marks: Sequence[int]
) -> int | None:
    """How many of *marks* are in the set of a partition.

    ``None`` if a set of it was given up: a Bloom filter decides there.
    """
    layout, found, at = layout_of(store.call(layout_call(keys))), 0, 0
    while at < len(marks) and not layout.era:
        batch = marks[at : at + MAX_MEMBERS]
        *replies, current = store.run(
            [*_calls(keys, shape, layout, batch), layout_call(keys)]
        )
        now = layout_of(current)
        if (now.buckets, now.era) == (layout.buckets, layout.era):
            found += sum(reply == 1 for reply in replies)
            at += len(batch)
        layout = now
    return None if layout.era else found


def _calls(
    keys: PartitionKeys, shape: SeenShape, layout: Layout, marks: Sequence[int]
) -> list[Call]:
    space = shape.space
    numbers = space.numbers(marks, layout.buckets or space.groups)
    return [
        Call.command(
            "SISMEMBER",
            keys.bucket(layout.era, number),
            str(space.member(space.entry(mark))),
        )
        for number, mark in zip(numbers, marks, strict=True)
    ]
