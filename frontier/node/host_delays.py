"""What the store knows of hosts that were asked: the next node keeps their delay.

Within a node Scrapy's own slots keep the delay of a host. A node notes in the
store when it has sent a request, and until when the host is to be left alone;
`queue_reserve` heeds that when the partition has changed hands. A note that a
kill cuts off is missing for less than a lease lasts after it.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING

from frontier.errors import StoreUnavailable
from frontier.queue.priority import split_name
from frontier.queue.reserve import sent_call

if TYPE_CHECKING:
    from frontier.queue.reserve import Reservation
    from frontier.store.keys import CrawlKeys
    from frontier.store.outage_retry import OutageRetry

INTERVAL = 0.02
"""Seconds between two rounds of notes."""


class HostDelays:
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
        for lease, reply in zip(
            sent, await self._outage_retry.partial(calls), strict=True
        ):
            if isinstance(reply, StoreUnavailable):  # the others' are not held up
                self._sent[lease] = {**sent[lease], **self._sent[lease]}
                self._some.set()
