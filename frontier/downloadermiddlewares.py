"""The capture middleware: nearest the wire, it hands exchanges to the archive."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from weakref import WeakSet

from frontier.capture import exchange_of
from frontier.connection import connection_of

if TYPE_CHECKING:
    from typing import Self

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

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
        self._slotted: WeakSet[Request] = WeakSet()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build the middleware of *crawler*'s node."""
        return cls(crawler)

    async def process_request(self, request: Request) -> None:
        """See whether *request* names its slot itself."""
        if DOWNLOAD_SLOT in request.meta:
            self._slotted.add(request)

    async def process_response(self, request: Request, response: Response) -> Response:
        """Hand the exchange to the archive; its record is awaited by the ack."""
        archive = self._connection.node.archive
        if archive is not None and request.meta.get("archive", True):
            started = self._connection.sent.get(request) or time.time()
            exchange = exchange_of(request, response, started)
            self._connection.stored[request] = archive.submit(exchange)
        if request not in self._slotted:
            request.meta.pop(DOWNLOAD_SLOT, None)
        return response
