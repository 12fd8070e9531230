"""Removing what the store has of a crawl that has ended: its frontier, or all of it.

What always holds:

1.  Only a crawl that has ended and that no live node is in is removed. The removal is
    noted in the store before anything is removed; no node can join from then on.
2.  Keys are found by their names, on each server of the store, whatever is in them.
    `meta`, by which the crawl itself is found, goes last, so that a removal that was
    cut off can be repeated.
3.  The server frees their memory in the background (``UNLINK``).
4.  What does not belong to the crawl alone stays: WARC files, digests in collections,
    files of nodes. No other crawl gets its number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from frontier.cluster.endings import begin_removal
from frontier.collection.summary import pairs
from frontier.store.client import BlockingStore, Call
from frontier.store.keys import CrawlKeys, RegistryKeys, names_in

BATCH = 1_000
"""Keys per round trip."""
TELL = frozenset(("counts", "dead"))
"""Keys of a partition that tell about the crawl, and stay when its frontier goes."""
OF_THE_FRONTIER = frozenset(
    (
        *("cookies", "jar", "sites", "site", "claimed", "failed"),
        *("allowances", "sitemaps", "imported", "seeding"),
        *("former", "ended"),
    )
)
"""Keys of the crawl itself that go with its frontier; the rest tells about it."""


@dataclass(slots=True)
class Deleted:
    """What was deleted."""

    keys: int = 0
    runs: int = 0
    """Entries of runs that named the crawl; see `RegistryKeys.spider`."""


def remove_frontier(store: BlockingStore, keys: CrawlKeys) -> None:
    """Remove the queues of a crawl, and what it has seen.

    Its state and settings, the reports of its nodes, the counts of its partitions and
    its dead letters stay. Raises as `begin_removal` does.
    """
    begin_removal(store, keys, "removed_ms")
    _unlink(store, keys, _is_of_the_frontier)


def delete_crawl(store: BlockingStore, keys: CrawlKeys, spider: str) -> Deleted:
    """Delete all that the store has of a crawl of *spider*.

    Raises as `begin_removal` does.
    """
    begin_removal(store, keys, "deleting_ms")
    count = _unlink(store, keys, lambda number, what: (number, what) != (None, "meta"))
    runs = _forget_jobs(store, RegistryKeys(keys.namespace).spider(spider), keys)
    born = store.command("HGET", keys.meta, "born")
    if born:  # so that its journals are not taken for those of a lost crawl
        deleted = RegistryKeys(keys.namespace).deleted
        store.command("SADD", deleted, born)
    _forget(store, keys)
    count += store.command("UNLINK", keys.meta)
    return Deleted(count, runs)


def delete_rest(store: BlockingStore, keys: CrawlKeys) -> bool:
    """Delete what is left of a crawl without its `meta`; return whether it was listed.

    The store has evicted it, or somebody has deleted it.
    """
    _unlink(store, keys, lambda *_: True)
    return _forget(store, keys)


def _forget(store: BlockingStore, keys: CrawlKeys) -> bool:
    """Take the crawl off the list of all crawls; return whether it was there."""
    crawls = RegistryKeys(keys.namespace).crawls
    return bool(store.command("SREM", crawls, keys.crawl_id))


def _is_of_the_frontier(number: int | None, what: str) -> bool:
    return what in OF_THE_FRONTIER if number is None else what not in TELL


def _unlink(
    store: BlockingStore, keys: CrawlKeys, goes: Callable[[int | None, str], bool]
) -> int:
    """Remove the keys that *goes* picks by partition and kind; return how many."""
    count, batch = 0, list[Call]()
    for name, number, what in names_in(store.scan, keys):
        if goes(number, what):
            batch.append(Call.command("UNLINK", name))
        if len(batch) == BATCH:
            count += sum(store.run(batch))
            batch.clear()
    return count + int(sum(store.run(batch)))


def _forget_jobs(store: BlockingStore, name: str, keys: CrawlKeys) -> int:
    """Forget jobs and runs that lead to the crawl; a late node begins the next one."""
    entries = pairs(store.command("HGETALL", name))
    of_it = [
        entry
        for entry, value in entries
        if entry != b"serial" and value == keys.crawl_id.encode()
    ]
    store.run([Call.command("HDEL", name, entry) for entry in of_it])
    return sum(entry.startswith(b"run:") for entry in of_it)
