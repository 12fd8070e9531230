"""Where an answer begins and ends: Scrapy's parser, for what servers really send.

The bytes go to the archive whatever becomes of them here, and a spider is given a
response wherever browsers or Python's `http.client`, which warcprox uses, find one.
Twisted 25 and Scrapy 2.19 fail a download for each of these:

====================================  ==========================================
an answer with                        is
====================================  ==========================================
a header name that is no token        read without that header; ``X-A : v`` has
                                      the name ``X-A`` (RFC 9112, section 5.1)
empty lines before the status line    read without them (section 2.2)
``HTTP/2 200``, ``ICY 200``, blanks   read as the version 1.1
Content-Length that is not a number,  read until the connection ends
or two of them that differ
a Transfer-Encoding beyond `chunked`  read until its chunks or the connection end;
                                      chunks are undone, and no other coding
wrong chunks                          undone as far as they go, then as they are,
                                      and lost to the spider as before
no head                               lost to the spider as before
====================================  ==========================================

What always holds:

1.  A head that was understood is in the wire's `response_head` byte for byte.
2.  Where no head was found, all bytes are in the spool, and `RawExchange.raw` says so.
3.  Where the body in the spool is not what the head says, `RawExchange.framing` says
    why.
4.  A head of more than `MAX_HEAD` bytes fails the download; nothing keeps more.

What a TLS connection says of itself, in the words of WARC-Protocol.
"""

from __future__ import annotations

import logging
import re
from functools import partial
from typing import TYPE_CHECKING, Any

from twisted.python.failure import Failure
from twisted.web._newclient import (
    BODY,
    HEADER,
    STATUS,
    BadResponseVersion,
    ParseError,
    _contentLength,
)
from twisted.web.http import (
    _ChunkedTransferDecoder,
    _DataLoss,
    _MalformedChunkedDataError,
)
from typing_extensions import override

from frontier.scrapy_internals import LenientParser

if TYPE_CHECKING:
    from collections.abc import Callable

    from frontier.download.body_spool import Spool
    from frontier.download.capture import RawExchange


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


logger = logging.getLogger(__name__)

MAX_HEAD = 1 << 20
"""Most bytes of a status line and headers; browsers stop at a quarter of it."""
QUIET = 2.0
"""Seconds without a byte after which an answer without a known end is over."""
_BEFORE = 1 << 10
"""Most bytes of empty lines before a status line."""
_STATUS = re.compile(
    rb"[ \t]*(?:HTTP|ICY)[!-~]*[ \t]+([0-9]{1,4})(?:[ \t]+(.*))?[ \t]*", re.IGNORECASE
)


