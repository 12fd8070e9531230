"""A crawl as seen by somebody who keeps looking: hosts, members, time left.

`Watch.look` blocks. It is called in a thread, every second or two, on behalf of all
who watch. What always holds:

1.  Looking changes nothing.
2.  Each look reads the crawl as a whole, or every `SLOW_S` if it has many nodes;
    partitions and the lengths of queues only as often as `SCANNED_A_SECOND` and
    `QUEUES_A_SECOND` allow, queued URLs of feeds as `URLS_A_SECOND` does, and the rest
    every `SLOW_S` or `RECRAWL_S`. Only hosts whose queues are in the fullest partitions
    are asked for.
    The first look after the crawl has ended reads everything.
3.  No keys are searched for, and what is kept is bounded in size.
"""

from __future__ import annotations

import math
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

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
    dead_letters,
    longest_queues,
    look_at,
)
from frontier.status.schedules import FeedsView, Waiting, feeds_of, waiting_of
from frontier.status.snapshot import WholeCrawl, assembled, read_crawl
from frontier.status.validate import whole
from frontier.store.client import BlockingStore, Call
from frontier.store.keys import CrawlKeys

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from frontier.status.views import CrawlSnapshot

T = TypeVar("T")
SCANNED_A_SECOND = 100
"""Partitions that are looked at, on average: if a crawl has more than this, they are
looked at less often than every second."""
YOUNG = 0.1
"""The part of a crawl's age that they are old at most: much changes at its start."""
MANY_NODES = 32
"""A crawl with more nodes is read only every `SLOW_S`: each report has kilobytes."""
SLOW_S = 5.0
"""Seconds between two looks at dead letters, members, delays and sites of feeds."""
QUEUES_A_SECOND = 160
"""Queues whose lengths are asked for, on average: a few are asked for again as soon as
the partitions are looked at, and the most that ever are (`FULLEST`), every 40 s."""
URLS_A_SECOND = 2_000
"""Queued URLs that are read, on average, to tell which sites of feeds they are of."""
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
        self._kept: dict[str, tuple[float, float, Any]] = {}
        """By its name, what was looked at: when, when it is due again, and what was
        seen."""

    def look(self) -> Watched:
        """What the crawl is like now.

        Raises:
            UnknownCrawl: There is no such crawl.
            OtherSchema: Another version of this package made it.
            CodecError: Its number of partitions cannot be read.
            StoreError: The store does not answer, or with an error.
        """
        with self._lock:
            last: Watched | None = self._kept.get("crawl", (0, 0, None))[2]
            is_slow = last is not None and len(last.crawl.nodes) > MANY_NODES
            return self._newest("crawl", SLOW_S * is_slow, self._look)

    def _newest(self, what: str, seconds: float, look: Callable[[], T]) -> T:
        """What *look* returns; if it is not due yet, what it returned last.

        It is due *seconds* after it was called.
        """
        now = self._clock()
        if now >= self._kept.get(what, (0.0, -math.inf))[1]:
            self._kept[what] = now, now + seconds, look()
        found: T = self._kept[what][2]
        return found

    def _age(self, what: str) -> float:
        """How many seconds ago *what* was looked at."""
        return round(self._clock() - self._kept[what][0], 1)

    def _look(self) -> Watched:
        store, keys, kept = self._store, self._keys, self._kept
        crawl = read_crawl(store, keys)
        count = crawl.view.partitions
        if "crawl" in kept and kept["crawl"][2].crawl.state != crawl.view.state:
            kept.clear()
        looks = self._newest(
            "partitions",
            min(count / SCANNED_A_SECOND, YOUNG * crawl.view.seconds),
            lambda: list(look_at(store, keys, range(count), crawl.tiers)),
        )
        scans = [look.scan for look in looks]
        queues = sum(one.queues for one in scans)
        top = self._newest(
            "queues",
            min(queues, FULLEST * MOST_QUEUES) / QUEUES_A_SECOND,
            lambda: longest_queues(store, keys, looks, FULLEST, MOST_HOSTS),
        )
        letters = self._newest(
            "letters", SLOW_S, lambda: dead_letters(store, keys, looks, MAX_LETTERS)
        )
        urls = sum(one.ready + one.waiting + one.reserved for one in scans)
        feeds = self._newest(
            "feeds",
            max(SLOW_S, urls / URLS_A_SECOND),
            lambda: feeds_of(store, keys, count, crawl.view.taken_ms),
        )
        epoch, (membership, unread), records = self._newest(
            "members", SLOW_S, lambda: self._members(top)
        )
        seen = assembled(crawl, looks, letters)
        return Watched(
            crawl=seen,
            epoch=epoch,
            time_left=time_left(seen),
            holders=tuple(look.holder for look in looks),
            hosts=_hosts(seen, top, records),
            oldest_s=self._age("partitions"),
            membership=membership,
            membership_unread=unread,
            recrawl=self._recrawl(count) if any(s.waiting for s in scans) else None,
            feeds=feeds,
            queued_hosts=queues,
            queues_s=self._age("queues"),
            quotas=_quotas(crawl, records),
        )

    def _recrawl(self, partitions: int) -> Waiting:
        read = partial(waiting_of, self._store, self._keys, partitions)
        return self._newest("recrawl", RECRAWL_S, read)

    def _members(
        self, top: Sequence[tuple[int, str, int]]
    ) -> tuple[int, tuple[tuple[MemberEvent, ...], int], dict[str, Record]]:
        """The epoch, the log of members, and the records of the hosts in *top*."""
        keys = self._keys
        records = [
            Call.command("HGET", keys.partition(number).hosts, key)
            for _, key, number in top
        ]
        epoch, log, *replies = self._store.run(
            [Call.command("GET", keys.epoch), log_call(keys), *records], tolerant=True
        )
        known = 0 if isinstance(epoch, KeyDamaged) else whole(epoch)
        names = (key for _, key, _ in top)
        found = dict(zip(names, map(record_of, replies), strict=True))
        return known, read_log(log), found


def _quotas(crawl: WholeCrawl, records: Mapping[str, Record]) -> tuple[Had, ...]:
    max_pages, max_bytes = (whole(crawl.settings.get(name, "")) for name in QUOTAS)
    if not (max_pages or max_bytes):
        return ()
    found = [
        Had(host, one.pages, max_pages, one.size, max_bytes)
        for host, one in records.items()
    ]
    return tuple(sorted(found, key=lambda one: (-one.share, one.host)))


def _hosts(
    seen: CrawlSnapshot,
    top: Sequence[tuple[int, str, int]],
    records: Mapping[str, Record],
) -> tuple[HostView, ...]:
    errors, times = seen.totals.host_errors, seen.totals.host_seconds
    alone = {one.host: one for one in seen.back_offs.named[:MOST_HOSTS]}
    queues = {key: (length, number) for length, key, number in reversed(top)}
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
                delay_ms=round(records.get(name, Record()).delay * 1000),
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
