"""robots.txt by RFC 9309: Scrapy's middleware, with the RFC's rules for failures.

Scrapy 2.19 lets all but the first of the requests that wait for a robots.txt through,
unchecked; takes a robots.txt that it cannot fetch for permission to fetch everything;
reads files of any size in the reactor's thread; and keeps the rules of each host for as
long as it runs.

A Crawl-delay, which Scrapy ignores, becomes the least delay of the host's downloader
slot, without jitter. AutoThrottle may raise that delay but not lower it.

What always holds:

1.  No request is sent before the rules of its scheme, host and port are known, or it
    is known that there are none.
2.  There are no rules if the server answers 4xx, except 429, or redirects more than
    `MOST_HOPS` times (2.3.1.2, 2.3.1.3).
3.  If rules cannot be fetched, nothing is fetched (2.3.1.4) except by earlier rules;
    requests become dead letters, and after `RETRY` the rules are tried again. If there
    is no server, a request fails as it would without robots.txt.
4.  At most 500 KiB are read (2.5), and the reactor's thread reads and applies at most
    `INLINE`; of a longer one no more than `MOST_FETCHED` are fetched.
    Rules are used for a day (2.4), and kept as long as `_Cache` has room.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import math
import time
from collections import Counter, OrderedDict
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin
from weakref import WeakKeyDictionary

from scrapy import Request, signals
from scrapy.exceptions import IgnoreRequest, StopDownload
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.python import to_unicode
from typing_extensions import override
from w3lib.url import safe_url_string

from frontier.download.back_off import LeftAlone
from frontier.download.hops import CUT, SEED, Hops
from frontier.download.outcomes import (
    REFUSED,
    ROBOTS,
    UNCONNECTED,
    UNRESOLVED,
    AddressRefused,
    Excluded,
    HostBackedOff,
    HostGivenUp,
    LeaseGone,
    PartitionLost,
    RobotsUnreachable,
    outcome_of,
)
from frontier.download.pace import Pace
from frontier.download.politeness import PATIENCE, lost
from frontier.errors import WorkerFailed
from frontier.model import frozen
from frontier.node.hosts import most_common
from frontier.scrapy_internals import (
    BaseRobots,
    Slots,
    crawl_delay,
    size_of_rules,
    tell_robots_parsed,
)
from frontier.session.session import REDIRECTS, OfCrawler, session_of

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.robotstxt import RobotParser

logger = logging.getLogger(__name__)

MOST_HOPS = 5
"""Redirects of a robots.txt that are followed, to whatever host (RFC 9309, 2.3.1.2)."""
MAX_AGE = 86_400.0
"""Seconds for which rules are used (RFC 9309, 2.4)."""
STALE = 30 * MAX_AGE
"""Seconds for which rules are used while newer ones cannot be fetched (2.3.1.4)."""
RETRY = 900.0
"""Seconds after which a robots.txt that could not be fetched is asked for again: the
pause of Heritrix's ``retryDelaySeconds``."""
RETRY_ABSENT = 30.0
"""The same if there was no server: then each request is tried again as well."""
LIMIT = 512_000
"""Bytes that are read: the least that RFC 9309 (2.5) requires a crawler to read."""
INLINE = 4_096
"""Bytes that are read and applied in the reactor's thread: 0.1 s at the most."""
MOST_BYTES = 64_000_000
"""Bytes of memory of the rules kept, besides those of the host asked for last."""
TEXT = 8
"""The most bytes of memory for a byte of text: of the URL of a sitemap, say."""
MOST_HOSTS = 10_000
MOST_FETCHED = 8_000_000
"""Bytes after which a robots.txt is cut; one that has more with its coding undone
counts as one that cannot be fetched, so it is asked for without any."""
TOO_MANY_REQUESTS = 429


@frozen
class Known:
    """What is known about a host's robots.txt. Times are on the monotonic clock."""

    parser: RobotParser | None
    """Its rules; ``None`` for none."""
    until: float
    """When robots.txt is asked for again."""
    size: int = 0
    fetched: float = -math.inf
    """When the rules were fetched; minus infinity if they could not be."""
    error: Exception | None = None
    """Why nothing may be fetched."""
    made: float = math.inf
    """When `error` was found."""


