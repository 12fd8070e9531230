"""Revisits in an import, and the originals that may come after them.

What a revisit has left out can be counted when the size of its original is known.
Until then it waits, as two counts in the store: how many, and how large.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from frontier.store.client import Call
from frontier.store.scanning import scan
from frontier.store.scripts import COLLECTION_MATCH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from frontier.collection.foreign_indexes import Capture
    from frontier.store.client import BlockingStore
    from frontier.store.keys import CollectionKeys

ATTEMPTS = 10
"""Times that waiting revisits are matched, if others change them meanwhile."""


def some_wait(store: BlockingStore, keys: CollectionKeys) -> bool:
    """Whether revisits wait for their original, from this import or others."""
    return any(True for _ in scan(store, keys.rev_count("*")))


def resolve(
    store: BlockingStore,
    keys: CollectionKeys,
    captures: Sequence[Capture],
    name_of: Callable[[Capture], str],
) -> tuple[int, list[Capture]]:
    """Bytes that the revisits of *captures* leave out, and those that have to wait.

    Their original is in the index, or one of *captures*; one that comes later is
    found by *name_of*, as if it were of another call.
    """
    revisits = [capture for capture in captures if capture.revisit]
    if not revisits:
        return 0, []
    sizes = _sizes(store, keys, {capture.digest for capture in revisits})
    later: dict[str, int] = {}
    missing = []
    conserved = 0
    for capture in captures:
        size = sizes.get(capture.digest)
        if not capture.revisit:
            sizes.setdefault(capture.digest, capture.size)
            later.setdefault(name_of(capture), capture.size)
        elif size:
            conserved += max(0, size - capture.size)
        else:
            missing.append(capture)
    waiting = []
    for capture in missing:
        if size := later.get(name_of(capture)):
            conserved += max(0, size - capture.size)
        else:
            waiting.append(capture)
    return conserved, waiting


def match_all(
    store: BlockingStore, keys: CollectionKeys, sizes: Mapping[str, int]
) -> None:
    """Count what revisits left out that waited for originals of these *sizes*."""
    names = [keys.rev_count(digest) for digest in sizes]
    if not store.call(Call.command("EXISTS", *names)):
        return
    there = store.run([Call.command("EXISTS", name) for name in names])
    for digest, found in zip(sizes, there, strict=True):
        if found:
            match(store, keys, digest, sizes[digest])


def match(store: BlockingStore, keys: CollectionKeys, digest: str, size: int) -> bool:
    """Count what the revisits of *digest* left out that waited; *size* is known.

    Returns whether none waits any more.
    """
    for _ in range(ATTEMPTS):
        crawls = store.call(Call.command("HKEYS", keys.rev_count(digest)))
        if not crawls:
            return True
        ids = [crawl.decode("utf-8", "replace") for crawl in crawls]
        done = store.call(
            Call.to(
                COLLECTION_MATCH,
                [
                    keys.rev_count(digest),
                    keys.rev_size(digest),
                    keys.allcounts(),
                    *(keys.counts(crawl_id) for crawl_id in ids),
                ],
                [size, *ids],
            )
        )
        if done:
            return True
    return False


def _sizes(
    store: BlockingStore, keys: CollectionKeys, digests: Iterable[str]
) -> dict[str, int]:
    """The sizes of the committed originals of *digests*."""
    wanted = sorted(digests)
    owners = store.call(Call.command("HMGET", keys.alldupes(), *wanted))
    owned = [
        (digest, owner.decode("utf-8", "replace"))
        for digest, owner in zip(wanted, owners, strict=True)
        if owner is not None
    ]
    values = store.run([Call.command("HGET", keys.crawl(c), d) for d, c in owned])
    found = {}
    for (digest, _), value in zip(owned, values, strict=True):
        size = (value or b"").rpartition(b" ")[2]
        if size.isdigit() and 0 < len(size) < 16:
            found[digest] = int(size)
    return found
