"""Hints: word to who holds a partition that one of its queues is not empty now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frontier.store.client import Call
from frontier.store.scripts import NODE_HINT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from frontier.cluster.ring import Ring
    from frontier.store.keys import CrawlKeys

MOST = 1000
"""Lines per call."""


def hint_calls(
    keys: CrawlKeys, hints: Mapping[str, Sequence[str]], kept_ms: int
) -> list[Call]:
    """The calls that leave *hints*, the lines for each node, for *kept_ms*."""
    return [
        Call.to(
            NODE_HINT,
            [keys.hints(node_id), keys.meta()],
            [kept_ms, *lines[i : i + MOST]],
        )
        for node_id, lines in hints.items()
        for i in range(0, len(lines), MOST)
    ]


def hints_of(
    risen: Iterable[tuple[int, str]], ring: Ring, node_id: str
) -> dict[str, list[str]]:
    """The lines for each owner but *node_id* of the queues that have *risen*."""
    hints: dict[str, list[str]] = {}
    for partition, queue in risen:
        if ring.owners and (owner := ring.owner(partition)) != node_id:
            hints.setdefault(owner, []).append(f"{partition} {queue}")
    return hints
