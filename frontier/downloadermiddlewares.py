"""The capture middleware: nearest the wire, it hands exchanges to the archive."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from weakref import WeakSet

from frontier.conditional import Conditional
from frontier.connection import connection_of
from frontier.wire import capture, exchange_of_wire

if TYPE_CHECKING:
    from typing import Self

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from frontier.model import Exchange

HTTP = ("http://", "https://")
"""What the URL of an HTTP exchange begins with."""
DOWNLOAD_SLOT = "download_slot"
"""Where Scrapy keeps the slot of a request, in its ``meta``."""


class CaptureMiddleware:
    """Archives every exchange, and has each host keep to its own slot.

    At its place, nearer to the wire than HttpCompression, redirects and
    retries, it sees each exchange once and bodies as they were received.

    Scrapy writes a request's slot into its ``meta``, and a redirect to another
    host, or a request made with ``meta=response.meta``, is then sent in the slot
    of the first host, whose delay has nothing to do with it. So what was not
    there before is taken out again.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._connection = connection_of(crawler)
        self._crawler = crawler
        self._conditional = Conditional(self._connection, crawler)
        self._slotted: WeakSet[Request] = WeakSet()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build the middleware of *crawler*'s node."""
        return cls(crawler)

    async def process_request(self, request: Request) -> None:
        """Ask for changes only, if that is wanted; see if *request* names its slot."""
        await self._conditional.ask(request)
        if DOWNLOAD_SLOT in request.meta:
            self._slotted.add(request)

    async def process_response(
        self, request: Request, response: Response
    ) -> Response | Request:
        """Hand the exchange to the archive; its record is awaited by the ack."""
        wire = self._connection.wires.pop(request, None)
        # A cached response was not sent; data: and file: are no exchange at all.
        if "cached" not in response.flags and request.url.startswith(HTTP):
            started = self._connection.sent.get(request) or time.time()
            exchange = capture(request, response, wire, started)
            self._archive(request, self._conditional.settle(request, exchange))
        self._unslot(request)
        return await self._conditional.restore(request, response)

    async def process_exception(
        self,
        request: Request,
        exception: Exception,  # noqa: ARG002 (its name is Scrapy's)
    ) -> None:
        """Archive what came of a download that failed."""
        wire = self._connection.wires.pop(request, None)
        if wire is not None and (wire.response_head or wire.raw):
            self._archive(request, exchange_of_wire(request, wire))
        self._conditional.forget(request)
        self._unslot(request)

    def _unslot(self, request: Request) -> None:
        if request not in self._slotted:
            request.meta.pop(DOWNLOAD_SLOT, None)

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
