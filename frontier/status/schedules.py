"""What a crawl does again and again: pages that it revisits, and sites of feeds.

What always holds:

1.  Looking changes nothing: no lease is taken and nothing is moved.
2.  Counts are over all partitions and sites. Hosts and intervals are read from a sample
    of what waits, spread over all partitions and times; `Waiting.sampled` is its size.
    `MOST_SITES` sites are named.
3.  Nothing that is read is trusted: the buckets of a partition, the elements of a
    sample and the hosts counted separately are limited, and what cannot be read is
    counted.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from frontier.errors import CodecError, KeyDamaged
from frontier.feeds.round_state import META as ROUND
from frontier.model import frozen
from frontier.queue.due import buckets_in, read_waiting, waiting_element, with_scores
from frontier.queue.item import RECRAWL, decode
from frontier.queue.priority import readable
from frontier.recrawl.schedule import State
from frontier.status.validate import printable, whole
from frontier.store.calls import batches, milliseconds
from frontier.store.client import BlockingStore, Call
from frontier.urls.split import split

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from frontier.store.keys import CrawlKeys


SAMPLE = 500
"""Waiting pages whose intervals are read."""
MOST_SITES = 50
"""Sites that are named: those that are due first."""
FIELDS = ("state", "round", "items", "wait", "wait_min", "wait_max", "emitted")
"""Fields of a site that are shown, the state first."""


@frozen
class SiteView:
    """A site of feeds."""

    name: str
    state: str
    """``waiting``, ``crawling``, ``paused`` or ``ended``."""
    next_ms: int
    """When its next round begins, or a node next looks at it; 0 for never."""
    round: int
    """The number of its last round."""
    urls: int
    """URLs queued or under way, roughly: some may move while they are counted."""
    items: int
    """New items of all its rounds."""
    wait_s: int
    """Seconds between two rounds, at present."""
    wait_min_s: int
    """The least that `wait_s` can be."""
    wait_max_s: int
    """The most that `wait_s` can be."""
    emitted_ms: int
    """When its last round began; 0 if it had none."""


@frozen
class FeedsView:
    """The sites of feeds that a crawl follows."""

    at_ms: int
    sites: int
    resting: int
    """Sites that are paused or have ended."""
    due: int
    """Sites whose time has come."""
    named: tuple[SiteView, ...]
    """The sites that are due first."""


def feeds_of(
    store: BlockingStore, keys: CrawlKeys, partitions: int, at_ms: int
) -> FeedsView | None:
    """The sites that a crawl follows; ``None`` if it follows none."""
    name = keys.sites
    count, resting, due, first = store.run(
        [
            Call.command("ZCARD", name),
            Call.command("ZCOUNT", name, "+inf", "+inf"),
            Call.command("ZCOUNT", name, "-inf", at_ms),
            Call.command("ZRANGE", name, 0, MOST_SITES - 1, "WITHSCORES"),
        ]
    )
    if not count:
        return None
    named = tuple(site_views(store, keys, partitions, with_scores(first)))
    return FeedsView(at_ms, count, resting, due, named)


def site_views(
    store: BlockingStore,
    keys: CrawlKeys,
    partitions: int,
    scores: Sequence[tuple[str, float]],
) -> Iterator[SiteView]:
    """The sites of *scores*: names, and when to look at each, in ms."""
    calls = [Call.command("HMGET", keys.site(name), *FIELDS) for name, _ in scores]
    replies, urls = store.run(calls), _urls_by_site(store, keys, partitions)
    for (name, at), (state, *numbers) in zip(scores, replies, strict=True):
        next_ms = int(at) if math.isfinite(at) else 0
        round_, *rest = (int(number or 0) for number in numbers)
        shown = printable(name), (state or b"").decode(), next_ms
        yield SiteView(*shown, round_, urls[name], *rest)


def _urls_by_site(
    store: BlockingStore, keys: CrawlKeys, partitions: int
) -> Counter[str]:
    """How many URLs of each site are queued or under way.

    Nobody keeps count, as a URL may leave its queue in many ways: all are read.
    """

    def read(calls: Sequence[Call]) -> list[Sequence[bytes]]:
        replies = store.run(calls, tolerant=True)
        return [() if isinstance(one, KeyDamaged) else one for one in replies]

    def listed(key: str) -> Iterator[bytes]:
        first = 0
        while some := read([Call.command("LRANGE", key, first, first + CHUNK - 1)])[0]:
            yield from some
            first += len(some)

    def elements() -> Iterator[bytes]:
        for batch in batches(range(partitions), BATCH):
            parts = [keys.partition(number) for number in batch]
            for reserved in read([Call.command("HVALS", p.reserved) for p in parts]):
                yield from (value.partition(b"\n")[2] for value in reserved)
            queues = read([Call.command("ZRANGE", p.queues, 0, -1) for p in parts])
            for part, names in zip(parts, queues, strict=True):
                for name in filter(None, map(readable, names)):
                    ready = listed(part.ready(name))
                    yield from (waiting_element(name, item) for item in ready)
            for found in buckets_in(partial(store.run, tolerant=True), keys, batch):
                for bucket, _ in found.scores:
                    yield from listed(found.keys.waiting(bucket))

    found: Counter[str] = Counter()
    for element in elements():
        # What others have put there may be of any form.
        with suppress(AttributeError, CodecError, LookupError, TypeError):
            queue, item = read_waiting(element)
            if place := decode(item, queue).get("meta", {}).get(ROUND):
                found[place[0]] += 1
    return found


BATCH = 64
"""Partitions per round trip."""
HOUR_MS = 3_600_000
MOST_WAITING_HOSTS = 100_000
"""Hosts that are counted separately."""
CHUNK = 500
"""Elements of a bucket that are read in one call."""


@dataclass(slots=True)
class Intervals:
    """The intervals of some pages, in seconds."""

    pages: int = 0
    total: float = 0.0
    least: float = 0.0
    most: float = 0.0

    def add(self, seconds: float) -> None:
        """Note one more."""
        self.least = min(self.least, seconds) if self.pages else seconds
        self.most = max(self.most, seconds)
        self.pages += 1
        self.total += seconds

    @property
    def mean(self) -> float:
        """Their mean; 0 if there are none."""
        return self.total / self.pages if self.pages else 0.0


@dataclass(slots=True)
class Waiting:
    """What waits in a crawl."""

    waiting: int = 0
    overdue: int = 0
    """Those whose time has come, but that no node has made ready yet."""
    next_hour: int = 0
    """Those that will be due within an hour."""
    ready: int = 0
    """URLs that wait for their host's turn: those that are due, and new ones."""
    sampled: int = 0
    unscheduled: int = 0
    """Elements of the sample that wait for another reason than a schedule."""
    unreadable: int = 0
    """Elements of the sample that are not items of this version."""
    intervals: Intervals = field(default_factory=Intervals)
    hosts: dict[str, Intervals] = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)
    """Keys that cannot be read."""

    def largest(self, count: int) -> list[tuple[str, Intervals]]:
        """The *count* hosts with the most pages in the sample, the largest first."""
        by_pages = ((name, one) for name, one in self.hosts.items())
        return heapq.nlargest(count, by_pages, key=lambda each: each[1].pages)


