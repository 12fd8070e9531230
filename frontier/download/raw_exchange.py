"""What crossed the wire for one request, and how it becomes an exchange.

The download handler (`frontier.download.handler`) fills a `Wire` while it works;
what it keeps is what Scrapy's `Request` and `Response` do not: the head of the
response byte for byte, the head of the request as it was written to the socket, the
TLS connection, and the part of a body that was received before a download failed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from frontier.download.capture import request_head_of
from frontier.model import Exchange

if TYPE_CHECKING:
    from scrapy import Request

    from frontier.model import Body

UNDONE = "X-Archive-Orig-"
"""Put before the name of a header that is no longer true of the stored body."""

_CODING = re.compile(rb"^(transfer-encoding[ \t]*:)", re.IGNORECASE | re.MULTILINE)
_LINE_END = re.compile(rb"(?<!\r)\r*+\n")
"""Looked for from the first CR of several on only: from each takes their square."""


@dataclass(slots=True, weakref_slot=True)
class Wire:
    """One exchange as the download handler saw it."""

    started: float = 0.0
    """Seconds since the Unix epoch at which the request was written; 0 for never."""
    request_head: bytes = b""
    response_head: bytes = b""
    """As received, with its line ends; empty before all of it has come."""
    status: int = 0
    body: Body = b""
    """Transfer coding undone; of a failed download, what had come of it."""
    ip: str | None = None
    truncated: str | None = None
    """A reason of WARC-Truncated, where the body is not all that there is."""
    protocols: tuple[str, ...] = ()
    """``http/1.1``, and ``tls/1.3`` and so on, as WARC-Protocol has them."""
    cipher_suite: str | None = None
    """The name that IANA gives it."""
    complete: bool = False
    """Whether Scrapy got a response of this."""
    proxied: bool = False
    """Whether the connection leads to a proxy, whose address says nothing."""
    tls: tuple[str, ...] = ()
    """``tls/1.3`` and so on; empty without TLS."""
    framing: str = ""
    """What of the answer is not stored as its head says it is; see `framing`."""
    raw: bool = False
    """Whether the body is all that was received, for no head was found in it."""
    broken: bool = False
    """Whether the client gave up reading before the server gave up sending."""
    codings: tuple[bytes, ...] = ()
    """Transfer codings that the body still has."""

    def restart(self) -> None:
        """Forget what was received: the request is sent once more."""
        self.response_head, self.status, self.protocols = b"", 0, ()
        self.framing, self.codings = "", ()
        self.raw = self.broken = False


def exchange_of_wire(request: Request, wire: Wire) -> Exchange:
    """The exchange of *request*, as it was on the wire."""
    return Exchange(
        url=request.url,
        started=wire.started,
        request_head=wire.request_head or request_head_of(request),
        request_body=request.body,
        response_head=stored_head(wire.response_head),
        response_body=wire.body,
        status=wire.status,
        ip=wire.ip,
        truncated=wire.truncated,
        protocols=wire.protocols,
        cipher_suite=wire.cipher_suite,
        framing=wire.framing,
    )


def stored_head(head: bytes) -> bytes:
    """Return *head* as it goes into a record: every line ended by CRLF.

    The body is stored without its transfer coding, so a header that claims one
    would be untrue, and readers would look for chunks. It is kept under another
    name, in its place; all other bytes are as received.
    """
    lines = _LINE_END.sub(b"\r\n", head)
    return _CODING.sub(UNDONE.encode() + rb"\1", lines)
