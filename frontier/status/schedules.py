"""What a crawl does again and again: pages that are visited again, and sites of feeds.

For who keeps looking: `frontier.status.recrawls` and `frontier.feeds.followed` say
more, and cost more. What always holds:

1.  Looking changes nothing.
2.  What is read is bounded: `SAMPLE` pages that wait, `MOST_SITES` sites. Counts of
    sites are of all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from frontier.errors import KeyDamaged
from frontier.status import recrawls
from frontier.status.validate import printable, text, whole
from frontier.store.client import Call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frontier.store.client import BlockingStore
    from frontier.store.keys import CrawlKeys

SAMPLE = 500
"""Pages that wait, of which intervals are read."""
MOST_SITES = 50
"""Sites that are named: those that are due first."""
MOST_HOSTS = 20
FIELDS = ("state", "round", "urls", "items", "lost", "wait")
"""Fields of a site that are shown."""
STATES = ("waiting", "crawling", "paused", "ended")
FOR_EVER = 10**15
"""Milliseconds from which on nothing is due."""


@dataclass(frozen=True, slots=True)
class HostInterval:
    """How often the pages of a host are visited, by a sample."""

    host: str
    pages: int
    """Of the sample."""
    mean_s: float


@dataclass(frozen=True, slots=True)
class RecrawlView:
    """Pages that wait until they are due."""

    at_ms: int
    """When that was looked at, on the store's clock."""
    waiting: int
    overdue: int
    """Of these, those whose time has come, and that nobody has made ready."""
    next_hour: int
    """Of these, those that will be due within an hour."""
    sampled: int
    unscheduled: int
    """Of the sample, those that wait for another reason than a schedule."""
    mean_s: float
    """Between two visits, of the sample."""
    least_s: float
    most_s: float
    hosts: tuple[HostInterval, ...]
    """Those with most pages in the sample."""


@dataclass(frozen=True, slots=True)
class SiteView:
    """A site of feeds."""

    name: str
    state: str
    """``waiting``, ``crawling``, ``paused``, ``ended``, or ``unknown``."""
    next_ms: int
    """When its next round begins, or a node sees to it; 0 if that is never."""
    round: int
    """The number of the last one."""
    urls: int
    """That the last round had."""
    items: int
    """New ones, of all rounds."""
    lost: int
    """URLs of the last round that nobody had any more."""
    wait_s: int
    """Between two rounds, now."""


@dataclass(frozen=True, slots=True)
class FeedsView:
    """The sites of feeds that a crawl follows."""

    at_ms: int
    sites: int
    resting: int
    """Those that are paused or have ended."""
    due: int
    """Those whose time has come."""
    named: tuple[SiteView, ...]
    """Those that are due first."""


def recrawl_of(
    store: BlockingStore, keys: CrawlKeys, partitions: int, at_ms: int
) -> RecrawlView:
    """What waits in a crawl of so many *partitions* until it is due."""
    found = recrawls.look(store, keys, partitions, sample=SAMPLE)
    return RecrawlView(
        at_ms=at_ms,
        waiting=found.waiting,
        overdue=found.overdue,
        next_hour=found.next_hour,
        sampled=found.sampled,
        unscheduled=found.unscheduled,
        mean_s=round(found.intervals.mean, 1),
        least_s=round(found.intervals.least, 1),
        most_s=round(found.intervals.most, 1),
        hosts=tuple(
            HostInterval(host, one.pages, round(one.mean, 1))
            for host, one in found.largest(MOST_HOSTS)
        ),
    )


def feeds_of(store: BlockingStore, keys: CrawlKeys, at_ms: int) -> FeedsView | None:
    """The sites that a crawl follows; ``None`` if it follows none."""
    name = keys.sites()
    count, resting, due, first = store.run(
        [
            Call.command("ZCARD", name),
            Call.command("ZCOUNT", name, FOR_EVER, "+inf"),
            Call.command("ZCOUNT", name, "-inf", at_ms),
            Call.command("ZRANGE", name, 0, MOST_SITES - 1, "WITHSCORES"),
        ],
        tolerant=True,
    )
    if isinstance(count, KeyDamaged) or not count:
        return None
    scores = _pairs(first)
    calls = [
        Call.command(
            "HMGET", keys.site(site.decode("utf-8", "surrogateescape")), *FIELDS
        )
        for site, _ in scores
    ]
    replies = store.run(calls, tolerant=True)
    return FeedsView(
        at_ms=at_ms,
        sites=whole(count),
        resting=whole(resting),
        due=whole(due),
        named=tuple(
            _site(site, score, reply)
            for (site, score), reply in zip(scores, replies, strict=True)
        ),
    )


def _pairs(reply: Sequence[Any]) -> list[tuple[bytes, float]]:
    """Names and scores, whichever of its two forms a client gives them in."""
    if reply and isinstance(reply[0], list | tuple):
        return [(name, float(score)) for name, score in reply]
    return [(n, float(s)) for n, s in zip(reply[::2], reply[1::2], strict=True)]


def _site(name: bytes, score: float, reply: Any) -> SiteView:
    values = (None,) * len(FIELDS) if isinstance(reply, KeyDamaged) else reply
    known = dict(zip(FIELDS, values, strict=True))
    state = text(known["state"])
    return SiteView(
        name=printable(name.decode("utf-8", "replace")),
        state=state if state in STATES else "unknown",
        next_ms=whole(score) if score < FOR_EVER else 0,
        round=whole(known["round"]),
        urls=whole(known["urls"]),
        items=whole(known["items"]),
        lost=whole(known["lost"]),
        wait_s=whole(known["wait"]),
    )
