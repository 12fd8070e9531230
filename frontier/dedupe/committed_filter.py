"""A Bloom filter of what the committed crawls of a collection have, on the node.

It answers, without the store, that a payload is *not* among the digests that were
committed when it was made. What always holds:

1.  It saves a lookup only for digests that were not there then, and only while
    nothing was added since: each lookup also reads, in the same round trip, a mark
    (how many digests and crawls there are, and when the last import was). If the mark
    has changed, everything is looked up.
2.  It may be wrong the other way: a digest that it seems to have is looked up.
3.  It is made in a thread of its own, from a scan between two equal marks. When a
    lookup finds it old it is made again, at most once in `PAUSE` seconds.

A crawl's own digests are not in it: other nodes add to them all the time.

Its positions are not those of `frontier.seen.bloom`: Lua must be able to compute these,
so they are digits of 43 bits, which is enough for the share of a partition. A filter
here may have 2^36 bits.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import mmh3
from bitarray import bitarray

from frontier.errors import StoreError
from frontier.store.client import Call

if TYPE_CHECKING:
    from collections.abc import Callable

    from frontier.store.client import BlockingStore
    from frontier.store.keys import CollectionKeys

logger = logging.getLogger(__name__)

BITS = 10
"""For each digest, so that fewer than one in 100 is looked up in vain."""
HASHES = 7
LEAST_BITS = 1 << 13
PAUSE = 60.0
"""Seconds between two attempts to make it."""
CHUNK = 2_000
"""Digests per round trip."""

Version = tuple[int, int, bytes]


@dataclass(frozen=True, slots=True)
class Filter:
    """What was committed at one time. Does not change."""

    version: Version
    bits: bitarray

    def __contains__(self, digest: str) -> bool:
        return all(self.bits[at] for at in _places(digest.encode(), len(self.bits)))


class CommittedFilter:
    """The filter of the collection *keys*, no larger than *max_bytes*."""

    def __init__(
        self,
        store: BlockingStore,
        keys: CollectionKeys,
        max_bytes: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.now: Filter | None = None
        """The filter, when there is one."""
        self._store = store
        self._keys = keys
        self._max_bits = max_bytes * 8
        self._clock = clock
        self._lock = threading.Lock()  # guards what follows
        self._due = clock()
        self._thread: threading.Thread | None = None

    def version_calls(self) -> list[Call]:
        """The calls whose replies `version` takes."""
        keys = self._keys
        return [
            Call.command("HLEN", keys.alldupes()),
            Call.command("SCARD", keys.committed()),
            Call.command("GET", keys.updated()),
        ]

    @staticmethod
    def version(replies: list[object]) -> Version:
        """What differs between two states of the collection."""
        digests, crawls, updated = replies
        return (
            int(str(digests)),
            int(str(crawls)),
            updated if isinstance(updated, bytes) else b"",
        )

    def renew(self) -> threading.Thread | None:
        """Make the filter again in a thread, if it is time to and none does."""
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                return self._thread
            if self._clock() < self._due:
                return None
            self._due = self._clock() + PAUSE
            self._thread = threading.Thread(
                target=self._make, name="frontier-committed", daemon=True
            )
            self._thread.start()
            return self._thread

    def _make(self) -> None:
        try:
            made = self._scan()
        except StoreError as error:
            logger.debug("no filter of what is committed: %s", error)
        else:
            if made is not None:
                self.now = made

    def _scan(self) -> Filter | None:
        before = self.version(self._store.run(self.version_calls()))
        size = max(LEAST_BITS, before[0] * BITS)
        if size > self._max_bits:
            self.now = None
            return None
        bits = bitarray(size)
        bits.setall(0)
        cursor: object = 0
        while True:
            cursor, found = self._store.call(
                Call.command(
                    "HSCAN", self._keys.alldupes(), str(cursor), "COUNT", CHUNK
                )
            )
            for digest in found:
                for at in _places(digest, size):
                    bits[at] = 1
            if int(str(cursor)) == 0:
                break
        after = self.version(self._store.run(self.version_calls()))
        return Filter(before, bits) if before == after else None


def _places(digest: bytes, size: int) -> list[int]:
    first, step = mmh3.hash64(digest, signed=False)
    return [(first + number * step) % size for number in range(HASHES)]
