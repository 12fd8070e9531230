"""Why a request got no answer: what each error means, in one table.

`outcome_of` looks errors up for the crawl log, the counts of errors, the rules that
leave hosts alone, robots.txt and the archive. The codes are those of
``org.archive.modules.fetcher.FetchStatusCodes``, which the crawl log
has in place of an HTTP status:

==========  ==================================================
``-1``      the name does not resolve
``-2``      the connection could not be made
``-3``      the connection ended before the response came
``-4``      nothing came in time
``-5``      another error
``-7``      the URL cannot be fetched: an unknown scheme, or it is too long
``-8``      its host is given up: it was asked too often and has not answered
``-61``     robots.txt could not be fetched
``-5000``   out of scope, as we or Scrapy's OffsiteMiddleware find
``-5001``   its address is of a class that is not allowed
``-5002``   a downloader middleware of the project refused it
``-9998``   robots.txt forbids it
==========  ==================================================
"""

from __future__ import annotations

from typing import NamedTuple

from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    IgnoreRequest,
    StopDownload,
    UnsupportedURLSchemeError,
)
from twisted.internet.error import (
    ConnectError,
    ConnectionDone,
    ConnectionLost,
    DNSLookupError,
    SSLError,
    TCPTimedOutError,
    TimeoutError as TwistedTimeout,
)
from twisted.web._newclient import ResponseFailed, ResponseNeverReceived

UNRESOLVED, UNCONNECTED, BROKEN, TIMEOUT = -1, -2, -3, -4
UNKNOWN, UNFETCHABLE, GIVEN_UP, NO_ROBOTS = -5, -7, -8, -61
OUT_OF_SCOPE, BLOCKED, REFUSED, ROBOTS = -5000, -5001, -5002, -9998


class OutOfScope(IgnoreRequest):
    """A request, mostly a redirect, is out of the crawl's scope."""


class Excluded(OutOfScope):
    """An operator has excluded the URL of a request, or its host."""


class SeenBefore(IgnoreRequest):
    """A request was seen by another scheduler before the crawl."""


class AddressRefused(IgnoreRequest):
    """A request leads to an address that ``FRONTIER_ALLOW_ADDRESSES`` leaves out."""

    def __init__(self, url: str, kind: str) -> None:
        super().__init__(f"{url[:200]} leads to a {kind} address")
        self.kind = kind
        """The class of the address; see `frontier.urls.addresses`."""


class LeaseGone(IgnoreRequest):
    """A request is left to another node, which has its partition or will have it."""


class PartitionLost(LeaseGone):
    """Another node has the partition of a request already."""


class TurnIsLater(LeaseGone):
    """A request waits in the store for the next turn of its host."""


class HostBackedOff(LeaseGone):
    """The host of a request is left alone, and the request waits in the store."""


class HostGivenUp(IgnoreRequest):
    """A request is given up because its host repeatedly did not answer."""


class URLTooLong(IgnoreRequest):
    """The URL of a request is longer than the target of a record may be."""


class RobotsUnreachable(IgnoreRequest):
    """A request is not sent because it is not known what robots.txt says."""


class Outcome(NamedTuple):
    """What an error says about its request and its host."""

    code: int = UNKNOWN
    """In the crawl log; 0 for what is no attempt: the request waits, or was not due."""
    kind: str | None = "other"
    """The error that it is counted as (`frontier.session.request_stats`); ``None`` if
    it is not counted, because the request was not allowed or not due."""
    absent: str = ""
    """Why its host cannot be reached; empty if it can, or may be reachable."""
    truncated: str = "disconnect"
    """The reason for WARC-Truncated, if part of a response had come."""

    @property
    def is_silence(self) -> bool:
        """Whether the cause may be an uplink that is down, or a proxy."""
        return self.kind == "tls" or self.code in _UNANSWERED


_UNANSWERED = frozenset({UNRESOLVED, UNCONNECTED, BROKEN, TIMEOUT})
_OUTCOMES: tuple[tuple[tuple[type[BaseException], ...], Outcome], ...] = (
    ((LeaseGone, SeenBefore), Outcome(0, None)),
    ((OutOfScope,), Outcome(OUT_OF_SCOPE, None)),
    ((AddressRefused,), Outcome(BLOCKED, None)),
    ((URLTooLong,), Outcome(UNFETCHABLE, None)),
    ((HostGivenUp,), Outcome(GIVEN_UP, None)),
    ((RobotsUnreachable,), Outcome(NO_ROBOTS)),
    ((IgnoreRequest,), Outcome(REFUSED)),
    ((UnsupportedURLSchemeError,), Outcome(UNFETCHABLE)),
    (
        (CannotResolveHostError, DNSLookupError),
        Outcome(UNRESOLVED, "dns", "unresolved"),
    ),
    ((DownloadTimeoutError,), Outcome(TIMEOUT, "timeout", truncated="time")),
    # There was no connection.
    (
        (TCPTimedOutError, TwistedTimeout),
        Outcome(UNCONNECTED, "timeout", "unconnected"),
    ),
    (
        (DownloadConnectionRefusedError, ConnectError),
        Outcome(UNCONNECTED, "refused", "unconnected"),
    ),
    (
        (
            *(DownloadFailedError, ResponseFailed, ResponseNeverReceived),
            *(ConnectionLost, ConnectionDone),
        ),
        Outcome(BROKEN, "reset"),
    ),
    ((StopDownload,), Outcome(truncated="unspecified")),
    # Scrapy cancels what exceeds DOWNLOAD_MAXSIZE.
    ((DownloadCancelledError,), Outcome(truncated="length")),
)
"""The first row with a class of the error says what it means; without one, nothing
is known."""


def outcome_of(error: BaseException, *, sent: bool = True) -> Outcome:
    """What *error* means for a request that was *sent*, or ended before that."""
    found = next((o for kinds, o in _OUTCOMES if isinstance(error, kinds)), Outcome())
    if isinstance(error, IgnoreRequest):
        if found.code == REFUSED and "robots.txt" in str(error):
            return Outcome(ROBOTS, None)  # Scrapy has a class for neither
        if found.code == REFUSED and "offsite" in str(error):
            return Outcome(OUT_OF_SCOPE, None)
        return found
    if type(error) is DownloadFailedError and not sent:
        found = found._replace(code=UNCONNECTED, kind="refused")
    if _is_tls(error):
        found = found._replace(kind="tls", absent=found.absent or "tls")
    return found


def kind_of_status(status: int) -> str | None:
    """The kind of error that *status* is counted as; ``None`` if it is not an error."""
    if status == 429:
        return "http_429"
    return "http_5xx" if 500 <= status <= 599 else None


def _is_tls(error: BaseException) -> bool:
    """Whether *error* means that a TLS connection could not be made."""
    if isinstance(error, SSLError):
        return True
    cause = error.__cause__
    reasons = getattr(cause if cause is not None else error, "reasons", ())
    types = [getattr(reason, "type", type(reason)) for reason in reasons]
    return any(kind.__module__.startswith("OpenSSL") for kind in types)
