"""Finds queued URLs that an operator has excluded, or wants now.

Nodes drop an excluded URL when its turn comes; here all are counted, and removed at
once. URLs that are wanted now, chosen by their text, are made due: each is moved to the
list of a bucket whose time has come, and the holder of the partition makes it ready.

What always holds:

1.  A URL leaves its list by one script, which counts it as skipped, or has it wait in
    the other list. It stays seen. Each call looks at `WINDOW` elements, whatever the
    length of the lists.
2.  No lease is needed, and nodes need not stop: a node itself drops what it has
    reserved, or puts back meanwhile. Another purge completes one that was cut off.
3.  What cannot be read is left where it is. Requests that cannot be stored
    (`frontier.node.delivery`) are left to nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from frontier.errors import CodecError
from frontier.model import mutable
from frontier.queue.due import DUE, LEAST, bucket_of, buckets_in, read_waiting
from frontier.queue.item import decode
from frontier.queue.priority import readable, split_name
from frontier.store.calls import batches
from frontier.store.client import Call
from frontier.urls.partition import host_of_shard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from frontier.settings.config import Config
    from frontier.store.client import Argument, BlockingStore
    from frontier.store.keys import CrawlKeys, PartitionKeys
    from frontier.urls.exclusions import Exclusions

BATCH = 128
"""Partitions per round trip."""
WINDOW = 1_000
"""Elements of a list that are looked at in one call."""
MAX_QUEUES = 10_000
"""Queues of one partition that are looked at; the others are left to nodes."""


@mutable
class Purged:
    """What was found, and what was done."""

    queued: int = 0
    """Requests that are ready or wait for their time, excluded or not."""
    found: int = 0
    """Excluded requests."""
    skipped: int = 0
    """Excluded requests that were taken out."""


class _List(NamedTuple):
    """A list of queued requests."""

    names: str
    """The key of the set that has its name, as long as it is not empty."""
    name: str
    key: str
    level: str
    """The field that counts it: ``ready`` or ``waiting``."""

    def url(self, element: bytes) -> str | None:
        """The URL of *element*; `None` if it has none that can be read."""
        try:
            queue, item = self.name, element
            if self.level != "ready":
                queue, item = read_waiting(element)
            return str(decode(item, queue)["url"])
        except CodecError:
            return None


def skip_call(keys: PartitionKeys, queue: str) -> Call:
    """The call that takes `WINDOW` URLs, whatever they are, out of *queue*."""
    return _purge_call(keys, _List(keys.queues, queue, keys.ready(queue), "ready"))


def _purge_call(
    keys: PartitionKeys,
    place: _List,
    first: int = 0,
    items: Sequence[bytes] = (),
    *,
    sooner: str = "",
) -> Call:
    """The call that takes *items*, or all, of `WINDOW` from *first* out of a list.

    With *sooner*, a bucket, they wait there.
    """
    names = [keys.counts, place.names, place.key]
    args: list[Argument] = [keys.born, place.name, place.level, first, WINDOW, sooner]
    if sooner:
        names.append(keys.waiting(sooner))
    return Call.to("queue_purge", names, [*args, *items])


@mutable
class Swept:
    """What a look through lists has found."""

    looked_at: int = 0
    unreadable: int = 0
    """Elements that are not items of this version."""
    meant: int = 0
    taken: int = 0
    """How many of *meant* have left their lists."""
    is_next: bool = False
    """Whether what was made due is due before all else in its partition."""


def _sweep(
    store: BlockingStore,
    keys: PartitionKeys,
    place: _List,
    is_meant: Callable[[str], bool],
    done: Swept,
    *,
    sooner: str = "",
    dry: bool = False,
) -> None:
    """Take what *is_meant* by its URL out of a list, or make it due *sooner*."""
    first = 0
    while items := store.command("LRANGE", place.key, first, first + WINDOW - 1):
        urls = [place.url(one) for one in items]
        chosen = [
            one
            for one, url in zip(items, urls, strict=True)
            if url is not None and is_meant(url)
        ]
        gone = is_next = 0
        if chosen and not dry:
            call = _purge_call(keys, place, first, chosen, sooner=sooner)
            gone, is_next = store.call(call)
        done.looked_at += len(items)
        done.unreadable += urls.count(None)
        done.meant += len(chosen)
        done.taken += max(0, gone)
        done.is_next = done.is_next or bool(is_next)
        first += len(items) - max(0, gone)


class Hastening:
    """Makes due the URLs of one crawl for which *is_meant* is true."""

    def __init__(
        self, store: BlockingStore, keys: CrawlKeys, is_meant: Callable[[str], bool]
    ) -> None:
        self._store = store
        self._keys = keys
        self._is_meant = is_meant
        self.done = Swept()
        self.sooner: list[tuple[int, str]] = []
        """Partitions in which something is due earlier than their holder knows."""

    def run(self, partitions: Sequence[int]) -> Iterator[int]:
        """Look at *partitions*; yield each when it is done."""
        for found in buckets_in(self._store.run, self._keys, partitions):
            seconds, micros = self._store.command("TIME")
            now = int(seconds) * 1000 + int(micros) / 1000
            keys, sooner = found.keys, bucket_of(now, now)[0]
            self.done.is_next = False
            for bucket, at in found.scores:
                if at > now + LEAST:
                    place = _List(keys.due, bucket, keys.waiting(bucket), "waiting")
                    args = (self._store, keys, place, self._is_meant, self.done)
                    _sweep(*args, sooner=sooner)
            if self.done.is_next:
                self.sooner.append((found.number, DUE))
            yield found.number


class Purge:
    """Finds what *exclusions* exclude, and takes it out of the queues."""

    def __init__(
        self,
        store: BlockingStore,
        keys: CrawlKeys,
        config: Config,
        exclusions: Exclusions,
    ) -> None:
        self._store = store
        self._keys = keys
        self._config = config
        self._exclusions = exclusions
        self._has_hosts = config.queue_key == "host"
        self.outcome = Purged()

    def run(
        self, *, dry: bool, progress: Callable[[int], None] = lambda _: None
    ) -> Purged:
        """Count what is excluded and, unless it is a *dry* run, take it out.

        Raises:
            StoreError: The store does not answer. What is done stays done.
        """
        partitions = self._config.partitions
        for batch in batches(range(partitions), BATCH):
            calls = [
                Call.command(
                    "ZRANGE", self._keys.partition(p).queues, 0, MAX_QUEUES - 1
                )
                for p in batch
            ]
            waiting = buckets_in(self._store.run, self._keys, batch)
            for found, names in zip(waiting, self._store.run(calls), strict=True):
                for queue in filter(None, map(readable, names)):
                    self._queue(found.keys, queue, dry=dry)
                for bucket, _ in found.scores:
                    self._bucket(found.keys, bucket, dry=dry)
                progress(found.number + 1)
        return self.outcome

    def _queue(self, keys: PartitionKeys, queue: str, *, dry: bool) -> None:
        length = int(self._store.command("LLEN", keys.ready(queue)))
        self.outcome.queued += length
        whole = self._is_whole(queue)
        if whole and dry:
            self.outcome.found += length
        elif whole:
            self._all(keys, queue)
        else:
            place = _List(keys.queues, queue, keys.ready(queue), "ready")
            self._some(keys, place, dry=dry)

    def _bucket(self, keys: PartitionKeys, bucket: str, *, dry: bool) -> None:
        """Look at what is not due yet."""
        place = _List(keys.due, bucket, keys.waiting(bucket), "waiting")
        self.outcome.queued += self._store.command("LLEN", place.key)
        self._some(keys, place, dry=dry)

    def _is_whole(self, queue: str) -> bool:
        """Whether all of *queue* belongs to an excluded host."""
        if not self._has_hosts:
            return False
        key = split_name(queue)[1].partition("~")[0]  # a slot of its own
        host = host_of_shard(key) if self._config.host_shards > 1 else key
        return self._exclusions.of_host(f"http://{host}/") is not None

    def _all(self, keys: PartitionKeys, queue: str) -> None:
        while (count := int(self._store.call(skip_call(keys, queue))[0])) > 0:
            self.outcome.found += count
            self.outcome.skipped += count

    def _some(self, keys: PartitionKeys, place: _List, *, dry: bool) -> None:
        done = Swept()
        _sweep(self._store, keys, place, self._is_excluded, done, dry=dry)
        self.outcome.found += done.meant
        self.outcome.skipped += done.taken

    def _is_excluded(self, url: str) -> bool:
        return self._exclusions.why(url) is not None
