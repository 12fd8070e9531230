"""Repairing a crawl that no node runs: what cannot be read goes, the rest is counted.

A node that meets a damaged key stops, and names it. Then an operator stops the others
and runs ``frontier crawl repair``.

What always holds:

1.  Only a crawl that no live node is in is repaired. A repair that was cut off can be
    repeated.
2.  A key with a type or a value that this package never writes is removed; but of lists
    of URLs, and of what is reserved, only the entries that cannot be read. Each removal
    is told, with what is lost.
3.  The settings of the crawl are not made up: without them it cannot be repaired.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from frontier.cluster import controls
from frontier.cluster.crawls import STATES
from frontier.cluster.membership import live_in, ttl_of
from frontier.errors import CodecError, CrawlInUse, KeyDamaged
from frontier.queue.due import read_waiting
from frontier.queue.hosts import read
from frontier.queue.priority import readable, split_name
from frontier.queue.reserve import read_reserved
from frontier.seen.config import SeenConfig, SeenLayout, seen_config
from frontier.seen.imported_filter import FIELD, GUARD, about_call
from frontier.seen.seen_set import LAYOUT, stored_crawl
from frontier.store.calls import milliseconds
from frontier.store.client import BlockingStore, Call
from frontier.store.damage import is_number, number_in, wrong_type
from frontier.store.keys import CrawlKeys, PartitionKeys, kind_of, names_in

WAITING = 500
"""Waiting URLs that one call reads."""
VALUES: dict[str, Callable[[bytes], object]] = {"hosts": read, "spent": is_number}
"""Whether a value of a hash is valid, by the kind of key."""


class Fault(NamedTuple):
    """What is wrong with a key, or what was done to it."""

    key: str
    """What follows the tag of the crawl, or that of the partition: ``counts``."""
    reason: str


@dataclass(slots=True)
class Repaired:
    """What a repair found, did, and could not do."""

    crawl_id: str
    ready: int = 0
    """URLs that are ready in the crawl now."""
    waiting: int = 0
    """URLs in the crawl that are not due yet."""
    reserved: int = 0
    removed: list[Fault] = field(default_factory=list)
    """What was removed or is counted again, why, and what that costs."""
    lost: list[str] = field(default_factory=list)
    """What cannot be repaired, a line each."""


class Repair:
    """Repairs one crawl.

    Raises:
        UnknownCrawl: There is none.
        KeyDamaged: Its settings cannot be read.
        OtherSchema: It was created by another version.
    """

    def __init__(self, store: BlockingStore, namespace: str, crawl_id: str) -> None:
        self._store, self._ask = store, store.command
        keys = CrawlKeys(namespace, crawl_id)
        if fault := wrong_type(keys.meta, self._ask("TYPE", keys.meta)):
            reason = f"{fault}; its settings are gone, and nothing can be repaired"
            raise KeyDamaged("", keys.meta, reason)
        crawl = stored_crawl(store, namespace, crawl_id)
        self._keys, self._state = crawl.keys, crawl.state
        self.partitions = crawl.config.partitions
        self._tiers: SeenConfig = seen_config(crawl.config)
        self.outcome = Repaired(crawl_id)

    def run(self, progress: Callable[[int], None] = lambda _: None) -> Repaired:
        """Repair it; *progress* is told how many partitions are done.

        Raises:
            CrawlInUse: Nodes of it are alive.
            StoreError: The store does not answer. What is done stays done.
        """
        self._require_nobody()
        names: dict[int | None, list[str]] = defaultdict(list)
        for key, number, _ in set(names_in(self._store.scan, self._keys)):
            names[number].append(key.decode("utf-8", "surrogateescape"))
        self._see_to_crawl(names[None])
        for number in range(self.partitions):
            self._see_to_partition(number, sorted(names[number]))
            progress(number + 1)
        return self.outcome

    def _require_nobody(self) -> None:
        """Raise if a node may be alive, by its heartbeat or the last that any sent."""
        meta, nodes = self._keys.meta, self._keys.nodes
        calls = [Call.command("TIME"), Call.command("HGET", meta, "ttl_ms")]
        calls += [Call.command("HGET", meta, "swept_ms")]
        calls.append(Call.command("HGETALL", nodes))
        time, ttl, swept, members = self._store.run(calls, tolerant=True)
        now, ttl_ms = milliseconds(time), ttl_of(ttl)
        if not isinstance(members, KeyDamaged):
            live = live_in(members, now)
        elif abs(now - number_in(swept or b"")) <= ttl_ms:
            live = ["a node whose heartbeat cannot be read"]
        else:
            live = []
        if live:
            raise CrawlInUse(self._keys.crawl_id, live)

    def _see_to_crawl(self, names: Iterable[str]) -> None:
        """Make the crawl's own keys readable to nodes."""
        meta = self._keys.meta
        if self._state.encode() not in STATES:
            self._ask("HSET", meta, "state", "open")
            self._tell("meta", f"its state was {self._state[:40]!r}, and is open now")
        start = meta.removesuffix("meta")
        for name in names:
            self._remove_wrong(name, name.removeprefix(start))
        replies = self._store.run(controls.calls(self._keys))
        if faults := controls.read(self._keys, replies).faults:
            self._ask("HDEL", meta, "paused")
            for name in (self._keys.controls, self._keys.control_log):
                self._ask("DEL", name)
            cost = kind_of(self._keys.controls).cost
            self._tell("controls", f"{faults[0][1]}; {cost}")
        has_guard = self._ask("SISMEMBER", self._keys.imported, GUARD)
        if self._store.call(about_call(self._keys)) and not has_guard:
            self._ask("HDEL", meta, FIELD)
            cost = "repeat frontier migrate, or what was seen before is fetched again"
            self._tell("imported", cost)

    def _tell(self, what: str, reason: str) -> None:
        self.outcome.removed.append(Fault(what, reason))

    def _remove_wrong(self, name: str, told: str) -> str:
        """Remove the key *name* if it cannot be read; return why."""
        fault = wrong_type(name, self._ask("TYPE", name))
        is_right = VALUES.get(name.rpartition("}:")[2])
        if not fault and is_right is not None:
            bad = [each for each in self._ask("HVALS", name) if not is_right(each)]
            fault = f"{bad[0][:40]!r} is no value of it" if bad else ""
        if fault:
            self._ask("DEL", name)
            self._tell(told, f"{fault}; {kind_of(name).cost}".rstrip("; "))
        return fault

    def _see_to_partition(self, number: int, names: list[str]) -> None:
        keys = self._keys.partition(number)
        start, here, is_whole = keys.prefix, [], True
        for name in names:
            what = name.removeprefix(start)
            if self._remove_wrong(name, f"{number}:{what}"):
                is_whole = False
                if cost := kind_of(name).cost:
                    self._lose(number, f"{what}: {cost}")
            else:
                here.append(what)
        counts, born = self._ask("HGETALL", keys.counts), self._keys.born.encode()
        is_ours = counts.pop(b"born", born) == born
        if not (is_ours and all(map(is_number, counts.values()))):
            is_whole = False
            self._tell(f"{number}:counts", "it has values that no node writes")
        if is_whole and set(here) <= {"counts", "lease"}:
            return  # like most in a small crawl: nothing was ever queued there
        self._see_to_reserved(number, keys)
        self._see_to_seen(number, keys, here)
        queues = [what[6:] for what in here if what.startswith("ready:")]
        waiting = self._waiting(number, keys, here)
        ready, reserved, _, is_unknown = self._count(keys, queues, waiting)
        if is_unknown:
            self._lose(
                number,
                "how many of its requests were done is not known any more; the report "
                "counts them from 0",
            )
        after = self._ask("HGETALL", keys.counts)
        for name, old in counts.items() if is_whole else ():
            if after[name] != old:
                was, now = int(old), int(after[name])
                self._tell(
                    f"{number}:counts", f"its {name.decode()} was {was}, is {now}"
                )
        self.outcome.ready += ready
        self.outcome.waiting += waiting
        self.outcome.reserved += reserved

    def _lose(self, number: int, told: str) -> None:
        self.outcome.lost.append(f"partition {number}: {told}")

    def _waiting(self, number: int, keys: PartitionKeys, here: Iterable[str]) -> int:
        """Make `due` name the lists of what waits; return how many URLs these have.

        Entries that are not URLs of a queue are removed.
        """
        total, prefix = 0, "waiting:"
        self._ask("DEL", keys.due)
        for what in here:
            bucket = what.removeprefix(prefix)
            if bucket == what or not is_number(bucket.encode("utf-8", "replace")):
                continue  # nothing moves what is in it, or counts it
            name = keys.waiting(bucket)
            if bad := self._drop_unreadable(name):
                told = f"{what} had {bad} entries that are not URLs of queues"
                self._lose(number, told)
            if length := int(self._ask("LLEN", name)):
                self._ask("ZADD", keys.due, bucket, bucket)
                total += length
        return total

    def _drop_unreadable(self, name: str) -> int:
        """Remove entries of no queue from *name*, a list of what waits; how many."""
        length = int(self._ask("LLEN", name))
        bad: set[bytes] = set()
        for first in range(0, length, WAITING):
            for element in self._ask("LRANGE", name, first, first + WAITING - 1):
                try:
                    read_waiting(element)
                except CodecError:
                    bad.add(element)
        for element in bad:
            self._ask("LREM", name, 0, element)
        return length - int(self._ask("LLEN", name))

    def _see_to_reserved(self, number: int, keys: PartitionKeys) -> None:
        """Make dead letters of reservations that cannot be read."""
        for key, value in self._ask("HGETALL", keys.reserved).items():
            try:
                read_reserved(key, value)
            except CodecError as error:
                self._ask("RPUSH", keys.dead, f"{error}\n\n".encode() + value)
                self._ask("HDEL", keys.reserved, key)
                self._lose(number, f"{error}; it is in the dead letter")

    def _count(
        self, keys: PartitionKeys, lists: Iterable[str], waiting: int
    ) -> list[int]:
        queues = [q for q in lists if readable(q.encode("utf-8", "surrogateescape"))]
        names = [keys.lease, keys.counts, keys.queues, keys.reserved, keys.dead]
        names += [keys.ready(queue) for queue in queues]
        args: list[str | int] = [keys.born, waiting]
        for queue in queues:
            args += (queue, -split_name(queue)[0])
        reply = self._store.call(Call.to("partition_repair", names, args))
        return [int(value) for value in reply]

    def _see_to_seen(
        self, number: int, keys: PartitionKeys, here: Sequence[str]
    ) -> None:
        """Forget what was seen where the layout of the sets cannot be read."""
        names = [w for w in here if w.partition(":")[0] in {"seen", "set", "bloom"}]
        stored = self._ask("HMGET", keys.seen, *LAYOUT)
        if "seen" in here and all(map(is_number, filter(None, stored))):
            layout = SeenLayout(*(int(value or 0) for value in stored))
            if self._tiers.allows(layout):
                return
        for what in names:
            self._ask("UNLINK", keys.prefix + what)
        if names:
            cost = kind_of(keys.bloom(0)).cost
            self._lose(number, f"the layout of what was seen cannot be read; {cost}")
