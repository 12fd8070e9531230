"""The traffic of a browser that scrapy-playwright drives, as exchanges.

No server sent the document that such a handler returns. But servers sent what it was
made from: Playwright reports every response that a page gets, with status, header
lines, address, and a body without its codings. Playwright decodes text and encodes it
again as UTF-8: a byte order mark, bytes that are not text, and any other charset are
lost.

What always holds:

1.  A ``response`` record is made of a body only if the server is known to have sent it:
    its size is what came over the wire, or its type is not text. If a coding was
    undone, so that sizes say nothing, text counts as sent if it was declared to be
    UTF-8 and no byte of it was replaced; its framing then says that it is text. Other
    text becomes a ``resource`` record, made by the handler.
2.  What came from no server, but from a service worker or a route that a spider
    fulfils, is not recorded.
3.  A page is closed only after the bodies of all requests it has finished are here, or
    `PATIENCE` is over; the spider's own handlers and methods are called as ever.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from scrapy.utils.misc import load_object

from frontier.download.capture import capture, request_head, response_head
from frontier.model import Exchange, Found, Made
from frontier.node.context import Tasks
from frontier.requests.discovery import extended, found_of
from frontier.scrapy_internals import handler_for
from frontier.session.session import session_of
from frontier.warc.selection import mime_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy import Request
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

HANDLERS = "scrapy_playwright.handler"
"""The module of the handler whose pages are listened to, subclasses included."""
INIT = "playwright_page_init_callback"
"""Key of ``meta``: a function that the handler calls with each page before its use."""
PATIENCE = 10.0
"""Seconds for which a page to be closed waits for bodies."""
BODILESS = frozenset({204, 205, 304})
AS_TEXT = "text as a browser decoded it"
"""The framing of text that only its charset shows to be what was sent."""
_BINARY = re.compile(
    r"(image/(?!svg)|audio/|video/|font/|application/(octet-stream|pdf|wasm|zip|gzip"
    r"|font|x-font|vnd\.ms-fontobject))(?!.*\+xml)"
)
_UTF_8 = re.compile(rb"charset[ \t]*=[ \t]*\"?utf-?8\b", re.IGNORECASE)
_UNTRUE = re.compile(
    rb"^(transfer-encoding|content-encoding)(?=[ \t]*:)", re.IGNORECASE | re.MULTILINE
)
_LENGTH = re.compile(rb"^(content-length)(?=[ \t]*:)", re.IGNORECASE | re.MULTILINE)
_CODED = re.compile(
    rb"^content-encoding[ \t]*:[ \t]*(?!identity[ \t\r])[^ \t\r]",
    re.IGNORECASE | re.MULTILINE,
)
_TYPE = re.compile(rb"^(content-type[ \t]*:)[^\r\n]*", re.IGNORECASE | re.MULTILINE)
_REPLACED = "\ufffd".encode()
_VERSIONS = {"h2": "h2", "http/2.0": "h2", "http/2": "h2", "h3": "h3"}
_Lines = list[tuple[bytes, bytes]]


def as_sent(exchange: Exchange, size: int, maker: str) -> Exchange:
    """*exchange* as it is archived, of a body that had *size* bytes on the wire.

    Its body is without codings, its head the one that the server sent; *size* is -1 if
    it is not known. It names *maker*, the handler, if its body is not known to be what
    a server sent.
    """
    head, body = exchange.response_head, exchange.response_body
    stored = _without_codings(head, len(body), exchange.truncated)
    exchange = replace(exchange, response_head=stored)
    if not body or (len(body) == size and not _CODED.search(head)):
        return exchange
    return _as_text(exchange, head, maker)


def lacking(method: str, status: int, size: int, most: int) -> str | None:
    """The reason for WARC-Truncated of an answer whose body could not be fetched.

    *size* is what the body had on the wire; above *most* it is not asked for.
    """
    if status in BODILESS or method == "HEAD" or size == 0:
        return None
    return "length" if size > most else "unspecified"


def _as_text(exchange: Exchange, head: bytes, maker: str) -> Exchange:
    """*exchange*, marked as text or as made if the browser may have changed its body.

    *head* is the head that the server sent.
    """
    body = bytes(exchange.response_body)
    mime = mime_of(head)
    if _BINARY.match(mime):
        return exchange
    kind = _TYPE.search(head)
    if kind and _UTF_8.search(kind[0]) and _REPLACED not in body:
        return replace(exchange, framing=AS_TEXT)
    said = (mime or "text/plain").encode("latin-1")
    return replace(
        exchange,
        response_head=_TYPE.sub(
            lambda line: line[1] + b" " + said + b"; charset=utf-8",
            exchange.response_head,
        ),
        made=Made(maker, exchange.url),
        protocols=(),
    )


def is_browser(handler: object) -> bool:
    """Whether *handler* has a browser fetch some of its requests."""
    return any(cls.__module__ == HANDLERS for cls in type(handler).__mro__)


class BrowserTraffic:
    """Listens to the pages of one crawler's scrapy-playwright handler."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._session = session_of(crawler)
        self._pages: WeakKeyDictionary[Any, _Page] = WeakKeyDictionary()

    @asynccontextmanager
    async def recorded(self, request: Request) -> AsyncIterator[None]:
        """Record what the browser gets while the handler has *request*.

        Recording goes on afterwards while the spider keeps the page and *request* is
        not acked.
        """
        handler = self._handler(request)
        if handler is None:
            yield
            return
        used: list[_Page] = []
        meta, given = request.meta, request.meta.get(INIT)

        async def begin(page: Any, asked: Request) -> None:
            listener = self._pages.get(page)
            if listener is None:
                listener = self._pages[page] = _Page(self, page)
            listener.serves(request, handler)
            used.append(listener)
            if given:
                await load_object(given)(page, asked)

        meta[INIT] = begin
        try:
            yield
        finally:
            if given is None:
                meta.pop(INIT, None)
            else:
                meta[INIT] = given
            for listener in used:
                await listener.settle()

    def _handler(self, request: Request) -> Any:
        """The handler of *request*, if it has a browser fetch it, in this thread."""
        wanted = self._session.config.warc_browser and request.meta.get("archive", True)
        if not wanted or self._session.archive is None:
            return None
        handler = handler_for(self._crawler, urlsplit(request.url).scheme)
        if not is_browser(handler):
            return None
        if getattr(handler.config, "use_threaded_loop", False):
            self._tell("it runs in a thread of its own")
            return None
        return handler

    def take(self, request: Request, exchange: Exchange, *, is_own: bool) -> None:
        """Archive *exchange*, which the page of *request* led to."""
        found = found_of(request)
        if not is_own:
            seed = found.seed or (request.url if found.is_seed else "")
            found = Found(request.url, extended(found.hops, "E"), seed)
        exchange = replace(exchange, found=found)
        if capture(self._session, request, exchange) is not None:
            self._session.count("frontier/archive/browser")

    def lost(self, error: BaseException) -> None:
        """Count a response that could not be recorded; warn once."""
        self._session.count("frontier/archive/browser_lost")
        self._tell(f"{type(error).__name__}: {error}")

    def _tell(self, why: str) -> None:
        line = "not all of the browser's traffic is archived: %s"
        self._session.warn_once(line, why)

    @property
    def maxsize(self) -> int:
        """Bytes of a body on the wire above which it is not fetched."""
        return self._crawler.settings.getint("DOWNLOAD_MAXSIZE") or 2**63


