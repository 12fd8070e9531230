"""Our downloader middlewares: the first decides on hops, the last captures.

The capture middleware is nearest to the wire, and hands exchanges to the archive.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from scrapy.http import HtmlResponse, Response, TextResponse
from scrapy.utils.response import get_base_url

from frontier.download.body_spool import ARCHIVED_ONLY
from frontier.download.capture import (
    capture,
    exchange_of,
    exchange_of_made,
    exchange_of_wire,
)
from frontier.download.hops import Hops
from frontier.download.origin import Answering
from frontier.download.outcomes import (
    AddressRefused,
    Excluded,
    LeaseGone,
    SeenBefore,
    kind_of_status,
    outcome_of,
)
from frontier.download.politeness import LeaseGuard
from frontier.errors import BodyArchivedOnly, FrontierError
from frontier.model import Attempt, Exchange, Unmodified
from frontier.node.imported import Imported
from frontier.requests.discovery import found_of
from frontier.scrapy_internals import (
    beginning_of,
    meta_refresh_of,
    use_base,
)
from frontier.session.session import URL_SHOWN, OfCrawler, one_message, session_of
from frontier.urls.partition import DOWNLOAD_SLOT, queue_key

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler


logger = logging.getLogger(__name__)

START = 4_096
"""Characters at the start of a page in which Scrapy looks for its base and refresh."""
ACCEPTS_NONE = "frontier_archived_only"
"""Key of ``meta``, and attribute of a spider: a response may lack its body."""
HTTP = ("http://", "https://")
"""What the URL of an HTTP exchange begins with."""


class HopMiddleware(OfCrawler):
    """Drops requests that are out of scope, excluded, or lead to refused addresses.

    It comes first, except for Scrapy's OffsiteMiddleware, and sees redirects, too.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._session = session_of(crawler)
        self._hops = self._session.component(Hops)
        self._guard = self._session.component(LeaseGuard)
        self._crawler = crawler

    async def process_request(self, request: Request) -> None:
        """Let *request* pass.

        Raises:
            IgnoreRequest: It may not be sent (`Hops.require`), or not now.
        """
        await self._hops.require(request)
        self._guard.require_turn(request)  # before its robots.txt takes a turn

    def process_response(self, request: Request, response: Response) -> Response:
        """Let *response* pass, with its body or to a callback that needs none.

        This is checked here, not where it arrived, as redirects and retries need none.

        Raises:
            BodyArchivedOnly: Its body was too large for the spider.
        """
        if ARCHIVED_ONLY not in response.flags:
            return response
        accepts = getattr(self._crawler.spider, ACCEPTS_NONE, False)
        is_archived = self._session.requests.known(request).stored is not None
        if is_archived and request.meta.get(ACCEPTS_NONE, accepts):
            return response
        self._session.count("frontier/archive/only_refused")
        raise BodyArchivedOnly(request.url, is_archived=is_archived)


class ImportedFilterMiddleware(OfCrawler):
    """Drops what another scheduler had seen before its crawl was taken over."""

    def __init__(self, crawler: Crawler) -> None:
        self._session = session_of(crawler)

    async def process_request(self, request: Request) -> None:
        """Let *request* pass, unless it came from the store and was seen.

        Raises:
            SeenBefore: It was. It is acked like any other.
            LeaseGone: That cannot be told: it goes back to the store, and the node
                ends.
        """
        session = self._session
        delivery = session.requests.delivery(request)
        if delivery is None:
            return
        try:
            is_seen = await session.node.parts[Imported].has_seen(request, delivery)
        except FrontierError as error:
            session.requests.put_off(request)
            session.node.fail(error)
            raise LeaseGone(str(error)) from None
        if is_seen:
            request.errback = None  # its spider need not know, as for any seen link
            delivery.is_last = True
            session.count("frontier/seen/imported")
            session.count("dupefilter/filtered")
            raise SeenBefore(f"{request.url[:200]} was seen before the crawl")


