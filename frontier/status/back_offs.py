"""Which hosts of a crawl are left alone, why, and until when.

Looking changes nothing, and what cannot be read is left out. A host that has failed and
may be asked again, but was not yet, is not among them.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from frontier.errors import KeyDamaged
from frontier.queue.back_off import ABSENT, BUSY, read
from frontier.status.validate import printable, whole

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST = 100
"""Hosts that are named: those that are left alone for longest."""
REASONS = {
    "throttled": "it said 429",
    "unavailable": "it said 503",
    "unresolved": "its name is not known",
    "unconnected": "it cannot be connected to",
    "tls": "TLS with it fails",
}
"""What each reason means, for people."""


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """A host that is left alone."""

    host: str
    """Or another queue key."""
    reason: str
    """``throttled``, ``unavailable``, ``unresolved``, ``unconnected`` or ``tls``."""
    until_ms: int
    """On the store's clock, milliseconds since the Unix epoch."""
    failures: int
    """Back-offs in a row."""

    @property
    def why(self) -> str:
        """The reason in words."""
        return REASONS.get(self.reason, self.reason)


@dataclass(frozen=True, slots=True)
class BackOffsView:
    """The hosts of a crawl that are left alone."""

    hosts: int = 0
    """How many there are."""
    unreachable: int = 0
    """Of these, those that cannot be reached."""
    named: tuple[LeftAlone, ...] = ()
    """Those that are left alone for longest, the longest first."""


def together(
    shared: Iterable[LeftAlone], of_partitions: Iterable[Iterable[LeftAlone]]
) -> BackOffsView:
    """Those that the crawl has *shared*, and those of all partitions."""
    every = [*shared, *itertools.chain.from_iterable(of_partitions)]
    unreachable = sum(one.reason in ABSENT for one in every)
    longest = heapq.nlargest(MOST, every, key=_until)
    return BackOffsView(len(every), unreachable, tuple(longest))


def _until(one: LeftAlone) -> tuple[int, str]:
    return one.until_ms, one.host


def left_alone(reply: Any) -> list[LeftAlone]:
    """What the *reply* to `frontier.queue.back_off.read_call` says."""
    if isinstance(reply, KeyDamaged):
        return []
    now = whole(reply[0])
    return [
        LeftAlone(
            printable(host),
            told.reason,
            now + round(told.left * 1000),
            told.failures,
        )
        for host, told in read(reply)[1].items()
        if told.left > 0 and told.reason in BUSY | ABSENT
    ]
