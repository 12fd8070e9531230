"""Which hosts of a crawl are left alone, why, and until when.

Looking changes nothing, and what cannot be read is left out. A host that has failed and
may be asked again, but was not yet, is not among them.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from frontier.errors import KeyDamaged
from frontier.queue.back_off import ABSENT, BUSY, MEANINGS, read
from frontier.status.validate import printable, whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from frontier.queue.reserve import Scan

MOST = 100
"""Hosts that are named: those that are left alone for longest."""


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
        return MEANINGS.get(self.reason, self.reason)


@dataclass(frozen=True, slots=True)
class BackOffsView:
    """The hosts of a crawl that are left alone."""

    hosts: int = 0
    """How many there are."""
    unreachable: int = 0
    """Of these, those that cannot be reached."""
    named: tuple[LeftAlone, ...] = ()
    """Those that are left alone for longest, the longest first."""
    hold_up: bool = False
    """Whether nothing but their requests is left: no request is reserved, and each
    partition where some are ready has such a host."""


def together(
    shared: Sequence[LeftAlone], partitions: Iterable[tuple[Scan, Sequence[LeftAlone]]]
) -> BackOffsView:
    """Those that the crawl has *shared*, and those of all partitions."""
    every, is_busy, is_ready = [*shared], False, False
    for scan, hosts in partitions:
        every += hosts
        is_ready = is_ready or scan.ready > 0
        is_busy = is_busy or scan.reserved > 0
        is_busy = is_busy or (scan.ready > 0 and not (hosts or shared))
    unreachable = sum(one.reason in ABSENT for one in every)
    longest = heapq.nlargest(MOST, every, key=_until)
    hold_up = is_ready and not is_busy
    return BackOffsView(len(every), unreachable, tuple(longest), hold_up)


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
