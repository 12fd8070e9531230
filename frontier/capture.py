"""Exchanges: what Scrapy sent and received, as bytes of HTTP/1.1.

What Scrapy's handlers lose is lost here: the reason phrase (the standard one is
written), the case of header names, the order between different names.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from frontier.model import Exchange

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.http import Response
    from scrapy.http.headers import Headers

_HOP_BY_HOP = {b"Transfer-Encoding", b"Connection", b"Keep-Alive"}
"""Undone by the handler; the body is archived without them."""


def exchange_of(request: Request, response: Response, started: float) -> Exchange:
    """The exchange of *request* and *response*; *started* in epoch seconds."""
    return Exchange(
        url=request.url,
        started=started,
        request_head=_request_head(request),
        request_body=request.body,
        response_head=_response_head(response),
        response_body=response.body,
        status=response.status,
        ip=str(response.ip_address) if response.ip_address else None,
        truncated="length" if "partial" in response.flags else None,
    )


def _request_head(request: Request) -> bytes:
    parts = urlsplit(request.url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = [f"{request.method} {target} HTTP/1.1".encode("utf-8", "replace")]
    if b"Host" not in request.headers:
        host = parts.netloc.rpartition("@")[2]
        lines.append(b"Host: " + host.encode("idna" if not host.isascii() else "ascii"))
    lines += _header_lines(request.headers)
    if request.body and b"Content-Length" not in request.headers:
        lines.append(b"Content-Length: %d" % len(request.body))
    return b"\r\n".join(lines) + b"\r\n\r\n"


def _response_head(response: Response) -> bytes:
    try:
        reason = HTTPStatus(response.status).phrase
    except ValueError:
        reason = ""
    lines = [f"HTTP/1.1 {response.status} {reason}".rstrip().encode("ascii")]
    lines += _header_lines(response.headers)
    return b"\r\n".join(lines) + b"\r\n\r\n"


def _header_lines(headers: Headers) -> list[bytes]:
    return [
        name + b": " + value.replace(b"\r", b" ").replace(b"\n", b" ")
        for name, values in headers.items()
        if name not in _HOP_BY_HOP
        for value in values
    ]
