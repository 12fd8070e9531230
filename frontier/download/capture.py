"""Exchanges: what Scrapy sent and received, as bytes of HTTP/1.1.

Our download handler fills a `Wire` while it works (`frontier.download.wire`). It keeps
what Scrapy's `Request` and `Response` do not: the head of the response byte for byte,
the head of the request as it was written to the socket, the TLS connection, and the
part of a body that was received before a download failed.

Other handlers leave only Scrapy's objects. What those lose is lost here: the reason
phrase (the standard one is written), the case of header names, the order of different
names, and which headers the handler itself added to the request.
"""

from __future__ import annotations

import re
from dataclasses import replace
from http.client import responses
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from scrapy.http import HtmlResponse, Response, XmlResponse

from frontier.model import Attempt, Exchange, Made, Stored
from frontier.warc.selection import mime_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from concurrent.futures import Future

    from scrapy import Request
    from scrapy.http.headers import Headers

    from frontier.download.wire import Wire
    from frontier.session.session import Session

    Lines = list[tuple[bytes, bytes]]


_HOP_BY_HOP = {b"Transfer-Encoding", b"Connection", b"Keep-Alive"}
"""The handler has undone what they say; the body is archived without them."""
_TYPES = {HtmlResponse: "text/html", XmlResponse: "application/xml"}
_FLAGS = {"dataloss": "disconnect", "download_stopped": "unspecified"}


def exchange_of(request: Request, response: Response, started: float) -> Exchange:
    """The exchange of *request* and *response*; *started* in epoch seconds."""
    return Exchange(
        url=request.url,
        started=started,
        request_head=request_head_of(request),
        request_body=request.body,
        response_head=response_head(response.status, _lines_of(response.headers)),
        response_body=response.body,
        status=response.status,
        ip=str(response.ip_address) if response.ip_address else None,
        truncated=truncation(response.flags),
        protocols=(response.protocol.lower(),) if response.protocol else (),
    )


def exchange_of_made(
    request: Request, response: Response, started: float, maker: str
) -> Exchange:
    """What *maker* made for *request*; no server sent *response* as it is.

    It has the URL of the document: a browser follows redirects by itself. Without a
    Content-Type, its type is that of *response*'s class: middlewares that drive a
    browser return an `HtmlResponse` without headers.
    """
    if b"Content-Type" not in response.headers:
        response = _typed(response)
    known = response.url.lower().startswith(("http://", "https://"))
    return replace(
        exchange_of(request, response, started),
        url=response.url if known else request.url,
        made=Made(maker, request.url),
        protocols=(),
    )


def _typed(response: Response) -> Response:
    for cls, kind in _TYPES.items():
        if isinstance(response, cls):
            headers = response.headers.copy()
            headers["Content-Type"] = f"{kind}; charset={response.encoding}"
            return response.replace(headers=headers)
    return response


def truncation(flags: Iterable[str]) -> str | None:
    """The reason for WARC-Truncated, by Scrapy's *flags* of a response.

    ``None`` for ``partial``: that flags every body that ends with the connection, as in
    HTTP/1.0, and such a body is taken to be whole (RFC 9112, section 6.3).
    """
    for flag in flags:
        if flag in _FLAGS:
            return _FLAGS[flag]
    return None


def request_head_of(request: Request) -> bytes:
    """The head that *request* was probably sent with."""
    lines = _lines_of(request.headers)
    return request_head(request.method, request.url, lines, len(request.body))


def request_head(method: str, url: str, lines: Lines, size: int) -> bytes:
    """The head of a request for *url* with headers *lines* and *size* bytes of body."""
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    names = {name.lower() for name, _ in lines}
    if b"host" not in names:
        host = parts.netloc.rpartition("@")[2]
        coding = "ascii" if host.isascii() else "idna"
        lines = [(b"Host", host.encode(coding)), *lines]
    if size and b"content-length" not in names:
        lines = [*lines, (b"Content-Length", b"%d" % size)]
    return _head(f"{method} {target} HTTP/1.1", lines)


def response_head(status: int, lines: Lines, reason: str = "") -> bytes:
    """The head of a response; the standard *reason* if there is none, as in HTTP/2."""
    reason = reason or responses.get(status, "")
    return _head(f"HTTP/1.1 {status} {reason}".rstrip(), lines)


def _head(first: str, lines: Lines) -> bytes:
    """A head; line breaks in values become spaces, lest they begin another header."""
    parts = [first.encode("utf-8", "replace")]
    for name, value in lines:
        parts.append(re.sub(rb"[\r\n]", b" ", name + b": " + value))
    return b"\r\n".join(parts) + b"\r\n\r\n"


def _lines_of(headers: Headers) -> Lines:
    return [
        (name, value)
        for name, values in headers.items()
        if name not in _HOP_BY_HOP
        for value in values
    ]


UNDONE = "X-Archive-Orig-"
"""Prefix for the name of a header that is not true of the stored body."""

_CODING = re.compile(rb"^(transfer-encoding[ \t]*:)", re.IGNORECASE | re.MULTILINE)
_LINE_END = re.compile(rb"(?<!\r)\r*+\n")
"""Matches from the first of several CRs only: from each would take quadratic time."""
NO_HEAD = "no HTTP head"
"""The framing of bytes that were received in place of an HTTP response."""


def exchange_of_wire(request: Request, wire: Wire) -> Exchange:
    """The exchange of *request*, as it was on the wire."""
    has_head = bool(wire.response_head)
    return Exchange(
        url=request.url,
        started=wire.started,
        request_head=wire.request_head or request_head_of(request),
        request_body=request.body,
        response_head=stored_head(wire.response_head),
        response_body=wire.body or bytes(wire.unread),
        status=wire.status,
        ip=wire.ip,
        truncated=wire.truncated,
        protocols=(wire.version, *wire.tls) if has_head else wire.tls,
        cipher_suite=wire.cipher_suite,
        framing="" if has_head else NO_HEAD,
    )


def stored_head(head: bytes) -> bytes:
    """*head* as it goes into a record: every line ends with CRLF.

    The body is stored without its transfer coding, so a header that claims one
    would be untrue, and readers would look for chunks. It is kept under another
    name, in its place; all other bytes are as received.
    """
    lines = _LINE_END.sub(b"\r\n", head)
    return _CODING.sub(UNDONE.encode() + rb"\1", lines)


def capture(
    session: Session, request: Request, exchange: Exchange
) -> Future[Stored] | None:
    """Archive *exchange*, which *request* led to; return where it will be written.

    ``None`` if it is not wanted, or left out by a rule: then only the crawl log has it.
    """
    archive = session.archive
    if archive is None:
        return None
    wanted = request.meta.get("archive", True)
    if wanted and (stat := archive.left_out(exchange)):
        session.count(stat)
        wanted = False
    if not wanted:
        archive.note(_unwritten(exchange))
        return None
    if exchange.truncated is not None:
        session.count("frontier/archive/truncated")
    if exchange.made is not None:
        session.count("frontier/archive/resources")
    return archive.submit(exchange)


def _unwritten(exchange: Exchange) -> Attempt:
    """What the crawl log says about *exchange*, which is not archived."""
    return Attempt(
        exchange.url,
        exchange.status,
        exchange.started,
        exchange.started + max(0, exchange.fetch_ms) / 1000,
        exchange.found,
        len(exchange.response_body),
        mime_of(exchange.response_head) or "unknown",
        (*exchange.notes, "unwritten"),
    )
