"""Whether a server sent a response, or something else made it.

A ``response`` record says that a server sent these headers and this body (WARC 1.1,
section 6.3). That is known of what our own handler saw on the wire, and taken for
true of what Scrapy's HTTP handlers give. It is not of what a browser rendered
(scrapy-playwright), of what a service extracted, of a cache's answer, nor of what a
downloader middleware made itself: of those there is a document, and its maker.

What always holds:

1.  Where our handler got an answer, that is archived, whatever a downloader
    middleware has put in its place.
2.  A response that did not come from a download handler is no server's.
3.  A handler that is neither Scrapy's nor named in ``FRONTIER_WARC_HTTP_HANDLERS``
    has made its responses itself; each such maker is told in the log, once.

Why a request got no answer, as one of Heritrix's status codes.

The codes of ``org.archive.modules.fetcher.FetchStatusCodes``, which the crawl log
has in place of an HTTP status:

==========  ==================================================
``-1``      the name does not resolve
``-2``      the connection could not be made
``-3``      it ended before the answer came
``-4``      nothing came in time
``-5``      another error
``-7``      the URL cannot be fetched: an unknown scheme, or it is too long
``-8``      its host is given up: it was asked too often and has not answered
``-61``     robots.txt could not be fetched
``-5000``   out of scope, as we or Scrapy's OffsiteMiddleware find
``-5001``   its address is of a class that is not connected to
``-5002``   a downloader middleware of the project refused it
``-9998``   robots.txt forbids it
==========  ==================================================
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    IgnoreRequest,
    UnsupportedURLSchemeError,
)
from scrapy.utils.misc import load_object
from twisted.internet.error import (
    ConnectError,
    ConnectionDone,
    ConnectionLost,
    DNSLookupError,
    TCPTimedOutError,
)
from twisted.internet.error import TimeoutError as TwistedTimeout
from twisted.web._newclient import ResponseFailed, ResponseNeverReceived

from frontier.errors import ConfigurationError
from frontier.scrapy_internals import (
    handler_for,
)

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from frontier.session.session import Session


logger = logging.getLogger(__name__)

MIDDLEWARE = "a downloader middleware"
"""The maker of what no handler gave; Scrapy does not say which one it is."""
RENDERED = frozenset({"playwright"})
"""Flags of responses that a browser made in a handler that sends others itself."""
_SCRAPYS = "scrapy.core.downloader.handlers."
_ABSTRACT = "scrapy.core.downloader.handlers.base"  # of handlers of any kind


class Answering:
    """Tells the makers of one crawler's responses."""

    def __init__(self, crawler: Crawler, session: Session) -> None:
        """Load the handlers that the project names.

        Raises:
            ConfigurationError: One of them is not there.
        """
        self._crawler = crawler
        self._session = session
        self._told: set[str] = set()
        self._named = tuple(map(_load, session.config.warc_http_handlers))

    def answer(self, request: Request, response: Response) -> tuple[Response, str]:
        """What is there instead of a wire: a response, and what made it.

        The maker is empty if a server sent the response; it is the handler's, if
        one gave any.
        """
        state = self._session.requests.of(request)
        given, state.answer = state.answer, None
        if given is None:
            maker, given = MIDDLEWARE, response
        else:
            maker = self._maker(request, given)
        if maker and maker not in self._told:
            self._told.add(maker)
            self._tell(maker, given)
        return given, maker

    def _maker(self, request: Request, response: Response) -> str:
        handler = handler_for(self._crawler, urlsplit(request.url).scheme)
        if RENDERED.isdisjoint(response.flags):
            # Scrapy's own set a protocol; a subclass that makes a response does not.
            if response.protocol and _is_scrapys(type(handler)):
                return ""
            if isinstance(handler, self._named):
                return ""
        return f"{type(handler).__module__}.{type(handler).__qualname__}"

    def _tell(self, maker: str, response: Response) -> None:
        if maker == MIDDLEWARE or not RENDERED.isdisjoint(response.flags):
            logger.info(
                "what %s makes is archived as resource records: no server sent it",
                maker,
            )
        else:
            logger.warning(
                "what %s gives is archived as resource records: whether servers sent "
                "it is not known; if they did, name it in FRONTIER_WARC_HTTP_HANDLERS",
                maker,
            )


def _is_scrapys(handler: type) -> bool:
    modules = {each.__module__ for each in handler.__mro__}
    return any(name.startswith(_SCRAPYS) for name in modules - {_ABSTRACT})


def _load(path: str) -> type:
    try:
        loaded = load_object(path)
    except (ImportError, NameError, ValueError) as error:
        raise ConfigurationError(f"FRONTIER_WARC_HTTP_HANDLERS: {error}") from None
    if not isinstance(loaded, type):
        raise ConfigurationError(f"FRONTIER_WARC_HTTP_HANDLERS: {path} is not a class")
    return loaded


UNRESOLVED, UNCONNECTED, BROKEN, TIMEOUT = -1, -2, -3, -4
UNKNOWN, UNFETCHABLE, GIVEN_UP, NO_ROBOTS = -5, -7, -8, -61
OUT_OF_SCOPE, BLOCKED, REFUSED, ROBOTS = -5000, -5001, -5002, -9998


class OutOfScope(IgnoreRequest):
    """A request, mostly a redirect, is out of the crawl's scope."""


class Excluded(OutOfScope):
    """An operator has excluded the URL of a request, or its host."""


class SeenBefore(IgnoreRequest):
    """A request was seen by another scheduler, before the crawl."""


class AddressRefused(IgnoreRequest):
    """A request leads to an address that ``FRONTIER_ALLOW_ADDRESSES`` has not."""

    def __init__(self, url: str, kind: str) -> None:
        super().__init__(f"{url[:200]} leads to a {kind} address")
        self.kind = kind
        """The class of the address; see `frontier.urls.addresses`."""


class HostGivenUp(IgnoreRequest):
    """The host of a request was left alone too often, and the request is given up."""


class URLTooLong(IgnoreRequest):
    """A request's URL is longer than the target of a record may be."""


class RobotsUnreachable(IgnoreRequest):
    """A request is not sent, for it is not known what robots.txt says."""


_CODES: tuple[tuple[int, tuple[type[BaseException], ...]], ...] = (
    (OUT_OF_SCOPE, (OutOfScope,)),
    (BLOCKED, (AddressRefused,)),
    (UNFETCHABLE, (URLTooLong, UnsupportedURLSchemeError)),
    (GIVEN_UP, (HostGivenUp,)),
    (NO_ROBOTS, (RobotsUnreachable,)),
    (REFUSED, (IgnoreRequest,)),
    (UNRESOLVED, (CannotResolveHostError, DNSLookupError)),
    (TIMEOUT, (DownloadTimeoutError,)),
    (
        UNCONNECTED,
        (
            DownloadConnectionRefusedError,
            TCPTimedOutError,
            TwistedTimeout,
            ConnectError,
        ),
    ),
    (
        BROKEN,
        (
            DownloadFailedError,
            ConnectionLost,
            ConnectionDone,
            ResponseFailed,
            ResponseNeverReceived,
        ),
    ),
)


def status_of(error: BaseException, *, sent: bool) -> int:
    """The code of *error*, with which a request that was *sent*, or not, ended."""
    code = next((code for code, kinds in _CODES if isinstance(error, kinds)), UNKNOWN)
    if code == REFUSED and "robots.txt" in str(error):  # Scrapy has no class for either
        return ROBOTS
    if code == REFUSED and "offsite" in str(error):
        return OUT_OF_SCOPE
    if type(error) is DownloadFailedError and not sent:
        return UNCONNECTED
    return code
