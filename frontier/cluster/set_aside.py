"""Partitions that are set aside: nobody takes them before they are repaired.

A partition is set aside when one of the keys that decide who owns it, or when it is
done, has a value that nobody here writes. To go on with a default could give a host
to two nodes, or end a crawl that is not done. So its lease becomes one that is
nobody's and never ends, which all nodes find where they look for a lease anyway; the
rest of the crawl goes on, and ends `INCOMPLETE`.

What always holds:

1.  A partition that is set aside is not acquired, and nothing is reserved from it or
    acked in it: each script that does so wants a token, and there is none.
2.  What is pushed to it meanwhile, and cannot be queued, is held in the partition
    (`hold_call`): the page that led to it may be acked.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from frontier.store.client import Argument, Call
from frontier.store.scripts import PARTITION_ASIDE, PARTITION_HOLD

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from frontier.store.keys import CrawlKeys, PartitionKeys

    Run = Callable[[Sequence[Call]], Awaitable[list[Any]]]

ASIDE = b"aside"
"""The token of the lease of a partition that is set aside."""
INCOMPLETE = "incomplete"
"""The state of a crawl that has ended but for partitions that are set aside."""
BATCH = 128
"""Partitions per round trip."""
MAX_WHY = 20
"""Damaged keys of one partition that are told."""
NAMED = 5
"""Partitions that one line names."""


class Fault(NamedTuple):
    """What is wrong with a key."""

    key: str
    """What follows the partition's tag: ``counts``, or ``ready:0:a.example``."""
    reason: str


def aside_call(keys: PartitionKeys, faults: Sequence[Fault]) -> Call:
    """The call that sets a partition aside because of *faults*."""
    why = json.dumps(faults[:MAX_WHY])
    return Call.to(PARTITION_ASIDE, [keys.lease], [why])


def hold_call(keys: PartitionKeys, named: Iterable[tuple[str, bytes]]) -> Call:
    """The call that holds pushes, each a name and its bytes; see the script."""
    args: list[Argument] = []
    for name, packed in named:
        args += (name, packed)
    return Call.to(PARTITION_HOLD, [keys.held, keys.lease], args)


def faults_of(why: bytes) -> list[Fault]:
    """The faults that *why*, of `aside_call` or of unknown origin, names."""
    try:
        found = json.loads(why)
        return [Fault(str(key), str(reason)) for key, reason in found[:MAX_WHY]]
    except (ValueError, TypeError, KeyError, RecursionError):
        return [Fault("lease", "it is set aside, and nobody says why")]


def lease_calls(keys: CrawlKeys, numbers: Iterable[int]) -> list[Call]:
    """The calls whose replies `aside_of` reads, one for each partition."""
    names = [keys.partition(number).lease for number in numbers]
    return [Call.command("HMGET", name, "token", "why") for name in names]


def aside_of(numbers: Iterable[int], replies: Iterable[Any]) -> dict[int, bytes]:
    """Which partitions are set aside, and why; see `faults_of`.

    A reply may be an error: the lease is damaged, and nobody has found that yet.
    """
    return {
        number: reply[1] or b""
        for number, reply in zip(numbers, replies, strict=True)
        if isinstance(reply, list) and reply[0] == ASIDE
    }


async def set_aside(run: Run, keys: CrawlKeys, partitions: int) -> dict[int, bytes]:
    """Which partitions are set aside, and why."""
    found: dict[int, bytes] = {}
    for first in range(0, partitions, BATCH):
        batch = range(first, min(first + BATCH, partitions))
        found |= aside_of(batch, await run(lease_calls(keys, batch)))
    return found


def described(aside: Mapping[int, bytes]) -> str:
    """The partitions that are *aside*, for people, in one line."""
    named = []
    for number in sorted(aside)[:NAMED]:
        first = faults_of(aside[number])[0]
        named.append(f"{number} ({first.key}: {first.reason})")
    more = f" and {len(aside) - NAMED:,} more" if len(aside) > NAMED else ""
    return ", ".join(named) + more
