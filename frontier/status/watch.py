"""A crawl as somebody sees it who keeps looking: hosts, hand-overs, time left.

`Watch.look` blocks. It is called in a thread, once in a second or two, and shared by
all who watch. What always holds:

1.  Looking changes nothing.
2.  Each look reads the crawl as a whole and some reports; partitions only as often as
    `SCANNED_A_SECOND` says, leases and queues as `HOLDERS_S` and `QUEUES_S` do. Of
    hosts only those are asked for whose queues may be among the longest.
3.  No keys are searched for, and what is kept is bounded in size.
4.  Hand-overs are of what this watch has seen itself. Who joined,
    left and died is in the store, and so known from before it began.
"""

from __future__ import annotations

import heapq
import math
import threading
import time
from collections import Counter, deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from frontier.errors import KeyDamaged
from frontier.status.forecast import TimeLeft, time_left
from frontier.status.membership_log import log_call, read_log
from frontier.status.partitions import (
    PartitionLook,
    dead_letters,
    holders,
    longest_queues,
    look_at,
)
from frontier.status.reports import GONE, REPLACED, read_reports
from frontier.status.schedules import feeds_of, recrawl_of
from frontier.status.snapshot import assembled, read_crawl
from frontier.status.validate import printable, text, whole
from frontier.status.views import Harmed
from frontier.store.client import Call
from frontier.store.keys import CrawlKeys

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from frontier.status.back_offs import LeftAlone
    from frontier.status.figures import Figures
    from frontier.status.membership_log import MemberEvent
    from frontier.status.schedules import FeedsView, RecrawlView
    from frontier.status.snapshot import StoredCrawl
    from frontier.status.views import CrawlSnapshot
    from frontier.store.client import BlockingStore

SCANNED_A_SECOND = 100
"""Partitions that are looked at, on average: of a crawl with more than so many, all are
looked at less often than each second."""
MOST_REPORTS = 32
"""Reports that one look reads, if there are more: each has kilobytes."""
HOLDERS_S = 1.9
"""Seconds between two looks at who holds partitions."""
QUEUES_S = 40.0
"""Seconds after which the lengths of a partition's queues are asked for again."""
MOST_HOSTS = 50
"""Hosts with the longest queues, and as many with errors, left alone, and slow."""
OF_PARTITION = 50
"""Queues of one partition that are kept in mind."""
MAX_LETTERS = 20
"""Dead letters that are shown."""
LETTERS_S = 5.0
"""Seconds between two looks at dead letters, delays of hosts and sites of feeds."""
RECRAWL_S = 60.0
"""Seconds between two looks at what waits until it is due: it reads all partitions."""
MAX_EVENTS = 200
"""Hand-overs that are kept in mind."""


@dataclass(frozen=True, slots=True)
class HostView:
    """What is known of a host, or of another queue key."""

    host: str
    queued: int = 0
    """URLs that are ready."""
    partition: int | None = None
    """Where its queue was seen; ``None`` if none was."""
    delay_ms: int = 0
    """Between two requests, as the node that asked it last kept it; 0 if not known."""
    errors: int = 0
    error_kinds: dict[str, int] = field(default_factory=dict)
    left_alone: str = ""
    """Why it is left alone, in words; empty if it is not."""
    until_ms: int = 0
    """Until when, on the store's clock."""
    failures: int = 0
    """Back-offs in a row."""
    requests: int = 0
    """Of which `seconds` are known."""
    seconds: float = 0.0
    """That one took on average."""


@dataclass(frozen=True, slots=True)
class HandOver:
    """Partitions that have changed hands between two looks."""

    at_ms: int
    """When that was seen, on the store's clock."""
    source: str
    """Who had them; empty if nobody did."""
    target: str
    """Who has them; empty if nobody does."""
    partitions: int


@dataclass(frozen=True, slots=True)
class Watched:
    """A crawl, and what can be said of it by who has watched it."""

    crawl: CrawlSnapshot
    epoch: int
    """Of the membership; it grows as nodes come and go."""
    time_left: TimeLeft
    holders: tuple[str, ...]
    """Who holds each partition; empty for nobody."""
    hosts: tuple[HostView, ...]
    """The longest queues first; then others with errors, left alone, slow."""
    hand_overs: tuple[HandOver, ...]
    """That were seen, the newest first."""
    oldest_s: float
    """How long ago the partitions were looked at."""
    membership: tuple[MemberEvent, ...] = ()
    """Who joined, left and died, also before this watch began; the newest first."""
    membership_unread: int = 0
    """Entries of that log that cannot be read, and are left out."""
    recrawl: RecrawlView | None = None
    """What waits until it is due; ``None`` if nothing does."""
    feeds: FeedsView | None = None
    """The sites that it follows; ``None`` if it follows none."""
    queued_hosts: int = 0
    """Hosts, or other queue keys, that have something queued. Where there are very many
    queues, one with requests of several priorities may count as often."""


