"""Hints: word to the holder of a partition about one of its queues.

A node whose push makes a queue ready in a partition of another node leaves a line for
that node: ``<partition> <queue>``. A hint may be lost or late, and anybody may have
written it; a look at all partitions finds what hints missed
(`frontier.node.heartbeat`).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from frontier.errors import CodecError
from frontier.queue.due import DUE
from frontier.queue.priority import split_name
from frontier.store.client import Call

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from frontier.cluster.ring import Ring
    from frontier.store.keys import CrawlKeys

logger = logging.getLogger(__name__)

WANTED = "wanted"
"""What a hint says instead of a queue if another node wants the partition: its holder
is to give it up, and may not know that it has it."""
MOST = 1000
"""Lines per call."""


def hint_calls(
    keys: CrawlKeys, hints: Mapping[str, Sequence[str]], kept_ms: int
) -> list[Call]:
    """The calls that leave *hints*, lines by node, to be kept for *kept_ms*."""
    return [
        Call.txn(
            [(("EXISTS", keys.meta()), 1)],
            [
                ("RPUSH", keys.hints(node_id), *lines[i : i + MOST]),
                ("PEXPIRE", keys.hints(node_id), kept_ms),
            ],
        )
        for node_id, lines in hints.items()
        for i in range(0, len(lines), MOST)
    ]


def hints_of(
    became_ready: Iterable[tuple[int, str]], ring: Ring, node_id: str
) -> dict[str, list[str]]:
    """Lines about the queues that *became_ready*, by owner, without *node_id*."""
    hints: dict[str, list[str]] = {}
    for partition, queue in became_ready:
        if ring.owners and (owner := ring.owner(partition)) != node_id:
            hints.setdefault(owner, []).append(f"{partition} {queue}")
    return hints


def take_call(keys: CrawlKeys, node_id: str) -> Call:
    """The call that takes the hints left for *node_id*; `read` reads its reply."""
    return Call.command("LPOP", keys.hints(node_id), MOST)


def read(reply: Iterable[bytes] | None, partitions: int) -> Iterator[tuple[int, str]]:
    """Partition and queue (or `DUE`, or `WANTED`) of each valid hint in *reply*."""
    for hint in reply or ():
        try:
            number, _, queue = hint.decode().partition(" ")
            if queue not in {DUE, WANTED}:
                split_name(queue)
            if int(number) not in range(partitions):
                raise ValueError  # noqa: TRY301 (of the same kind as the others)
        except (CodecError, ValueError):
            logger.warning("ignored an invalid hint: %r", hint[:200])
        else:
            yield int(number), queue
