"""All crawls and collections of a store, for who looks at it from outside.

What always holds:

1.  Looking changes nothing, and no keys are searched for: crawls and collections are
    those that are registered. A collection that only imports have filled is not, before
    a crawl with an archive joins it; the default collection always is.
2.  Sizes are asked for, and no payload is read. At most `MOST` collections are named.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from frontier.errors import KeyDamaged
from frontier.status.snapshot import list_crawls
from frontier.status.validate import printable, text, whole
from frontier.store.client import Call
from frontier.store.keys import RegistryKeys, collection_keys

if TYPE_CHECKING:
    from frontier.status.views import CrawlSummary
    from frontier.store.client import BlockingStore
    from frontier.store.keys import CollectionKeys

MOST = 200
"""Collections that are named."""
COUNTS = ("totalUrls", "dupeUrls", "conservedSize", "totalCrawlSize")
"""What is counted of the committed crawls of a collection."""


@dataclass(frozen=True, slots=True)
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
    waiting: int
    """Sources that wait to be imported."""
    urls: int
    """Captures of the committed crawls."""
    revisits: int
    """Of these, those that are revisits."""
    conserved_bytes: int
    """That the revisits left out."""
    bytes: int
    """Of the files of the committed crawls."""
    updated: str
    """When something was last imported or purged, in ISO 8601; empty if never."""
    damaged: bool = False
    """Whether one of its keys cannot be read; that figure is 0."""


@dataclass(frozen=True, slots=True)
class Overview:
    """What there is in a store."""

    crawls: tuple[CrawlSummary, ...]
    """The newest first."""
    collections: tuple[CollectionSize, ...]
    """By name."""
    unnamed: int = 0
    """Collections beyond those that are named."""


def overview(store: BlockingStore, namespace: str) -> Overview:
    """The crawls of *namespace*, and the collections that they have joined.

    Raises:
        StoreError: The store does not answer.
    """
    registry = RegistryKeys(namespace).collections()
    (members,) = store.run([Call.command("SMEMBERS", registry)], tolerant=True)
    found = set() if isinstance(members, KeyDamaged) else set(members)
    names = sorted(found | {b""})
    sizes = [_size(store, name.decode("utf-8", "replace")) for name in names[:MOST]]
    return Overview(
        crawls=tuple(list_crawls(store, namespace)),
        collections=tuple(one for one in sizes if one.name or not _is_empty(one)),
        unnamed=max(0, len(names) - MOST),
    )


def _size(store: BlockingStore, name: str) -> CollectionSize:
    keys: CollectionKeys = collection_keys(store, name)
    replies = store.run(
        [
            Call.command("HLEN", keys.alldupes()),
            Call.command("SCARD", keys.committed()),
            Call.command("SCARD", keys.uncommitted()),
            Call.command("LLEN", keys.queue()),
            Call.command("HMGET", keys.allcounts(), *COUNTS),
            Call.command("GET", keys.updated()),
        ],
        tolerant=True,
    )
    sizes = [_known(reply, 0) for reply in replies[:4]]
    counts = _known(replies[4], (None,) * len(COUNTS))
    digests, committed, uncommitted, waiting = map(whole, sizes)
    urls, revisits, conserved, size = map(whole, counts)
    return CollectionSize(
        name=printable(name),
        digests=digests,
        committed=committed,
        uncommitted=uncommitted,
        waiting=waiting,
        urls=urls,
        revisits=revisits,
        conserved_bytes=conserved,
        bytes=size,
        updated=text(_known(replies[5], None)),
        damaged=any(isinstance(reply, KeyDamaged) for reply in replies),
    )


def _known(reply: Any, other: Any) -> Any:
    return other if isinstance(reply, KeyDamaged) else reply


def _is_empty(one: CollectionSize) -> bool:
    return not (one.digests or one.committed or one.uncommitted or one.waiting)
