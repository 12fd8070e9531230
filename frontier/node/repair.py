"""Repairing a crawl that no node runs: what cannot be read goes, the rest is counted.

A node that meets a damaged key stops, and names it. Then an operator stops the others
and has this done: ``frontier crawl repair``.

What always holds:

1.  Only of a crawl that no live node is in. What was cut off can be made again.
2.  Nothing is removed but keys of a type that nobody here writes, and entries that
    say nothing; each is told. What was in such a key, and nowhere else, is lost, and
    that is told as well.
3.  The settings of the crawl are not made up: without them it cannot be repaired.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from frontier.cluster import controls
from frontier.cluster.crawls import STATES
from frontier.cluster.membership import ttl_of
from frontier.errors import CodecError, CrawlInUse, KeyDamaged
from frontier.queue.damage import is_last_push, is_number, look
from frontier.queue.due import read_waiting
from frontier.queue.priority import readable, split_name
from frontier.queue.reserve import read_reserved
from frontier.seen import intset
from frontier.seen.config import SeenLayout, grow_call, seen_config
from frontier.seen.imported_filter import FIELD, GUARD, about_call
from frontier.seen.seen_set import stored_crawl
from frontier.status.snapshot import beats_of
from frontier.store.client import Call
from frontier.store.damage import wrong_type
from frontier.store.keys import CrawlKeys, names_in
from frontier.store.scripts import PARTITION_REPAIR

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from frontier.seen.config import SeenConfig
    from frontier.store.client import BlockingStore
    from frontier.store.keys import PartitionKeys

BATCH = 128
"""Partitions per round trip."""
MARK = "[0-9a-f]{16}"
"""What every crawl is born with: `frontier.cluster.crawls.open_call`."""
WAITING = 500
"""URLs that wait, per call."""
LOST: dict[str, str] = {
    "spent": "quotas of its hosts start at 0",
    "dead": "its dead letters are lost",
    "due": "",
    "reserved": "what was under way is lost, but for what nodes still had",
    "seen": "",
    "queues": "",
    "counts": "",
    "lease": "",
    "started": "",
    "next_allowed": "",
    "back_off": "hosts that were left alone may be asked at once",
    "claimed": "requests of one process that wait for it may be made twice",
    "forced": "pages that are delivered again queue what they force twice",
    "items": "items that were there may be there twice",
    "pushers": "",
    "groups": "limits of groups of URLs count from 0",
}
"""What is lost with a key of a partition that is removed; empty for nothing."""
OF_THE_CRAWL: dict[str, str] = {
    "nodes": "",
    "former": "",
    "ended": "",
    "epoch": "",
    "membership": "who joined, left and died is not known any more",
    "reports": "the counts of its nodes start at 0",
    "seed_lists": "seeds are tested again",
    "start": "",
    "hints": "",
    "order": "",
    "process": "",
    "spent": "limits of the crawl count from 0",
    "allowances": "",
    "controls": "its exclusions and changed settings are lost",
    "control_log": "what operators did to it is not known any more",
    "imported": "",
    "back_off": "hosts that were left alone may be asked at once",
    "cookies": "cookies are lost",
    "jar": "cookies are lost",
    "sites": "",
    "site": "all items of its feeds are new again",
    "claimed": "pages of several of its feeds may be fetched twice",
    "failed": "pages of its items that failed are not asked for again",
    "sitemaps": "what its sitemaps named is new again",
}
"""The same of the keys of a crawl."""


class Fault(NamedTuple):
    """What is wrong with a key, or what was done to it."""

    key: str
    """What follows the tag of the crawl, or that of the partition: ``counts``."""
    reason: str


@dataclass(slots=True)
class Repaired:
    """What a repair found, did, and could not do."""

    crawl_id: str
    partitions: dict[int, list[Fault]] = field(default_factory=dict)
    """Those that had faults, and which."""
    ready: int = 0
    """URLs that are ready in the crawl now."""
    waiting: int = 0
    """URLs there that are not due yet."""
    reserved: int = 0
    removed: list[Fault] = field(default_factory=list)
    """Keys that were removed, and what that costs."""
    lost: list[str] = field(default_factory=list)
    """What cannot be repaired, a line each."""
    anew: list[str] = field(default_factory=list)
    """Counts that start at 0, a line each: no URL is lost with them."""


class Repair:
    """Repairs one crawl.

    Raises:
        UnknownCrawl: There is none.
        KeyDamaged: Its settings cannot be read.
        OtherSchema: It was created by another version.
    """

    def __init__(self, store: BlockingStore, namespace: str, crawl_id: str) -> None:
        self._store = store
        keys = CrawlKeys(namespace, crawl_id)
        (kind,) = store.run([Call.command("TYPE", keys.meta())])
        if fault := wrong_type(keys.meta(), kind):
            reason = f"{fault}; its settings are gone, and nothing can be repaired"
            raise KeyDamaged("", keys.meta(), reason)
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
        self._see_to_mark()
        self._see_to_crawl()
        names = self._names()
        for number in range(self.partitions):
            self._repair(number, sorted(names[number]))
            progress(number + 1)
        return self.outcome

    def _require_nobody(self) -> None:
        """Raise if a node may live: by its heartbeat, or the last of all."""
        meta, nodes = self._keys.meta(), self._keys.nodes()
        calls = [Call.command("TIME"), Call.command("HGET", meta, "ttl_ms")]
        calls += [Call.command("HGET", meta, "swept_ms")]
        calls.append(Call.command("HGETALL", nodes))
        time, ttl, swept, members = self._store.run(calls, tolerant=True)
        now = int(time[0]) * 1000 + int(time[1]) // 1000
        beats = {} if isinstance(members, KeyDamaged) else beats_of(members)
        live = {n for n, (at, _) in beats.items() if abs(now - at) <= ttl_of(ttl)}
        if isinstance(members, KeyDamaged) and is_number(swept or b""):
            heard = abs(now - int(swept)) <= ttl_of(ttl)
            live |= {"a node whose heartbeat cannot be read"} if heard else set()
        if live:
            raise CrawlInUse(self._keys.crawl_id, sorted(live))

    def _see_to_mark(self) -> None:
        """Give `meta` the mark of the partitions if what it has is none.

        Raises:
            KeyDamaged: They have not one mark.
        """
        born = self._keys.born
        if re.fullmatch(MARK, born):
            return
        every = [self._keys.partition(n).counts for n in range(self.partitions)]
        calls = [Call.command("HGET", name, "born") for name in every]
        found = self._store.run(calls, tolerant=True)
        marks = {one.decode("latin-1") for one in found if isinstance(one, bytes)}
        if not born and not marks:
            return  # an older version made it
        if len(marks) != 1 or not re.fullmatch(MARK, mark := marks.pop()):
            reason = f"its mark is {born[:40]!r}, and its partitions have not one"
            raise KeyDamaged(self._store.where, self._keys.meta(), reason)
        self._store.call(Call.command("HSET", self._keys.meta(), "born", mark))
        self._keys = replace(self._keys, born=mark)
        reason = f"its mark was {born[:40]!r}, and is that of its partitions now"
        self.outcome.removed.append(Fault("meta", reason))

    def _see_to_crawl(self) -> None:
        """Remove keys of the crawl's own that are of another type."""
        if self._state.encode() not in STATES:
            self._store.call(Call.command("HSET", self._keys.meta(), "state", "open"))
            reason = f"its state was {self._state[:40]!r}, and is open now"
            self.outcome.removed.append(Fault("meta", reason))
        self._drop_spent()
        self._drop_controls()
        start = self._keys.meta().removesuffix("meta")
        for key, number, what in set(names_in(self._store, self._keys)):
            if number is None and what in OF_THE_CRAWL:
                name = key.decode("utf-8", "surrogateescape")
                self._remove_wrong(name, name.removeprefix(start), OF_THE_CRAWL[what])
        self._drop_imported()

    def _drop_spent(self) -> None:
        """Have the limits of the crawl count from 0 what is not a number."""
        name = self._keys.spent()
        if self._store.call(Call.command("TYPE", name)) not in {b"hash", "hash"}:
            return
        spent = self._store.call(Call.command("HGETALL", name))
        if bad := [key for key, value in spent.items() if not is_number(value)]:
            self._store.call(Call.command("HDEL", name, *bad))
            cost = f"{bad[0][:40]!r} was not a number, and counts from 0"
            self.outcome.removed.append(Fault("spent", cost))

    def _drop_imported(self) -> None:
        """Have the crawl have no imported filter, if that was lost."""
        keys = self._keys
        guard = Call.command("SISMEMBER", keys.imported(), GUARD)
        if self._store.call(about_call(keys)) and not self._store.call(guard):
            self._store.call(Call.command("HDEL", keys.meta(), FIELD))
            cost = "repeat frontier migrate, or what was seen before is fetched again"
            self.outcome.removed.append(Fault("imported", cost))

    def _drop_controls(self) -> None:
        """Have operators want nothing of what cannot be read."""
        meta, every = self._keys.meta(), controls.calls(self._keys)
        paused, wanted, log = self._store.run(every, tolerant=True)
        if self._told([paused, {}, []]):
            self._store.call(Call.command("HDEL", meta, "paused"))
        for name, value in wanted.items() if isinstance(wanted, dict) else ():
            if self._told([None, {name: value}, []]):
                self._store.call(Call.command("HDEL", self._keys.controls(), name))
        for entry in log if isinstance(log, list) else ():
            if self._told([None, {}, [entry]]):
                call = Call.command("LREM", self._keys.control_log(), 0, entry)
                self._store.call(call)

    def _told(self, replies: list[Any]) -> bool:
        """Tell what of *replies* about controls cannot be read; whether something."""
        if any(isinstance(one, KeyDamaged) for one in replies):
            return False  # of another type, which is seen to by that
        faults = controls.read(self._keys, replies).faults
        start = self._keys.meta().removesuffix("meta")
        for key, reason in faults:
            gone = f"{reason}; it is not wanted any more"
            self.outcome.removed.append(Fault(key.removeprefix(start), gone))
        return bool(faults)

    def _remove_wrong(self, name: str, what: str, cost: str) -> bool:
        """Remove the key *name* if it is of another type; return whether it was."""
        fault = wrong_type(name, self._store.call(Call.command("TYPE", name)))
        if fault:
            self._store.call(Call.command("DEL", name))
            self.outcome.removed.append(Fault(what, f"{fault}; {cost}".rstrip("; ")))
        return bool(fault)

    def _names(self) -> dict[int, set[str]]:
        """The names of all keys of each partition that has some."""
        found: dict[int, set[str]] = defaultdict(set)
        for key, number, _ in names_in(self._store, self._keys):
            if number is not None:
                found[number].add(key.decode("utf-8", "surrogateescape"))
        return found

    def _repair(self, number: int, names: list[str]) -> None:
        keys = self._keys.partition(number)
        faults = self._look(keys)
        if not faults and set(names) <= {keys.counts, keys.lease}:
            return  # as most of a small crawl: nothing was ever queued there
        if faults:
            self.outcome.partitions[number] = faults
        start = keys.tag + ":"
        for what, cost in LOST.items():
            told = f"{number}:{what}"
            if self._remove_wrong(start + what, told, cost) and cost:
                self.outcome.lost.append(f"partition {number}: {cost}")
        for fault in faults:
            if fault.key.startswith(("set:", "bloom:")):
                cost = "its URLs are new again, and may be fetched twice"
                self._remove_wrong(start + fault.key, f"{number}:{fault.key}", cost)
        lists = self._lists(number, names)
        self._see_to_fields(number, keys)
        if any(fault.key == "seen" for fault in faults):
            self._read_seen(number, keys, names)
        waiting = self._waiting(number, keys, names)
        ready, reserved, _, lost = self._count(keys, lists, waiting)
        if lost:
            self.outcome.anew.append(
                f"partition {number}: how many of its requests were done is not "
                "known any more; the report counts them from 0"
            )
        self.outcome.ready += ready
        self.outcome.waiting += waiting
        self.outcome.reserved += reserved

    def _look(self, keys: PartitionKeys) -> list[Fault]:
        """What is wrong with the keys of a partition."""
        looking, replies = look(keys, self._tiers), None
        try:
            while True:
                calls = next(looking) if replies is None else looking.send(replies)
                replies = self._store.run(calls) if calls else []
        except StopIteration as end:
            return [Fault(*one) for one in end.value]

    def _lists(self, number: int, names: Iterable[str]) -> list[str]:
        """The queues of a partition that have a list that can be read."""
        start = self._keys.partition(number).ready("")
        queues = []
        for name in [name for name in names if name.startswith(start)]:
            queue = name.removeprefix(start)
            cost = f"the URLs that were in ready:{queue} are lost"
            if self._remove_wrong(name, f"{number}:ready:{queue}", cost):
                self.outcome.lost.append(f"partition {number}: {cost}")
            elif readable(queue.encode("utf-8", "surrogateescape")):
                queues.append(queue)
        return queues

    def _waiting(self, number: int, keys: PartitionKeys, names: Iterable[str]) -> int:
        """Have `due` name the lists of what waits; return how many URLs that is.

        What is in them, and is no URL of a queue, is removed.
        """
        start, total = keys.waiting(""), 0
        self._store.call(Call.command("DEL", keys.due))
        for name in [name for name in names if name.startswith(start)]:
            bucket = name.removeprefix(start)
            cost = f"the URLs that were in waiting:{bucket} are lost"
            if self._remove_wrong(name, f"{number}:waiting:{bucket}", cost):
                self.outcome.lost.append(f"partition {number}: {cost}")
                continue
            if not is_number(bucket.encode("utf-8", "replace")):
                continue  # nobody moves what is in it, or counts it
            if bad := self._drop_unreadable(name):
                told = f"waiting:{bucket} had {bad} entries that are not URLs of queues"
                self.outcome.lost.append(f"partition {number}: {told}")
            if length := int(self._store.call(Call.command("LLEN", name))):
                self._store.call(Call.command("ZADD", keys.due, bucket, bucket))
                total += length
        return total

    def _drop_unreadable(self, name: str) -> int:
        """Remove from the list *name*, of what waits, what is of no queue."""
        length = int(self._store.call(Call.command("LLEN", name)))
        bad: set[bytes] = set()
        for first in range(0, length, WAITING):
            read = Call.command("LRANGE", name, first, first + WAITING - 1)
            for element in self._store.call(read):
                try:
                    read_waiting(element)
                except CodecError:
                    bad.add(element)
        for element in bad:
            self._store.call(Call.command("LREM", name, 0, element))
        return length - int(self._store.call(Call.command("LLEN", name)))

    def _see_to_fields(self, number: int, keys: PartitionKeys) -> None:
        """Make dead letters of reservations that cannot be read; drop such quotas."""
        entries = self._store.call(Call.command("HGETALL", keys.reserved))
        for key, value in entries.items():
            try:
                read_reserved(key, value)
            except CodecError as error:
                letter = f"{error}\n\n".encode() + value
                self._store.call(Call.command("RPUSH", keys.dead, letter))
                self._store.call(Call.command("HDEL", keys.reserved, key))
                self.outcome.lost.append(
                    f"partition {number}: {error}; it is in the dead letter"
                )
        pushers = self._store.call(Call.command("HGETALL", keys.pushers))
        if bad := [key for key, value in pushers.items() if not is_last_push(value)]:
            self._store.call(Call.command("HDEL", keys.pushers, *bad))
        spent = self._store.call(Call.command("HGETALL", keys.spent))
        bad = [key for key, value in spent.items() if not is_number(value)]
        if bad:
            self._store.call(Call.command("HDEL", keys.spent, *bad))
            cost = f"{len(bad)} quotas of its hosts start at 0"
            self.outcome.lost.append(f"partition {number}: {cost}")

    def _count(
        self, keys: PartitionKeys, queues: Sequence[str], waiting: int
    ) -> list[int]:
        names = [keys.lease, keys.counts, keys.queues, keys.reserved, keys.dead]
        names += [keys.ready(queue) for queue in queues]
        args: list[str | int] = [keys.born, waiting]
        for queue in queues:
            args += (queue, -split_name(queue)[0])
        reply = self._store.call(Call.to(PARTITION_REPAIR, names, args))
        return [int(value) for value in reply]

    def _read_seen(self, number: int, keys: PartitionKeys, names: list[str]) -> None:
        """Tell the layout of the seen-set by what the set itself has."""
        start = keys.tag + ":"
        tiers = self._tiers
        buckets: dict[int, dict[int, str]] = defaultdict(dict)
        blooms = 0
        for name in names:
            what = name.removeprefix(start)
            found = re.fullmatch(r"(set:(\d{1,9}):|bloom:)(\d{1,9})", what)
            if found and found[1] == "bloom:":
                blooms = max(blooms, int(found[3]) + 1)
            elif found and not self._remove_wrong(
                name, f"{number}:{what}", "its URLs are new again"
            ):
                buckets[int(found[2])][int(found[3])] = name
        # Without any bucket the Bloom tier decides, as of a set that was given up.
        era = max(buckets, default=1 if blooms and tiers.has_set else 0)
        here = buckets[era]
        total = max(here, default=0) + 1
        count = sum(
            self._read_bucket(keys, era, bucket, total, name)
            for bucket, name in here.items()
        )
        last = tiers.generation(blooms - 1).capacity if blooms else 0
        self._store.call(Call.command("DEL", keys.seen))
        fields = ("buckets", total, "count", count, "blooms", blooms, "last", last)
        if here or blooms:
            call = Call.command("HSET", keys.seen, *fields, "era", era, "claims", 1)
            self._store.call(call)
        # Empty buckets have no key: there may have been more of them.
        self._grow(keys, SeenLayout(total, count, blooms, last, era))

    def _read_bucket(
        self, keys: PartitionKeys, era: int, bucket: int, total: int, name: str
    ) -> int:
        """Move what is in *bucket*, *name*, to where it belongs among *total*.

        Removes what is no member; returns how many members there are.
        """
        members = self._store.call(Call.command("SMEMBERS", name))
        count = len(members)
        wrong: dict[int, list[bytes]] = defaultdict(list)
        for member in members:
            if not is_number_of_a_member(member):
                self._store.call(Call.command("SREM", name, member))
                count -= 1
                continue
            if (its := intset.bucket_of(int(member), total)) != bucket:
                wrong[its].append(member)
        for its, moved in wrong.items():
            self._store.call(Call.command("SADD", keys.bucket(era, its), *moved))
            self._store.call(Call.command("SREM", name, *moved))
        return count

    def _grow(self, keys: PartitionKeys, layout: SeenLayout) -> None:
        """Have as many buckets as so many URLs are to have."""
        wanted = intset.wanted(layout.count)
        if self._tiers.has_set and wanted > layout.buckets:
            self._store.call(grow_call(keys, self._tiers, layout, wanted))


def is_number_of_a_member(member: bytes) -> bool:
    """Whether *member* is an integer as sets have them."""
    return member.isdigit() and len(member) <= 19
