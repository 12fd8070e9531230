"""Back-off: hosts that are to be left alone, as the store has them.

An entry is of a host: where hosts have queues, of the queue key. It is in the
partition of its name; in a crawl whose hosts are divided into shards, or whose URLs are
spread, in a key of the crawl, as every node may have URLs of each host.

What always holds:

1.  While a host is left alone, what it says again is the same failure: how many nodes
    and requests it was said to makes no back-off longer than it asked for.
2.  Times are the server's. A node is told how long is left, and counts that from when
    it had the reply, so it asks late, never early.
3.  An entry that nobody here writes is none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from frontier.store.client import Argument, Call
from frontier.store.scripts import QUEUE_ANSWERED, QUEUE_BACK_OFF, QUEUE_BACKED_OFF
from frontier.urls.partition import SPREAD, partition_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from frontier.settings.config import Config
    from frontier.store.client import BlockingStore
    from frontier.store.keys import CrawlKeys

BUSY = frozenset(("throttled", "unavailable"))
"""Reasons of hosts that have answered: 429, and 503."""
ABSENT = frozenset(("unresolved", "unconnected", "tls"))
"""Reasons of hosts that could not be reached."""
REASONS = BUSY | ABSENT
MEANINGS = {
    "throttled": "it said 429",
    "unavailable": "it said 503",
    "unresolved": "its name is not known",
    "unconnected": "it cannot be connected to",
    "tls": "TLS with it fails",
}
"""What each reason means, for people."""
GROWTH_ABSENT = 4.0
"""By how much each time is longer than the one before for which a host is left alone
that cannot be reached: 5, 20 and 80 minutes, then hours."""
JITTER = 0.1
"""The most that is added to a back-off, as a part of it."""
KEPT = 7 * 86_400
"""Seconds for which failures are counted on after the end of the last back-off."""
MOST = 10_000
"""Hosts of one partition, or of a crawl with shards, that a node learns of."""
MAX_HOST = 600
"""Characters of a queue key: those of a host, and of a slot."""
LONGEST = 8 * 86_400_000
"""Milliseconds of the longest back-off that is believed."""
_ENTRY = re.compile(rb"([0-9]{1,15}) ([0-9]{1,15}) ([0-9]{1,6}) ([a-z]{1,20})")


@dataclass(frozen=True, slots=True)
class BackOff:
    """For how long a host is left alone, and why."""

    left: float
    """Seconds from when it was read; 0 if it may be asked, but has not answered yet."""
    age: float
    """Seconds since it began."""
    failures: int
    """How often it has failed in a row, with a back-off after each."""
    reason: str


@dataclass(frozen=True, slots=True)
class Failure:
    """What a host has done to a request."""

    host: str
    reason: str
    ago: float
    """Seconds since the request was sent."""
    asked: float
    """Seconds for which the host wants to be left alone; 0 if it does not say."""
    jitter: float


@dataclass(frozen=True, slots=True)
class Limits:
    """How long back-offs are, and how many."""

    first: float
    growth: float
    most: float
    times: int
    """After so many in a row the host's URLs are given up."""

    @classmethod
    def of(cls, config: Config, reason: str) -> Limits:
        """Those of a host with *reason*."""
        if reason in ABSENT:
            return cls(
                config.backoff_unreachable_min,
                GROWTH_ABSENT,
                config.backoff_unreachable_max,
                config.backoff_unreachable_times,
            )
        return cls(
            config.backoff_min,
            config.backoff_growth,
            config.backoff_max,
            config.backoff_times,
        )

    def wait(self, failures: int, asked: float, jitter: float) -> float:
        """Seconds of the back-off after so many *failures*, as the script has it."""
        grown = self.first * self.growth ** min(failures - 1, 64)
        return max(min(grown, self.most), asked) * (1 + jitter)


def failed_call(key: str, failure: Failure, limits: Limits) -> Call:
    """The call that notes *failure*; `said` reads its reply."""
    args: list[Argument] = [
        failure.host,
        failure.reason,
        _ms(failure.ago),
        _ms(failure.asked),
        _ms(limits.first),
        limits.growth,
        _ms(limits.most),
        f"{failure.jitter:.4f}",
        KEPT,
    ]
    return Call.to(QUEUE_BACK_OFF, [key], args)


def said(reply: Any) -> BackOff:
    """What a reply to `failed_call` says."""
    left, age, failures, reason = reply
    return BackOff(int(left) / 1000, int(age) / 1000, int(failures), reason.decode())


def answered_call(key: str, answered: Iterable[tuple[str, float]]) -> Call:
    """The call that forgets hosts, each with the seconds since the request was sent."""
    args: list[Argument] = []
    for host, ago in answered:
        args += (host, max(0, int(ago * 1000)))  # no earlier than it was sent
    return Call.to(QUEUE_ANSWERED, [key], args)


def forget(
    store: BlockingStore, keys: CrawlKeys, config: Config, hosts: Sequence[str]
) -> int:
    """Have the store know of no back-off of *hosts*, or of any without one.

    Returns how many there were. Nodes that know of them have to be told.
    """
    shared = config.host_shards > 1 or config.queue_key in SPREAD
    names = [keys.back_off()]
    if not shared:
        names = [keys.partition(n).back_off for n in range(config.partitions)]
    if not hosts:
        calls = [Call.command("HLEN", name) for name in names]
        found = sum(max(0, n - 1) for n in store.run(calls) if isinstance(n, int))
        store.run([Call.command("UNLINK", name) for name in names])
        return found
    calls = []
    for host in hosts:
        name = names[0 if shared else partition_of(host, config.partitions)]
        calls.append(Call.to(QUEUE_ANSWERED, [name], [host, -LONGEST]))  # after any
    return sum(store.run(calls))


def read_call(key: str, mark: bytes = b"") -> Call:
    """The call that reads all back-offs of *key*; `read` reads its reply.

    If nothing has changed since *mark*, it says so.
    """
    return Call.to(QUEUE_BACKED_OFF, [key], [MOST, mark])


def read(reply: Any) -> tuple[bytes, dict[str, BackOff]]:
    """The mark of a key, and the back-offs in it that can be read, by host."""
    now, mark, *entries = reply
    found = {}
    for name, value in zip(entries[::2], entries[1::2], strict=False):
        entry = read_entry(name, value, int(now))
        if entry is not None:
            found[name.decode()] = entry
    return mark, found


def read_entry(name: bytes, value: bytes, now: int) -> BackOff | None:
    """The back-off that *value*, of unknown origin, is; *now* is the server's time."""
    parts = _ENTRY.fullmatch(value)
    if parts is None or not 0 < len(name) <= MAX_HOST or b"\xff" in name:
        return None
    try:
        if not name.decode().isprintable():
            return None
    except UnicodeDecodeError:
        return None
    until, since, failures = (int(part) for part in parts.groups()[:3])
    reason = parts[4].decode()
    if reason not in REASONS or not failures:
        return None
    left = min(until - now, LONGEST)
    return BackOff(max(0, left) / 1000, max(0, now - since) / 1000, failures, reason)


def is_changed(reply: Any, mark: bytes) -> bool:
    """Whether *reply* to `read_call` has another mark than *mark*."""
    return bool(reply[1] != mark or len(reply) > 2)


def _ms(seconds: float) -> str:
    return f"{max(0.0, seconds) * 1000:.0f}"
