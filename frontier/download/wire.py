"""What crosses the wire for one request: the bytes that the archive gets.

The bytes are noted on their way, whatever Twisted and Scrapy make of them. A header
whose name is not a token is left out of the response, and ``X-A : v`` has the name
``X-A`` (RFC 9112, section 5.1); anything else that Twisted cannot read fails the
download, as with Scrapy alone.

What always holds:

1.  A head that was understood is in `Wire.response_head` byte for byte. What came in
    place of one, or of a body, is in `Wire.unread`; a body goes to its spool.
2.  A head of more than `MAX_HEAD` bytes fails the download; no more of it is kept.
3.  A connection on which more than a response came is not used again.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from twisted.web._newclient import ParseError
from typing_extensions import override

from frontier.scrapy_internals import LenientFactory, LenientParser, LenientProtocol

if TYPE_CHECKING:
    from twisted.internet.defer import Deferred
    from twisted.web.iweb import IResponse

    from frontier.model import Body


logger = logging.getLogger(__name__)

MAX_HEAD = 1 << 20
"""The most bytes of a status line and headers; browsers stop at a quarter of it."""


@dataclass(slots=True)
class Wire:
    """One exchange as the download handler sees it."""

    is_proxied: bool = False
    """Whether the connection leads to a proxy, whose address means nothing."""
    started: float = 0.0
    """When the request was written, in seconds since the Unix epoch; 0 for never."""
    request_head: bytes = b""
    response_head: bytes = b""
    """As received, with its line ends; empty until all of it has come."""
    status: int = 0
    version: str = ""
    """The response's, such as ``http/1.1``."""
    unread: bytearray = field(default_factory=bytearray)
    """What came and was not understood, or has not been yet."""
    body: Body = b""
    """With its transfer coding undone; if the download failed, the part that came."""
    ip: str | None = None
    truncated: str | None = None
    """The reason for WARC-Truncated, if the body is not complete."""
    tls: tuple[str, ...] = ()
    """``tls/1.3`` and so on, as in WARC-Protocol; empty without TLS."""
    cipher_suite: str | None = None
    """Its IANA name."""
    is_complete: bool = False
    """Whether Scrapy got a response from this."""

    @property
    def has_answer(self) -> bool:
        """Whether anything came."""
        return bool(self.response_head or self.unread)

    def restart(self) -> None:
        """Forget what was received: the request is sent again."""
        self.response_head, self.status, self.version = b"", 0, ""
        self.unread = bytearray()


class Parser(LenientParser):
    """Parses the response to a request that has a `Wire` and a connection.

    Scrapy makes the parser and changes its class, so nothing is set up here.
    """

    MAX_LENGTH = 2 * MAX_HEAD  # never reached: a head is measured as a whole

    @override
    def dataReceived(self, data: bytes) -> None:
        """Note *data*, unless it belongs to the body, and parse it."""
        wire: Wire = self.request.wire
        if wire.response_head:
            super().dataReceived(data)
            return
        if not self._everReceivedData:  # the TLS handshake follows the request's write
            wire.tls, wire.cipher_suite = tls_of(self.request.connection)
        wire.unread += data
        super().dataReceived(data)
        if not wire.response_head:
            self._require_room(wire.unread)

    def _require_room(self, head: bytearray) -> None:
        """Check that *head*, or what has come of it, is not too large.

        Raises:
            ParseError: It is too large; the download fails.
        """
        if len(head) > MAX_HEAD:
            self.request.wire.truncated = "length"
            text = f"the head has more than {MAX_HEAD:,} bytes"
            raise ParseError(text, bytes(head[:100]))

    @override
    def headerReceived(self, name: bytes, value: bytes) -> None:
        """Read a header, or leave it out."""
        try:
            super().headerReceived(name.rstrip(b" \t"), value)
        except ValueError:
            logger.debug("Skipping the response header %r, which is not a token.", name)

    @override
    def allHeadersReceived(self) -> None:
        """Note the head, now complete; what follows is the body if that can be read."""
        wire, response, rest = self.request.wire, self.response, self._buffer
        head = wire.unread[: -len(rest) or None]
        self._require_room(head)
        wire.unread = bytearray(rest)
        is_last = not 100 <= response.code < 200
        if is_last:
            name, major, minor = response.version
            wire.version = f"{name.decode('latin-1').lower()}/{major}.{minor}"
            wire.status, wire.response_head = response.code, bytes(head)
        super().allHeadersReceived()
        if is_last:
            wire.unread.clear()  # it was read as the body


class Connection(LenientProtocol):
    """A connection that notes the response to each request in its `Wire`."""

    @override
    def request(self, request: Any) -> Deferred[IResponse]:
        wire: Wire = request.wire
        wire.restart()  # Twisted retries if a kept connection was closed meanwhile
        answer = super().request(request)
        parser: Any = self._parser
        parser.__class__ = Parser
        parser.finisher = self._finish
        transport: Any = self.transport
        request.connection = transport
        if not wire.is_proxied:
            wire.ip = getattr(transport.getPeer(), "host", None)
        return answer

    def _finish(self, rest: bytes) -> None:
        """End a response; what follows it answers no request."""
        if rest and self._currentRequest is not None:
            self._currentRequest.persistent = False
        self._finishResponse(rest)


class Connections(LenientFactory):
    """Makes a `Connection` for each new connection."""

    noisy = False

    @override
    def buildProtocol(self, _: Any) -> Connection:
        return Connection(self._quiescentCallback)


_VERSION = re.compile(r"(TLS|SSL)v(\d)(?:\.(\d))?")
_SUITE = re.compile(
    r"(?:(?P<exchange>ECDHE|DHE)-(?P<proof>RSA|ECDSA|DSS)-)?"
    r"(?P<cipher>AES128|AES256|CHACHA20-POLY1305)"
    r"(?:-(?P<mode>GCM))?(?:-(?P<hash>SHA\d*))?"
)
_CIPHERS = {
    "AES128": "AES_128",
    "AES256": "AES_256",
    "CHACHA20-POLY1305": "CHACHA20_POLY1305",
}


def tls_of(transport: Any) -> tuple[tuple[str, ...], str | None]:
    """The values of WARC-Protocol and WARC-Cipher-Suite for a TLS *transport*.

    Without TLS both are empty. The suite is ``None`` if its standard name is not known.
    """
    handle: Any = getattr(transport, "getHandle", lambda: None)()
    version = getattr(handle, "get_protocol_version_name", None)
    if version is None:
        return (), None
    return (protocol(version()),), suite(handle.get_cipher_name() or "")


def protocol(version: str) -> str:
    """``TLSv1.2`` as in WARC-Protocol: ``tls/1.2``."""
    found = _VERSION.fullmatch(version)
    if found is None:
        return "tls"
    return f"{found[1].lower()}/{found[2]}.{found[3] or 0}"


def suite(name: str) -> str | None:
    """The IANA name of the suite that OpenSSL calls *name*, if it is known.

    >>> suite("ECDHE-RSA-AES128-GCM-SHA256")
    'TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256'
    """
    if name.startswith("TLS_"):  # TLS 1.3, where both names are the same
        return name
    found = _SUITE.fullmatch(name)
    if found is None:
        return None
    proof = f"{found['exchange']}_{found['proof']}" if found["exchange"] else "RSA"
    cipher = _CIPHERS[found["cipher"]]
    if not cipher.startswith("CHACHA20"):
        cipher += f"_{found['mode'] or 'CBC'}"
    return f"TLS_{proof}_WITH_{cipher}_{found['hash'] or 'SHA256'}"
