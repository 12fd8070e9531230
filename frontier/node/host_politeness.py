"""Politeness between nodes: what each may have of a host, and when it is asked next.

Within a node Scrapy's own slots keep the delay of a host, see
`frontier.download.politeness`. `HostConcurrency` says how many requests a node may have
at once, in all and to one host. A host that is divided into shards has several nodes.
Each has its part of what the host may have, by its part of the partitions, of which
the parts of all nodes are one: so together they have no more than one node would.

`HostDelays` notes in the store when a request was sent, and until when the host is to
be left alone; `queue_reserve` heeds that when the partition has changed hands. A note
that a kill cuts off is missing for less than a lease lasts after it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from typing_extensions import override

from frontier.errors import StoreUnavailable
from frontier.node.context import Part
from frontier.queue.priority import split_name
from frontier.queue.reserve import sent_call
from frontier.urls.partition import SPREAD, host_of_shard

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from frontier.queue.reserve import Reservation
    from frontier.settings.config import Config
    from frontier.store.keys import CrawlKeys
    from frontier.store.outage_retry import OutageRetry


LONG = 1.0
"""Seconds between two requests to a host from which on it waits in the store for its
turn, and not in the downloader, where it would take room from others."""
SLACK = 0.1
"""By how much a part may fall short of a whole number: the ring is balanced to a
twentieth, and of eight requests no node of four should lose one for that."""


@dataclass(frozen=True, slots=True)
class Concurrency:
    """What the settings of one Scrapy process allow it."""

    requests: int = 16
    """``CONCURRENT_REQUESTS``."""
    per_host: int = 8
    """``CONCURRENT_REQUESTS_PER_DOMAIN``."""
    delay: float = 0.0
    """``DOWNLOAD_DELAY``, in seconds."""


class HostConcurrency:
    """Counts for one node, whose part of the partitions is *share* at present."""

    def __init__(
        self, config: Config, whole: Concurrency, share: Callable[[], float]
    ) -> None:
        self.whole = whole
        """What the process may have; replaced when an operator changes it."""
        self._share = share
        self._is_spread = config.queue_key in SPREAD
        self.is_divided = config.host_shards > 1 and not self._is_spread
        """Whether hosts have shards."""

    def host_of(self, queue_key: str) -> str:
        """Whose concurrency the requests of *queue_key* take from."""
        return host_of_shard(queue_key) if self.is_divided else queue_key

    def sent(self) -> int:
        """How many requests to one host may be on the way."""
        if not self.is_divided:
            return self.whole.per_host
        return max(1, int(self.whole.per_host * self._share() + SLACK))

    def reserved(self) -> int:
        """How many URLs of one host may be reserved, those on the way included."""
        if self._is_spread:  # one queue per partition: there is no host to spare
            return 2 * self.whole.requests
        return 2 if self.whole.delay > 0 else 2 * self.sent()

    @property
    def is_slow(self) -> bool:
        """Whether all hosts have a long delay."""
        return self.whole.delay >= LONG and not self._is_spread

    @property
    def waiting(self) -> int:
        """How many URLs may be reserved in all."""
        return 2 * self.whole.requests


NOTE_INTERVAL = 0.02
"""Seconds between two rounds of notes."""


class HostDelays(Part):
    """Notes which queue keys a node has asked."""

    def __init__(self, outage_retry: OutageRetry, keys: CrawlKeys) -> None:
        self._outage_retry = outage_retry
        self._keys = keys
        self._sent: dict[tuple[int, int], dict[str, float]] = defaultdict(dict)
        self._some = asyncio.Event()

    def sent(self, reservation: Reservation, delay: float) -> None:
        """Note that its request was sent; *delay* is in seconds."""
        if delay > 0:
            lease, queue_key = reservation.lease, split_name(reservation.queue)[1]
            self._sent[lease.partition, lease.token][queue_key] = delay
            self._some.set()

    @override
    async def run(self) -> None:
        """Write notes, until cancelled."""
        while True:
            await self._some.wait()
            await self.leaving()
            await asyncio.sleep(NOTE_INTERVAL)

    @override
    async def leaving(self) -> None:
        """Write what was noted; what is not answered is noted again."""
        self._some.clear()
        sent, self._sent = self._sent, defaultdict(dict)
        calls = [
            sent_call(self._keys.partition(partition), token, delays)
            for (partition, token), delays in sent.items()
        ]
        for lease, reply in zip(
            sent, await self._outage_retry.partial(calls), strict=True
        ):
            if isinstance(reply, StoreUnavailable):  # the others' are not held up
                self._sent[lease] = {**sent[lease], **self._sent[lease]}
                self._some.set()


logger = logging.getLogger(__name__)

WARN_INTERVAL = 5.0
"""Seconds between two looks."""
SHARDS = 256
"""Enough for an even share of them to fall to each of some ten nodes."""
MANY = 1_000
"""URLs of one host that make it worth to divide it."""


class SingleHostWarning(Part):
    """Says once that one big host is crawled by one node of several."""

    def __init__(
        self, nodes: Callable[[], int], ready: Callable[[], Mapping[str, int]]
    ) -> None:
        self._nodes = nodes
        self._ready = ready

    @override
    async def run(self) -> None:
        """Look until there is something to say, and say it."""
        while not self.look():  # noqa: ASYNC110 (it is a look at the store's figures)
            await asyncio.sleep(WARN_INTERVAL)

    def look(self) -> bool:
        """Whether it is said now."""
        nodes = self._nodes()
        ready = self._ready()
        if nodes < 2 or len(ready) != 1:
            return False
        ((queue_key, count),) = ready.items()
        if count < MANY:
            return False
        logger.warning(
            "this node has nothing to crawl but %s, with %d URLs queued, and no other "
            "of the %d nodes may: FRONTIER_HOST_SHARDS = %d in a new crawl would let "
            "them",
            queue_key,
            count,
            nodes,
            SHARDS,
        )
        return True
