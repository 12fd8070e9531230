"""What waits until it is due is made due at once, by URL or by how URLs begin.

An operator does that, of a crawl that runs or not. No lease is taken: what waits is
moved to another list that waits, whose time has come, and the holder of the partition
makes it ready as all that is due.

What always holds:

1.  A URL that waits is in one list at any moment, and in no ready list before its
    partition's holder has put it there (`queue_hasten`).
2.  A look at a bucket that has none of the URLs changes nothing.
3.  Items are data of unknown origin. What cannot be read stays where it is, and counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from frontier.errors import CodecError, KeyDamaged
from frontier.queue.due import DUE, bucket_of, buckets_in, read_waiting
from frontier.queue.item import decode
from frontier.store.client import Call
from frontier.store.scripts import QUEUE_HASTEN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from frontier.queue.due import Buckets
    from frontier.store.client import Argument, BlockingStore
    from frontier.store.keys import CrawlKeys, PartitionKeys

MOST = 500
"""Elements that are read, or moved, in one call."""
TRIES = 10
"""How often a bucket is looked at again because others have changed it."""


@dataclass(slots=True)
class Hastened:
    """What was made due."""

    moved: int = 0
    looked_at: int = 0
    """URLs that were waiting."""
    unreadable: int = 0
    """Elements that are no items of this version."""
    contended: int = 0
    """Buckets that changed all the time, and of which some may be left."""
    damaged: list[str] = field(default_factory=list)
    """Keys that cannot be read."""
    sooner: list[tuple[int, str]] = field(default_factory=list)
    """Partitions in which something is due before what its holder knows of."""


class Hastening:
    """Makes URLs of one crawl due that *is_meant* tells."""

    def __init__(
        self, store: BlockingStore, keys: CrawlKeys, is_meant: Callable[[str], bool]
    ) -> None:
        self._store = store
        self._keys = keys
        self._is_meant = is_meant
        self.done = Hastened()

    def run(self, partitions: Iterable[int]) -> Iterator[int]:
        """Look at *partitions*; yield each that is done."""
        ask = partial(self._store.run, tolerant=True)
        for found in buckets_in(ask, self._keys, list(partitions)):
            try:
                if found.damage is not None:
                    raise found.damage
                if self._partition(found):
                    self.done.sooner.append((found.number, DUE))
            except KeyDamaged as error:
                self.done.damaged.append(error.key)
            yield found.number

    def _partition(self, found: Buckets) -> bool:
        """Whether something is due there before all else."""
        keys, now, is_sooner = found.keys, self._now(), False
        for bucket in [name for name, at in found.scores if at > now]:
            for _ in range(TRIES):
                moved = self._bucket(keys, bucket, now)
                if moved is not None:
                    is_sooner = is_sooner or moved
                    break
            else:
                self.done.contended += 1
        return is_sooner

    def _now(self) -> float:
        seconds, micros = self._store.call(Call.command("TIME"))
        return int(seconds) * 1000 + int(micros) / 1000

    def _bucket(self, keys: PartitionKeys, bucket: str, now: float) -> bool | None:
        """Move what is meant; whether that is due next. `None` if others were at it."""
        waiting = keys.waiting(bucket)
        length = int(self._store.call(Call.command("LLEN", waiting)))
        if not any(self._chosen(each) for each in self._windows(waiting, length)):
            self.done.looked_at += length
            return False
        is_next, left = False, length
        while left > 0:
            read = self._store.call(
                Call.command("LRANGE", waiting, 0, min(MOST, left) - 1)
            )
            if not read:
                break
            moved = self._move(keys, bucket, now, read)
            if moved is None:
                return None
            is_next, left = is_next or moved, left - len(read)
        self.done.looked_at += length
        return is_next

    def _windows(self, waiting: str, length: int) -> Iterator[list[bytes]]:
        for first in range(0, length, MOST):
            call = Call.command("LRANGE", waiting, first, first + MOST - 1)
            yield self._store.call(call)

    def _move(
        self, keys: PartitionKeys, bucket: str, now: float, read: list[bytes]
    ) -> bool | None:
        places = self._chosen(read)
        sooner, _ = bucket_of(now, now)
        names = [keys.due, keys.waiting(bucket), keys.waiting(sooner)]
        args: list[Argument] = [bucket, sooner, len(read), read[0], read[-1], *places]
        reply = self._store.call(Call.to(QUEUE_HASTEN, names, args))
        if reply is None:
            return None
        self.done.moved += int(reply[0])
        return bool(reply[1])

    def _chosen(self, elements: list[bytes]) -> list[int]:
        """The places of those that are meant, counted from 1."""
        found = []
        for place, element in enumerate(elements, 1):
            url = url_of(element)
            if url is None:
                self.done.unreadable += 1
            elif self._is_meant(url):
                found.append(place)
        return found


def url_of(element: bytes) -> str | None:
    """The URL of an element of a list that waits; `None` if it is no such thing."""
    try:
        queue, item = read_waiting(element)
        return str(decode(item, queue)["url"])
    except CodecError:
        return None