class _Page:
    """One page, and its responses that are yet to be recorded."""

    def __init__(self, traffic: BrowserTraffic, page: Any) -> None:
        self._traffic = traffic
        self._tasks = Tasks()
        self._request: Request
        self._handler: Any = None
        page.on("requestfinished", self._note)
        page.on("requestfailed", self._note)
        close = page.close

        async def close_when_settled(*args: Any, **kwargs: Any) -> Any:
            await self.settle()
            return await close(*args, **kwargs)

        page.close = close_when_settled

    def serves(self, request: Request, handler: Any) -> None:
        """From now on, take *request* for the one that led to each response."""
        self._request, self._handler = request, handler

    async def settle(self) -> None:
        """Wait until the archive has everything that came, or `PATIENCE` is over."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=PATIENCE)

    def _note(self, asked: Any) -> None:
        if not asked.url.lower().startswith(("http://", "https://")):
            return
        self._tasks.begin(self._record(asked, self._request))

    async def _record(self, asked: Any, request: Request) -> None:
        try:
            answer = await _answer(asked, self._traffic.maxsize, self._is_proxied())
            if answer is None:
                return
            kind = type(self._handler)
            maker = f"{kind.__module__}.{kind.__qualname__}"
            is_own = asked.is_navigation_request() and asked.frame.parent_frame is None
            self._traffic.take(request, as_sent(*answer, maker), is_own=is_own)
        except Exception as error:  # noqa: BLE001 - Playwright's, or the archive's
            self._traffic.lost(error)

    def _is_proxied(self) -> bool:
        """Whether the address that Playwright reports may be a proxy's."""
        config = self._handler.config
        given = self._request.meta.get("playwright_context_kwargs") or {}
        contexts = [*config.startup_context_kwargs.values(), given]
        remote = config.cdp_url or config.connect_url
        return bool(
            remote
            or config.launch_options.get("proxy")
            or any("proxy" in each for each in contexts)
            or any("proxy" in arg for arg in config.launch_options.get("args") or ())
        )


