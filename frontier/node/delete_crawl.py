"""Deleting a crawl that has ended: every key that the store has of it.

What always holds:

1.  Only of a crawl that has ended and that no live node is in; that it is being deleted
    is written down before anything is. No node can join it from then on.
2.  Each key is named from what the crawl itself has, and none is looked for in the
    store. What names other keys goes after them, and `meta`, by which the crawl is
    found, last of all: a deletion that was cut off anywhere can be repeated.
3.  A call names at most some hundred keys, all of one slot of a cluster, and the server
    frees their memory beside its work (``UNLINK``).
4.  What is not the crawl's alone stays: WARC files, digests in collections, files of
    nodes. The number of the crawl is not given to another.
5.  What should have named keys and cannot be read is deleted as well, and told:
    what it named may still be there.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from frontier.collection.summary import pairs
from frontier.errors import CrawlInUse, KeyDamaged
from frontier.node.remove_frontier import BATCH, MAX_KEYS, remove_frontier
from frontier.status.validate import text
from frontier.store.client import Call
from frontier.store.keys import RegistryKeys
from frontier.store.scripts import CRAWL_DELETE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from frontier.seen.seen_set import StoredCrawl
    from frontier.store.client import BlockingStore
    from frontier.store.keys import PartitionKeys

FIELDS = 500
"""Fields of a hash that are read at once."""


@dataclass(slots=True)
class Deleted:
    """What was deleted, so far."""

    keys: int = 0
    """By their names; a sorted set that goes with its last member does not count."""
    runs: int = 0
    """Entries of runs that named the crawl; see `RegistryKeys.spider`."""
    partitions: int = 0
    """Of which nothing is left."""
    unreadable: list[str] = field(default_factory=list)
    """Keys that should have named others, and could not be read."""


class Deletion:
    """Deletes one crawl; `done` says how far it is, also when `run` has raised."""

    def __init__(self, store: BlockingStore, crawl: StoredCrawl, *, ttl: float) -> None:
        self._store = store
        self._crawl = crawl
        self._keys = crawl.keys
        self._registry = RegistryKeys(crawl.keys.namespace)
        self._ttl_ms = int(ttl * 1000)
        self.done = Deleted()

    def check(self) -> None:
        """Change nothing.

        Raises:
            CrawlInUse: It has not ended, or nodes of it are alive.
        """
        self._begin("look")

    def run(self, progress: Callable[[int], None] = lambda _: None) -> Deleted:
        """Delete everything; *progress* is told how many partitions are done.

        Raises:
            CrawlInUse: It has not ended, or nodes of it are alive.
            StoreError: The store did not answer; to repeat it goes on.
        """
        self._begin("delete")
        self._unlink(self._of_nodes())
        asyncio.run(self._remove_frontier())
        keys, partitions = self._keys, self._crawl.config.partitions
        for first in range(0, partitions, BATCH):
            last = min(first + BATCH, partitions)
            every = [keys.partition(number) for number in range(first, last)]
            self._ask([Call.command("UNLINK", *_fixed(each)) for each in every])
            self.done.partitions = last
            progress(last)
        self._unlink(self._rest())
        self._forget_jobs()
        (born,) = self._ask([Call.command("HGET", keys.meta(), "born")])
        if born:  # its journals are not taken for those of a crawl that was lost
            self._ask([Call.command("SADD", self._registry.deleted(), born)])
        self._ask([forget_call(keys.namespace, keys.crawl_id)])
        self._unlink([keys.meta()])
        return self.done

    def _begin(self, what: str) -> None:
        names = [self._keys.meta(), self._keys.nodes()]
        found = self._store.call(Call.to(CRAWL_DELETE, names, [self._ttl_ms, what]))
        if found[0] == 0:
            raise CrawlInUse(self._keys.crawl_id)
        if found[0] == -1:
            raise CrawlInUse(self._keys.crawl_id, sorted(map(text, found[1:])))

    async def _remove_frontier(self) -> None:
        async def run(calls: Sequence[Call]) -> list[Any]:
            return self._ask(calls)

        config = self._crawl.config
        self.done.unreadable += await remove_frontier(run, self._keys, config)

    def _of_nodes(self) -> Iterator[str]:
        """Keys of nodes that are gone, most of which have expired."""
        keys = self._keys
        hashes = [keys.nodes(), keys.reports(), keys.allowances()]
        replies = self._ask([Call.command("HKEYS", name) for name in hashes])
        for node_id in sorted({text(name) for names in replies for name in names}):
            yield keys.hints(node_id)
            yield keys.order(node_id)
        for digest, _ in self._entries(keys.seed_lists()):
            yield keys.start_lock(digest.decode("utf-8", "replace"))

    def _rest(self) -> list[str]:
        """The crawl's own keys that `remove_frontier` does not remove, but `meta`."""
        keys = self._keys
        names = [keys.spent(), keys.allowances(), keys.controls(), keys.control_log()]
        names += [keys.cookies(), keys.sites(), keys.epoch(), keys.seed_lists()]
        names += [keys.former(), keys.ended(), keys.membership()]
        return [*names, keys.reports(), keys.nodes()]

    def _forget_jobs(self) -> None:
        """End that jobs and runs lead to the crawl; a late node makes the next one."""
        name, crawl_id = self._registry.spider(self._crawl.spider), self._keys.crawl_id
        for entry, value in self._entries(name):
            if entry != b"serial" and value == crawl_id.encode():
                (count,) = self._ask([Call.command("HDEL", name, entry)])
                self.done.runs += (count or 0) * entry.startswith(b"run:")

    def _entries(self, name: str) -> Iterator[tuple[bytes, bytes]]:
        """The fields and values of a hash, some in each call."""
        cursor = b"0"
        while True:
            scan = Call.command("HSCAN", name, cursor, "COUNT", FIELDS)
            (reply,) = self._ask([scan])
            if not reply:
                return
            cursor, found = reply
            yield from pairs(found)
            if int(cursor) == 0:
                return

    def _unlink(self, names: Iterator[str] | list[str]) -> None:
        every = list(names)
        for first in range(0, len(every), MAX_KEYS):
            self._ask([Call.command("UNLINK", *every[first : first + MAX_KEYS])])

    def _ask(self, calls: Sequence[Call]) -> list[Any]:
        """The replies; where a key is of another type, an empty one."""
        replies = self._store.run(calls, tolerant=True)
        for place, reply in enumerate(replies):
            if isinstance(reply, KeyDamaged):
                self.done.unreadable.append(reply.key)
                replies[place] = []
            elif calls[place].name == "UNLINK":
                self.done.keys += reply
        return replies


def forget_call(namespace: str, crawl_id: str) -> Call:
    """The call that takes a crawl off the list of all crawls; 1 if it was there."""
    return Call.command("SREM", RegistryKeys(namespace).crawls(), crawl_id)


def _fixed(keys: PartitionKeys) -> list[str]:
    """The keys of a partition that have one name, but for those removed before."""
    names = [keys.lease, keys.queues, keys.due, keys.dead]
    return [*names, keys.counts]
