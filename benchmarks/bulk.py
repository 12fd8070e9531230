"""Pushing many distinct URLs the shortest way: no Scrapy, no event loop."""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from frontier.queue.push import TEST, Push, push_plan, pushed
from frontier.seen import bloom
from frontier.seen.config import LayoutStale, SeenConfig, SeenLayout, joined
from frontier.store.client import BlockingStore
from frontier.store.keys import CrawlKeys
from frontier.urls.fingerprint import seen_hash

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.server import Server

ERROR_RATE = 0.001
"""The default of ``FRONTIER_BLOOM_ERROR_RATE``."""
PER_CALL = 200
CALLS = 10
"""Calls in one round trip, to different partitions."""
QUEUE = "0:host.example"


_serial = itertools.count()


class Bulk:
    """A crawl that is filled with distinct URLs."""

    def __init__(
        self, server: Server, tiers: str, *, capacity: int, partitions: int
    ) -> None:
        names = tiers.split(",")
        share = bloom.share(capacity, partitions)
        self._shape = SeenConfig("bloom" in names, "set" in names, share, ERROR_RATE)
        self._store = BlockingStore.from_settings({"REDIS_URL": server.url})
        self._server = server
        self._keys = CrawlKeys("bench", f"crawl{next(_serial)}")
        self._partitions = partitions
        self._layouts = [SeenLayout() for _ in range(partitions)]
        self._count = 0

    def confine(self, partitions: int) -> None:
        """Push to the first *partitions* only; each is sized as before."""
        self._partitions = partitions

    def push(self, count: int, item: bytes = b"0") -> Counter[str]:
        """Push *count* further URLs and return how many got which verdict."""
        verdicts: Counter[str] = Counter()
        with ThreadPoolExecutor(1) as sender:  # while the next batches are made
            sending = sender.submit(list[str])
            for batches in self._batches(count, item):
                verdicts.update(sending.result())
                sending = sender.submit(self._send, batches)
            verdicts.update(sending.result())
        return verdicts

    def rewind(self) -> None:
        """Push the same URLs again from now on."""
        self._count = 0

    def drop_queues(self) -> None:
        """Delete all but the seen-set."""
        pipeline = self._server.client.pipeline(transaction=False)
        for number in range(self._partitions):
            keys = self._keys.partition(number)
            pipeline.delete(keys.counts, keys.queues, keys.ready(QUEUE))
        pipeline.execute()

    def close(self) -> None:
        """Disconnect."""
        self._store.close()

    def _batches(
        self, count: int, item: bytes
    ) -> Iterator[list[tuple[int, list[Push]]]]:
        """Batches for different partitions, `CALLS` at a time."""
        end = self._count + count
        while self._count < end:
            size = min(PER_CALL * self._partitions, end - self._count)
            waiting: dict[int, list[Push]] = defaultdict(list)
            for number in range(self._count, self._count + size):
                digest = hashlib.sha1(b"%d" % number, usedforsecurity=False).digest()
                partition = int.from_bytes(digest[:4]) % self._partitions
                waiting[partition].append(Push(TEST, seen_hash(digest), QUEUE, 0, item))
            self._count += size
            batches = list(waiting.items())
            for first in range(0, len(batches), CALLS):
                yield batches[first : first + CALLS]

    def _send(self, batches: list[tuple[int, list[Push]]]) -> list[str]:
        verdicts: list[str] = []
        while batches:
            again = []
            plans = [
                push_plan(
                    self._keys.partition(partition),
                    self._shape,
                    self._layouts[partition],
                    pushes,
                )
                for partition, pushes in batches
            ]
            replies = self._store.run(joined(plans, alone=False))
            for (partition, pushes), reply in zip(batches, replies, strict=True):
                try:
                    done = pushed(reply[0], pushes)
                except LayoutStale as stale:
                    self._layouts[partition] = stale.layout
                    again.append((partition, pushes))
                    continue
                self._layouts[partition] = done.layout
                verdicts += done.verdicts
            batches = again
        return verdicts
