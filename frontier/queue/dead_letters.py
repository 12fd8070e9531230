"""Dead letters: requests that were given up, to be read and put back.

What always holds:

1.  A dead letter is put back by one script: it is either in the list of dead letters
    or in a queue, never in both and never in neither.
2.  The content of a letter is not trusted: one that this version cannot read is
    shown as unreadable, and stays where it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from frontier.errors import CodecError
from frontier.model import frozen
from frontier.queue.item import decode
from frontier.queue.priority import split_name
from frontier.queue.reserve import deliveries
from frontier.store.calls import batches
from frontier.store.client import Argument, Call

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from frontier.store.client import BlockingStore
    from frontier.store.keys import CrawlKeys

BATCH = 128
"""Partitions per round trip."""
CHUNK = 16
"""Dead letters that are read or put back at once; each may take 4 MiB."""
MAX_LETTERS = 10_000
"""The most dead letters of a crawl that are read."""


@frozen
class Letter:
    """A request that was given up."""

    partition: int
    value: bytes
    """The letter as the store has it."""
    reason: bytes
    queue: str
    url: str
    """Empty if the request cannot be read, and thus not be put back."""
    tries: int
    """How often it was delivered before the last time."""


def counted(store: BlockingStore, keys: CrawlKeys, partitions: int) -> dict[int, int]:
    """How many letters there are in each partition that has any."""
    found: dict[int, int] = {}
    for batch in batches(range(partitions), BATCH):
        calls = [Call.command("LLEN", keys.partition(p).dead) for p in batch]
        replies = store.run(calls)
        found |= {p: n for p, n in zip(batch, replies, strict=True) if n}
    return found


def letters(
    store: BlockingStore, keys: CrawlKeys, counts: dict[int, int]
) -> Iterator[Letter]:
    """The dead letters of the partitions in *counts*, at most `MAX_LETTERS`."""
    room = MAX_LETTERS
    for partition, count in counts.items():
        for first in range(0, min(count, room), CHUNK):
            last = min(first + CHUNK, count, room) - 1
            name = keys.partition(partition).dead
            for value in store.command("LRANGE", name, first, last):
                yield letter(partition, value)
        room -= min(count, room)


def letter(partition: int, value: bytes) -> Letter:
    """Parse the dead letter *value*."""
    reason, _, rest = value.partition(b"\n")
    name, _, item = rest.partition(b"\n")
    queue = name.decode("utf-8", "replace")
    try:
        split_name(queue)
        url, tries = str(decode(item, queue)["url"]), deliveries(item)
    except (CodecError, ValueError):
        url, tries = "", 0
    return Letter(partition, value, reason, queue, url, tries)


def revive(
    store: BlockingStore, keys: CrawlKeys, chosen: Sequence[Letter]
) -> tuple[int, list[tuple[int, str]]]:
    """Put *chosen* back into their queues.

    Returns how many of them were still there, and which queues of which partitions
    were empty before.
    """
    revived, became_ready = 0, []
    by_partition: dict[int, list[Letter]] = {}
    for one in chosen:
        if one.url:
            by_partition.setdefault(one.partition, []).append(one)
    for partition, found in by_partition.items():
        for first in range(0, len(found), CHUNK):
            part = keys.partition(partition)
            names = [part.counts, part.queues, part.dead]
            args: list[Argument] = []
            queues = list(dict.fromkeys(one.queue for one in found))
            names += [part.ready(queue) for queue in queues]
            for one in found[first : first + CHUNK]:
                index = 4 + queues.index(one.queue)
                args += (one.value, index, one.queue, split_name(one.queue)[0])
            count, *filled = store.call(Call.to("queue_revive", names, args))
            revived += count
            became_ready += [(partition, queues[index - 4]) for index in filled]
    return revived, became_ready
