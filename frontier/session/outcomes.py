"""What became of requests, by kind of error and by host, in memory of bounded size.

What always holds:

1.  Every error is counted once under one of `KINDS`; their sum is what the report calls
    errors.
2.  At most `MOST` hosts are known for their errors, and as many for their times. Where
    more come, a new host takes the place of the one with fewest errors and begins with
    that one's count, so that a host with more errors than that is never missed (the
    algorithm Space-Saving: Metwally, Agrawal and El Abbadi, 2005). Of times, the host
    that was not asked for longest is forgotten.
3.  What is reported has at most `SHOWN` hosts, and at most `MAX_NAMES` characters of
    their names.
"""

from __future__ import annotations

import heapq
from collections import Counter, OrderedDict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

KINDS = ("dns", "refused", "timeout", "tls", "reset", "http_429", "http_5xx", "other")
"""No address; no connection; nothing in time; no TLS; it ended before the answer; too
many requests; an error of the server; anything else."""
MOST = 2_000
"""Hosts that are known."""
SHOWN = 50
"""Hosts that a report names."""
MAX_NAMES = 6_000
"""Characters of the names that a report has of one kind."""
MAX_HOST = 255


class Outcomes:
    """Counts errors, and how long hosts took, on one node."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        """How many errors there were of each kind."""
        self._hosts: dict[str, Counter[str]] = {}
        self._counts: dict[str, int] = {}
        """The errors of each host, and those of hosts whose place it has taken."""
        self._heap: list[tuple[int, str]] = []
        """Hosts by what their count was when it was put there: it may be more now."""
        self._seconds: OrderedDict[str, list[float]] = OrderedDict()

    def failed(self, kind: str, host: str) -> None:
        """Count an error of *kind* of *host*."""
        self.kinds[kind] += 1
        host = host[:MAX_HOST]
        if host not in self._hosts:
            inherited = self._make_room()
            self._hosts[host] = Counter()
            self._counts[host] = inherited
            heapq.heappush(self._heap, (inherited, host))
        self._hosts[host][kind] += 1
        self._counts[host] += 1

    def _make_room(self) -> int:
        """Forget the host with fewest errors if there are too many; its count."""
        if len(self._hosts) < MOST:
            return 0
        while True:
            told, host = self._heap[0]
            if (count := self._counts[host]) == told:
                heapq.heappop(self._heap)
                del self._hosts[host], self._counts[host]
                return count
            heapq.heapreplace(self._heap, (count, host))

    def took(self, host: str, seconds: float) -> None:
        """Note that a request to *host* took so many seconds, answered or not."""
        host = host[:MAX_HOST]
        known = self._seconds.get(host)
        if known is None:
            if len(self._seconds) >= MOST:
                self._seconds.popitem(last=False)
            known = self._seconds[host] = [0, 0.0]
        else:
            self._seconds.move_to_end(host)
        known[0] += 1
        known[1] += max(0.0, seconds)

    @property
    def errors(self) -> int:
        """How many errors there were."""
        return self.kinds.total()

    def report(self) -> dict[str, Any]:
        """What a node reports of this."""
        most = heapq.nlargest(
            SHOWN, self._hosts, key=lambda host: (self._hosts[host].total(), host)
        )
        slowest = heapq.nlargest(
            SHOWN,
            self._seconds,
            key=lambda host: (self._seconds[host][1] / self._seconds[host][0], host),
        )
        return {
            "error_kinds": {kind: self.kinds[kind] for kind in KINDS},
            "host_errors": {host: dict(self._hosts[host]) for host in within(most)},
            "host_seconds": {
                host: [int(self._seconds[host][0]), round(self._seconds[host][1], 3)]
                for host in within(slowest)
            },
        }


def within(names: Iterable[str], room: int = MAX_NAMES) -> list[str]:
    """The first of *names* that together have no more than *room* characters."""
    kept = []
    for name in names:
        room -= len(name)
        if room < 0:
            break
        kept.append(name)
    return kept
