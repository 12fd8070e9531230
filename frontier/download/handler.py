"""The download handler: Scrapy's, which also keeps what crosses the wire.

On the way to a `Response`, Scrapy 2.19's HTTP/1.1 handler loses the reason phrase, the
case and the order of header names, spaces around values, lines without a colon, the
headers about the connection (among them the original Content-Length, if it is
repeated), TLS version and cipher, the request as Twisted writes it, and everything of a
download that fails after the head came.

This one hooks Twisted's client protocol where the bytes pass, and leaves unchanged what
Scrapy makes of them. What always holds:

1.  A `Wire` is made for each request, and belongs to that request alone.
2.  Whatever part of a response came is archived (`frontier.download.wire`).
3.  The handler never waits: bodies go to disk in another thread.
4.  It connects only to addresses that are allowed (`frontier.download.addresses`), and
    writes no request whose lease has ended; this holds without an archive, too.
5.  A request for which this process has no socket waits: that says nothing of its host.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.error import ConnectBindError
from twisted.web.client import RequestGenerationFailed
from typing_extensions import override

from frontier.download.addresses import Checked, CheckedReactor
from frontier.download.body_spool import ArchivedOnly, SpoolDirectory
from frontier.download.capture import truncation
from frontier.download.hops import CUT, SEED, Hops
from frontier.download.outcomes import LeaseGone, outcome_of
from frontier.download.politeness import LeaseGuard, lost
from frontier.download.wire import Connections, Wire
from frontier.node.file_limit import nears_file_limit
from frontier.scrapy_internals import BaseAgent, BaseHandler, wrap_twisted_exceptions
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

logger = logging.getLogger(__name__)

NO_SOCKET = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""How the system says that it has no socket left for this process."""
SOCKET_PAUSE = 1.0
"""Seconds until it is asked for one again."""
GZIP = {b"gzip", b"x-gzip"}


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
        self._guard = self._session.component(LeaseGuard)

    def guard(self, request: Request) -> None:
        """Let *request* be written if its lease is current.

        Raises:
            LeaseGone: It is not; the request goes back to the store.
        """
        if not self._guard.covers(request):
            raise lost(self._session, request)

    @contextmanager
    def _telling(self, checked: Checked) -> Iterator[None]:
        """Raise the error of a download as one that Scrapy and the package know."""
        try:
            with wrap_twisted_exceptions():
                yield
        except RequestGenerationFailed as error:
            if not isinstance(reason := error.reasons[0].value, LeaseGone):
                raise
            raise reason from None
        except Exception as error:
            if (refusal := checked.refusal) is None:
                raise
            raise refusal from error

    def agent_for(self, request: Request) -> _Agent:
        """The agent that sends *request*, and only that."""
        agent: _Agent = self.make_agent(_Agent)
        agent.guard = partial(self.guard, request)
        agent.checked = Checked(self._hops, request)
        agent.is_limited = CUT not in request.meta
        return agent

    async def send(self, agent: _Agent, request: Request) -> Response:
        """Have *agent* send *request*, once there is a socket for it."""
        while True:
            with self._telling(agent.checked):
                answer = agent.download_request(request)
                try:
                    return _unpacked(request, await maybe_deferred_to_future(answer))
                except ConnectBindError as error:
                    if error.osError not in NO_SOCKET:
                        raise
                    if self._session.closing:
                        self._session.requests.put_off(request)
                        raise LeaseGone(str(error)) from error
                    self._make_room(error)
            await asyncio.sleep(SOCKET_PAUSE)

    def _make_room(self, error: ConnectBindError) -> None:
        """Close idle connections: each is an open file, and another host's."""
        self.close_idle()
        self._session.warn_once(
            "no connection can be opened: %s; requests wait. Raise this process's "
            "limit of open files (ulimit -n), or lower CONCURRENT_REQUESTS",
            os.strerror(error.osError),
        )

    @override
    async def download_request(self, request: Request) -> Response:
        """Download *request*.

        Raises:
            AddressRefused: Its host leads to addresses that are not allowed.
            LeaseGone: Its lease is not current any more.
        """
        return await self.send(self.agent_for(request), request)