class MetaRefreshMiddleware(OfCrawler):
    """Replaces Scrapy's: a page with an invalid base or refresh reaches its spider.

    Scrapy's middleware, `Response.urljoin` and link extractors raise on such a page.
    Here its links are relative to its own URL.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._session = session_of(crawler)
        self._scrapys = meta_refresh_of(crawler)

    def process_response(
        self, request: Request, response: Response
    ) -> Request | Response:
        """Follow a refresh of *response*, if there is one that can be followed."""
        if not isinstance(response, TextResponse):
            return response
        start = beginning_of(response)
        is_cut = start is not response
        is_html = isinstance(response, HtmlResponse)
        if is_cut or is_html or b"<base" in response.body[:START]:
            try:
                base = get_base_url(start)
            except ValueError as error:
                base = response.url
                use_base(start, base)
                self._tell(request, error)
            if is_cut:
                use_base(response, base)
        if self._scrapys is not None:
            try:
                made = self._scrapys.process_response(request, start)
            except ValueError as error:
                self._tell(request, error)
            else:
                return response if made is start else made
        return response

    def _tell(self, request: Request, error: ValueError) -> None:
        self._session.count("frontier/pages/no_base")
        self._session.warn_once(
            "%s has a base or a refresh that is not a URL (%s): its links are "
            "resolved against its own URL; further ones are only counted",
            request.url[:URL_SHOWN],
            error,
        )


class CaptureMiddleware(OfCrawler):
    """Archives every exchange, and keeps each host to its own slot.

    In its place, nearer to the wire than HttpCompression, redirects and
    retries, it sees each exchange once and bodies as they were received.

    Scrapy writes a request's slot into its ``meta``, and a redirect to another
    host, or a request made with ``meta=response.meta``, is then sent in the slot
    of the first host, whose delay has nothing to do with it. So a slot that was
    not there before is taken out again.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._session = session_of(crawler)
        with one_message():
            self._answering = Answering(crawler, self._session)
        self._guard = self._session.component(LeaseGuard)

    async def process_request(self, request: Request) -> None:
        """Note if *request* names its slot.

        Raises:
            TurnIsLater: Its host is to be left alone first.
        """
        self._guard.require_turn(request)  # robots.txt had the last turn
        if DOWNLOAD_SLOT in request.meta:
            self._session.requests.of(request).names_slot = True

    async def process_response(self, request: Request, response: Response) -> Response:
        """Hand the exchange to the archive; its record is awaited by the ack."""
        state = self._session.requests.of(request)
        wire, state.wire = state.wire, None
        self._count(request, kind_of_status(response.status))
        # A cached response was not sent; data: and file: are no exchange at all.
        if "cached" not in response.flags and request.url.startswith(HTTP):
            if wire is not None and wire.has_answer:
                exchange = exchange_of_wire(request, wire)
                self._archive(request, self._settled(request, exchange))
            if wire is None or not wire.is_complete:
                self._archive_answer(request, response)
        state.answer = None
        self._unslot(request)
        if ARCHIVED_ONLY in response.flags:
            self._session.count("frontier/archive/only")
            request.meta["dont_cache"] = True  # a cache would have an empty body
        return response

    async def process_exception(
        self,
        request: Request,
        exception: Exception,
    ) -> None:
        """Archive what came of a download that failed.

        If nothing came, or the request was not sent, the crawl log says so.
        """
        state = self._session.requests.of(request)
        wire, state.wire = state.wire, None
        if state.probes:  # a probe of the uplink: it says nothing about its host
            return
        started = wire.started if wire is not None else 0.0
        archive = self._session.archive
        outcome = outcome_of(exception, sent=wire is None or bool(started))
        self._count(request, outcome.kind)
        if wire is not None and wire.has_answer:
            state.heard = not wire.is_proxied
            self._archive(request, exchange_of_wire(request, wire))
        elif archive is not None and request.url.startswith(HTTP) and outcome.code:
            archive.note(
                Attempt(
                    request.url,
                    outcome.code,
                    started,
                    time.time(),
                    found_of(request),
                    notes=(*_tries(request), *_refused(exception)),
                )
            )
        self._unslot(request)

    def _count(self, request: Request, kind: str | None) -> None:
        """Count that *request* is over, with an error of *kind* if it is one."""
        host, outcomes = queue_key(request.url, "host"), self._session.outcomes
        if kind is not None:
            outcomes.failed(kind, host)
        sent = self._session.requests.known(request).sent
        if sent is not None:
            outcomes.took(host, time.time() - sent)

    def _archive_answer(self, request: Request, response: Response) -> None:
        """Archive what Scrapy has, as a server's response if it is one."""
        if self._session.archive is None:
            return
        started = self._session.requests.known(request).sent or time.time()
        given, maker = self._answering.answer(request, response)
        if maker:
            exchange = exchange_of_made(request, given, started, maker)
        else:
            exchange = exchange_of(request, given, started)
            exchange = self._settled(request, exchange)
        self._archive(request, exchange)

    def _settled(self, request: Request, exchange: Exchange) -> Exchange:
        """*exchange*, with what it stands for if it is a 304 that we asked for."""
        past = self._session.requests.known(request).asked_with
        if past is None or exchange.status != 304:
            return exchange
        return replace(exchange, unmodified=Unmodified(past.original, past.digest))

    def _unslot(self, request: Request) -> None:
        """Hide the slot that Scrapy chose from what retries and redirects copy.

        Else they would have a queue of their own; callbacks see it again.
        """
        state = self._session.requests.of(request)
        if not state.names_slot:
            state.slot = request.meta.pop(DOWNLOAD_SLOT, "")

    def _archive(self, request: Request, exchange: Exchange) -> None:
        future = capture(self._session, request, _told(request, exchange))
        if future is not None:
            self._session.requests.of(request).stored = future


def _told(request: Request, exchange: Exchange) -> Exchange:
    """*exchange* with what else is known about its request."""
    elapsed = round((time.time() - exchange.started) * 1000)
    return replace(
        exchange,
        found=found_of(request),
        fetch_ms=max(0, elapsed),
        notes=_tries(request),
    )


def _refused(error: Exception) -> tuple[str, ...]:
    """Our annotation of why a request was refused: an exclusion, or its address."""
    if isinstance(error, Excluded):
        return ("excluded",)
    return (f"address:{error.kind}",) if isinstance(error, AddressRefused) else ()


def _tries(request: Request) -> tuple[str, ...]:
    """Heritrix's annotation of an attempt that is not the first: ``2t``."""
    times = request.meta.get("retry_times")
    return (f"{times + 1}t",) if isinstance(times, int) and times > 0 else ()
