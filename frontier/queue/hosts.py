"""The host record: what a partition knows about a host that cannot be asked at will.

Each queue key has its own: until when it is left alone, for its delay or because it
has failed, and how much of its quota is used. A host about which nothing has to be
known has no record. See `frontier.node.hosts` for what nodes do with records.

What always holds:

1.  The partition's holder writes records, whole and under its token. It gets all of
    them with its lease (`frontier.cluster.lease.Acquired`), and need not read again.
    Only `forget` writes them too, if nothing has changed meanwhile, and nodes are told.
2.  Times are the server's. A node is told the server's time with the records, and
    counts from when it had the reply, so it asks late, never early.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Self

import msgpack

from frontier.model import Lease, frozen
from frontier.store.client import BlockingStore, Call
from frontier.urls.partition import shards_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from frontier.settings.config import Config
    from frontier.store.keys import CrawlKeys, PartitionKeys

BUSY = frozenset(("throttled", "unavailable"))
"""Reasons of hosts that have answered: 429, and 503."""
ABSENT = frozenset(("unresolved", "unconnected", "tls"))
"""Reasons of hosts that could not be reached."""
MEANINGS = {
    "throttled": "it said 429",
    "unavailable": "it said 503",
    "unresolved": "its name is not known",
    "unconnected": "it cannot be connected to",
    "tls": "TLS with it fails",
}
"""What each reason means, for people."""
GROWTH_ABSENT = 4.0
"""The factor by which back-offs of a host that cannot be reached grow: 5, 20 and 80
minutes, then hours."""
JITTER = 0.1
"""The most that is added to a back-off, as a fraction of it."""
KEPT = 16 * 86_400
"""Seconds for which records are kept after the last write: eight days longer than a
host may be left alone."""
MOST = 1_000
"""Records of a partition in which commands look for hosts that have failed."""
LONGEST = 1e15
"""Every number in a record is less."""


@dataclass(slots=True)
class Record:
    """What is known about a host. Times are in seconds, on any clock; 0 means never."""

    next: float = 0.0
    """When it may be asked again by its delay."""
    delay: float = 0.0
    until: float = 0.0
    """When it may be asked again after it has failed."""
    since: float = 0.0
    """When that back-off began."""
    failures: int = 0
    """How often it has failed in a row, with a back-off after each."""
    reason: str = ""
    """A key of `MEANINGS`, if it has failed."""
    pages: int = 0
    size: int = 0
    """Bytes."""
    skipped: int = 0
    """URLs that were left out because its quota was used up."""

    def moved(self, seconds: float) -> Self:
        """The same record by a clock that is ahead by *seconds*."""
        times = {name: getattr(self, name) for name in ("next", "until", "since")}
        return replace(self, **{n: at and at + seconds for n, at in times.items()})

    def forgive(self) -> None:
        """Forget all failures."""
        self.until, self.since, self.failures, self.reason = 0.0, 0.0, 0, ""

    @property
    def is_counted(self) -> bool:
        """Whether it has to be kept even when its times have passed."""
        return bool(self.failures or self.pages or self.size or self.skipped)

    def packed(self) -> bytes:
        """The record as the store has it, with times in milliseconds."""
        times = (self.next, self.delay, self.until, self.since)
        parts = [math.ceil(1000 * max(0.0, at)) for at in times]
        counts = (self.pages, self.size, self.skipped)
        packed: bytes = msgpack.packb([*parts, self.failures, self.reason, *counts])
        return packed


_COUNT = len(fields(Record))


def read(value: Any) -> Record | None:
    """The record *value*, of unknown origin; ``None`` if it is something else."""
    try:
        parts = msgpack.unpackb(value)
    except Exception:  # noqa: BLE001 (msgpack raises many types)
        return None
    if not isinstance(parts, list) or len(parts) != _COUNT:
        return None
    *times, failures, reason, pages, size, skipped = parts
    numbers = [*times, failures, pages, size, skipped]
    if not all(type(n) is int and 0 <= n < LONGEST for n in numbers):
        return None
    if not isinstance(reason, str) or ((reason or failures) and reason not in MEANINGS):
        return None
    after, delay, until, since = (at / 1000 for at in times)
    counts = (pages, size, skipped)
    return Record(after, delay, until, since, failures, reason, *counts)


def record_of(reply: Any) -> Record:
    """The record in *reply*; an empty one if none can be read there."""
    return read(reply) or Record()


@frozen
class Limits:
    """How long back-offs are, and how many there are."""

    first: float
    growth: float
    most: float
    times: int
    """After this many in a row the host's URLs are given up."""

    @classmethod
    def of(cls, config: Config, reason: str) -> Limits:
        """The limits of a host that has failed for *reason*."""
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
        """Seconds of the back-off after *failures*; *asked* is what the host wants."""
        grown = self.first * self.growth ** min(failures - 1, 64)
        return max(min(grown, self.most), asked) * (1 + jitter)


