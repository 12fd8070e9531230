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
from frontier.model import Exchange, Found, Made, frozen
from frontier.node.context import Tasks
from frontier.requests.discovery import extended, found_of
from frontier.scrapy_internals import handler_for
from frontier.warc.selection import mime_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy import Request
    from scrapy.crawler import Crawler

    from frontier.session.session import Session

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


@frozen
class Answer:
    """What Playwright reports about a response and its request."""

    url: str
    method: str
    asked: _Lines
    sent: bytes
    status: int
    reason: str
    lines: _Lines
    body: bytes | None
    """Without codings; ``None`` if it could not be fetched."""
    size: int
    """Bytes of the body on the wire, codings included; -1 if it is not known."""
    started: float
    elapsed_ms: int
    ip: str | None = None
    protocols: tuple[str, ...] = ()
    too_long: bool = False
    """Whether the body was not fetched because of its size."""


def exchange_of_answer(answer: Answer, maker: str) -> Exchange:
    """The exchange that *answer* is part of.

    It names *maker*, the handler, if its body is not known to be what a server sent.
    """
    head = response_head(answer.status, answer.lines, answer.reason)
    body, truncated = answer.body, None
    if body is None:
        is_empty = answer.status in BODILESS or answer.method == "HEAD"
        if not (is_empty or answer.size == 0):
            truncated = "length" if answer.too_long else "unspecified"
        body = b""
    exchange = Exchange(
        url=answer.url,
        started=answer.started,
        request_head=request_head(
            answer.method, answer.url, answer.asked, len(answer.sent)
        ),
        request_body=answer.sent,
        response_head=_without_codings(head, body, truncated),
        response_body=body,
        status=answer.status,
        ip=answer.ip,
        truncated=truncated,
        protocols=answer.protocols,
        fetch_ms=answer.elapsed_ms,
        notes=("browser",),
    )
    if not body or (len(body) == answer.size and not _CODED.search(head)):
        return exchange
    return _as_text(exchange, head, maker)


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

    def __init__(self, crawler: Crawler, session: Session) -> None:
        self._crawler = crawler
        self._session = session
        self._pages: WeakKeyDictionary[Any, _Page] = WeakKeyDictionary()
        self._told = False

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
        wanted = request.meta.get("playwright") and request.meta.get("archive", True)
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
        if not self._told:
            self._told = True
            logger.warning("not all of the browser's traffic is archived: %s", why)

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
            exchange = exchange_of_answer(answer, maker)
            self._traffic.take(request, exchange, is_own=is_own)
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


async def _answer(asked: Any, most: int, is_proxied: bool) -> Answer | None:
    """What is known about the response to *asked*; ``None`` if no server sent one."""
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
    return Answer(
        url=asked.url,
        method=asked.method,
        asked=_lines(sent, asked.headers),
        sent=asked.post_data_buffer or b"",
        status=response.status,
        reason=response.status_text,
        lines=_lines(got, response.headers),
        body=await _body(response) if size <= most else None,
        size=size,
        started=timing["startTime"] / 1000 if timing["startTime"] > 0 else time.time(),
        elapsed_ms=round(ended) if ended >= 0 else -1,
        ip=ip.strip("[]") if ip and not is_proxied else None,
        protocols=tuple(protocols),
        too_long=size > most,
    )


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


def _without_codings(head: bytes, body: bytes, truncated: str | None) -> bytes:
    """*head* for a *body* whose codings were undone, as in `archive.coding`."""
    changed = _UNTRUE.sub(rb"X-Archive-Orig-\1", head)
    if not body or truncated or changed == head:
        return changed
    changed = _LENGTH.sub(rb"X-Archive-Orig-\1", changed)
    return changed[:-2] + b"Content-Length: %d\r\n\r\n" % len(body)
