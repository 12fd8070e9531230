"""Where an answer begins and ends: Scrapy's parser, which notes the head as it came.

The bytes go to the archive whatever becomes of them here. A header whose name is no
token is left out, and ``X-A : v`` has the name ``X-A`` (RFC 9112, section 5.1); what
else Twisted does not read fails the download, as with Scrapy alone.

What always holds:

1.  A head that was understood is in the wire's `response_head` byte for byte.
2.  Where no head was found, all bytes that came until then are in the spool, and
    `RawExchange.raw` says so.
3.  A head of more than `MAX_HEAD` bytes fails the download; nothing keeps more.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from twisted.web._newclient import HEADER, STATUS, ParseError
from typing_extensions import override

from frontier.download.tls import tls_of
from frontier.scrapy_internals import LenientParser

if TYPE_CHECKING:
    from twisted.python.failure import Failure

    from frontier.download.capture import RawExchange

logger = logging.getLogger(__name__)

MAX_HEAD = 1 << 20
"""Most bytes of a status line and headers; browsers stop at a quarter of it."""


class Parser(LenientParser):
    """Parses the answer to a request that has a wire, a spool and a connection.

    Scrapy makes the parser and changes its class, so nothing is set up here.
    """

    MAX_LENGTH = MAX_HEAD
    protocol: Any

    @property
    def _wire(self) -> RawExchange:
        wire: RawExchange = self.request.wire
        return wire

    @override
    def dataReceived(self, data: bytes) -> None:
        """Parse *data*; of what is no answer, keep it."""
        if not self._everReceivedData:  # the handshake follows the request's writing
            self._wire.tls, self._wire.cipher_suite = tls_of(self.request.connection)
        try:
            super().dataReceived(data)
        except Exception:
            self._keep_rest()
            raise

    @override
    def lineReceived(self, line: bytes) -> None:
        """Note a line of the head, and parse it."""
        request, empty = self.request, line in {b"", b"\r"}
        if self.state == STATUS:
            request.lines = bytearray()
        request.lines += line + b"\n"
        if len(request.lines) > MAX_HEAD:
            raise self._too_large(line)
        if self.state == HEADER and not empty:
            if line[:1] in b" \t" and self._partialHeader is None:
                return  # goes on with a header that there is not
        elif empty and self.state == HEADER and not 100 <= self.response.code < 200:
            self._head_is_over(request)
        super().lineReceived(line)

    @override
    def lineLengthExceeded(self, line: bytes) -> None:
        """Fail: a line is longer than a head may be."""
        self.request.lines = getattr(self.request, "lines", bytearray()) + line
        raise self._too_large(line)

    def _too_large(self, line: bytes) -> ParseError:
        self._wire.truncated = "length"
        text = f"the head has more than {MAX_HEAD:,} bytes"
        return ParseError(text, line[:100])

    @override
    def headerReceived(self, name: bytes, value: bytes) -> None:
        """Read a header, or leave it out."""
        try:
            super().headerReceived(name.rstrip(b" \t"), value)
        except ValueError:
            logger.debug("Skipping the response header %r, which is not a token.", name)

    @override
    def connectionLost(self, reason: Failure | None = None) -> None:
        """Keep what came, if it was no whole head."""
        if self.state in {STATUS, HEADER}:
            self._keep_rest()
        super().connectionLost(reason)

    def _head_is_over(self, request: Any) -> None:
        wire, (name, major, minor) = self._wire, self.response.version
        wire.protocols = (
            f"{name.decode('latin-1').lower()}/{major}.{minor}",
            *wire.tls,
        )
        wire.status = self.response.code
        wire.response_head = bytes(request.lines)

    def _keep_rest(self) -> None:
        """Keep what came and will not be read: all of it, if no head was made of it."""
        wire, spool = self._wire, self.request.spool
        came = self.clearLineBuffer()
        if not (wire.response_head or wire.raw):
            came = bytes(getattr(self.request, "lines", b"")) + came
            if came:
                wire.raw, wire.framing = True, "no HTTP head"
                wire.protocols = wire.tls
        limit = self.request.maxsize
        if limit and spool.size + len(came) > limit:
            wire.truncated = "length"
            came = came[: limit - spool.size]
        spool.write(came)
