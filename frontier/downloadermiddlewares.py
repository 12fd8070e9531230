"""The capture middleware: nearest the wire, it hands exchanges to the archive."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from scrapy.exceptions import IgnoreRequest

from frontier.connection import connection_of
from frontier.wire import capture, exchange_of_wire

if TYPE_CHECKING:
    from typing import Self

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from frontier.model import Exchange


class CaptureMiddleware:
    """Archives every exchange, and sends nothing without a current lease.

    At its place, nearer to the wire than HttpCompression, redirects and
    retries, it sees each exchange once and bodies as they were received.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._connection = connection_of(crawler)
        self._crawler = crawler
        self._started: WeakKeyDictionary[Request, float] = WeakKeyDictionary()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build the middleware of *crawler*'s node."""
        return cls(crawler)

    async def process_request(self, request: Request) -> None:
        """Hold *request* while the lease that it stands on is not current."""
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

    async def process_response(self, request: Request, response: Response) -> Response:
        """Hand the exchange to the archive; its record is awaited by the ack."""
        wire = self._connection.wires.pop(request, None)
        if "cached" not in response.flags:  # of HttpCacheMiddleware: nothing was sent
            started = self._started.get(request) or time.time()
            self._archive(request, capture(request, response, wire, started))
        return response

    async def process_exception(
        self,
        request: Request,
        exception: Exception,  # noqa: ARG002 (its name is Scrapy's)
    ) -> None:
        """Archive what came of a download that failed, if its head did."""
        wire = self._connection.wires.pop(request, None)
        if wire is not None and wire.response_head:
            self._archive(request, exchange_of_wire(request, wire))

    def _archive(self, request: Request, exchange: Exchange) -> None:
        archive = self._connection.node.archive
        if archive is None or not request.meta.get("archive", True):
            return
        if not archive.selection.takes(exchange):
            self._crawler.stats.inc_value("frontier/archive/excluded")
        else:
            if exchange.truncated is not None:
                self._crawler.stats.inc_value("frontier/archive/truncated")
            self._connection.stored[request] = archive.submit(exchange)
