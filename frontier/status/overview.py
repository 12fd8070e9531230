"""All crawls and collections of a store, by their sizes and paces.

What always holds:

1.  Looking changes nothing, and no keys are searched for: only crawls and collections
    that are registered are known. A collection that only imports have filled is not,
    until a crawl with an archive joins it; the default collection always is.
2.  Only sizes are asked for; no payload is read. At most `MOST` collections are named.
3.  The reports of a crawl's nodes are read at most once in `PACE_S` seconds, and only
    once after it has ended. A look reads those of at most `AT_ONCE` crawls: those that
    waited longest.
"""

from __future__ import annotations

import heapq
import math
from time import monotonic
from typing import TYPE_CHECKING

from frontier.errors import KeyDamaged
from frontier.model import frozen
from frontier.status.snapshot import DAMAGED, Nodes, known, list_crawls, node_calls
from frontier.status.validate import printable, text, whole
from frontier.store.calls import milliseconds
from frontier.store.client import BlockingStore, Call
from frontier.store.keys import CrawlKeys, RegistryKeys, collection_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from frontier.status.figures import Figures
    from frontier.status.views import CrawlSummary

MOST = 200
"""Collections that are named."""
AT_ONCE = 10
"""Crawls whose reports one look reads."""
PACE_S = 5.0
COUNTS = ("totalUrls", "dupeUrls", "conservedSize", "totalCrawlSize")
"""What is counted for the committed crawls of a collection."""


@frozen
class CollectionSize:
    """A collection, by its sizes."""

    name: str
    """Empty for the default one."""
    digests: int
    """Payloads that all crawls know."""
    committed: int
    """Crawls, and imports, whose payloads these are."""
    uncommitted: int
    """Crawls, and rounds, whose payloads only their own nodes know yet."""
    urls: int
    """Captures of the committed crawls."""
    revisits: int
    """How many of these are revisits."""
    conserved_bytes: int
    """Bytes by which the revisits are smaller than their originals, compressed."""
    bytes: int
    """The size of the files of the committed crawls."""
    updated: str
    """When something was last imported or purged, in ISO 8601; empty if never."""
    damaged: bool = False
    """Whether one of its keys cannot be read; that figure is 0."""


@frozen
class CrawlPace:
    """What the nodes of a crawl have done, and how fast."""

    pages: int
    rate: float
    """Pages per second: in the last minute, or, if it has ended, from its start to its
    end."""
    errors: int


@frozen
class Overview:
    """What is in a store."""

    crawls: tuple[CrawlSummary, ...]
    """The newest first."""
    paces: dict[str, CrawlPace]
    """The paces of crawls, by id; crawls that were not looked at yet are missing."""
    collections: tuple[CollectionSize, ...]
    """By name."""
    taken_ms: int
    """When it was looked at, on the store's clock."""
    unnamed: int = 0
    """Collections beyond those that are named."""


class OverviewWatch:
    """Keeps looking at the crawls of *namespace*, and the collections they joined."""

    def __init__(
        self,
        store: BlockingStore,
        namespace: str,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._store = store
        self._namespace = namespace
        self._clock = clock
        self._paces: dict[tuple[str, str], tuple[float, CrawlPace]] = {}
        """When a crawl was looked at, and its pace then, by id and state."""

    def look(self) -> Overview:
        """What there is now.

        Raises:
            StoreError: The store does not answer.
        """
        store = self._store
        registry = RegistryKeys(self._namespace).collections
        calls = [Call.command("SMEMBERS", registry), Call.command("TIME")]
        members, time = store.run(calls, tolerant=True)
        names = sorted({*known(members, ()), b""})
        sizes = [_size(store, name.decode("utf-8", "replace")) for name in names[:MOST]]
        crawls = tuple(list_crawls(store, self._namespace))
        self._see_paces(crawls)
        return Overview(
            crawls=crawls,
            paces={crawl_id: pace for (crawl_id, _), (_, pace) in self._paces.items()},
            collections=tuple(one for one in sizes if one.name or not _is_empty(one)),
            taken_ms=milliseconds(time),
            unnamed=max(0, len(names) - MOST),
        )

    def _see_paces(self, crawls: Sequence[CrawlSummary]) -> None:
        """Learn what crawls have done: the open ones, and, once, each that has ended.

        Those come first that were not looked at for longest.
        """
        now, there = self._clock(), {(c.crawl_id, c.state): c for c in crawls}
        self._paces = {key: kept for key, kept in self._paces.items() if key in there}

        def seen(key: tuple[str, str]) -> float:
            return self._paces[key][0] if key in self._paces else -math.inf

        asked = [
            key
            for key, one in there.items()
            if one.kind == "crawl" and one.state != DAMAGED
            if key not in self._paces
            or (one.state == "open" and seen(key) <= now - PACE_S)
        ]
        for key in heapq.nsmallest(AT_ONCE, asked, key=seen):
            keys = CrawlKeys(self._namespace, key[0])
            replies = self._store.run(node_calls(keys), tolerant=True)
            pace = _pace(there[key], Nodes.of(*replies).totals)
            self._paces[key] = now, pace


def _pace(crawl: CrawlSummary, totals: Figures) -> CrawlPace:
    rate = totals.lately.pages if crawl.state == "open" else totals.rate
    return CrawlPace(totals.pages, round(rate, 3), totals.errors)


def _size(store: BlockingStore, name: str) -> CollectionSize:
    keys = collection_keys(store, name)
    replies = store.run(
        [
            Call.command("HLEN", keys.alldupes),
            Call.command("SCARD", keys.committed),
            Call.command("SCARD", keys.uncommitted),
            Call.command("HMGET", keys.allcounts, *COUNTS),
            Call.command("GET", keys.updated),
        ],
        tolerant=True,
    )
    sizes = [known(reply, 0) for reply in replies[:3]]
    counts = known(replies[3], (None,) * len(COUNTS))
    digests, committed, uncommitted = map(whole, sizes)
    urls, revisits, conserved, size = map(whole, counts)
    return CollectionSize(
        name=printable(name),
        digests=digests,
        committed=committed,
        uncommitted=uncommitted,
        urls=urls,
        revisits=revisits,
        conserved_bytes=conserved,
        bytes=size,
        updated=text(known(replies[4], None)),
        damaged=any(isinstance(reply, KeyDamaged) for reply in replies),
    )


def _is_empty(one: CollectionSize) -> bool:
    return not (one.digests or one.committed or one.uncommitted)
