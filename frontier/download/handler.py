"""The download handler: Scrapy's, and it keeps what crosses the wire.

What Scrapy 2.19's HTTP/1.1 handler loses on the way to a `Response`: the reason
phrase, the case and the order of header names, spaces around values, lines
without a colon, the headers about the connection (among them the original
Content-Length, if it is repeated), TLS version and cipher, the request as
Twisted words it, and everything of a download that fails after the head came.

It hooks Twisted's client protocol where the bytes pass, and changes nothing of
what Scrapy makes of them. What always holds:

1.  A `RawExchange` is made for each request, and belongs to that request alone.
2.  Whatever came of an answer is archived (`frontier.download.framing`).
3.  A connection on which more came than an answer is not used again.
4.  The handler never waits: bodies go to disk in another thread.
5.  It connects to addresses that are allowed (`frontier.download.addresses`), and
    writes no request whose lease has ended: without an archive, too.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import DownloadCancelledError, DownloadTimeoutError, StopDownload
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.web.client import RequestGenerationFailed
from typing_extensions import override

from frontier.download.addresses import Checked, CheckedReactor, refusing
from frontier.download.body_spool import ArchivedOnly, Spool, SpoolDirectory
from frontier.download.capture import RawExchange, truncation
from frontier.download.excerpt import EXCERPT, excerpt_of
from frontier.download.framing import Parser
from frontier.download.hops import Hops
from frontier.download.outcomes import LeaseGone
from frontier.download.politeness import LOST
from frontier.scrapy_internals import (
    BaseAgent,
    BaseHandler,
    BaseReader,
    LenientFactory,
    LenientProtocol,
    wrap_twisted_exceptions,
)
from frontier.session.session import session_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from twisted.internet.defer import Deferred
    from twisted.web.client import HTTPConnectionPool
    from twisted.web.iweb import IResponse

    Guard = Callable[[], None]


class CheckedHandler(BaseHandler):
    """Downloads http and https as Scrapy does, but only from allowed addresses.

    Nodes without an archive use it. It checks the lease of the host just before a
    request is written: the node may have been frozen while it connected.
    """

    checks_addresses = True

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._session = session_of(crawler)
        self._hops = self._session.component(Hops)

    def checked(self, request: Request) -> Checked:
        """The look at the connections of *request*."""
        return Checked(self._hops, request)

    def guard(self, request: Request) -> None:
        """Let *request* be written if its lease is current.

        Raises:
            LeaseGone: It goes back to the store, or another node has it.
        """
        session = self._session
        if session.lease_guard is None or session.lease_guard.covers(request):
            return
        state = session.requests.of(request)
        if state.reservation is not None:
            is_adopted = state.reservation.delivery is not None
            state.waits = is_adopted or not session.node.has_lost(state.reservation)
            request.errback = None  # its spider need not know
        raise LeaseGone(LOST)

    @contextmanager
    def _telling(self, checked: Checked) -> Iterator[None]:
        """Raise what a download has failed of, as Scrapy and others know it."""
        try:
            with refusing(checked), wrap_twisted_exceptions():
                yield
        except RequestGenerationFailed as error:
            if not isinstance(reason := error.reasons[0].value, LeaseGone):
                raise
            raise reason from None

    @override
    async def download_request(self, request: Request) -> Response:
        """Download *request*.

        Raises:
            AddressRefused: Its host leads to addresses that are not connected to.
            LeaseGone: Another node has its partition now.
        """
        agent: _GuardedAgent = self.make_agent(_GuardedAgent)
        agent.guard = partial(self.guard, request)
        agent.checked = self.checked(request)
        with self._telling(agent.checked):
            answer = maybe_deferred_to_future(agent.download_request(request))
            return excerpt_of(request, await answer)


class Handler(CheckedHandler):
    """Downloads http and https as Scrapy does, and keeps the bytes for the archive.

    Scrapy's own way to send is repeated here for one reason: its agent's class
    is no parameter.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self.connect_by(_Factory)
        self._spools = SpoolDirectory(self._session.config)
        self._most = self._session.config.warc_only_bytes

    @override
    async def download_request(self, request: Request) -> Response:
        """Download *request*; what crosses the wire is in its `RequestState`."""
        wire = self._session.requests.of(request).wire = RawExchange()
        agent: _Agent = self.make_agent(_Agent)
        agent.wire = wire
        agent.guard = partial(self.guard, request)
        agent.spool = self._spools.new()
        if not agent.wanted(request) and request.meta.get("archive", True):
            agent.spool.most = self._most and min(
                self._most, agent.limit_of(request) or self._most
            )
        agent.checked = self.checked(request)
        try:
            with self._telling(agent.checked):
                response = await maybe_deferred_to_future(
                    agent.download_request(request)
                )
        except Exception as error:
            wire.truncated = wire.truncated or _reason(error)
            wire.body = await agent.spool.take()
            self.warn_of_loss(error, request.url)
            raise
        wire.truncated = truncation(response.flags)
        wire.body = await agent.spool.take(response.body)
        wire.complete = True
        if agent.spool.is_archived_only:
            return ArchivedOnly.instead(response, agent.spool.size)
        return excerpt_of(request, response)

    @override
    async def close(self) -> None:
        """Close idle connections, and wait for what still goes to disk."""
        await super().close()
        await self._spools.close()


