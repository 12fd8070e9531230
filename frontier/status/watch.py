"""A crawl as seen by somebody who keeps looking: hosts, members, time left.

`Watch.look` blocks. It is called in a thread, every second or two, on behalf of all
who watch. What always holds:

1.  Looking changes nothing.
2.  Each look reads the crawl as a whole, or every `SLOW_S` if it has many nodes;
    partitions and the lengths of queues only as often as `SCANNED_A_SECOND` and
    `QUEUES_A_SECOND` allow, and the rest every `SLOW_S` or `RECRAWL_S`. Only hosts
    whose queues are in the fullest partitions are asked for.
    The first look after the crawl has ended reads everything.
3.  No keys are searched for, and what is kept is bounded in size.
"""

from __future__ import annotations

import math
import threading
import time
from typing import TYPE_CHECKING, Any

from frontier.errors import KeyDamaged
from frontier.model import frozen
from frontier.queue.hosts import Record, record_of
from frontier.settings.live import QUOTAS
from frontier.status.back_offs import LeftAlone
from frontier.status.figures import HostSeconds
from frontier.status.forecast import TimeLeft, time_left
from frontier.status.membership_log import MemberEvent, log_call, read_log
from frontier.status.partitions import (
    MOST_QUEUES,
    PartitionLook,
    dead_letters,
    longest_queues,
    look_at,
)
from frontier.status.schedules import FeedsView, Waiting, feeds_of, waiting_of
from frontier.status.snapshot import StoredCrawl, assembled, read_crawl
from frontier.status.validate import whole
from frontier.store.client import BlockingStore, Call
from frontier.store.keys import CrawlKeys

if TYPE_CHECKING:
    from collections.abc import Callable

    from frontier.status.views import CrawlSnapshot

SCANNED_A_SECOND = 100
"""Partitions that are looked at, on average: if a crawl has more than this, they are
looked at less often than every second."""
MANY_NODES = 32
"""A crawl with more nodes is read only every `SLOW_S`: each report has kilobytes."""
SLOW_S = 5.0
"""Seconds between two looks at dead letters, members, delays and sites of feeds."""
QUEUES_A_SECOND = 160
"""Queues whose lengths are asked for, on average: a few are asked for again as soon as
the partitions are looked at, and the most that ever are (`FULLEST`), every 40 s."""
RECRAWL_S = 60.0
"""Seconds between two looks at what waits until it is due: it reads all partitions."""
FULLEST = 32
"""Partitions whose queues are asked for."""
MOST_HOSTS = 50
"""Hosts with the longest queues, and as many with errors, left alone, and slow."""
MAX_LETTERS = 20
"""Dead letters that are shown."""


@frozen
class HostView:
    """What is known of a host, or of another queue key."""

    host: str
    queued: int
    """URLs that are ready."""
    partition: int | None
    """Where its queue was seen; ``None`` if none was."""
    delay_ms: int
    """Between two requests, as kept by the node that asked it last; 0 if not known."""
    errors: int
    error_kinds: dict[str, int]
    left_alone: str
    """Why it is left alone, in words; empty if it is not."""
    until_ms: int
    """Until when it is left alone, on the store's clock."""
    failures: int
    """Back-offs in a row."""
    requests: int
    """Requests whose `seconds` are known."""
    seconds: float
    """Seconds that a request took on average."""


@frozen
class Had:
    """What a host has had, and what it may have; 0 for no quota."""

    host: str
    pages: int
    max_pages: int
    bytes: int
    max_bytes: int

    @property
    def share(self) -> float:
        """The used share of the quota that it is nearer to; more than 1 if exceeded."""
        pages = self.pages / self.max_pages if self.max_pages else 0.0
        return max(pages, self.bytes / self.max_bytes if self.max_bytes else 0.0)