class Parser(LenientParser):
    """Parses the answer to a request that has a wire, a spool and a connection.

    Scrapy makes the parser and changes its class, so nothing is set up here.
    """

    MAX_LENGTH = MAX_HEAD
    protocol: Any
    _broken: Failure | None = None
    """Why no more of what comes is parsed."""
    _over: Any = None
    """The call that ends an answer without a known end."""

    @property
    def _wire(self) -> RawExchange:
        wire: RawExchange = self.request.wire
        return wire

    @override
    def dataReceived(self, data: bytes) -> None:
        """Parse *data*, or keep it."""
        if not self._everReceivedData:  # the handshake follows the request's writing
            self._wire.tls, self._wire.cipher_suite = tls_of(self.request.connection)
        if self._over is not None:
            self._over.reset(QUIET)
        if self._broken is not None:
            self._spool(data)
            return
        try:
            super().dataReceived(data)
        except Exception as error:
            if self.state == BODY or not hasattr(self, "_responseDeferred"):
                raise
            self._broken = Failure()
            self._wire.broken = True
            self._keep_raw()
            if len(self.request.lines) > MAX_HEAD:
                self._wire.truncated = "length"
                raise
            logger.debug("no HTTP response: %s", error)
            self.end_when_quiet(self._broken)

    @override
    def lineReceived(self, line: bytes) -> None:
        """Note a line of the head, and parse it."""
        request, empty = self.request, line in {b"", b"\r"}
        if self.state == STATUS:
            before = getattr(request, "before", 0)
            if empty and before < _BEFORE:
                request.before = before + len(line) + 1
                self._wire.framing = f"{request.before} bytes before the head"
                return
            request.lines = bytearray()
        request.lines += line + b"\n"
        if len(request.lines) > MAX_HEAD:
            raise _too_large(line)
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
        raise _too_large(line)

    @override
    def statusReceived(self, status: bytes) -> None:
        """Read a status line as browsers do."""
        try:
            super().statusReceived(status)
        except (ParseError, BadResponseVersion):
            found = _STATUS.fullmatch(status)
            if found is None:
                raise
            super().statusReceived(b"HTTP/1.1 %b %b" % (found[1], found[2] or b""))

    @override
    def headerReceived(self, name: bytes, value: bytes) -> None:
        """Read a header, or leave it out."""
        try:
            super().headerReceived(name.rstrip(b" \t"), value)
        except ValueError:
            logger.debug("Skipping the response header %r, which is not a token.", name)

    @override
    def allHeadersReceived(self) -> None:
        """Find out where the body ends."""
        bodiless = self.response.code in self.NO_BODY_CODES
        if not bodiless and self.request.method != b"HEAD":
            self._choose_end()
        super().allHeadersReceived()

    @override
    def connectionLost(self, reason: Failure | None = None) -> None:
        """Keep what came, if it was no whole head."""
        if self._over is not None:
            self._over.cancel()
            self._over = None
        if self._broken is None and self.state in {STATUS, HEADER}:
            self._keep_raw()
        super().connectionLost(self._broken or reason)

    def end_when_quiet(self, failure: Failure) -> None:
        """Give up with *failure* when nothing comes any more."""
        from twisted.internet import reactor

        def end() -> None:
            self._over = None
            if self.request.spool.paused:  # it is the disk that is slow
                self.end_when_quiet(failure)
            else:
                self.protocol._giveUp(failure)

        later: Any = reactor
        self._over = later.callLater(QUIET, end)

    def _head_is_over(self, request: Any) -> None:
        wire, (name, major, minor) = self._wire, self.response.version
        wire.protocols = (
            f"{name.decode('latin-1').lower()}/{major}.{minor}",
            *wire.tls,
        )
        wire.status = self.response.code
        wire.response_head = bytes(request.lines)

    def _choose_end(self) -> None:
        """Have Twisted find an end where the headers tell none that it knows."""
        headers: Any = self.connHeaders
        said = headers.getRawHeaders(b"transfer-encoding", [])
        codings = {each.strip().lower() for value in said for each in value.split(b",")}
        codings -= {b"", b"identity"}
        if codings - {b"chunked"}:
            self._wire.framing = "transfer coding not undone"
        if b"chunked" in codings:
            headers.setRawHeaders(b"transfer-encoding", [b"chunked"])
            decoders: Any = {b"chunked": partial(Chunks, self)}
            self._transferDecoders = decoders
            return
        headers.removeHeader(b"transfer-encoding")
        try:
            _contentLength(headers)
        except ValueError:
            headers.removeHeader(b"content-length")
            self._wire.framing = "Content-Length not understood"
        if codings:  # it ends with the connection, whatever length is said
            headers.removeHeader(b"content-length")

    def _keep_raw(self) -> None:
        """Keep what came, of which no head was made."""
        lines = getattr(self.request, "lines", b"")
        came = bytes(lines) + self.clearLineBuffer()
        if came:
            wire = self._wire
            wire.raw, wire.framing = True, "no HTTP head"
            wire.protocols = wire.tls
            if not came.startswith(b"HTTP"[: len(came)]):
                wire.broken = True  # it is no head that was cut
            self.request.spool.attach(self.transport)
            self._spool(came)

    def _spool(self, data: bytes) -> None:
        spool: Spool = self.request.spool
        limit = self.request.maxsize
        if limit and spool.size + len(data) > limit:
            self._wire.truncated = "length"
            spool.write(data[: limit - spool.size])
            raise ParseError("no HTTP head", data[:100])
        spool.write(data)


class Chunks:
    """A decoder of a body in chunks, as Twisted wants one; what is none, stays."""

    def __init__(
        self,
        parser: Parser,
        data: Callable[[bytes], None],
        end: Callable[[bytes], None],
    ) -> None:
        self._parser = parser
        self._data = data
        self._size = 0
        self._has_failed = False
        self._chunks = _ChunkedTransferDecoder(self._take, end)

    def dataReceived(self, data: bytes) -> None:  # noqa: N802 (Twisted's name)
        """Take *data* off the wire."""
        if not self._has_failed:
            try:
                self._chunks.dataReceived(data)
            except _MalformedChunkedDataError:
                self._has_failed = True
                wire = self._parser._wire
                wire.broken = True
                wire.framing = f"chunks undone up to byte {self._size}"
                self._parser.end_when_quiet(Failure())
                data = bytes(self._chunks._buffer)
            else:
                return
        self._data(data)

    def noMoreData(self) -> None:  # noqa: N802 (Twisted's name)
        """The connection has ended.

        Raises:
            _DataLoss: The body has not.
        """
        if self._has_failed:
            raise _DataLoss("the chunks are wrong")
        self._chunks.noMoreData()

    def _take(self, data: bytes) -> None:
        self._size += len(data)
        self._data(data)


def _too_large(line: bytes) -> ParseError:
    text = f"the head has more than {MAX_HEAD:,} bytes"
    return ParseError(text, line[:100])
