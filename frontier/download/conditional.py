"""Conditional requests: the server is asked whether what is stored has changed.

What always holds:

1.  A request is made conditional only if the stored body can be read back on this
    machine: so the spider sees what it would have seen, a 200 with the body, and
    follows its links.
2.  Only the 304 to such a request stands for a stored payload. One that nobody asked
    for, or that the spider asked for itself, is archived and handed on as it is.
3.  The headers that are added are removed again: a retry starts afresh.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from scrapy.exceptions import NotConfigured
from scrapy.http import Headers, Response
from scrapy.responsetypes import responsetypes

from frontier.errors import StoreError
from frontier.session.session import OfCrawler, session_of
from frontier.warc.readback import Kept, is_here, read_back

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler

    from frontier.dedupe.url_history import LastCapture

UNCONDITIONAL = "frontier_unconditional"
"""Key of ``meta``: the body could not be read back, so it is fetched."""
FLAG = "not-modified"
"""The flag of a response whose body was read back."""
_CONDITIONS = (
    "If-None-Match",
    "If-Modified-Since",
    "If-Match",
    "If-Unmodified-Since",
    "If-Range",
    "Range",
)
_OF_THE_BODY = {b"content-length", b"content-type", b"content-encoding"}


class ConditionalMiddleware(OfCrawler):
    """Makes requests conditional, and hands on the stored body for a 304."""

    def __init__(self, crawler: Crawler) -> None:
        self._session = session_of(crawler)
        config = self._session.config
        is_wanted = config.revisit_conditional_get or config.recrawl != "off"
        if not (config.warc_enabled and config.revisit_enabled and is_wanted):
            raise NotConfigured  # with a reason, Scrapy would warn
        self._directory = config.warc_dir

    async def process_request(self, request: Request) -> None:
        """Make *request* conditional, if its response is stored on this machine."""
        archive = self._session.archive
        if (
            archive is None
            or archive.history is None
            or request.method != "GET"
            or not request.meta.get("archive", True)
            or request.meta.get(UNCONDITIONAL)
            or any(name in request.headers for name in _CONDITIONS)
        ):
            return
        past = await asyncio.to_thread(self._past, request.url)
        if past is None:
            return
        if past.etag:
            request.headers["If-None-Match"] = past.etag
        if past.modified:
            request.headers["If-Modified-Since"] = past.modified
        self._session.requests.of(request).asked_with = past

    async def process_response(
        self, request: Request, response: Response
    ) -> Response | Request:
        """What the spider gets: the stored body if *response* is a 304 we asked for.

        If the body cannot be read back after all, the request is to be repeated.
        """
        past = self._forget(request)
        if past is None or response.status != 304:
            return response
        kept = await asyncio.to_thread(read_back, self._directory, past)
        if kept is None:
            self._session.count("frontier/archive/unreadable")
            meta = {**request.meta, UNCONDITIONAL: True}
            return request.replace(meta=meta, dont_filter=True)
        return _restored(response, kept)

    def process_exception(self, request: Request, exception: Exception) -> None:  # noqa: ARG002
        """Have *request* be made conditional anew if it is tried again."""
        self._forget(request)

    def _forget(self, request: Request) -> LastCapture | None:
        """Remove the added headers; return the capture that they were from."""
        past = self._session.requests.known(request).asked_with
        if past is not None:
            self._session.requests.of(request).asked_with = None
            for name in ("If-None-Match", "If-Modified-Since"):
                request.headers.pop(name, None)
        return past

    def _past(self, url: str) -> LastCapture | None:
        archive = self._session.archive
        try:
            past = archive.history.lookup(url) if archive and archive.history else None
        except StoreError:
            return None  # so it is fetched
        return past if past and is_here(self._directory, past) else None


def _restored(response: Response, kept: Kept) -> Response:
    """*kept*, updated with the headers of the 304 *response*.

    That is what a cache does (RFC 9111, section 3.2). Cookies that were set long ago
    are not set again.
    """
    headers = Headers()
    for name, value in kept.headers:
        if name.lower() != "set-cookie":
            headers.appendlist(name, value.encode("latin-1", "replace"))
    for name in response.headers:
        if name.lower() not in _OF_THE_BODY:
            headers.setlist(name, response.headers.getlist(name))
    cls = responsetypes.from_args(headers=headers, url=response.url, body=kept.body)
    return cls(
        url=response.url,
        status=kept.status,
        headers=headers,
        body=kept.body,
        flags=[*response.flags, FLAG],
        ip_address=response.ip_address,
        protocol=response.protocol,
    )
