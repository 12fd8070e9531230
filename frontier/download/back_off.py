"""Hosts that say "later", with 429 or 503, and hosts that cannot be reached.

`LeftAlone` hears what hosts answer, before anything else is sent to them, and has the
node leave them alone (`frontier.node.hosts`). Requests to such hosts go back to the
store. `BackOffMiddleware`, in front of Scrapy's RetryMiddleware, has refused requests
tried again.

What always holds:

1.  No request from the store is sent to a host that is left alone. It goes back to its
    queue, which does not count as a delivery, and its spider hears nothing of it.
2.  Requests that are not in the store (for robots.txt, for files of pipelines, or those
    that cannot be stored) wait here, or fail if the wait would be long.
3.  A request that was answered "later" is tried again if RetryMiddleware would try it
    again. ``RETRY_TIMES`` counts that try only if its URL may be the reason: a 503
    without a Retry-After, from a host that has answered other requests.
4.  A request is tried again for this reason at most ``FRONTIER_BACKOFF_TIMES`` times;
    then RetryMiddleware and the spider get the response.
5.  A request from the store that is not sent because its host is given up becomes a
    dead letter, and the node ends with exit code 1.
"""

from __future__ import annotations

import asyncio
import time
from calendar import timegm
from email.utils import parsedate_tz
from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.exceptions import DownloadCancelledError, IgnoreRequest
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.misc import load_object

from frontier.download.hops import SEED
from frontier.download.outcomes import HostBackedOff, HostGivenUp, outcome_of
from frontier.node.context import Target
from frontier.node.ends import UNDONE
from frontier.queue.priority import split_name
from frontier.session.session import OfCrawler, session_of
from frontier.urls.partition import origin_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from frontier.node.hosts import Hosts

LATER = {429: "throttled", 503: "unavailable"}
"""Statuses of servers that want to be left alone (RFC 6585, 4; RFC 9110, 15.6.4)."""
PATIENCE = 60.0
"""Seconds for which requests that are not in the store wait here."""
STEP = 1.0
"""Seconds after which they check whether the node is closing."""
NETWORK = ("http://", "https://")
NO_ANSWERS = "no host answers this node, and it waits"
PROBE_TIMEOUT = 15.0
"""Seconds in which a host has to answer a probe."""
PROBE_BYTES = 1_000_000
"""The most bytes that are taken of the answer to a probe."""
PROBE_PRIORITY = 1_000
TIMES = "backoff_times"
"""Key of ``meta``: how often a request was tried again because of its host."""