class _GuardedAgent(BaseAgent):
    """Scrapy's, which connects where `checked` permits, and writes as `guard` does."""

    guard: Guard
    checked: Checked

    @override
    def prepare(self, agent: Any, request: Request) -> None:
        checked = None if request.meta.get("proxy") else self.checked
        if checked is not None:
            factory = agent._endpointFactory
            factory._reactor = CheckedReactor(factory._reactor, checked)
        agent._pool = _Pool(agent._pool, self.guard, self.part(request), checked)

    @override
    def wanted(self, request: Request) -> int:
        return int(request.meta.get(EXCERPT, 0))

    def part(self, request: Request) -> dict[str, Any]:  # noqa: ARG002 (for `_Agent`)
        """What its connection has with *request* alone."""
        return {}


class _Agent(_GuardedAgent):
    """Scrapy's, with a wire that its connection writes to and a spool for the body."""

    wire: RawExchange
    spool: Spool

    @override
    def part(self, request: Request) -> dict[str, Any]:
        self.wire.proxied = bool(request.meta.get("proxy"))
        limit = self.limit_of(request)
        return {"wire": self.wire, "spool": self.spool, "maxsize": limit}

    def limit_of(self, request: Request) -> int:
        """The largest body that Scrapy is to get for *request*; 0 for any."""
        return int(request.meta.get("download_maxsize", self.maxsize))

    @override
    def takes_all(self, request: Request) -> bool:
        return bool(self.spool.most) or super().takes_all(request)

    @override
    def reader_for(self, reader: Any) -> Any:
        return BaseReader.instead(reader, self.spool)


class _Pool:
    """The pool of connections as one request sees it."""

    def __init__(
        self,
        pool: HTTPConnectionPool,
        guard: Guard,
        part: dict[str, Any],
        checked: Checked | None = None,
    ) -> None:
        self._pool = pool
        self._guard = guard
        self._part = part
        self._checked = checked
        self.persistent = pool.persistent

    def getConnection(self, key: Any, endpoint: Any) -> Deferred[_Wired]:  # noqa: N802
        made: Deferred[Any] = self._pool.getConnection(key, endpoint)
        if self._checked is not None:
            made.addCallback(self._checked.permitted)
        return made.addCallback(_Wired, self._part | {"guard": self._guard})


class _Wired:
    """A connection that has *part* with the one request that it is given.

    That is where to put what comes: the wire, the spool, and how much of it.
    """

    def __init__(self, connection: Any, part: dict[str, Any]) -> None:
        self._connection = connection
        self._part = part

    def request(self, request: Any) -> Deferred[IResponse]:
        vars(request).update(self._part)
        write_to = type(request).writeTo
        tee = partial(_Tee, wire=self._part.get("wire"), guard=self._part["guard"])
        request.writeTo = lambda transport: write_to(request, tee(transport))
        answer: Deferred[IResponse] = self._connection.request(request)
        return answer


class _Tee:
    """A transport that notes the head of the request as it is written.

    And the last look at its lease: a node may have been stopped while it put the
    request into words.
    """

    def __init__(self, transport: Any, wire: RawExchange | None, guard: Guard) -> None:
        self._transport = transport
        self._wire = wire
        self._guard = guard

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def writeSequence(self, lines: list[bytes]) -> None:  # noqa: N802 (Twisted's name)
        self._guard()
        if self._wire is not None:
            self._wire.started = time.time()
            self._wire.request_head = b"".join(lines)  # Twisted writes all at once
        self._transport.writeSequence(lines)
        # Twisted would send it in the next turn of the loop. A callback that blocks the
        # loop until then would hold it back, perhaps for longer than the lease lasts.
        # What TLS has not encrypted yet still waits.
        if not self._transport.disconnecting:
            self._transport.doWrite()


class _Protocol(LenientProtocol):
    """A connection that tells the wire of each request what passes."""

    @override
    def request(self, request: Any) -> Deferred[IResponse]:
        wire: RawExchange = request.wire
        wire.restart()  # a connection that was closed meanwhile is tried again
        answer = super().request(request)
        parser: Any = self._parser
        parser.__class__ = Parser
        parser.protocol = self
        parser.finisher = self._finish
        transport: Any = self.transport
        if not wire.proxied:  # else it is the address of the proxy
            wire.ip = getattr(transport.getPeer(), "host", None)
        request.connection = transport
        return answer

    def _finish(self, rest: bytes) -> None:
        """End a response; what follows it is the answer to nothing."""
        if rest and self._currentRequest is not None:
            self._currentRequest.persistent = False
        self._finishResponse(rest)


class _Factory(LenientFactory):
    @override
    def buildProtocol(self, _: Any) -> _Protocol:
        return _Protocol(self._quiescentCallback)


def _reason(error: BaseException) -> str:
    """The reason of WARC-Truncated for a download that *error* ended."""
    if isinstance(error, DownloadTimeoutError):
        return "time"
    if isinstance(error, StopDownload):
        return "unspecified"
    if isinstance(error, DownloadCancelledError):
        return "length"  # Scrapy cancels what exceeds DOWNLOAD_MAXSIZE
    return "disconnect"
