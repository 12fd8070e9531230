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
``-8``      its host is given up: it was asked too often and has not answered
``-61``     robots.txt could not be fetched
``-5000``   out of scope, as we or Scrapy's OffsiteMiddleware find
``-5001``   its address is of a class that is not connected to
``-5002``   a downloader middleware of the project refused it
``-9998``   robots.txt forbids it
==========  ==================================================
"""

from __future__ import annotations

from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    IgnoreRequest,
    UnsupportedURLSchemeError,
)
from twisted.internet.error import (
    ConnectError,
    ConnectionDone,
    ConnectionLost,
    DNSLookupError,
    SSLError,
    TCPTimedOutError,
)
from twisted.internet.error import TimeoutError as TwistedTimeout
from twisted.web._newclient import ResponseFailed, ResponseNeverReceived

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


class LeaseGone(IgnoreRequest):
    """Another node has the partition of a request, and sends it."""


class TurnIsLater(LeaseGone):
    """A request waits in the store for the next turn of its host."""


class HostBackedOff(LeaseGone):
    """The host of a request is left alone, and the request waits in the store."""


class HostGivenUp(IgnoreRequest):
    """The request is given up, as its host did not answer again and again."""


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


NO_ERRORS = frozenset({OUT_OF_SCOPE, BLOCKED, ROBOTS})
"""Codes of requests that are not allowed, and so not sent."""
ERROR_KINDS = {
    UNRESOLVED: "dns",
    UNCONNECTED: "refused",
    TIMEOUT: "timeout",
    BROKEN: "reset",
}
"""Codes to kinds of errors; what others say is counted together."""


def reason_of(error: BaseException) -> str | None:
    """In what way *error* says that its host cannot be reached; ``None`` if it can."""
    code = status_of(error, sent=True)
    if code == UNRESOLVED:
        return "unresolved"
    if code == UNCONNECTED:
        return "unconnected"
    return "tls" if is_tls(error) else None


def kind_of(error: BaseException, *, sent: bool) -> str | None:
    """The kind of *error* (`frontier.session.request_stats`) of a request *sent*.

    ``None`` if it is none: the request is not allowed, or waits in the store.
    """
    if isinstance(error, LeaseGone | HostGivenUp | URLTooLong | SeenBefore):
        return None
    if is_tls(error):
        return "tls"
    if isinstance(error, TCPTimedOutError | TwistedTimeout):  # there was no connection
        return "timeout"
    code = status_of(error, sent=sent)
    return None if code in NO_ERRORS else ERROR_KINDS.get(code, "other")


def kind_of_status(status: int) -> str | None:
    """The kind of error that a response of *status* is; ``None`` if it is none."""
    if status == 429:
        return "http_429"
    return "http_5xx" if 500 <= status <= 599 else None


def is_tls(error: BaseException) -> bool:
    """Whether *error* is that of a TLS connection that could not be made."""
    if isinstance(error, IgnoreRequest):
        return False
    if isinstance(error, SSLError):
        return True
    cause = error.__cause__
    reasons = getattr(cause if cause is not None else error, "reasons", ())
    types = [getattr(reason, "type", type(reason)) for reason in reasons]
    return any(kind.__module__.startswith("OpenSSL") for kind in types)
