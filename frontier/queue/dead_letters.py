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
from frontier.store.calls import Command, batches
from frontier.store.client import BlockingStore, Call

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from frontier.store.keys import CrawlKeys

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
    calls = [Call.command("LLEN", keys.partition(p).dead) for p in range(partitions)]
    return {p: n for p, n in enumerate(store.run(calls)) if n}


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
    for batch in batches([one for one in chosen if one.url], CHUNK):
        replies = store.run([_revive_call(keys, one) for one in batch])
        for one, reply in zip(batch, replies, strict=True):
            revived += reply is not None
            if reply and reply[0] == 1:
                became_ready.append((one.partition, one.queue))
    return revived, became_ready


def _revive_call(keys: CrawlKeys, one: Letter) -> Call:
    """The call that puts *one* back, if it is still there, as if never delivered."""
    here, queue = keys.partition(one.partition), one.queue
    item = one.value.split(b"\n", 2)[2]
    back: list[Command] = [
        ("RPUSH", here.ready(queue), b"0" + item[1:]),
        ("ZADD", here.queues, -split_name(queue)[0], queue),
        ("HINCRBY", here.counts, "ready", 1),
        ("HINCRBY", here.counts, "dead", -1),
    ]
    # What takes it out is the condition: no lease is needed, as for a push.
    return Call.txn([(("LREM", here.dead, 1, one.value), 1)], back)
