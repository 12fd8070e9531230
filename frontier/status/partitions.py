"""What each partition of a crawl is like: its queue, its seen tiers, its back-offs.

What always holds:

1.  Looking changes nothing: no lease is taken, and nothing is moved.
2.  What is read is not trusted, and is bounded in size. A partition whose keys are
    damaged is named, and counts as empty.
3.  A look at partitions takes two round trips for each batch of them: the second asks
    only about those in which there ever was something.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from contextlib import suppress
from dataclasses import field
from typing import TYPE_CHECKING, Any

from frontier.errors import CodecError, KeyDamaged
from frontier.model import frozen
from frontier.queue.dead_letters import letters
from frontier.queue.hosts import list_call
from frontier.queue.priority import split_name
from frontier.queue.reserve import Scan, scan_call
from frontier.seen.seen_set import PartitionState, partition_state, state_call
from frontier.status.back_offs import LeftAlone, left_alone
from frontier.status.validate import printable, text, whole
from frontier.status.views import DeadLetter, Harmed
from frontier.store.client import BlockingStore, Call
from frontier.store.keys import CrawlKeys, node_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from frontier.seen.config import SeenConfig

BATCH = 128
"""Partitions per round trip."""
NOTHING: tuple[Any, Any] = ((), (0, {}))
"""The replies about the seen tiers and the hosts of a partition that never had any."""
MOST_QUEUES = 200
"""Queues of a partition whose lengths are asked for: those of highest priority."""


@frozen
class PartitionLook:
    """What a partition was like when it was looked at."""

    scan: Scan = field(default_factory=Scan)
    """Empty if the partition is damaged."""
    mark: bytes | None = None
    """The crawl's, ``b""`` if there is none; ``None`` if the partition is damaged."""
    harmed: tuple[Harmed, ...] = ()
    tier: PartitionState | None = None
    """Its seen tiers; ``None`` if nothing was ever put there."""
    is_foreign: bool = False
    """Whether its seen tiers are not this version's."""
    left_alone: tuple[LeftAlone, ...] = ()
    holder: str = ""
    """The node that holds its lease; empty if none does."""


def look_at(
    store: BlockingStore,
    keys: CrawlKeys,
    numbers: Sequence[int],
    tiers: SeenConfig | None,
) -> Iterator[PartitionLook]:
    """What each of the partitions *numbers* is like, in this order."""
    for first in range(0, len(numbers), BATCH):
        batch = numbers[first : first + BATCH]
        parts = [keys.partition(number) for number in batch]
        scans = store.run([*map(scan_call, parts)], tolerant=True)
        used = [
            place
            for place, scanned in enumerate(scans)
            if isinstance(scanned, KeyDamaged) or scanned[2:]
        ]
        calls = [call(parts[n]) for call in (state_call, list_call) for n in used]
        more = store.run(calls, tolerant=True)
        rest = dict(zip(used, zip(more, more[len(used) :], strict=False), strict=True))
        for place, number in enumerate(batch):
            found = (scans[place], *rest.get(place, NOTHING))
            yield _seen(keys, number, tiers, found)


def _seen(
    keys: CrawlKeys, number: int, tiers: SeenConfig | None, replies: Sequence[Any]
) -> PartitionLook:
    scanned, state, alone = replies
    tier, is_foreign = None, False
    if tiers is not None and not isinstance(state, KeyDamaged):
        try:
            tier = partition_state(tiers, state)
        except (ValueError, TypeError):
            is_foreign = True
    if isinstance(scanned, KeyDamaged):
        return PartitionLook(
            harmed=(_harmed(keys, number, scanned),),
            tier=tier,
            is_foreign=is_foreign,
        )
    mark, holder, *figures = scanned
    return PartitionLook(
        Scan(*map(whole, figures)),
        mark,
        (),
        tier,
        is_foreign,
        left_alone(alone),
        text(node_of(holder)),
    )


def _harmed(keys: CrawlKeys, number: int, error: KeyDamaged) -> Harmed:
    """What is wrong with a partition, by the *error* of its scan."""
    what = error.key.removeprefix(keys.partition(number).prefix)
    return Harmed(number, printable(what), printable(error.reason))


def dead_letters(
    store: BlockingStore, keys: CrawlKeys, looks: Sequence[PartitionLook], most: int
) -> tuple[DeadLetter, ...]:
    """The first dead letters, *most* at most."""
    counts = {p: look.scan.dead for p, look in enumerate(looks) if look.scan.dead}
    try:
        some = itertools.islice(letters(store, keys, counts), most)
        return tuple(DeadLetter(printable(one.url), text(one.reason)) for one in some)
    except KeyDamaged as error:
        return (DeadLetter("", printable(f"they cannot be read: {error}")),)


def longest_queues(
    store: BlockingStore,
    keys: CrawlKeys,
    looks: Sequence[PartitionLook],
    partitions: int,
    most: int,
) -> list[tuple[int, str, int]]:
    """Length, queue key and partition of the *most* longest queues.

    Only the *partitions* with the most ready URLs are asked.
    """
    filled = [number for number, look in enumerate(looks) if look.scan.queues]
    fullest = heapq.nlargest(partitions, filled, key=lambda n: looks[n].scan.ready)
    names = [
        Call.command("ZRANGE", keys.partition(number).queues, 0, MOST_QUEUES - 1)
        for number in fullest
    ]
    asked = [
        (number, name.decode("utf-8", "replace"))
        for number, reply in zip(fullest, store.run(names, tolerant=True), strict=True)
        if not isinstance(reply, KeyDamaged)
        for name in reply
    ]
    lengths = store.run(
        [Call.command("LLEN", keys.partition(n).ready(name)) for n, name in asked],
        tolerant=True,
    )
    found: Counter[tuple[str, int]] = Counter()
    for (number, name), length in zip(asked, lengths, strict=True):
        with suppress(CodecError, ValueError):
            key = printable(split_name(name)[1])
            found[key, number] += 0 if isinstance(length, KeyDamaged) else whole(length)
    return [(length, *where) for where, length in found.most_common(most)]
