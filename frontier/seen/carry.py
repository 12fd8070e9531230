"""Reading a crawl's set as a row of sorted members, and adding such a row.

What always holds:

1.  Reading goes through the range of members from below, and where it stands
    is a member, not a bucket: when the set grows, it goes on from there. What
    was in the set when it began is read, exactly once.
2.  Adding splits the buckets that all will need before it adds the first.
    Sorted members would else fill one bucket far over the server's limit.
3.  Adding again what is there changes nothing, so that an import which broke
    off can be made again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from frontier import buckets
from frontier.errors import LayoutStale
from frontier.model import Layout
from frontier.seen.stored import layout_call, layout_of
from frontier.store.client import Call
from frontier.store.scripts import SEEN_ADD, SEEN_READ

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from frontier.store.client import BlockingStore
    from frontier.store.keys import PartitionKeys

LEAST, END = 1 << buckets.MEMBER_BITS, 2 << buckets.MEMBER_BITS
MAX_BUCKETS = 16
"""Buckets that are read with one call."""
MAX_SPLITS = 200
"""Splits that are made with one call."""


def range_end(member: int, total: int) -> int:
    """The first member above the range of *member*'s bucket in a set of *total*."""
    level = total.bit_length() - 1
    number = buckets.bucket_of(member, total)
    is_split = number >= 1 << level or number + (1 << level) < total
    size = 1 << buckets.MEMBER_BITS - level - is_split
    return member - member % size + size


def members(store: BlockingStore, keys: PartitionKeys) -> Iterator[list[int]]:
    """The members of the partition's set, in sorted lists, each above the last."""
    total = layout_of(store.call(layout_call(keys))).buckets
    at = LEAST
    while at < END:
        names, end = [keys.seen], at
        while end < END and len(names) <= MAX_BUCKETS:
            names.append(keys.bucket(buckets.bucket_of(end, total)))
            end = range_end(end, total)
        reply = store.call(Call.to(SEEN_READ, names, [total]))
        if reply[0] == 0:
            total = int(reply[1])
            continue
        found = sorted(int(value) for bucket in reply[1:] for value in bucket)
        # A bucket of a set that has grown may begin below where this stands.
        if found := [member for member in found if at <= member < end]:
            yield found
        at = end


def reserve(store: BlockingStore, keys: PartitionKeys, count: int) -> Layout:
    """Give the partition's set the buckets that *count* more members will need."""
    layout = layout_of(store.call(layout_call(keys)))
    while layout.buckets < buckets.wanted(layout.count + count):
        layout, _ = _add(store, keys, layout, [], layout.count + count)
    return layout


def add(
    store: BlockingStore, keys: PartitionKeys, layout: Layout, added: Sequence[int]
) -> tuple[Layout, int]:
    """Add members; return the layout and how many of them were new.

    They are at most as many as `frontier.seen.stored.MAX_MEMBERS`.
    """
    new = None
    while new is None:
        layout, new = _add(store, keys, layout, added, layout.count + len(added))
    return layout, new


def _add(
    store: BlockingStore,
    keys: PartitionKeys,
    layout: Layout,
    added: Sequence[int],
    urls: int,
) -> tuple[Layout, int | None]:
    """Try it; the number is ``None`` if nothing was done, or not all of the splits."""
    wanted = max(layout.buckets, buckets.wanted(urls))
    total = min(wanted, layout.buckets + MAX_SPLITS)
    members = added if total == wanted else ()
    try:
        new = _added(store.call(_call(keys, layout.buckets, total, members)))
    except LayoutStale as error:
        return error.layout, None
    return Layout(total, layout.count + new), new if total == wanted else None


def _call(keys: PartitionKeys, now: int, total: int, added: Sequence[int]) -> Call:
    steps = buckets.splits(now, total)
    names = [keys.seen]
    for step in steps:
        names += [keys.bucket(step.source), keys.bucket(step.target)]
    names += [keys.bucket(buckets.bucket_of(member, total)) for member in added]
    args = [now, buckets.room(total), len(steps)]
    texts = [str(step.threshold) for step in steps] + [str(m) for m in added]
    # A call without members only splits: no room is needed for what is there.
    if not added:
        args[1] = 1 << buckets.MEMBER_BITS
    return Call.to(SEEN_ADD, names, [*args, *texts])


def _added(reply: list[Any]) -> int:
    if reply[0] == 0:
        raise LayoutStale(Layout(buckets=int(reply[1]), count=int(reply[2])))
    return int(reply[1])
