"""The capture middleware: nearest the wire, it hands exchanges to the archive."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from frontier.capture import exchange_of
from frontier.connection import connection_of

if TYPE_CHECKING:
    from typing import Self

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response


class CaptureMiddleware:
    """Archives every exchange.

    At its place, nearer to the wire than HttpCompression, redirects and
    retries, it sees each exchange once and bodies as they were received.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._connection = connection_of(crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build the middleware of *crawler*'s node."""
        return cls(crawler)

    async def process_response(self, request: Request, response: Response) -> Response:
        """Hand the exchange to the archive; its record is awaited by the ack."""
        archive = self._connection.node.archive
        if archive is not None and request.meta.get("archive", True):
            started = self._connection.sent.get(request) or time.time()
            exchange = exchange_of(request, response, started)
            self._connection.stored[request] = archive.submit(exchange)
        return response
