"""The address of each connection is looked at before it is made.

A URL's host says little: a name leads wherever its owner's server says, and to
another place the next time. So what a name leads to is looked at where the
connection is made, after the look-up, and only what is allowed is connected to.

What always holds:

1.  To an address that `FRONTIER_ALLOW_ADDRESSES` does not have no packet is sent by
    our handler: it is taken out of the resolver's answer, whatever resolver it is.
2.  A connection that is kept is looked at each time that it is used.
3.  The address of a proxy is the operator's choice. Of what is asked of it the host
    is looked at by its spelling alone: the proxy resolves it.
4.  For a handler that is not ours a name is resolved here too, but connected to
    there: another answer may come (see docs/security.md).
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.httpobj import urlparse_cached
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionAborted
from twisted.internet.interfaces import (
    IHostnameResolver,
    IReactorPluggableNameResolver,
    IResolutionReceiver,
)
from zope.interface import implementer

from frontier.download.body_spool import EXCERPT
from frontier.download.hops import NETWORK
from frontier.scrapy_internals import BaseAgent, handler_for
from frontier.urls.addresses import class_of_host, class_of_peer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scrapy import Request
    from scrapy.crawler import Crawler

    from frontier.download.hops import Hops
    from frontier.download.origin import AddressRefused


class Checked:
    """The look at the addresses of one request's connections."""

    def __init__(self, hops: Hops, request: Request) -> None:
        self._hops = hops
        self.request = request
        self._kind = ""

    async def permits(self, address: str) -> bool:
        """Whether *address*, to which the host was resolved, may be connected to."""
        kind = class_of_peer(address)
        if await self._hops.permits(self.request, kind, spelled=False):
            return True
        self._kind = kind
        return False

    def permits_peer(self, address: str) -> bool:
        """Whether a connection to *address*, which was made before, may be used."""
        kind = class_of_peer(address)
        if self._hops.allows(kind):
            return True
        self._kind = kind
        return False

    @property
    def refusal(self) -> AddressRefused | None:
        """The error of the request, if all that was found was refused."""
        if not self._kind:
            return None
        return self._hops.refusal(self.request, self._kind)


@implementer(IResolutionReceiver)
class _Gathered:
    """Takes what a resolver finds."""

    def __init__(self) -> None:
        self.addresses: list[Any] = []
        self.whole: Deferred[None] = Deferred()

    def resolutionBegan(self, resolution: Any) -> None:  # noqa: N802 (Twisted's name)
        """Need nothing of it."""

    def addressResolved(self, address: Any) -> None:  # noqa: N802 (Twisted's name)
        """Keep *address* until all are there."""
        self.addresses.append(address)

    def resolutionComplete(self) -> None:  # noqa: N802 (Twisted's name)
        """All are there."""
        self.whole.callback(None)


@implementer(IHostnameResolver)
class _Resolver:
    """What the reactor's finds, without what is not to be connected to."""

    def __init__(self, reactor: Any, checked: Checked) -> None:
        self._reactor = reactor
        self._checked = checked

    def resolveHostName(  # noqa: N802 (Twisted's name)
        self, receiver: Any, host: str, *more: Any, **named: Any
    ) -> Any:
        gathered = _Gathered()
        gathered.whole.addCallback(
            lambda _: Deferred.fromFuture(
                asyncio.ensure_future(self._hand_on(gathered.addresses, receiver))
            )
        )
        resolution = self._reactor.nameResolver.resolveHostName(
            gathered, host, *more, **named
        )
        receiver.resolutionBegan(resolution)
        return resolution

    async def _hand_on(self, addresses: Sequence[Any], receiver: Any) -> None:
        try:
            for address in addresses:
                if await self._checked.permits(address.host):
                    receiver.addressResolved(address)
        finally:
            receiver.resolutionComplete()


@implementer(IReactorPluggableNameResolver)
class _Reactor:
    """The reactor, but for its resolver."""

    def __init__(self, reactor: Any, checked: Checked) -> None:
        self._reactor = reactor
        self.nameResolver = _Resolver(reactor, checked)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reactor, name)

    def installNameResolver(self, resolver: Any) -> Any:  # noqa: N802 (Twisted's name)
        return self._reactor.installNameResolver(resolver)


class _Pool:
    """The pool of connections, of which each is looked at when it is used."""

    def __init__(self, pool: Any, checked: Checked) -> None:
        self._pool = pool
        self._checked = checked
        self.persistent = pool.persistent

    def getConnection(self, key: Any, endpoint: Any) -> Any:  # noqa: N802 (Twisted's)
        return self._pool.getConnection(key, endpoint).addCallback(self._look)

    def _look(self, connection: Any) -> Any:
        # One that was used before is wrapped, so that it can be tried again.
        protocol = getattr(connection, "_clientProtocol", connection)
        if not self._checked.permits_peer(protocol.transport.getPeer().host):
            protocol.abort()
            raise ConnectionAborted
        return connection


class CheckedAgent(BaseAgent):
    """Scrapy's, which connects to what `checked` permits."""

    checked: Checked

    def prepare(self, agent: Any, request: Request) -> None:
        """Have *agent* look at the addresses that it connects to."""
        if not request.meta.get("proxy"):
            factory = agent._endpointFactory
            factory._reactor = _Reactor(factory._reactor, self.checked)
            agent._pool = _Pool(agent._pool, self.checked)

    def wanted(self, request: Request) -> int:
        """What *request* says; see `frontier.download.body_spool`."""
        return int(request.meta.get(EXCERPT, 0))


@contextmanager
def refusing(checked: Checked) -> Iterator[None]:
    """Raise the refusal of *checked*, if it is why a download has failed."""
    try:
        yield
    except Exception as error:
        refusal = checked.refusal
        if refusal is None:
            raise
        raise refusal from error


async def look_before_handler(crawler: Crawler, hops: Hops, request: Request) -> None:
    """Resolve the host of *request*, if a handler will connect to it that is not ours.

    Raises:
        AddressRefused: One of its addresses is not to be connected to.
    """
    parts = urlparse_cached(request)
    host = parts.hostname or ""
    if parts.scheme not in NETWORK:
        return
    handler = handler_for(crawler, parts.scheme)
    if getattr(handler, "checks_addresses", False):
        return
    hops.tell_of(type(handler), parts.scheme)
    if request.meta.get("proxy"):
        return
    if class_of_host(host) is not None:  # was decided before
        return
    from twisted.internet import reactor

    gathered = _Gathered()
    resolver: Any = reactor
    resolver.nameResolver.resolveHostName(gathered, host)
    await maybe_deferred_to_future(gathered.whole)
    for address in gathered.addresses:
        await hops.require(request, class_of_peer(address.host), spelled=False)