class Handler(CheckedHandler):
    """Downloads http and https as Scrapy does, and keeps the bytes for the archive.

    It repeats Scrapy's own way to send for one reason: the agent's class cannot be
    passed to it.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self.connect_by(Connections)
        self._spools = SpoolDirectory(self._session.config)
        self._most = self._session.config.warc_only_bytes

    @override
    async def download_request(self, request: Request) -> Response:
        """Download *request*; what crosses the wire is in its `RequestState`."""
        agent = self.agent_for(request)
        wire = agent.wire = Wire(is_proxied=bool(request.meta.get("proxy")))
        self._session.requests.of(request).wire = wire
        spool = agent.spool = self._spools.new()
        is_archived = request.meta.get("archive", True)
        if self._most and is_archived and SEED not in request.meta:
            spool.most = min(self._most, agent.limit_of(request) or self._most)
            agent.is_limited = False
        try:
            response = await self.send(agent, request)
        except Exception as error:
            wire.truncated = wire.truncated or outcome_of(error).truncated
            wire.body = await spool.take()
            self.warn_of_loss(error, request.url)
            raise
        wire.truncated = truncation(response.flags)
        if wire.truncated == "unspecified" and CUT in request.meta:  # at its limit
            wire.truncated = "length"
        wire.body = await spool.take(response.body)
        wire.is_complete = True
        if spool.is_archived_only:
            return ArchivedOnly.instead(response, spool.size)
        return response

    @override
    async def close(self) -> None:
        """Close idle connections, and wait until all bodies are on disk."""
        await super().close()
        await self._spools.close()


class _Agent(BaseAgent):
    """Scrapy's agent; connects where `checked` permits, and writes if `guard` does."""

    guard: Guard
    checked: Checked
    wire: Wire | None = None

    @override
    def prepare(self, agent: Any, request: Request) -> None:
        checked = None if request.meta.get("proxy") else self.checked
        if checked is not None:
            factory = agent._endpointFactory
            factory._reactor = CheckedReactor(factory._reactor, checked)
        agent._pool = _Pool(agent._pool, self.guard, self.wire, checked)


class _Pool:
    """The connection pool as one request sees it."""

    def __init__(
        self,
        pool: HTTPConnectionPool,
        guard: Guard,
        wire: Wire | None,
        checked: Checked | None = None,
    ) -> None:
        self._pool = pool
        self._guard = guard
        self._wire = wire
        self._checked = checked
        self.persistent = pool.persistent

    def getConnection(self, key: Any, endpoint: Any) -> Deferred[_Wired]:  # noqa: N802
        made: Deferred[Any] = self._pool.getConnection(key, endpoint)
        if self._checked is not None:
            made.addCallback(self._checked.permitted)
        return made.addCallback(self._wired)

    def _wired(self, connection: Any) -> _Wired:
        """Wrap *connection*; end idle ones while files are left to resolve names."""
        new = getattr(connection, "transport", None)  # one that was idle has none
        if new is not None and nears_file_limit(new.fileno()):
            self._pool.closeCachedConnections()
        return _Wired(connection, self._guard, self._wire)


class _Wired:
    """A connection that notes in *wire* the one request that it is given."""

    def __init__(self, connection: Any, guard: Guard, wire: Wire | None) -> None:
        self._connection = connection
        self._guard = guard
        self._wire = wire

    def request(self, request: Any) -> Deferred[IResponse]:
        request.wire = self._wire
        write_to = type(request).writeTo
        request.writeTo = lambda transport: write_to(
            request, _Tee(transport, self._wire, self._guard)
        )
        answer: Deferred[IResponse] = self._connection.request(request)
        return answer.addBoth(_written, request)


def _written(answer: Any, request: Any) -> Any:
    """Return *answer*; *request*, which is not written again, lets go of itself.

    Else its page would stay in memory until garbage is collected.
    """
    del request.writeTo
    return answer


def _unpacked(request: Request, response: Response) -> Response:
    """*response*; if it is a robots.txt, without a gzip that it only says it has.

    Scrapy would fail, and then nothing of the host may be fetched.
    """
    coding = (response.headers.get(b"Content-Encoding") or b"").strip().lower()
    is_packed = response.body.startswith(b"\x1f\x8b")
    if SEED in request.meta and coding in GZIP and not is_packed:
        del response.headers[b"Content-Encoding"]
    return response


class _Tee:
    """A transport that notes the head of the request as it is written.

    It also checks the lease one last time: the node may have been stopped while it
    composed the request.
    """

    def __init__(self, transport: Any, wire: Wire | None, guard: Guard) -> None:
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
        # loop first would delay it, perhaps for longer than the lease lasts. What TLS
        # has not encrypted yet still waits.
        if not self._transport.disconnecting:
            self._transport.doWrite()
