"""What crosses the wire for one request: the bytes that the archive gets.

The bytes are noted on their way, whatever Twisted and Scrapy make of them. A header
whose name is no token is left out, and ``X-A : v`` has the name ``X-A`` (RFC 9112,
section 5.1); what else Twisted does not read fails the download, as with Scrapy alone.

What always holds:

1.  A head that was understood is in `Wire.response_head` byte for byte. What came in
    place of one, or of a body, is in `Wire.unread`; a body goes to its spool.
2.  A head of more than `MAX_HEAD` bytes fails the download; nothing keeps more.
3.  A connection on which more came than an answer is not used again.
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
"""Most bytes of a status line and headers; browsers stop at a quarter of it."""


@dataclass(slots=True)
class Wire:
    """One exchange as the download handler sees it."""

    is_proxied: bool = False
    """Whether the connection leads to a proxy, whose address says nothing."""
    started: float = 0.0
    """Seconds since the Unix epoch at which the request was written; 0 for never."""
    request_head: bytes = b""
    response_head: bytes = b""
    """As received, with its line ends; empty before all of it has come."""
    status: int = 0
    version: str = ""
    """``http/1.1``, of the answer."""
    unread: bytearray = field(default_factory=bytearray)
    """What came and was not understood, or is not yet."""
    body: Body = b""
    """Transfer coding undone; of a failed download, what had come of it."""
    ip: str | None = None
    truncated: str | None = None
    """A reason of WARC-Truncated, where the body is not all that there is."""
    tls: tuple[str, ...] = ()
    """``tls/1.3`` and so on, as WARC-Protocol has it; empty without TLS."""
    cipher_suite: str | None = None
    """The name that IANA gives it."""
    is_complete: bool = False
    """Whether Scrapy got a response of this."""

    @property
    def has_answer(self) -> bool:
        """Whether anything came."""
        return bool(self.response_head or self.unread)

    def restart(self) -> None:
        """Forget what was received: the request is sent once more."""
        self.response_head, self.status, self.version = b"", 0, ""
        self.unread = bytearray()


class Parser(LenientParser):
    """Parses the answer to a request that has a `Wire` and a connection.

    Scrapy makes the parser and changes its class, so nothing is set up here.
    """

    MAX_LENGTH = 2 * MAX_HEAD  # never reached: a head is measured as a whole

    @override
    def dataReceived(self, data: bytes) -> None:
        """Note *data*, unless it is of the body, and parse it."""
        wire: Wire = self.request.wire
        if wire.response_head:
            super().dataReceived(data)
            return
        if not self._everReceivedData:  # the handshake follows the request's writing
            wire.tls, wire.cipher_suite = tls_of(self.request.connection)
        wire.unread += data
        super().dataReceived(data)
        if not wire.response_head:
            self._require_room(wire.unread)

    def _require_room(self, head: bytearray) -> None:
        """Go on with a *head*, or what there is of it, if it is not too large.

        Raises:
            ParseError: It is, and fails the download.
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
        """Note that the head is over; what follows is its body if that can be read."""
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
            wire.unread.clear()  # it is read as the body


class Connection(LenientProtocol):
    """A connection that has the answer to each request noted in its `Wire`."""

    @override
    def request(self, request: Any) -> Deferred[IResponse]:
        wire: Wire = request.wire
        wire.restart()  # a connection that was closed meanwhile is tried again
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
        """End a response; what follows it is the answer to nothing."""
        if rest and self._currentRequest is not None:
            self._currentRequest.persistent = False
        self._finishResponse(rest)


class Connections(LenientFactory):
    """Makes them."""

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
    """Return the values of WARC-Protocol and WARC-Cipher-Suite that TLS gives.

    Nothing of a transport without TLS, and no suite of which the standard name
    cannot be told.
    """
    handle: Any = getattr(transport, "getHandle", lambda: None)()
    version = getattr(handle, "get_protocol_version_name", None)
    if version is None:
        return (), None
    return (protocol(version()),), suite(handle.get_cipher_name() or "")


def protocol(version: str) -> str:
    """``TLSv1.2`` as WARC-Protocol has it, ``tls/1.2``."""
    found = _VERSION.fullmatch(version)
    if found is None:
        return "tls"
    return f"{found[1].lower()}/{found[2]}.{found[3] or 0}"


def suite(name: str) -> str | None:
    """The name that IANA gives the suite that OpenSSL calls *name*, if it is known.

    >>> suite("ECDHE-RSA-AES128-GCM-SHA256")
    'TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256'
    """
    if name.startswith("TLS_"):  # of TLS 1.3, where the names are the same
        return name
    found = _SUITE.fullmatch(name)
    if found is None:
        return None
    proof = f"{found['exchange']}_{found['proof']}" if found["exchange"] else "RSA"
    cipher = _CIPHERS[found["cipher"]]
    if not cipher.startswith("CHACHA20"):
        cipher += f"_{found['mode'] or 'CBC'}"
    return f"TLS_{proof}_WITH_{cipher}_{found['hash'] or 'SHA256'}"