class Watch:
    """Keeps looking at one crawl. `look` may be called in any thread."""

    def __init__(
        self,
        store: BlockingStore,
        namespace: str,
        crawl_id: str,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._keys = CrawlKeys(namespace, crawl_id)
        self._clock = clock
        self._lock = threading.Lock()
        self._looks: list[PartitionLook] = []
        self._queues: dict[int, dict[str, int]] = {}
        self._scanned = self._scan_due = self._queues_due = -math.inf
        self._holders: tuple[str, ...] = ()
        self._figures: dict[str, Figures] = {}
        self._turn = 0
        self._events: deque[HandOver] = deque(maxlen=MAX_EVENTS)
        self._epoch = -1
        self._harmed: tuple[Harmed, ...] = ()
        """What only a watch reads, and cannot."""
        self._log: tuple[tuple[MemberEvent, ...], int] = ((), 0)
        self._letters: tuple[Any, ...] = ()
        self._delays: dict[str, int] = {}
        self._slow_due = self._recrawl_due = self._holders_due = -math.inf
        self._recrawl: RecrawlView | None = None
        self._feeds: FeedsView | None = None

    def look(self) -> Watched:
        """What the crawl is like now.

        Raises:
            UnknownCrawl: There is no such crawl.
            OtherSchema: Another version of this package made it.
            CodecError: Its number of partitions cannot be read.
            StoreError: The store does not answer, or with an error.
        """
        with self._lock:
            return self._look()

    def _look(self) -> Watched:
        store, keys, now = self._store, self._keys, self._clock()
        crawl = self._see_crawl()
        held = self._see_holders(crawl, now)
        self._see_partitions(crawl, now)
        self._see_members(now >= self._slow_due)
        if now >= self._slow_due:
            self._slow_due = now + LETTERS_S
            self._letters = dead_letters(store, keys, self._looks, MAX_LETTERS)
            self._see_delays()
            self._feeds = feeds_of(store, keys, crawl.taken_ms)
        self._see_recrawl(crawl, now)
        seen = assembled(crawl, self._figures, self._looks, held, self._letters)
        seen = replace(seen, harmed=(*seen.harmed, *self._harmed))
        self._note_holders(held, seen.taken_ms)
        return Watched(
            crawl=seen,
            epoch=self._epoch,
            time_left=time_left(seen),
            holders=held,
            hosts=self._hosts(seen),
            hand_overs=tuple(reversed(self._events)),
            oldest_s=round(now - self._scanned, 1),
            membership=self._log[0],
            membership_unread=self._log[1],
            recrawl=self._recrawl,
            feeds=self._feeds,
            queued_hosts=self._queued_hosts(),
        )

    def _see_crawl(self) -> StoredCrawl:
        """Look at the crawl as a whole, and at all reports or those whose turn it is.

        The others are as they were at one of the looks before.
        """
        store, keys = self._store, self._keys
        (told,) = store.run([Call.command("HKEYS", keys.reports())], tolerant=True)
        known = [] if isinstance(told, KeyDamaged) else sorted(told)
        chosen: list[bytes] = []
        if len(known) > MOST_REPORTS and self._figures:
            summed = [n for n in known if n == GONE or REPLACED in n]
            first = [*summed, *(n for n in known if text(n) not in self._figures)]
            first = list(dict.fromkeys(first))
            start = self._turn % len(known)
            turn = [*known[start:], *known[:start]]
            chosen = list(dict.fromkeys([*first, *turn]))[:MOST_REPORTS]
            self._turn = start + MOST_REPORTS - min(len(first), MOST_REPORTS - 1)
        crawl = read_crawl(store, keys, chosen)
        read = read_reports(crawl.single)
        names = {text(name) for name in known} if chosen else read.keys()
        kept = {name: old for name, old in self._figures.items() if name in names}
        self._figures = {**kept, **read}
        return crawl

    def _see_holders(self, crawl: StoredCrawl, now: float) -> tuple[str, ...]:
        """Who holds each partition, as of `HOLDERS_S` seconds ago at most."""
        if now < self._holders_due and len(self._holders) == crawl.partitions:
            return self._holders
        self._holders_due = now + HOLDERS_S
        return holders(self._store, self._keys, crawl.partitions)

    def _see_members(self, slow: bool) -> None:
        """Learn the epoch, and what has happened to the members where that may be new.

        Two processes of one id do not change the epoch; a *slow* look finds them.
        """
        call = Call.command("GET", self._keys.epoch())
        (told,) = self._store.run([call], tolerant=True)
        self._harmed = ()
        if isinstance(told, KeyDamaged):
            self._harmed = (Harmed(None, "epoch", printable(told.reason)),)
        epoch = 0 if isinstance(told, KeyDamaged) else whole(told)
        if slow or epoch != self._epoch:
            reply = self._store.run([log_call(self._keys)], tolerant=True)[0]
            self._log = read_log(reply)
        self._epoch = epoch

    def _see_partitions(self, crawl: StoredCrawl, now: float) -> None:
        """Look at all partitions, if it is time to."""
        count = crawl.partitions
        if now < self._scan_due and len(self._looks) == count:
            return
        if len(self._looks) != count:
            self._queues, self._queues_due = {}, -math.inf
        numbers = range(count)
        self._looks = list(look_at(self._store, self._keys, numbers, crawl.tiers))
        self._scanned, self._scan_due = now, now + count / SCANNED_A_SECOND
        if now >= self._queues_due:
            self._queues_due = now + QUEUES_S
            self._see_queues()

    def _see_queues(self) -> None:
        """Learn the lengths of queues, where one may be among the longest."""
        known = (length for q in self._queues.values() for length in q.values())
        longest = heapq.nlargest(MOST_HOSTS, known)
        least = longest[-1] if len(longest) == MOST_HOSTS else 0
        looks = dict(enumerate(self._looks))
        asked = [
            number
            for number, look in looks.items()
            if look.scan.ready >= least + (number not in self._queues)
        ]
        found = longest_queues(self._store, self._keys, asked, looks, OF_PARTITION)
        self._queues = {number: queues for number, queues in found.items() if queues}

    def _queued_hosts(self) -> int:
        """How many hosts have something queued, as far as their names are known."""
        found = 0
        for number, look in enumerate(self._looks):
            named = len(self._queues.get(number, ()))
            is_all = 0 < named < OF_PARTITION
            found += named if is_all else look.scan.queues
        return found

    def _longest(self) -> list[tuple[int, str, int]]:
        """Length, queue key and partition of the longest queues."""
        every = (
            (length, key, number)
            for number, queues in self._queues.items()
            for key, length in queues.items()
        )
        return heapq.nlargest(MOST_HOSTS, every)

    def _see_delays(self) -> None:
        """Learn how long the hosts with the longest queues are left alone each time."""
        top = self._longest()
        calls = [
            Call.command("HGET", self._keys.partition(number).next_allowed, key)
            for _, key, number in top
        ]
        replies = self._store.run(calls, tolerant=True) if calls else []
        self._delays = {
            key: _delay(reply) for (_, key, _), reply in zip(top, replies, strict=True)
        }

    def _see_recrawl(self, crawl: StoredCrawl, now: float) -> None:
        """Learn what waits until it is due, if anything does."""
        if not any(look.scan.waiting for look in self._looks):
            self._recrawl, self._recrawl_due = None, -math.inf
        elif now >= self._recrawl_due:
            self._recrawl_due = now + RECRAWL_S
            args = (crawl.partitions, crawl.taken_ms)
            self._recrawl = recrawl_of(self._store, self._keys, *args)

    def _note_holders(self, held: tuple[str, ...], at_ms: int) -> None:
        """Note which partitions have changed hands."""
        if len(self._holders) == len(held):
            pairs = zip(self._holders, held, strict=True)
            moved = Counter((old, new) for old, new in pairs if old != new)
            for (old, new), count in sorted(moved.items()):
                self._events.append(HandOver(at_ms, old, new, count))
        self._holders = held

    def _hosts(self, seen: CrawlSnapshot) -> tuple[HostView, ...]:
        top = self._longest()
        totals = seen.totals
        alone = {one.host: one for one in seen.back_offs.named[:MOST_HOSTS]}
        names = [
            *(key for _, key, _ in top),
            *list(totals.host_errors)[:MOST_HOSTS],
            *alone,
            *list(totals.host_seconds)[:MOST_HOSTS],
        ]
        queues = {key: (length, number) for length, key, number in reversed(top)}
        return tuple(
            self._host(name, queues.get(name), totals, alone.get(name))
            for name in dict.fromkeys(names)
        )

    def _host(
        self,
        name: str,
        queue: tuple[int, int] | None,
        totals: Figures,
        alone: LeftAlone | None,
    ) -> HostView:
        kinds: Mapping[str, int] = totals.host_errors.get(name, {})
        took = totals.host_seconds.get(name)
        return HostView(
            host=name,
            queued=queue[0] if queue is not None else 0,
            partition=queue[1] if queue is not None else None,
            delay_ms=self._delays.get(name, 0),
            errors=sum(kinds.values()),
            error_kinds=dict(kinds),
            left_alone=alone.why if alone is not None else "",
            until_ms=alone.until_ms if alone is not None else 0,
            failures=alone.failures if alone is not None else 0,
            requests=took.requests if took is not None else 0,
            seconds=round(took.mean, 3) if took is not None else 0.0,
        )


def _delay(reply: Any) -> int:
    """The delay in *reply*, ``<token> <time, ms> <delay, ms>``; 0 if it is none."""
    if not isinstance(reply, bytes) or len(reply) > 100:
        return 0
    words = reply.split(b" ")
    return whole(words[2]) if len(words) == 3 else 0