class _Cache:
    """What is known about each host; drops what was least recently used."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[Known, int]] = OrderedDict()
        self._bytes = 0

    def get(self, key: str) -> Known | None:
        if key not in self._known:
            return None
        self._known.move_to_end(key)
        return self._known[key][0]

    def put(self, key: str, known: Known) -> None:
        _, before = self._known.pop(key, (None, 0))
        size = size_of_rules(known.parser) + TEXT * known.size
        self._bytes += size - before
        while len(self._known) >= MOST_HOSTS or (
            self._known and self._bytes > MOST_BYTES
        ):
            self._bytes -= self._known.popitem(last=False)[1][1]
        self._known[key] = known, size


class RobotsTxtMiddleware(OfCrawler, BaseRobots):
    """Replaces Scrapy's middleware, and obeys robots.txt by RFC 9309."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._counts: Any = crawler.stats
        self._session = session_of(crawler)
        self._hops = self._session.component(Hops)
        self._left_alone = self._session.component(LeftAlone)
        self._most = self._session.config.crawl_delay_max
        self._pace = self._session.component(Pace)
        self._cache = _Cache()
        self._fetching: dict[str, asyncio.Task[Known]] = {}
        self._unreachable: Counter[str] = Counter()
        self._under_way = 0
        self._came: WeakKeyDictionary[Request, int] = WeakKeyDictionary()
        """Bytes of each robots.txt under way, of retries and copies as well."""
        crawler.signals.connect(self._tell, signals.spider_closed)

    @override
    async def process_request(  # type: ignore[override] # as the newest calls it
        self, request: Request
    ) -> None:
        """Let *request* pass if the rules of its host allow it.

        Raises:
            IgnoreRequest: The rules forbid it, or cannot be fetched.
        """
        if request.meta.get("dont_obey_robotstxt"):
            return
        if request.url.startswith(("data:", "file:")):
            return
        known = await self._known(request)
        while _is_gone(known.error) and self._is_sent_here(request):
            await asyncio.sleep(PATIENCE)
            known = await self._known(request)  # one not sent here had asked for it
        if known.error is not None:
            raise self._refusal(request, known.error)
        if known.parser is not None:
            await self._obey(known.parser, known.size, request)

    def _is_sent_here(self, request: Request) -> bool:
        """Whether *request* is from the store, and its lease is not lost."""
        reservation = self._session.requests.reservation(request)
        if reservation is None or reservation.delivery.is_given_back:
            return False
        return not self._session.node.has_lost(reservation)

    async def _obey(self, rules: RobotParser, size: int, request: Request) -> None:
        """Keep the Crawl-delay of *request*'s host, whose *rules* have *size* bytes.

        Raises:
            IgnoreRequest: The rules forbid it.
        """
        agent = self._agent(request)
        answers: Any = rules
        if size > INLINE:  # 500 KiB of rules take 4 s for a URL of 64 KiB
            is_allowed = await asyncio.to_thread(rules.allowed, request.url, agent)
            answers = SimpleNamespace(allowed=lambda *_: is_allowed)
        self.process_request_2(answers, request)
        if self._most <= 0:
            return
        delay = crawl_delay(rules, agent)
        if delay is not None and math.isfinite(delay) and delay > 0:
            self._keep(delay, request)

    def _agent(self, request: Request) -> str:
        """The user agent that rules are looked up by."""
        return to_unicode(self.agent_of(request) or b"*", errors="replace")

    def _keep(self, delay: float, request: Request) -> None:
        """Make the delay of the slot of *request* at least *delay* seconds."""
        key = Slots(self.crawler).key(request)
        if delay > self._most:
            self._session.warn_once(
                f"robots.txt of {key} asks for a delay of {delay:g} s; "
                f"FRONTIER_CRAWL_DELAY_MAX allows {self._most:g} s"
            )
            delay = self._most
        if self._pace.keep_floor(key, delay):
            self._counts.inc_value("frontier/robots/crawl_delays")

    # Learning the rules of hosts.

    async def _known(self, request: Request) -> Known:
        parts = urlparse_cached(request)
        origin = f"{parts.scheme}://{parts.netloc}"
        known = self._cache.get(origin)
        if (
            known is not None
            and known.until > time.monotonic()
            # after a failure, asked for again when its host is, or when all hosts are
            and (known.error is None or self._left_alone.failed(request) is None)
            and known.made > self._session.node.uplink.back_at
        ):
            return known
        fetching = self._fetching.get(origin)
        if fetching is None:
            fetching = asyncio.ensure_future(self._learn(origin, request, known))
            self._fetching[origin] = fetching
            fetching.add_done_callback(lambda _: self._fetching.pop(origin))
        return await asyncio.shield(fetching)

    async def _learn(self, origin: str, request: Request, old: Known | None) -> Known:
        """Fetch the rules of *origin* for *request*; use *old* ones if that fails."""
        now = time.monotonic()
        try:
            known = await self._judged(await self._fetch(origin, request), request)
        except Exception as error:  # noqa: BLE001 (whatever it was, there are no rules)
            if _is_given_up(error):
                known = Known(None, now + MAX_AGE, fetched=now)
            else:
                known = self._failed(origin, request, error, old)
            if not isinstance(error, IgnoreRequest):
                self._counts.inc_value(f"robotstxt/exception_count/{type(error)}")
        self._counts.inc_value("robotstxt/request_count")
        self._cache.put(origin, known)
        return known

    async def _fetch(self, origin: str, request: Request) -> Response | None:
        """Fetch robots.txt of *origin*; ``None`` after too many redirects."""
        url, passed = f"{origin}/robots.txt", list[str]()
        is_seed = self._hops.is_seed(request)
        while len(passed) <= MOST_HOPS:
            asks = Request(
                url,
                priority=self.DOWNLOAD_PRIORITY,
                meta={
                    "dont_obey_robotstxt": True,
                    "dont_redirect": True,  # always followed here
                    "allow_offsite": True,
                    "download_maxsize": MOST_FETCHED,
                    SEED: is_seed and not passed,
                    CUT: True,
                },
                headers={"Accept-Encoding": "identity"},
                callback=NO_CALLBACK,
            )
            self._session.requests.go_ahead(asks, request)
            if passed:
                asks.meta["redirect_urls"] = passed[:]
            try:
                answer = await self._download(asks)
            except (AddressRefused, Excluded) as error:
                if not passed:
                    raise
                reason = "it redirects to a host that is excluded"
                if isinstance(error, AddressRefused):
                    reason = f"it redirects to a {error.kind} address"
                raise RobotsUnreachable(reason) from None
            location = answer.headers.get(b"Location")
            if answer.status not in REDIRECTS or not location:
                return answer
            passed.append(url)
            url = urljoin(url, safe_url_string(location, encoding="latin-1"))
            if not url.startswith(("http://", "https://")):
                return None
        return None

    async def _download(self, asks: Request) -> Response:
        """Download *asks*, or its first `MOST_FETCHED` bytes."""
        if not self._under_way:  # only as long as it is needed: it costs each page
            self.crawler.signals.connect(self._cut, signals.bytes_received)
        self._under_way += 1
        try:
            answer: Response = await self.crawler.engine.download_async(asks)
            return answer
        finally:
            self._under_way -= 1
            if not self._under_way:
                self.crawler.signals.disconnect(self._cut, signals.bytes_received)

    def _cut(self, data: bytes, request: Request) -> None:
        if CUT in request.meta:
            came = self._came[request] = self._came.get(request, 0) + len(data)
            if came > MOST_FETCHED:
                raise StopDownload(fail=False)

    async def _judged(self, answer: Response | None, request: Request) -> Known:
        """What *answer* says about the host of *request*.

        Raises:
            RobotsUnreachable: It does not tell whether there are rules.
            WorkerFailed: Its rules cannot be read.
        """
        now = time.monotonic()
        until = now + MAX_AGE
        if answer is None:
            return Known(None, until, fetched=now)
        status = answer.status
        self._counts.inc_value("robotstxt/response_count")
        self._counts.inc_value(f"robotstxt/response_status_count/{status}")
        if 200 <= status < 300:
            parser, size = await self._parsed(answer, request)
            return Known(parser, until, size, now)
        if 300 <= status < 500 and status != TOO_MANY_REQUESTS:
            return Known(None, until, fetched=now)
        raise RobotsUnreachable(f"the server says {status}")

    async def _parsed(
        self, answer: Response, request: Request
    ) -> tuple[RobotParser, int]:
        body, is_all = first_part(answer.body)
        if not is_all:
            self._counts.inc_value("frontier/robots/cut")
            logger.warning(
                "%s is longer than %s bytes; only its first rules are read (RFC 9309)",
                answer.url[:200],
                f"{LIMIT:,}",
            )
        if len(body) <= INLINE:
            made = self.parse(body)
        else:
            workers = self._session.workers
            given = {"agent": self._agent(request), "url": answer.url}
            async for _ in workers.run("robots", body, given):
                pass  # shows that it can be read within the limits of a worker
            made = await asyncio.to_thread(self.parse, body)
        await tell_robots_parsed(self.crawler, made, request)
        return made, len(body)

    def _failed(
        self, origin: str, request: Request, error: Exception, old: Known | None
    ) -> Known:
        """What to take as known about *origin* if its robots.txt cannot be fetched."""
        now = time.monotonic()
        if old is not None and now - old.fetched < STALE:
            self._counts.inc_value("frontier/robots/stale")
            return Known(old.parser, now + RETRY, old.size, old.fetched)
        if isinstance(error, AddressRefused | Excluded | LeaseGone | HostGivenUp) or (
            self._left_alone.waits(request) or self._session.node.uplink.waits
        ):  # it may be tried again at once
            return Known(None, now, error=error)
        self._counts.inc_value("frontier/robots/unreachable")
        if _is_absent(error):
            return Known(None, now + RETRY_ABSENT, error=error, made=now)
        logger.warning(
            "%s/robots.txt cannot be fetched (%s): nothing else is fetched from "
            "there; it is tried again after %g s",
            origin[:200],
            _said(error),
            RETRY,
        )
        return Known(None, now + RETRY, error=error, made=now)

    def _refusal(self, request: Request, error: Exception) -> Exception:
        """The error of *request*, whose robots.txt failed with *error*."""
        if isinstance(error, AddressRefused):
            return self._hops.refusal(request, error.kind)
        if isinstance(error, PartitionLost):
            return lost(self._session, request)
        if _is_gone(error):
            self._session.requests.put_off(request)  # another node has it
        if isinstance(error, LeaseGone | Excluded | HostGivenUp) or _is_absent(error):
            return copy.copy(error)  # as the request would fail by itself
        if self._left_alone.waits(request) or self._session.node.uplink.waits:
            # the host backed off the request for robots.txt, or no host answers
            return HostBackedOff(str(error))
        parts = urlparse_cached(request)
        self._unreachable[f"{parts.scheme}://{parts.netloc}"] += 1
        reason = f"robots.txt of its host cannot be fetched: {_said(error)}"
        self._session.requests.give_up(request, reason)
        return RobotsUnreachable(reason)

    def _tell(self) -> None:
        if not self._unreachable:
            return
        logger.warning(
            "%d requests to %d hosts were not sent, as their robots.txt could not be "
            "fetched (%s); they are dead letters: frontier crawl requeue queues "
            "them again",
            self._unreachable.total(),
            len(self._unreachable),
            most_common(self._unreachable),
        )


