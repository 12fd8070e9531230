"""The capture middleware: nearest the wire, it hands exchanges to the archive."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from scrapy.exceptions import IgnoreRequest

from frontier.capture import exchange_of
from frontier.conditional import Conditional
from frontier.connection import connection_of

if TYPE_CHECKING:
    from typing import Self

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response


class CaptureMiddleware:
    """Archives every exchange, and sends nothing without a current lease.

    At its place, nearer to the wire than HttpCompression, redirects and
    retries, it sees each exchange once and bodies as they were received.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._connection = connection_of(crawler)
        self._crawler = crawler
        self._conditional = Conditional(self._connection, crawler)
        self._started: WeakKeyDictionary[Request, float] = WeakKeyDictionary()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build the middleware of *crawler*'s node."""
        return cls(crawler)

    async def process_request(self, request: Request) -> None:
        """Hold *request* while the lease that it stands on is not current."""
        await self._conditional.ask(request)
        reservation = self._connection.reservations.get(request)
        if reservation is not None:
            while not self._connection.node.may_send(reservation):
                if reservation.key not in self._connection.node.inbox.open:
                    # Another node has it now; this one's spider need not know.
                    request.errback = None
                    self._crawler.stats.inc_value("frontier/queue/lost")
                    raise IgnoreRequest("the lease on its partition is lost")
                await asyncio.sleep(0.05)
        self._started[request] = time.time()

    async def process_response(
        self, request: Request, response: Response
    ) -> Response | Request:
        """Hand the exchange to the archive; its record is awaited by the ack."""
        archive = self._connection.node.archive
        if archive is not None and request.meta.get("archive", True):
            started = self._started.get(request) or time.time()
            exchange = exchange_of(request, response, started)
            exchange = self._conditional.settle(request, exchange)
            self._connection.stored[request] = archive.submit(exchange)
        return await self._conditional.restore(request, response)

    async def process_exception(self, request: Request, _: Exception) -> None:
        """Let what is sent in place of *request* start afresh."""
        self._conditional.forget(request)