class LeftAlone:
    """Hears which hosts want to be left alone, and keeps requests from them."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._session = session_of(crawler)
        self._most = self._session.config.backoff_retry_after_max

    def is_retried(self, request: Request) -> bool:
        """Whether RetryMiddleware tries *request* again at all."""
        settings, most = self._crawler.settings, request.meta.get("max_retry_times")
        if request.meta.get("dont_retry") or not settings.getbool("RETRY_ENABLED"):
            return False
        return bool(settings.getint("RETRY_TIMES") if most is None else most)

    @property
    def hosts(self) -> Hosts:
        """What the node knows of hosts."""
        return self._session.node.hosts

    def host(self, request: Request) -> str | None:
        """The name under which the host of *request* is left alone."""
        reservation = self._session.requests.reservation(request)
        if reservation is not None:
            return self.hosts.of_queue(split_name(reservation.queue)[1])
        return self._session.queue_addresses.host(request.url)

    def waits(self, request: Request) -> bool:
        """Whether *request* waits until its host, now left alone, is asked again."""
        host = self.failed(request)
        is_kept = host is not None and self.hosts.waits(host)
        return is_kept and self.is_retried(request)

    def failed(self, request: Request) -> str | None:
        """The host of *request*, if it has yet to answer after a failure."""
        if not self._session.opened or not self.hosts:
            return None  # as nearly always
        host = self.host(request)
        return host if host is not None and self.hosts.failures(host) else None

    async def require(self, request: Request) -> None:
        """Wait until *request* may be sent.

        Raises:
            HostBackedOff: It goes back to the store, or would have to wait long.
            HostGivenUp: Its host is given up.
        """
        while self._session.opened and (wait := self._wait(request)) is not None:
            seconds, why = wait
            is_reserved = self._session.requests.delivery(request) is not None
            is_long = seconds > PATIENCE or self._session.closing
            if is_reserved or is_long or SEED in request.meta:
                self.withhold(request)
                raise HostBackedOff(why)
            await asyncio.sleep(min(STEP, seconds))

    def _wait(self, request: Request) -> tuple[float, str] | None:
        """How many seconds *request* waits at least, and why; ``None``: it may be sent.

        Raises:
            HostGivenUp: Its host is given up.
        """
        probes = self._session.requests.known(request).probes
        if self._session.node.uplink.waits and not probes:
            return STEP, NO_ANSWERS
        host = self.failed(request)
        if host is None:
            return None
        if self.hosts.gives_up(host):
            raise HostGivenUp(f"its host {host} is given up: {self.hosts.told(host)}")
        seconds = self.hosts.left(host)
        why = f"{host} is left alone for {seconds:.0f} s"
        return (seconds, why) if seconds else None

    def is_held(self, request: Request, exception: Exception) -> bool:
        """Note that *request* got no answer; whether it waits as no host answers."""
        if not request.url.startswith(NETWORK) or isinstance(exception, IgnoreRequest):
            return False
        if not (request.meta.get("proxy") or outcome_of(exception).is_silence):
            return False
        uplink = self._session.node.uplink
        if self._session.requests.known(request).heard:
            uplink.answered(target_of(request))
            return False
        uplink.failed(target_of(request))
        is_reserved = self._session.requests.reservation(request) is not None
        if not uplink.waits or not is_reserved:
            return False
        self.withhold(request)
        return True

    def give_up(self, request: Request, why: str) -> None:
        """Give up the host; make *request* a dead letter, if it is from the store."""
        host = self.host(request)
        if host is None or SEED in request.meta:  # robots.txt is nobody's page
            return
        self.hosts.give_up(host)
        self._session.count("frontier/backoff/given_up")
        if self._session.requests.delivery(request) is not None:
            self._session.requests.give_up(request, why)
            self._session.on_end(UNDONE)

    def hear(self, request: Request, response: Response) -> None:
        """Learn what *response* to *request*, which was sent, says about its host."""
        if request.url.startswith(NETWORK) and "cached" not in response.flags:
            self._session.node.uplink.answered(target_of(request))
        reason = LATER.get(response.status)
        if reason is None and not self.hosts.cares:
            return  # as nearly always
        sent = self._session.requests.known(request).sent
        host = self.host(request)
        if host is None or sent is None:
            return
        if reason is None:
            self.hosts.answered(host, _monotonic(sent))
            return
        asked = asked_by(response)
        if asked is not None:
            self._session.count("frontier/backoff/retry_after")
        seconds = min(asked or 0.0, self._most)
        self.hosts.refused(host, reason, _monotonic(sent), seconds)

    def withhold(self, request: Request) -> None:
        """Have *request* wait in the store, if it came from there."""
        delivery = self._session.requests.delivery(request)
        if delivery is not None and not delivery.waits:
            self._session.requests.put_off(request)
            self._session.count("frontier/backoff/put_back")


class BackOffMiddleware(OfCrawler):
    """Leaves hosts alone that answer 429 or 503, or that cannot be reached.

    Their requests are tried again afterwards, or given up with `HostGivenUp`.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._session = session_of(crawler)
        self._left_alone = self._session.component(LeftAlone)
        settings = crawler.settings
        self._times = self._session.config.backoff_times
        self._statuses = {int(one) for one in settings.getlist("RETRY_HTTP_CODES")}
        self._adjust = settings.getint("RETRY_PRIORITY_ADJUST")
        self._errors = tuple(
            load_object(one) for one in settings.getlist("RETRY_EXCEPTIONS")
        )

    async def process_request(self, request: Request) -> None:
        """Let *request* pass if its host is not left alone.

        Raises:
            HostBackedOff: Its host is left alone.
            HostGivenUp: Its host has been left alone too often.
        """
        await self._left_alone.require(request)

    def process_response(
        self, request: Request, response: Response
    ) -> Request | Response:
        """Try *request* again later, if its host says so."""
        sent = self._session.requests.known(request).sent
        is_later = response.status in LATER and "cached" not in response.flags
        if not is_later or sent is None or response.status not in self._statuses:
            return response
        host = self._left_alone.host(request)
        if host is None or (
            response.status == 503
            and asked_by(response) is None
            and self._left_alone.hosts.failures(host) == 1
        ):
            return response
        return self._again(request, host) or response

    async def process_exception(
        self, request: Request, exception: Exception
    ) -> Request | None:
        """Note that *request* did not reach its host; try it again later, if it may."""
        if isinstance(exception, HostBackedOff):
            self._left_alone.withhold(request)
            return None
        if self._session.requests.known(request).probes:
            return None
        if isinstance(exception, HostGivenUp):  # its own, or that of its robots.txt
            self._left_alone.give_up(request, str(exception))
            return None
        if self._left_alone.is_held(request, exception):
            raise HostBackedOff(NO_ANSWERS) from exception
        reason = outcome_of(exception).absent
        if not reason or request.meta.get("proxy"):
            return None  # it may be the proxy that cannot be reached
        host = self._left_alone.host(request)
        if host is None:
            return None
        sent = self._session.requests.known(request).sent
        at = time.monotonic() if sent is None else _monotonic(sent)
        self._left_alone.hosts.missed(host, reason, at)
        if not isinstance(exception, self._errors):
            return None
        return self._again(request, host)

    def _again(self, request: Request, host: str) -> Request | None:
        """A copy of *request* to try once *host* is asked again, if it may be."""
        if not self._left_alone.is_retried(request):
            return None
        times = request.meta.get(TIMES, 0)
        times = times if isinstance(times, int) else 0
        if times >= self._times or not self._left_alone.hosts.waits(host):
            return None
        again = request.copy()
        again.meta[TIMES] = times + 1
        again.dont_filter = True
        adjust = request.meta.get("priority_adjust", self._adjust)
        again.priority = request.priority + adjust
        self._session.count("frontier/backoff/retried")
        return again