def waiting_of(
    store: BlockingStore,
    keys: CrawlKeys,
    partitions: int,
    *,
    sample: int = SAMPLE,
) -> Waiting:
    """What waits in the crawl of *keys*; hosts and intervals of *sample* pages."""
    found = Waiting()
    lists: list[tuple[str, int]] = []
    for batch in batches(range(partitions), BATCH):
        lists += _count(store, keys, batch, found)
    pieces = list(_pieces(lists, min(1.0, sample / max(found.waiting, 1))))
    for calls in batches(pieces, BATCH):
        for reply in store.run(calls, tolerant=True):
            if not isinstance(reply, KeyDamaged):
                for element in reply[: sample - found.sampled]:
                    _note(found, element)
    return found


def _count(
    store: BlockingStore, keys: CrawlKeys, numbers: Sequence[int], found: Waiting
) -> Iterator[tuple[str, int]]:
    """Count what is in partitions; yield the keys and lengths of waiting lists."""
    parts = [keys.partition(number) for number in numbers]
    calls = [Call.command("HGET", p.counts, "ready") for p in parts]
    *replies, time = store.run([*calls, Call.command("TIME")], tolerant=True)
    now = milliseconds(time)
    names: list[tuple[str, float]] = []
    for one in buckets_in(partial(store.run, tolerant=True), keys, numbers):
        if one.damage is not None:
            found.damaged.append(one.damage.key)
        names += [(one.keys.waiting(bucket), at) for bucket, at in one.scores]
    for reply in replies:
        found.ready += 0 if isinstance(reply, KeyDamaged) else whole(reply)
    lengths = store.run([Call.command("LLEN", n) for n, _ in names], tolerant=True)
    for (name, at), length in zip(names, lengths, strict=True):
        if isinstance(length, KeyDamaged):
            found.damaged.append(length.key)
            continue
        found.waiting += length
        found.overdue += length if at <= now else 0
        found.next_hour += length if now < at <= now + HOUR_MS else 0
        if length:
            yield name, length


def _pieces(lists: Sequence[tuple[str, int]], share: float) -> Iterator[Call]:
    """The calls that read that *share* of *lists*, evenly spread, in small pieces."""
    owed = 0.0
    for key, length in lists:
        for begin in range(0, length, CHUNK):
            size = min(CHUNK, length - begin)
            owed += size * share
            if owed >= 1:
                count = min(int(owed), size)
                owed -= count
                yield Call.command("LRANGE", key, begin, begin + count - 1)


def _note(found: Waiting, element: bytes) -> None:
    found.sampled += 1
    try:
        queue, item = read_waiting(element)
        record = decode(item, queue)
    except CodecError:
        found.unreadable += 1
        return
    carried = record.get(RECRAWL)
    packed = carried[0] if isinstance(carried, list) and carried else carried
    state = State.unpacked(packed)
    if state is None:
        found.unscheduled += 1
        return
    found.intervals.add(state.interval)
    host = printable(split(record["url"]).authority)
    if host in found.hosts or len(found.hosts) < MOST_WAITING_HOSTS:
        found.hosts.setdefault(host, Intervals()).add(state.interval)