async def _answer(
    asked: Any, most: int, is_proxied: bool
) -> tuple[Exchange, int] | None:
    """The exchange that *asked* began, with the size of its body on the wire.

    ``None`` if no server sent a response.
    """
    response = await asked.response()
    if response is None or response.from_service_worker:
        return None
    told = await asyncio.gather(
        asked.sizes(),
        response.server_addr(),
        asked.headers_array(),
        response.headers_array(),
        response.security_details(),
        _version(response),
        return_exceptions=True,
    )
    sizes, address, sent, got, security, version = told
    if address is None:
        return None
    size = sizes["responseBodySize"] if isinstance(sizes, dict) else -1
    timing = asked.timing
    ended = timing["responseEnd"]
    protocols = [version] if isinstance(version, str) and version else []
    if isinstance(security, dict) and security.get("protocol"):
        protocols.append(security["protocol"].lower().replace(" ", "/"))
    ip = address.get("ipAddress") if isinstance(address, dict) else None
    method, form, status = asked.method, asked.post_data_buffer or b"", response.status
    body = await _body(response) if size <= most else None
    began = timing["startTime"]
    exchange = Exchange(
        url=asked.url,
        started=began / 1000 if began > 0 else time.time(),
        request_head=request_head(
            method, asked.url, _lines(sent, asked.headers), len(form)
        ),
        request_body=form,
        response_head=response_head(
            status, _lines(got, response.headers), response.status_text
        ),
        response_body=body or b"",
        status=status,
        ip=ip.strip("[]") if ip and not is_proxied else None,
        truncated=lacking(method, status, size, most) if body is None else None,
        protocols=tuple(protocols),
        fetch_ms=round(ended) if ended >= 0 else -1,
        notes=("browser",),
    )
    return exchange, size


async def _body(response: Any) -> bytes | None:
    try:
        body: bytes = await response.body()
    except Exception as error:  # noqa: BLE001 - redirects have no body
        logger.debug("no body of %s: %s", response.url, error)
        return None
    return body


async def _version(response: Any) -> str:
    """The WARC-Protocol of *response*; empty with older versions of Playwright."""
    if not hasattr(response, "http_version"):
        return ""
    version = str(await response.http_version()).lower()
    known = _VERSIONS.get(version, version)
    return known if known in {"http/1.0", "http/1.1", "h2", "h3"} else ""


def _lines(given: Any, otherwise: dict[str, str]) -> _Lines:
    """Header lines, without HTTP/2's pseudo-headers for request and status line."""
    pairs = (
        list(otherwise.items())
        if isinstance(given, BaseException)
        else [(each["name"], each["value"]) for each in given]
    )
    return [
        (name.encode("utf-8", "replace"), value.encode("utf-8", "replace"))
        for name, value in pairs
        if not name.startswith(":")
    ]


def _without_codings(head: bytes, size: int, truncated: str | None) -> bytes:
    """*head* for a body of *size* bytes whose codings were undone."""
    changed = _UNTRUE.sub(rb"X-Archive-Orig-\1", head)
    if not size or truncated or changed == head:
        return changed
    changed = _LENGTH.sub(rb"X-Archive-Orig-\1", changed)
    return changed[:-2] + b"Content-Length: %d\r\n\r\n" % size