def target_of(request: Request) -> Target:
    """The origin that *request* asks, and its proxy."""
    return Target(origin_of(request.url), str(request.meta.get("proxy") or ""))


async def probe(crawler: Crawler, target: Target) -> bool:
    """Ask *target* for its robots.txt; whether it answers anything at all."""
    meta: dict[str, Any] = {
        "dont_obey_robotstxt": True,
        "dont_redirect": True,
        "dont_retry": True,
        "dont_cache": True,
        "allow_offsite": True,
        "archive": False,
        "download_timeout": PROBE_TIMEOUT,
        "download_maxsize": PROBE_BYTES,
        SEED: False,
    }
    if target.proxy:
        meta["proxy"] = target.proxy
    url = f"{target.origin}/robots.txt"
    request = Request(url, meta=meta, callback=NO_CALLBACK, priority=PROBE_PRIORITY)
    session_of(crawler).requests.of(request).probes = True
    try:
        answer: Response = await crawler.engine.download_async(request)
    except DownloadCancelledError:  # there was more
        return True
    except Exception:  # noqa: BLE001 (whatever it was, nothing has answered)
        return False
    return "cached" not in answer.flags


def asked_by(response: Response) -> float | None:
    """The seconds for which the server asks to be left alone, if it does."""
    values = response.headers.getlist(b"Retry-After")
    return retry_after(values, response.headers.get(b"Date"), time.time())


def _monotonic(wall: float) -> float:
    """The monotonic clock at *wall*, seconds since the Unix epoch."""
    return time.monotonic() - max(0.0, time.time() - wall)


def retry_after(
    values: Iterable[bytes | None], date: bytes | None, now: float
) -> float | None:
    """The seconds that the fields *values* ask for; the most if there are several.

    A date is compared with *date*, the ``Date`` field of the same response, if there is
    one: what counts is the server's clock. *now* is in seconds since the Unix epoch.
    ``None`` if no field can be read (RFC 9110, 10.2.3); 0 for a time in the past.
    """
    found = []
    said = http_date(date)
    for value in values:
        text = (value or b"").strip(b" \t")
        if text.isdigit():
            found.append(float(text))
        elif (until := http_date(text)) is not None:
            found.append(max(0.0, until - (now if said is None else said)))
    return max(found, default=None)


def http_date(value: bytes | None) -> float | None:
    """The seconds since the Unix epoch of an HTTP-date; ``None`` if it is not one.

    It may have any of the three forms of RFC 9110, 5.6.7; the year 69 means 1969, the
    year 68 means 2068.
    """
    parts = parsedate_tz((value or b"").decode("latin-1"))
    try:
        return None if parts is None else float(timegm(parts[:9]) - (parts[9] or 0))
    except (ValueError, OverflowError):
        return None
