"""The last moment before a request is sent: Scrapy's download handlers, guarded.

A request may wait in Scrapy's downloader slot for as long as the delay of its
host says, and the node may be frozen meanwhile. So the lease is looked at when
the handler is called, and not when the request enters the downloader.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import IgnoreRequest

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from frontier.connection import Connection

PATIENCE = 0.05
"""Seconds between looks at a lease that is not current."""


class Gate:
    """Stands before the download handlers of one crawler."""

    def __init__(self, crawler: Crawler, connection: Connection) -> None:
        self._crawler = crawler
        self._connection = connection
        self._downloader: Any = crawler.engine.downloader
        self._send = self._downloader.handlers.download_request_async
        self._downloader.handlers.download_request_async = self.send

    async def send(self, request: Request) -> Response:
        """Send *request* once the lease that it stands on is current.

        Raises:
            IgnoreRequest: Another node has its partition now.
        """
        reservation = self._connection.reservations.get(request)
        if reservation is not None:
            node = self._connection.node
            while not node.may_send(reservation):
                if reservation.key not in node.inbox.open:
                    # Another node has it now; this one's spider need not know.
                    request.errback = None
                    self._crawler.stats.inc_value("frontier/queue/lost")
                    raise IgnoreRequest("the lease on its partition is lost")
                await asyncio.sleep(PATIENCE)
            node.sent(reservation, self._delay(request))
        self._connection.sent[request] = time.time()
        response: Response = await self._send(request)
        return response

    def _delay(self, request: Request) -> float:
        """Of the request's slot at present: AutoThrottle and others change it."""
        slot = self._downloader.slots.get(request.meta.get("download_slot"))
        return float(slot.delay) if slot is not None else 0.0
