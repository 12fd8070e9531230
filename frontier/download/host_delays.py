"""What the store knows of hosts that were asked: the next node keeps their delay.

Within a node Scrapy's own slots keep the delay of a host. A node notes in the
store when it has sent a request, and until when the host is to be left alone;
`queue_reserve` heeds that when the partition has changed hands. A note that a
kill cuts off is missing for less than a lease lasts after it.

How many requests to one host a node may have at once.

A host that is divided into shards has several nodes. Each has its part of what
the host may have, by its part of the partitions, of which the parts of all
nodes are one: so together they have no more than one node would.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING

from frontier.errors import StoreUnavailable
from frontier.queue.reserve import sent_call, split_name
from frontier.urls.partition import SPREAD, host_of_shard

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.settings import BaseSettings

    from frontier.queue.reserve import Reservation
    from frontier.settings.config import Config
    from frontier.store.keys import CrawlKeys
    from frontier.store.outage_retry import Patience


SLACK = 0.1
"""By how much a part may fall short of a whole number: the ring is balanced to a
twentieth, and of eight requests no node of four should lose one for that."""


class Allowance:
    """Reckons for one node, whose part of the partitions is *share* at present."""

    def __init__(
        self, config: Config, settings: BaseSettings, share: Callable[[], float]
    ) -> None:
        self._share = share
        self._is_spread = config.queue_key in SPREAD
        self.is_divided = config.host_shards > 1 and not self._is_spread
        """Whether hosts have shards."""
        self._requests = settings.getint("CONCURRENT_REQUESTS")
        self._per_host = settings.getint("CONCURRENT_REQUESTS_PER_DOMAIN")
        self._is_delayed = settings.getfloat("DOWNLOAD_DELAY") > 0

    def host_of(self, queue_key: str) -> str:
        """Whose allowance the requests of *queue_key* take from."""
        return host_of_shard(queue_key) if self.is_divided else queue_key

    def sent(self) -> int:
        """How many requests to one host may be on the way."""
        if not self.is_divided:
            return self._per_host
        return max(1, int(self._per_host * self._share() + SLACK))

    def reserved(self) -> int:
        """How many URLs of one host may be reserved, those on the way included."""
        if self._is_spread:  # one queue per partition: there is no host to spare
            return 2 * self._requests
        return 2 if self._is_delayed else 2 * self.sent()


INTERVAL = 0.02
"""Seconds between two rounds of notes."""


class Manners:
    """Notes which queue keys a node has asked."""

    def __init__(self, patience: Patience, keys: CrawlKeys) -> None:
        self._patience = patience
        self._keys = keys
        self._sent: dict[tuple[int, int], dict[str, float]] = defaultdict(dict)
        self._some = asyncio.Event()

    def sent(self, reservation: Reservation, delay: float) -> None:
        """Note that its request was sent; *delay* is in seconds."""
        if delay > 0:
            lease, queue_key = reservation.lease, split_name(reservation.queue)[1]
            self._sent[lease.partition, lease.token][queue_key] = delay
            self._some.set()

    async def run(self) -> None:
        """Write notes, until cancelled."""
        while True:
            await self._some.wait()
            await self.flush()
            await asyncio.sleep(INTERVAL)

    async def flush(self) -> None:
        """Write what was noted; what is not answered is noted again."""
        self._some.clear()
        sent, self._sent = self._sent, defaultdict(dict)
        calls = [
            sent_call(self._keys.partition(partition), token, delays)
            for (partition, token), delays in sent.items()
        ]
        for lease, reply in zip(sent, await self._patience.parts(calls), strict=True):
            if isinstance(reply, StoreUnavailable):  # the others' are not held up
                self._sent[lease] = {**sent[lease], **self._sent[lease]}
                self._some.set()