def first_part(body: bytes) -> tuple[bytes, bool]:
    """The part of *body* that is read, and whether that is all of it.

    It ends with a line: half a rule is a different rule.
    """
    if len(body) <= LIMIT:
        return body, True
    part = body[:LIMIT]
    end = max(part.rfind(b"\n"), part.rfind(b"\r"))
    return part[: end + 1], False


def _is_given_up(error: Exception) -> bool:
    """Whether a middleware of the project refused robots.txt: that allows everything.

    That is as with Scrapy. Scrapy's own middleware refuses what becomes too large when
    its coding is undone; that does not count.
    """
    code = outcome_of(error).code
    return code in {REFUSED, ROBOTS} and "DOWNLOAD_MAXSIZE" not in str(error)


def _is_gone(error: Exception | None) -> bool:
    """Whether another node has the request that needs robots.txt; not if it waits."""
    return isinstance(error, LeaseGone) and not isinstance(error, HostBackedOff)


def _is_absent(error: Exception) -> bool:
    """Whether *error* means that there was no server."""
    return outcome_of(error, sent=False).code in {UNRESOLVED, UNCONNECTED}


def _said(error: Exception) -> str:
    """*error* in one short line."""
    text = error.reason if isinstance(error, WorkerFailed) else str(error)
    return text.partition("\n")[0][:200] or type(error).__name__
