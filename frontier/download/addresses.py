"""Checks the address of each connection before it is made.

A URL's host says little: a name leads wherever its owner's server says, and somewhere
else the next time. So addresses are checked where the connection is made, after the
look-up, and only those that are allowed are connected to.

What always holds:

1.  Our handler sends no packet to an address that `FRONTIER_ALLOW_ADDRESSES` does not
    allow: it is removed from the resolver's answer, whichever resolver that is.
2.  A connection that is kept open is checked each time it is used.
3.  The address of a proxy is the operator's choice. The host that a request asks it
    for is checked by its spelling alone: the proxy resolves it.
4.  A handler that is not ours resolves the name again. So the name is also resolved
    here first, and the address that the response names is checked (docs/security.md).
"""

from __future__ import annotations

import asyncio
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

from frontier.download.browser import is_browser
from frontier.download.hops import NETWORK, Hops
from frontier.scrapy_internals import handler_for
from frontier.urls.addresses import class_of_host, class_of_peer

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from frontier.download.outcomes import AddressRefused


class Checked:
    """Checks the addresses of one request's connections."""

    def __init__(self, hops: Hops, request: Request) -> None:
        self._hops = hops
        self.request = request
        self._kind = ""

    async def permits(self, address: str) -> bool:
        """Whether *address*, which the host resolved to, may be connected to."""
        kind = class_of_peer(address)
        if await self._hops.permits(self.request, kind, spelled=False):
            return True
        self._kind = kind
        return False

    def permitted(self, connection: Any) -> Any:
        """Return *connection*, which may have been made for another request.

        Raises:
            ConnectionAborted: It leads to an address not allowed for this request.
        """
        # Twisted wraps a connection that was used before, to retry on a new one.
        protocol = getattr(connection, "_clientProtocol", connection)
        kind = class_of_peer(protocol.transport.getPeer().host)
        if self._hops.allows(kind):
            return connection
        self._kind = kind
        protocol.abort()
        raise ConnectionAborted

    @property
    def refusal(self) -> AddressRefused | None:
        """The error of the request, if an address was refused."""
        if not self._kind:
            return None
        return self._hops.refusal(self.request, self._kind)


@implementer(IResolutionReceiver)
class _Gathered:
    """Collects the addresses that a resolver finds."""

    def __init__(self) -> None:
        self.addresses: list[Any] = []
        self.whole: Deferred[None] = Deferred()

    def resolutionBegan(self, resolution: Any) -> None:  # noqa: N802 (Twisted's name)
        """Do nothing."""

    def addressResolved(self, address: Any) -> None:  # noqa: N802 (Twisted's name)
        """Keep *address* until all have been found."""
        self.addresses.append(address)

    def resolutionComplete(self) -> None:  # noqa: N802 (Twisted's name)
        """Report that all have been found."""
        self.whole.callback(None)


@implementer(IHostnameResolver)
class _Resolver:
    """Finds what *resolver* finds, but for addresses that *checked* does not permit."""

    def __init__(self, resolver: Any, checked: Checked) -> None:
        self._resolver = resolver
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
        resolution = self._resolver.resolveHostName(gathered, host, *more, **named)
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
class CheckedReactor:
    """The reactor with a resolver that leaves out addresses not permitted."""

    def __init__(self, reactor: Any, checked: Checked) -> None:
        self._reactor = reactor
        self.nameResolver = _Resolver(reactor.nameResolver, checked)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reactor, name)

    def installNameResolver(self, resolver: Any) -> Any:  # noqa: N802 (Twisted's name)
        """Change the reactor's own resolver."""
        return self._reactor.installNameResolver(resolver)


async def send_checked(
    crawler: Crawler,
    hops: Hops,
    request: Request,
    send: Callable[[Request], Coroutine[Any, Any, Response]],
) -> Response:
    """Have *send* send *request*, and check the addresses that it connects to.

    Raises:
        AddressRefused: It led to an address that is not allowed.
    """
    is_watched = await _is_to_be_watched(crawler, hops, request)
    response = await send(request)
    if is_watched and response.ip_address is not None:
        kind = class_of_peer(str(response.ip_address))
        await hops.require_address(request, kind, spelled=False)
    return response


async def _is_to_be_watched(crawler: Crawler, hops: Hops, request: Request) -> bool:
    """Whether to check the address that the response to *request* names.

    That is needed where a handler that is not ours, and not a browser's, resolves the
    host by itself. The host is then resolved here first.

    Raises:
        AddressRefused: One of the addresses found here is not allowed.
    """
    parts = urlparse_cached(request)
    host = parts.hostname or ""
    if parts.scheme not in NETWORK:
        return False
    handler = handler_for(crawler, parts.scheme)
    if handler is None or getattr(handler, "checks_addresses", False):
        return False
    hops.tell_of(type(handler), parts.scheme)
    if request.meta.get("proxy"):
        return False
    if class_of_host(host) is not None:  # `Hops.require` has decided it
        return False
    from twisted.internet import reactor

    gathered = _Gathered()
    resolver: Any = reactor
    resolver.nameResolver.resolveHostName(gathered, host)
    await maybe_deferred_to_future(gathered.whole)
    for address in gathered.addresses:
        kind = class_of_peer(address.host)
        await hops.require_address(request, kind, spelled=False)
    return not is_browser(handler)
