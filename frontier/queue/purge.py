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

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from frontier.errors import CodecError
from frontier.queue.due import DUE, LEAST, bucket_of, buckets_in, read_waiting
from frontier.queue.item import decode
from frontier.queue.priority import readable
from frontier.store.calls import milliseconds
from frontier.store.client import Argument, BlockingStore, Call

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from frontier.settings.config import Config
    from frontier.store.keys import CrawlKeys, PartitionKeys
    from frontier.urls.exclusions import Exclusions

WINDOW = 1_000
"""Elements of a list that are looked at in one call."""
MAX_QUEUES = 10_000
"""Queues of one partition that are looked at; the others are left to nodes."""


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


def _ready(keys: PartitionKeys, queue: str) -> _List:
    return _List(keys.queues, queue, keys.ready(queue), "ready")


def _waiting(keys: PartitionKeys, bucket: str) -> _List:
    return _List(keys.due, bucket, keys.waiting(bucket), "waiting")


def skip_call(keys: PartitionKeys, queue: str) -> Call:
    """The call that takes `WINDOW` URLs, whatever they are, out of *queue*."""
    return _purge_call(keys, _ready(keys, queue))


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


@dataclass(slots=True)
class Swept:
    """What a look through lists has found."""

    queued: int = 0
    """Requests that are ready or wait for their time."""
    unreadable: int = 0
    """Elements that are not items of this version."""
    found: int = 0
    """Requests that are meant."""
    taken: int = 0
    """How many of these have left their lists."""
    is_next: bool = False
    """Whether what was made due is due before all else in its partition."""


def _sweep(
    store: BlockingStore,
    keys: PartitionKeys,
    place: _List,
    is_meant: Callable[[str], object],
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
        done.queued += len(items)
        done.unreadable += urls.count(None)
        done.found += len(chosen)
        done.taken += max(0, gone)
        done.is_next = done.is_next or bool(is_next)
        first += len(items) - max(0, gone)


def hasten(
    store: BlockingStore,
    keys: CrawlKeys,
    is_meant: Callable[[str], object],
    partitions: Sequence[int],
    progress: Callable[[int], None],
) -> tuple[Swept, list[tuple[int, str]]]:
    """Make due the URLs in *partitions* that *is_meant* is true for.

    Returns what was found, and hints of what is due earlier than its holder knows, with
    their partitions.
    """
    done, hints = Swept(), list[tuple[int, str]]()
    now = milliseconds(store.command("TIME"))
    sooner = bucket_of(now, now)[0]
    for count, found in enumerate(buckets_in(store.run, keys, partitions), 1):
        here, done.is_next = found.keys, False
        for bucket, at in found.scores:
            if at > now + LEAST:
                place = _waiting(here, bucket)
                _sweep(store, here, place, is_meant, done, sooner=sooner)
        if done.is_next:
            hints.append((found.number, DUE))
        progress(count)
    return done, hints


def purge(
    store: BlockingStore,
    keys: CrawlKeys,
    config: Config,
    exclusions: Exclusions,
    *,
    dry: bool,
    progress: Callable[[int], None],
) -> Swept:
    """Count what *exclusions* exclude and, unless it is a *dry* run, take it out.

    Raises:
        StoreError: The store does not answer. What is done stays done.
    """
    done = Swept()
    for found in buckets_in(store.run, keys, range(config.partitions)):
        here = found.keys
        queues = store.command("ZRANGE", here.queues, 0, MAX_QUEUES)
        places = [_ready(here, queue) for queue in filter(None, map(readable, queues))]
        places += [_waiting(here, bucket) for bucket, _ in found.scores]
        for place in places:
            _sweep(store, here, place, exclusions.why, done, dry=dry)
        progress(found.number + 1)
    return done
