"""Why a request got no answer, as one of Heritrix's status codes.

The codes of ``org.archive.modules.fetcher.FetchStatusCodes``, which the crawl log
has in place of an HTTP status:

==========  ==================================================
``-1``      the name does not resolve
``-2``      the connection could not be made
``-3``      it ended before the answer came
``-4``      nothing came in time
``-5``      another error
``-7``      the URL cannot be fetched: an unknown scheme, or it is too long
``-61``     robots.txt could not be had
``-5000``   out of scope, as we or Scrapy's OffsiteMiddleware find
``-5001``   its address is of a class that is not connected to
``-5002``   a downloader middleware of the project refused it
``-9998``   robots.txt forbids it
==========  ==================================================
"""

from __future__ import annotations

from scrapy.exceptions import IgnoreRequest
from twisted.internet.error import (
    ConnectError,
    ConnectionDone,
    ConnectionLost,
    DNSLookupError,
    TCPTimedOutError,
)
from twisted.internet.error import TimeoutError as TwistedTimeout
from twisted.web._newclient import ResponseFailed, ResponseNeverReceived

from frontier.scrapy_internals import (
    CannotResolveHostError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    UnsupportedURLSchemeError,
)

UNRESOLVED, UNCONNECTED, BROKEN, TIMEOUT = -1, -2, -3, -4
UNKNOWN, UNFETCHABLE, NO_ROBOTS = -5, -7, -61
OUT_OF_SCOPE, BLOCKED, REFUSED, ROBOTS = -5000, -5001, -5002, -9998


class OutOfScope(IgnoreRequest):
    """A request, mostly a redirect, is out of the crawl's scope."""


class AddressRefused(IgnoreRequest):
    """A request leads to an address that ``FRONTIER_ALLOW_ADDRESSES`` has not."""

    def __init__(self, url: str, kind: str) -> None:
        super().__init__(f"{url[:200]} leads to a {kind} address")
        self.kind = kind
        """The class of the address; see `frontier.urls.addresses`."""


class URLTooLong(IgnoreRequest):
    """A request's URL is longer than the target of a record may be."""


class RobotsUnreachable(IgnoreRequest):
    """A request is not sent, for it is not known what robots.txt says."""


_CODES: tuple[tuple[int, tuple[type[BaseException], ...]], ...] = (
    (UNRESOLVED, (CannotResolveHostError, DNSLookupError)),
    (UNFETCHABLE, (UnsupportedURLSchemeError,)),
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
    if isinstance(error, OutOfScope):
        return OUT_OF_SCOPE
    if isinstance(error, AddressRefused):
        return BLOCKED
    if isinstance(error, URLTooLong):
        return UNFETCHABLE
    if isinstance(error, RobotsUnreachable):
        return NO_ROBOTS
    if isinstance(error, IgnoreRequest):
        text = str(error)
        if "robots.txt" in text:
            return ROBOTS
        return OUT_OF_SCOPE if "offsite" in text else REFUSED
    if isinstance(error, DownloadFailedError) and type(error) is DownloadFailedError:
        return BROKEN if sent else UNCONNECTED
    for code, kinds in _CODES:
        if isinstance(error, kinds):
            return code
    return UNKNOWN
