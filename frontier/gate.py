"""The last moment before a request is sent: Scrapy's download handlers, guarded.

A request may wait in Scrapy's downloader slot for as long as the delay of its
host says, and the node may be frozen meanwhile. So the lease is looked at when
the handler is called, and not when the request enters the downloader.

What always holds:

1.  No request from the store is sent without a current lease on its partition.
2.  Where a host is divided into shards, a node sends no faster than its part of
    them allows: its delay is the host's, times shards, by shards held.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import IgnoreRequest

from frontier.hashing import partition_of
from frontier.places import shard_names
from frontier.queues.partition import split_name

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from frontier.connection import Connection
    from frontier.queues.partition import Reservation

MAX_TURNS = 10_000
"""Hosts of which the next turn is known, before those that are over are dropped."""
PATIENCE = 0.05
"""Seconds between looks at a lease that is not current."""


class Gate:
    """Stands before the download handlers of one crawler."""

    def __init__(self, crawler: Crawler, connection: Connection) -> None:
        self._crawler = crawler
        self._connection = connection
        engine: Any = crawler.engine
        downloader = engine.downloader
        self._slots = downloader.slots
        self._send = downloader.handlers.download_request_async
        self._next: dict[str, float] = {}
        downloader.handlers.download_request_async = self.send

    async def send(self, request: Request) -> Response:
        """Send *request* once the lease that it stands on is current.

        Raises:
            IgnoreRequest: Another node has its partition now.
        """
        reservation = self._connection.reservations.get(request)
        if reservation is not None:
            node = self._connection.node
            delay = self._delay(request)
            await self._covered(request, reservation)
            if delay and self._connection.config.host_shards > 1:
                delay = await self._turn(reservation, delay)
                await self._covered(request, reservation)
            node.sent(reservation, delay)
        self._connection.sent[request] = time.time()
        response: Response = await self._send(request)
        return response

    async def _covered(self, request: Request, reservation: Reservation) -> None:
        """Return once the lease that *reservation* stands on is current."""
        node = self._connection.node
        while not node.may_send(reservation):
            if reservation.key not in node.inbox.open:
                # Another node has it now; this one's spider need not know.
                request.errback = None
                self._crawler.stats.inc_value("frontier/queue/lost")
                raise IgnoreRequest("the lease on its partition is lost")
            await asyncio.sleep(PATIENCE)

    async def _turn(self, reservation: Reservation, delay: float) -> float:
        """Wait for the turn of this node's part of a host; return its own delay."""
        host, share = self._share(reservation)
        delay /= share
        now = time.monotonic()
        at = max(now, self._next.get(host, now))
        if len(self._next) >= MAX_TURNS:  # those that are over say nothing
            self._next = {h: then for h, then in self._next.items() if then > now}
        self._next[host] = at + delay
        await asyncio.sleep(at - now)
        return delay

    def _share(self, reservation: Reservation) -> tuple[str, float]:
        """The host that it is of, and which part of its shards is held here."""
        config = self._connection.config
        host = split_name(reservation.queue)[1].rpartition("#")[0]
        names = shard_names(host, config.host_shards)
        held = sum(
            self._connection.node.holds(partition_of(name, config.partitions))
            for name in names
        )
        return host, max(held, 1) / len(names)

    def _delay(self, request: Request) -> float:
        """Of the request's slot at present: AutoThrottle and others change it."""
        slot = self._slots.get(request.meta.get("download_slot"))
        return float(slot.delay) if slot is not None else 0.0
