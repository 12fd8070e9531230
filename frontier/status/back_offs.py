"""Which hosts of a crawl are left alone, why, and until when.

Looking changes nothing, and what cannot be read is left out. A host that has failed but
may be asked again by now is not listed, even if it has not been asked yet.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

from frontier.errors import KeyDamaged
from frontier.model import frozen
from frontier.queue.hosts import ABSENT, MEANINGS, failed
from frontier.status.validate import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from frontier.queue.reserve import Scan

MOST = 100
"""Hosts that are named: those that are left alone longest."""


@frozen
class LeftAlone:
    """A host that is left alone."""

    host: str = ""
    """The host, or another queue key."""
    reason: str = ""
    """``throttled``, ``unavailable``, ``unresolved``, ``unconnected`` or ``tls``."""
    until_ms: int = 0
    """On the store's clock, milliseconds since the Unix epoch."""
    failures: int = 0
    """Back-offs in a row."""

    @property
    def why(self) -> str:
        """The reason in words."""
        return MEANINGS.get(self.reason, self.reason)


@frozen
class BackOffsView:
    """The hosts of a crawl that are left alone."""

    hosts: int = 0
    """How many there are."""
    unreachable: int = 0
    """How many of them cannot be reached."""
    named: tuple[LeftAlone, ...] = ()
    """Those that are left alone longest, the longest first."""
    hold_up: bool = False
    """Whether only their requests are left: no request is reserved, and each partition
    with ready requests has such a host."""


def together(
    partitions: Iterable[tuple[Scan, Sequence[LeftAlone]]], now_ms: int
) -> BackOffsView:
    """The back-offs of all partitions together, at *now_ms*."""
    every: dict[str, LeftAlone] = {}
    is_busy, is_ready = False, False
    for scan, known in partitions:
        hosts = [one for one in known if one.until_ms > now_ms]
        every |= {one.host: one for one in hosts}  # a divided host is in several
        is_ready = is_ready or scan.ready > 0
        is_busy = is_busy or scan.reserved > 0 or (scan.ready > 0 and not hosts)
    unreachable = sum(one.reason in ABSENT for one in every.values())
    longest = heapq.nlargest(MOST, every.values(), key=_until)
    hold_up = is_ready and not is_busy
    return BackOffsView(len(every), unreachable, tuple(longest), hold_up)


def _until(one: LeftAlone) -> tuple[int, str]:
    return one.until_ms, one.host


def left_alone(reply: Any) -> tuple[LeftAlone, ...]:
    """The hosts left alone, by the *reply* to `frontier.queue.hosts.list_call`."""
    if isinstance(reply, KeyDamaged):
        return ()
    return tuple(
        LeftAlone(printable(host), one.reason, round(one.until * 1000), one.failures)
        for host, one in failed(reply[1]).items()
    )