def note_call(
    keys: PartitionKeys,
    lease: Lease,
    records: Mapping[str, Record | None],
    *,
    for_ever: bool,
) -> Call:
    """The call that writes *records*, by the server's clock, and removes the `None`.

    Records expire, unless *for_ever*. Without the lease nothing is done.
    """
    live = {name: one.packed() for name, one in records.items() if one is not None}
    pairs = [part for pair in live.items() for part in pair]
    gone = [name for name in records if name not in live]
    # A script whose first write is this one may write to a full server.
    then: list[Any] = [("HDEL", keys.hosts, "")]
    if pairs:
        then.append(("HSET", keys.hosts, *pairs))
        kept = ("PERSIST",) if for_ever else ("EXPIRE", KEPT)
        then.append((kept[0], keys.hosts, *kept[1:]))
    if gone:  # last: a key that has vanished cannot be touched while slots move
        then.append(("HDEL", keys.hosts, *gone))
    return Call.txn([(("HGET", keys.lease, "token"), lease.token)], then)


def list_call(keys: PartitionKeys) -> Call:
    """The call whose reply has the records of a partition, or about `MOST` of them."""
    return Call.command("HSCAN", keys.hosts, 0, "COUNT", MOST)


def failed(stored: Mapping[bytes, bytes]) -> dict[str, Record]:
    """The records in *stored* of hosts that have failed, but those it cannot read."""
    found = {}
    for name, value in stored.items():
        if (one := record_of(value)).failures:
            with contextlib.suppress(UnicodeDecodeError):
                found[name.decode()] = one
    return found


def forget(
    store: BlockingStore, keys: CrawlKeys, config: Config, hosts: Sequence[str]
) -> int:
    """Remove the failures of *hosts*, or of all if it is empty, from the store.

    Returns how many hosts had failed. Nodes that know about them have to be told.
    """
    found: set[str] = set()
    for number, names in _places(config, hosts).items():
        key = keys.partition(number).hosts
        stored = store.command("HGETALL", key)
        for host, record in failed(stored).items():
            if not hosts or host in names:
                found.add(host)
                record.forgive()
                known = [(("HGET", key, host), stored[host.encode()])]
                store.call(Call.txn(known, [("HSET", key, host, record.packed())]))
    return len(found)


def _places(config: Config, hosts: Sequence[str]) -> dict[int, list[str]]:
    """The partitions that may have a record of *hosts*; all if it is empty."""
    if not hosts:
        return {number: [] for number in range(config.partitions)}
    found: dict[int, list[str]] = {}
    for host in hosts:
        for number in partitions_of(config, host):
            found.setdefault(number, []).append(host)
    return found


def partitions_of(config: Config, host: str) -> set[int]:
    """The partitions that have URLs of *host*, each with a record of its own."""
    shards = shards_of(host, config.host_shards, config.partitions)
    return {shard.partition for shard in shards}