@frozen
class Watched:
    """A crawl, and what can be told of it only by watching."""

    crawl: CrawlSnapshot
    epoch: int
    """The epoch of the membership; it grows as nodes come and go."""
    time_left: TimeLeft
    holders: tuple[str, ...]
    """The node that holds each partition; empty for none."""
    hosts: tuple[HostView, ...]
    """The longest queues first; then others with errors, left alone, slow."""
    oldest_s: float
    """How long ago the partitions were looked at."""
    membership: tuple[MemberEvent, ...]
    """Who joined, left and died, also before this watch began; the newest first."""
    membership_unread: int
    """Entries of that log that cannot be read, and are left out."""
    recrawl: Waiting | None
    """What waits until it is due; ``None`` if nothing does."""
    feeds: FeedsView | None
    """The sites that it follows; ``None`` if it follows none."""
    queued_hosts: int
    """Queues that have something ready; a host with requests of several priorities has
    several."""
    queues_s: float
    """How long ago the lengths of queues were asked for."""
    quotas: tuple[Had, ...]
    """What hosts with the longest queues have had of their quotas, the nearest first;
    empty without quotas."""


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
        self._due: dict[str, float] = {}
        self._last: Watched | None = None
        self._looks: list[PartitionLook] = []
        self._scanned = self._measured = 0.0
        self._top: list[tuple[int, str, int]] = []
        """Length, queue key and partition of the longest queues."""
        self._records: dict[str, Record] = {}
        """Those of the hosts with the longest queues."""
        self._letters: tuple[Any, ...] = ()
        self._epoch = 0
        self._log: tuple[tuple[MemberEvent, ...], int] = ((), 0)
        self._recrawl: Waiting | None = None
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
            last = self._last
            is_slow = last is not None and len(last.crawl.nodes) > MANY_NODES
            if last is None or self._is_due("crawl", SLOW_S * is_slow):
                last = self._last = self._look()
            return last

    def _is_due(self, what: str, seconds: float) -> bool:
        """Whether to look at *what* now; if so, it is due again in *seconds*."""
        now = self._clock()
        if now < self._due.get(what, -math.inf):
            return False
        self._due[what] = now + seconds
        return True

    def _look(self) -> Watched:
        store, keys = self._store, self._keys
        crawl = read_crawl(store, keys)
        count = crawl.view.partitions
        if self._last is not None and self._last.crawl.state != crawl.view.state:
            self._due.clear()
        if self._is_due("partitions", count / SCANNED_A_SECOND):
            self._looks = list(look_at(store, keys, range(count), crawl.tiers))
            self._scanned = self._clock()
        queues = sum(look.scan.queues for look in self._looks)
        asked = min(queues, FULLEST * MOST_QUEUES)
        if self._is_due("queues", asked / QUEUES_A_SECOND):
            self._measured = self._clock()
            self._top = longest_queues(store, keys, self._looks, FULLEST, MOST_HOSTS)
        if self._is_due("slow", SLOW_S):
            self._see_rest(crawl.view.taken_ms)
        if not any(look.scan.waiting for look in self._looks):
            self._recrawl, self._due["recrawl"] = None, -math.inf
        elif self._is_due("recrawl", RECRAWL_S):
            self._recrawl = waiting_of(store, keys, count)
        seen = assembled(crawl, self._looks, self._letters)
        return Watched(
            crawl=seen,
            epoch=self._epoch,
            time_left=time_left(seen),
            holders=tuple(look.holder for look in self._looks),
            hosts=self._hosts(seen),
            oldest_s=round(self._clock() - self._scanned, 1),
            membership=self._log[0],
            membership_unread=self._log[1],
            recrawl=self._recrawl,
            feeds=self._feeds,
            queued_hosts=queues,
            queues_s=round(self._clock() - self._measured, 1),
            quotas=self._quotas(crawl),
        )

    def _see_rest(self, now_ms: int) -> None:
        """Look at dead letters, members, sites of feeds, and the records of hosts."""
        store, keys = self._store, self._keys
        self._letters = dead_letters(store, keys, self._looks, MAX_LETTERS)
        self._feeds = feeds_of(store, keys, now_ms)
        epoch, log, *records = store.run(
            [
                Call.command("GET", keys.epoch()),
                log_call(keys),
                *(
                    Call.command("HGET", keys.partition(number).hosts, key)
                    for _, key, number in self._top
                ),
            ],
            tolerant=True,
        )
        self._epoch = 0 if isinstance(epoch, KeyDamaged) else whole(epoch)
        self._log = read_log(log)
        named = zip(self._top, records, strict=True)
        self._records = {key: record_of(reply) for (_, key, _), reply in named}

    def _quotas(self, crawl: StoredCrawl) -> tuple[Had, ...]:
        max_pages, max_bytes = (whole(crawl.settings.get(name, "")) for name in QUOTAS)
        if not (max_pages or max_bytes):
            return ()
        found = [
            Had(host, one.pages, max_pages, one.size, max_bytes)
            for host, one in self._records.items()
        ]
        return tuple(sorted(found, key=lambda one: (-one.share, one.host)))

    def _hosts(self, seen: CrawlSnapshot) -> tuple[HostView, ...]:
        errors, times = seen.totals.host_errors, seen.totals.host_seconds
        alone = {one.host: one for one in seen.back_offs.named[:MOST_HOSTS]}
        queues = {key: (length, number) for length, key, number in reversed(self._top)}
        names = dict.fromkeys(
            name
            for known in (reversed(queues), errors, alone, times)
            for name in list(known)[:MOST_HOSTS]
        )
        found = []
        for name in names:
            kinds, took = errors.get(name, {}), times.get(name, HostSeconds())
            queued, partition = queues.get(name, (0, None))
            left = alone.get(name, LeftAlone())
            found.append(
                HostView(
                    name,
                    queued,
                    partition,
                    delay_ms=round(self._records.get(name, Record()).delay * 1000),
                    errors=sum(kinds.values()),
                    error_kinds=dict(kinds),
                    left_alone=left.why,
                    until_ms=left.until_ms,
                    failures=left.failures,
                    requests=took.requests,
                    seconds=round(took.mean, 3),
                )
            )
        return tuple(found)
