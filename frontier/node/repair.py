"""Repairing a crawl: partitions that are set aside count again what they have.

What always holds:

1.  A partition stays set aside until its counts are those of its lists, and all that
    was held for it is queued: no node sees it half done. What was cut off can be made
    again.
2.  Nothing is removed but keys of a type that nobody here writes, and entries that
    say nothing; each is told. What was in such a key, and nowhere else, is lost, and
    that is told as well.
3.  The settings of the crawl are not made up: without them it cannot be repaired.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from frontier.cluster.crawls import STATES
from frontier.cluster.set_aside import (
    BATCH,
    Fault,
    aside_call,
    aside_of,
    faults_of,
    lease_calls,
)
from frontier.errors import CodecError, KeyDamaged
from frontier.node.set_aside import drive
from frontier.queue.damage import is_last_push, is_number, look
from frontier.queue.due import read_waiting
from frontier.queue.priority import readable, split_name
from frontier.queue.push import push_to, unheld
from frontier.queue.reserve import read_reserved
from frontier.seen.config import MAX_URLS, SeenLayout, grow_call, seen_config
from frontier.seen.imported_tier import ImportedTier, about_call, forget_call
from frontier.seen.seen_set import stored_crawl
from frontier.store.client import Call
from frontier.store.damage import wrong_type
from frontier.store.keys import CrawlKeys, number_in
from frontier.store.scripts import PARTITION_REPAIR, PARTITION_RETURN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from frontier.seen.config import SeenConfig
    from frontier.store.client import BlockingStore
    from frontier.store.keys import PartitionKeys

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
    "fence": "",
    "lease": "",
    "started": "",
    "next_allowed": "",
    "back_off": "hosts that were left alone may be asked at once",
    "claimed": "requests of one process that wait for it may be made twice",
    "forced": "pages that are delivered again queue what they force twice",
    "items": "items that were there may be there twice",
    "pushers": "",
}
"""What is lost with a key of a partition that is removed; empty for nothing."""
OF_THE_CRAWL: dict[str, str] = {
    "nodes": "",
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
    "addresses": "",
    "back_off": "hosts that were left alone may be asked at once",
    "cookies": "cookies are lost",
    "jar": "cookies are lost",
    "sites": "",
    "site": "all items of its feeds are new again",
    "round": "its round is ended, and the next finds what that had not",
    "had": "",
    "failed": "pages of its items that failed are not asked for again",
    "rounds": "its past rounds are not known any more",
}
"""The same of the keys of a crawl."""


@dataclass(slots=True)
class Repaired:
    """What a repair found, did, and could not do."""

    crawl_id: str
    partitions: dict[int, list[Fault]] = field(default_factory=dict)
    """Those that were repaired, and what was wrong with them."""
    ready: int = 0
    """URLs that are ready in them now."""
    waiting: int = 0
    """URLs there that are not due yet."""
    reserved: int = 0
    queued: int = 0
    """URLs that were held for them, and are queued now."""
    removed: list[Fault] = field(default_factory=list)
    """Keys that were removed, and what that costs."""
    lost: list[str] = field(default_factory=list)
    """What cannot be repaired, a line each."""
    anew: list[str] = field(default_factory=list)
    """Counts that start at 0, a line each: no URL is lost with them."""


class Repair:
    """Repairs the partitions of one crawl that are set aside, or should be.

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

    def run(
        self,
        chosen: Sequence[int] = (),
        progress: Callable[[int], None] = lambda _: None,
    ) -> Repaired:
        """Repair the partitions *chosen*, or all; *progress* is told how many are done.

        Raises:
            StoreError: The store does not answer. What is done stays done.
        """
        self._see_to_mark()
        self._see_to_crawl()
        aside = self._aside()
        harmed: dict[int, list[Fault]] = {}
        for number in chosen or range(self.partitions):
            keys = self._keys.partition(number)
            faults = [
                Fault(*one) for one in drive(self._store, look(keys, self._tiers))
            ]
            if faults or number in aside:
                harmed[number] = faults or faults_of(aside[number])
                self._store.call(aside_call(keys, harmed[number]))
            progress(number + 1)
        names = self._names(harmed) if harmed else {}
        for number, faults in harmed.items():
            self._repair(number, faults, names.get(number, []))
        return self.outcome

    def _aside(self) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        for first in range(0, self.partitions, BATCH):
            batch = range(first, min(first + BATCH, self.partitions))
            calls = lease_calls(self._keys, batch)
            found |= aside_of(batch, self._store.run(calls, tolerant=True))
        return found

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
        self._drop_imported()
        start = self._keys.meta().removesuffix("meta")
        found = self._store.scan(_escaped(start) + "*")
        for name in {key.decode("utf-8", "surrogateescape") for key in found}:
            what = name.removeprefix(start).partition(":")[0]
            if what in OF_THE_CRAWL:
                self._remove_wrong(name, name.removeprefix(start), OF_THE_CRAWL[what])

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
        """Have the crawl have no imported tier if what says so cannot be read."""
        try:
            ImportedTier.of(self._store.call(about_call(self._keys)))
        except ValueError as error:
            self._store.call(forget_call(self._keys))
            cost = "repeat frontier migrate, or what was seen before is fetched again"
            self.outcome.removed.append(Fault("meta", f"imported: {error}; {cost}"))

    def _remove_wrong(self, name: str, what: str, cost: str) -> bool:
        """Remove the key *name* if it is of another type; return whether it was."""
        fault = wrong_type(name, self._store.call(Call.command("TYPE", name)))
        if fault:
            self._store.call(Call.command("DEL", name))
            self.outcome.removed.append(Fault(what, f"{fault}; {cost}".rstrip("; ")))
        return bool(fault)

    def _names(self, harmed: Iterable[int]) -> dict[int, list[str]]:
        """The names of all keys of the *harmed* partitions."""
        found: dict[int, set[str]] = defaultdict(set)
        pattern = self._keys.partition(0).tag.removesuffix("0}")
        for key in self._store.scan(_escaped(pattern) + "*"):
            name = key.decode("utf-8", "surrogateescape")
            number = number_in(self._keys, name)
            if number is not None:
                found[number].add(name)
        return {number: sorted(found[number]) for number in harmed}

    def _repair(self, number: int, faults: list[Fault], names: list[str]) -> None:
        keys = self._keys.partition(number)
        self.outcome.partitions[number] = faults
        start = keys.tag + ":"
        for what, cost in LOST.items():
            if what != "lease":
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
        while True:
            waiting = self._waiting(number, keys, names)
            ready, reserved, _, lost = self._count(keys, lists, waiting)
            if lost:
                self.outcome.anew.append(
                    f"partition {number}: how many of its requests were done is not "
                    "known any more; the report counts them from 0"
                )
            if not self._queue_held(keys):
                break
            names = self._names([number])[number]
            lists = self._lists(number, names)
        self.outcome.ready += ready
        self.outcome.waiting += waiting
        self.outcome.reserved += reserved

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
        names += [keys.fence, *(keys.ready(queue) for queue in queues)]
        args: list[str | int] = [keys.born, waiting]
        for queue in queues:
            args += (queue, -split_name(queue)[0])
        reply = self._store.call(Call.to(PARTITION_REPAIR, names, args))
        if reply is None:
            raise KeyDamaged("", keys.lease, "it was changed while it was repaired")
        return [int(value) for value in reply]

    def _read_seen(self, number: int, keys: PartitionKeys, names: list[str]) -> None:
        """Tell the layout of the seen-set by what the set itself has."""
        start = keys.tag + ":"
        space, tiers = self._tiers.space, self._tiers
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
        total = max(space.groups, max(here, default=0) + 1)
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
        space = self._tiers.space
        members = self._store.call(Call.command("SMEMBERS", name))
        count = len(members)
        wrong: dict[int, list[bytes]] = defaultdict(list)
        for member in members:
            if not is_number_of_a_member(member):
                self._store.call(Call.command("SREM", name, member))
                count -= 1
                continue
            entry = space.entry_of(int(member), bucket)
            if (its := space.bucket_of(entry, total)) != bucket:
                wrong[its].append(member)
        for its, moved in wrong.items():
            self._store.call(Call.command("SADD", keys.bucket(era, its), *moved))
            self._store.call(Call.command("SREM", name, *moved))
        return count

    def _grow(self, keys: PartitionKeys, layout: SeenLayout) -> None:
        """Have as many buckets as so many URLs are to have."""
        wanted = self._tiers.space.wanted(layout.count)
        if self._tiers.has_set and wanted > layout.buckets:
            self._store.call(grow_call(keys, self._tiers, layout, wanted))

    def _queue_held(self, keys: PartitionKeys) -> bool:
        """Queue what is held, and return the partition; whether something was held."""
        held = self._store.call(Call.command("HGETALL", keys.held))
        read = {name: unheld(packed) for name, packed in held.items()}
        found = [(name, push) for name, push in read.items() if push]
        bad = [name for name, push in read.items() if not push]
        layout = SeenLayout()
        for first in range(0, len(found), MAX_URLS):
            batch = found[first : first + MAX_URLS]
            pushes = [push for _, push in batch]
            done = push_to(self._store, keys, self._tiers, layout, pushes)
            layout = done.layout
            self.outcome.queued += done.verdicts.count("n") + done.verdicts.count("f")
            names = [name for name, _ in batch]
            self._store.call(Call.command("HDEL", keys.held, *names))
        if bad:
            self._store.call(Call.command("HDEL", keys.held, *bad))
            self.outcome.lost.append(f"{keys.held}: {len(bad)} entries cannot be read")
        back = self._store.call(Call.to(PARTITION_RETURN, [keys.lease, keys.held]))
        return bool(back == 0)


def is_number_of_a_member(member: bytes) -> bool:
    """Whether *member* is an integer as sets have them."""
    return member.isdigit() and len(member) <= 19


def _escaped(text: str) -> str:
    """*text* as a pattern of keys that matches it alone."""
    return re.sub(r"([\\*?\[\]^-])", r"\\\1", text)
