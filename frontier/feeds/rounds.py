"""Rounds: a node's part in the crawl of sites of feeds.

Any node begins the round of a site that is due; what of that is in the store is in
`round_state`. A request of a round has in its ``meta``, at `META`, which site and round
it is of, what it is there, and which feed it stands for.

What always holds:

1.  What is known of a feed is noted after all that it led to is queued and its record
    is on disk, but before its ack. So a feed whose items were not all queued is read
    again as if never before, and one that is killed later is noted once.
2.  No round waits for a URL: a feed that never answers is asked again after
    `UNANSWERED_S`, and the other feeds of its site go on meanwhile.
3.  Feeds, new items and implied pages bypass the seen test, once in a round, and count
    as seen from then on; so does what they are redirected to. What they embed does not.
4.  A round that was begun, and not emitted in whole, is emitted again by whichever node
    looks at it next.
5.  Nothing here compares clocks: the server says what is due.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from scrapy import Request
from typing_extensions import override

from frontier.errors import FrontierError, StoreUnavailable
from frontier.feeds.failed_pages import FailedPage, read_page, read_pages
from frontier.feeds.live_sites import LiveSites
from frontier.feeds.round_state import (
    MOST_IDS,
    MOST_PAGES,
    OURS,
    Facts,
    FeedRecord,
    claim_call,
    due_call,
    due_of,
    end_call,
    feed_field,
    note_calls,
    read_config,
    read_feed,
    take_call,
    taken_of,
    update_call,
)
from frontier.node.context import Part
from frontier.queue.push import ARE_SEEN
from frontier.requests.discovery import META as FOUND
from frontier.requests.discovery import SEED
from frontier.session.session import session_of
from frontier.status.validate import printable
from frontier.store.client import Call

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from scrapy import Spider
    from scrapy.crawler import Crawler

    from frontier.feeds.model import Site, Sites
    from frontier.feeds.round_state import Taken
    from frontier.node.node import Node
    from frontier.queue.push import Push
    from frontier.queue.reserve import Reservation

logger = logging.getLogger(__name__)

META = "frontier_round"
"""Key of ``meta``: ``[site, round, kind, feed, embeds]``."""
FEED, LINK, IMPLIED, DERIVED = "feed", "link", "implied", "derived"
"""What a request is in its round: a feed, a new item, an implied page, or what one of
these embeds."""
KINDS = (FEED, LINK, IMPLIED, DERIVED)
PRIORITIES = {FEED: 30, LINK: 20, IMPLIED: 20, DERIVED: 10}
BACKLOG = 15
"""Priority of the items of a feed that is read for the first time: what is new in later
rounds does not wait for them."""
REDIRECTS = {LINK: 1, IMPLIED: 1, DERIVED: 0}
"""Times that a request may be redirected; a feed, as often as any request."""
PAUSE = 1.0
"""Seconds between two looks for sites that are due, unless one is due before."""
LEAST_PAUSE = 0.02
FIRST_PAUSE = 0.1
"""Seconds between two looks until the configuration was read once."""
LATE_S = 10
"""A reading of the configuration that takes longer is said."""
TAKEN = 20
"""Sites that a node takes before it looks again."""
MAX_PENDING = 2_000
"""URLs that wait for the store above which a node begins no round."""
UNANSWERED_S = 3600
"""Seconds in which a feed may answer before a round asks for it again. Other feeds do
not wait for it: so it need but be longer than any back-off that a server asks for as a
rule, and shorter than a day, of which most sites have rounds."""
CLOSE_TIMEOUT = 10.0
"""Seconds that a closing node waits for the round that it is emitting."""


class Place(NamedTuple):
    """What a request is in a round."""

    site: str
    number: int
    kind: str
    feed: str
    """The URL, as it is configured, of the feed that it is or was found in."""
    embeds: int = 0
    """How many pages it is embedded in, one in the other."""

    def meta(self) -> dict[str, Any]:
        """What a request of this place has in its ``meta``."""
        return {META: list(self)}

    @property
    def bypasses(self) -> bool:
        """Whether it is fetched whether it was seen or not."""
        return self.kind != DERIVED


def place_of(request: Request) -> Place | None:
    """What *request* is in a round; ``None`` if it is of none, or says so wrongly."""
    match request.meta.get(META):
        case [str(), int(), str(kind), str(), int(embeds)] if (
            kind in KINDS and embeds >= 0
        ):
            return Place(*request.meta[META])
    return None


def admitted(request: Request) -> Place | None:
    """The place of *request*, which is about to be queued.

    It is redirected no more often than its round follows.
    """
    place = place_of(request)
    if place is not None and place.kind in REDIRECTS:
        request.meta.setdefault("redirect_ttl", REDIRECTS[place.kind])
    return place


class Rounds(Part):
    """Begins, accounts for and ends rounds, on one node.

    Built by `Session.component`; it does nothing before `open`.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._session = session_of(crawler)
        self._told_sites: Mapping[str, Site] = {}
        """The reading of the configuration that the store was told last."""
        self._told: dict[str, Site] = {}
        """What of the configuration this node has told the store."""
        self._fault = ""
        self._is_told = False
        """Whether the store has the whole configuration."""
        self._is_late = False
        """Whether it was said that the configuration does not answer."""
        self._facts: dict[tuple[str, int], Facts] = defaultdict(Facts)
        self._known: WeakKeyDictionary[Request, list[Any]] = WeakKeyDictionary()
        """What is to be noted of feeds when their requests are done with."""
        self._pages: WeakKeyDictionary[Request, list[tuple[bytes, bytes]]] = (
            WeakKeyDictionary()
        )
        """The same of items' pages that failed, or do not any more."""
        self._done: dict[
            tuple[int, int, int], tuple[Place, list[Any], list[tuple[bytes, bytes]]]
        ] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def open(self, node: Node, spider: Spider, sites: Sites) -> None:
        """Begin to look for what is due."""
        self._node, self._spider = node, spider
        self._live = LiveSites(sites, node.config.feeds_refresh)
        self._keys = node.keys
        node.parts.add(self)  # last of all, see `before_ack`
        self._live.start()
        self._task = asyncio.create_task(self._run())

    @override
    def busy(self) -> bool:
        """Whether rounds are still to begin: the crawl has not ended then."""
        return self._task is not None and not self._stopped.is_set()

    def stop(self) -> None:
        """Begin nothing more."""
        self._stopped.set()

    async def close(self) -> None:
        """Stop, and wait for what is being emitted."""
        self.stop()
        self._live.stop()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=CLOSE_TIMEOUT)
            self._task.cancel()

    async def _run(self) -> None:
        """Look for what is due, until stopped."""
        while not self._stopped.is_set():
            pause = PAUSE
            try:
                if self._crawler.engine.running:  # else nothing can be emitted
                    await self._configure()
                    pause = await self._look()
                    await self._tell()
                    if not self._live.was_read and not self._fault:
                        pause = min(pause, FIRST_PAUSE)
            except StoreUnavailable:
                pass  # the node says so
            except FrontierError as error:
                self._node.fail(error)
                return
            except Exception as error:
                logger.exception("the rounds of this node cannot go on")
                self._node.fail(error)
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stopped.wait()

    # The configuration.

    async def _configure(self) -> None:
        """Tell the store what has changed in the configuration, if it was read."""
        is_late = self._live.takes_s > LATE_S
        if is_late and not self._is_late:
            logger.error(
                "%s has not answered for %d s; the crawl goes on with the sites that "
                "it has",
                self._live.where,
                LATE_S,
            )
        self._is_late = is_late
        if not self._live.was_read:
            if self._live.fault != self._fault:
                logger.error(
                    "%s; the crawl goes on with the sites that the store has",
                    self._live.fault,
                )
            self._fault = self._live.fault
            return
        sites = self._live.sites
        if self._is_told and sites is self._told_sites:
            return
        first = not self._is_told
        if first or sites.keys() != self._told.keys():
            await self._end_those_gone(sites)
        changed = [site for name, site in sites.items() if self._told.get(name) != site]
        for at in range(0, len(changed), MOST_IDS):
            some = changed[at : at + MOST_IDS]
            replies = await self._node.run([update_call(self._keys, s) for s in some])
            count = sum(reply != b"same" for reply in replies)
            if count:
                logger.info("%d sites are new or changed", count)
            self._told.update((site.name, site) for site in some)
        self._is_told, self._told_sites = True, sites

    async def _end_those_gone(self, sites: Mapping[str, Site]) -> None:
        known = Call.command("ZRANGE", self._keys.sites(), 0, -1)
        (members,) = await self._node.run([known])
        names = {name.decode("utf-8", "surrogateescape") for name in members}
        gone = sorted(names - sites.keys())
        replies = await self._node.run([end_call(self._keys, name) for name in gone])
        for name, reply in zip(gone, replies, strict=True):
            if reply != b"same":
                shown = printable(name)
                logger.info("the site %s is not configured any more: it ends", shown)
        for name in self._told.keys() - sites.keys():
            del self._told[name]

    # What is due.

    async def _look(self) -> float:
        """Take sites that are due; return for how long there is nothing to do."""
        if self._node.paused or self._node.outbox.pending > MAX_PENDING:
            return PAUSE
        (reply,) = await self._node.run([due_call(self._keys, TAKEN)])
        due = due_of(reply)
        if due.now >= self._node.end_of_crawl.until:
            logger.info("no round begins any more: FRONTIER_RECRAWL_UNTIL is over")
            self.stop()
            return 0.0
        for name in due.names:
            if self._stopped.is_set():
                return 0.0
            await self._take(name)
        if due.names:
            return LEAST_PAUSE
        wait = (due.next - due.now) / 1000 if due.next >= 0 else PAUSE
        return min(max(wait, LEAST_PAUSE), PAUSE)

    async def _take(self, name: str) -> None:
        look_ms = int(self._node.config.lease_ttl * 1000)
        call = take_call(self._keys, name, look_ms=look_ms, idle=self._is_idle(name))
        (reply,) = await self._node.run([call])
        taken = taken_of(reply)
        if taken is not None:
            await self._emit(name, taken)

    def _is_idle(self, name: str) -> bool:
        """Whether *name* has no feed that may be fetched, so that no round begins."""
        known = self._live.sites.get(name)
        return known is not None and all(self._excludes(f.url) for f in known.feeds)

    def _excludes(self, url: str) -> bool:
        known = self._session.exclusions
        return known is not None and known.why(url) is not None

    async def _emit(self, name: str, taken: Taken) -> None:
        """Queue all feeds of a site that are not left out, and then say so.

        Left out are those that failed, those that an operator has excluded, and those
        that an earlier round still waits for.
        """
        fields = [
            f"{what}:{feed_field(url)}"
            for url, _ in taken.feeds
            for what in ("feed", "at", "asked")
        ]
        found: list[bytes | None] = []
        if fields:
            read = Call.command("HMGET", self._keys.site(name), *fields)
            (found,) = await self._node.run([read])
        asked = []
        for number, (url, _) in enumerate(taken.feeds):
            packed, at, was_asked = found[3 * number : 3 * number + 3]
            known = read_feed(url, packed)
            is_waited_for = self._is_waited_for(at, was_asked, taken.now_ms)
            if known.resume > taken.number or is_waited_for or self._excludes(url):
                self._crawler.stats.inc_value("frontier/feeds/left_out")
                continue
            place = Place(name, taken.number, FEED, url)
            self._crawler.engine.crawl(self._feed_request(place, known))
            asked.append(feed_field(url))
        await self._node.outbox.flush()
        self._facts[name, taken.number].asked = asked
        await self._tell()
        self._crawler.stats.inc_value("frontier/feeds/rounds")
        count = len(asked)
        told = logging.INFO if count else logging.DEBUG
        many = f"{count} feed{'s' * (count != 1)}"
        logger.log(told, "round %d of the site %s: %s", taken.number, name, many)

    def _is_waited_for(
        self, at: bytes | None, asked: bytes | None, now_ms: int
    ) -> bool:
        """Whether a feed that was asked for has not answered, and may still do so.

        *at* is the round in which it answered last; *asked* that which has asked for
        it, and when.
        """
        if asked is None:
            return False
        number, asked_ms = map(int, asked.split(b" "))
        is_late = now_ms - asked_ms >= UNANSWERED_S * 1000
        return number > int(at or 0) and not is_late

    def _feed_request(self, place: Place, known: FeedRecord) -> Request:
        headers: dict[str, str] = {}
        if not self._node.config.revisit_conditional_get:  # which asks by itself
            if known.etag:
                headers["If-None-Match"] = known.etag
            if known.modified:
                headers["If-Modified-Since"] = known.modified
        spider: Any = self._spider
        return Request(
            place.feed,
            callback=spider.parse_feed,
            errback=spider.feed_failed,
            headers=headers,
            priority=PRIORITIES[FEED],
            dont_filter=True,
            meta={**place.meta(), FOUND: SEED},
        )

    # What becomes of requests.

    async def claim(self, place: Place, urls: Iterable[str]) -> set[bytes]:
        """Which pages at *urls* the feed of *place* is to queue, by fingerprint.

        Not those that another feed of its site queues in the same round.
        """
        pages = list(dict.fromkeys(map(self.fingerprint_of, urls)))
        ours: set[bytes] = set()
        for first in range(0, len(pages), MOST_IDS):
            some = pages[first : first + MOST_IDS]
            call = claim_call(self._keys, place.site, place.number, place.feed, some)
            (letters,) = await self._node.run([call])
            ours |= {
                page
                for page, letter in zip(some, letters.decode(), strict=True)
                if letter == OURS
            }
        return ours

    @override
    def stored(self, pushes: Sequence[Push], verdicts: str) -> None:
        """The store has queued the requests of *pushes*, or not, as they were seen."""
        for push, verdict in zip(pushes, verdicts, strict=True):
            if push.tag is None or (place := place_of(push.tag)) is None:
                continue
            if verdict not in ARE_SEEN:
                self._facts[place.site, place.number].urls += 1

    def complete(self, request: Request, reservation: Reservation) -> None:
        """*request* is over; it is noted when *reservation* is about to be acked."""
        place = place_of(request)
        if place is not None:
            known, pages = self._known.pop(request, []), self._pages.pop(request, [])
            self._done[reservation.key] = (place, known, pages)

    @override
    async def before_ack(self, reservations: Iterable[Reservation]) -> None:
        """Note that what stood on *reservations* is done with; before they are acked.

        What they led to is in the store by now, and their records are on disk.
        """
        for reservation in reservations:
            if (found := self._done.pop(reservation.key, None)) is None:
                continue
            place, known, pages = found
            facts = self._facts[place.site, place.number]
            facts.urls -= 1
            facts.pages += pages
            if known:
                facts.feeds.append(known)
        await self._tell()

    async def _tell(self) -> None:
        """Send the store what it has not been told."""
        telling, self._facts = self._facts, defaultdict(Facts)
        calls = [
            call
            for (site, number), facts in telling.items()
            for call in note_calls(self._keys, site, number, facts)
        ]
        if calls:
            await self._node.run(calls)

    # What is known of feeds.

    async def feed_record(self, place: Place) -> tuple[FeedRecord, bytes | None]:
        """The record of the feed of *place*, and what is known of its items."""
        field = feed_field(place.feed)
        names = (f"feed:{field}", f"items:{field}")
        read = Call.command("HMGET", self._keys.site(place.site), *names)
        ((record, items),) = await self._node.run([read])
        return read_feed(place.feed, record), items

    async def implied_by(self, place: Place) -> list[str]:
        """The implied pages of the feed of *place*."""
        read = Call.command("HGET", self._keys.site(place.site), "config")
        (packed,) = await self._node.run([read])
        return dict(read_config(packed)).get(place.feed, [])

    def keep_feed(
        self,
        request: Request,
        record: FeedRecord,
        found: int = 0,
        items: bytes | None = None,
    ) -> None:
        """Have *record* be what is known of a feed, once *request* is done with.

        *found* of its items are new; *items* is what is known of all, if that changes.
        """
        field = feed_field(record.url)
        known: list[Any] = [field, found, f"feed:{field}", record.packed()]
        if items is not None:
            known += [f"items:{field}", items]
        self._known[request] = known

    async def fail_feed(self, request: Request, reason: str) -> None:
        """Note that the feed that *request* asked for cannot be had, and say why."""
        place = place_of(request)
        if place is None:
            return
        record, _ = await self.feed_record(place)
        failed = record.failed(reason, place.number, await self._wait_of(place))
        self._crawler.stats.inc_value("frontier/feeds/failed")
        skipped = failed.resume - place.number - 1
        logger.warning(
            "the feed %s of the site %s cannot be read: %s (failure %d; %s)",
            place.feed,
            place.site,
            printable(reason),
            failed.failures,
            f"left out of the next {skipped} round{'s' * (skipped != 1)}"
            if skipped
            else "asked again",
        )
        self.keep_feed(request, failed)

    def turns_back(self, request: Request) -> bool:
        """Whether a feed redirects to itself: it has failed then, and is not asked."""
        place = place_of(request)
        is_back = request.url in request.meta.get("redirect_urls", ())
        if place is None or place.kind != FEED or not is_back:
            return False
        task = asyncio.create_task(self._fail_now(request, place))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def _fail_now(self, request: Request, place: Place) -> None:
        """Note that a feed has failed of which no request is left to be done with."""
        await self.fail_feed(request, "it redirects to itself")
        self._facts[place.site, place.number].feeds.append(self._known.pop(request))

    async def _wait_of(self, place: Place) -> int:
        """Seconds between two rounds of the site of *place*; 0 if it is not known."""
        read = Call.command("HGET", self._keys.site(place.site), "wait")
        (wait,) = await self._node.run([read])
        return int(wait) if wait and wait.isdigit() and len(wait) < 10 else 0

    # What is known of items' pages that failed.

    def fingerprint_of(self, url: str) -> bytes:
        """What the page at *url* is known by."""
        return self._session.fingerprints.of(Request(url))

    async def failed_pages(self, place: Place) -> dict[bytes, FailedPage]:
        """The pages of items of the feed of *place* that are to be asked for again."""
        read = Call.command("HGETALL", self._keys.failed(place.site))
        (found,) = await self._node.run([read])
        pages = read_pages(found)
        if len(pages) >= MOST_PAGES:
            logger.warning(
                "%d pages of the site %s have failed; what fails beyond is not asked "
                "for again",
                len(pages),
                place.site,
            )
        return {key: page for key, page in pages.items() if page.feed == place.feed}

    def forget_pages(self, request: Request, pages: Mapping[bytes, FailedPage]) -> None:
        """Have *pages* not be asked for again, once *request* is done with."""
        self._pages[request] = [(key, b"") for key in pages]

    async def note_page(self, request: Request, reason: str) -> None:
        """Note that the page of an item was not had for *reason*; empty: it was had."""
        place = place_of(request)
        if place is None or place.kind != LINK:
            return
        url = next(iter(request.meta.get("redirect_urls", ())), request.url)
        key = self.fingerprint_of(url)
        if not reason:
            self._pages[request] = [(key, b"")]
            return
        read = Call.command("HGET", self._keys.failed(place.site), key)
        (packed,) = await self._node.run([read])
        known = read_page(packed) or FailedPage(url, place.feed)
        failed = known.failed(reason, place.number, await self._wait_of(place))
        self._crawler.stats.inc_value("frontier/feeds/pages_failed")
        skipped = failed.resume - place.number - 1
        when = f"after {skipped} rounds" if skipped else "in the next round"
        logger.log(
            logging.INFO if known.failures else logging.WARNING,
            "%s of the site %s cannot be fetched: %s (failure %d; asked for again %s)",
            printable(url),
            place.site,
            printable(failed.reason),
            failed.failures,
            when if not failed.asked else "if an operator says so",
        )
        self._pages[request] = [(key, b"" if failed.asked else failed.packed())]


def rounds_of(crawler: Crawler, node: Node, spider: Spider) -> Rounds | None:
    """The rounds of *spider*, if it has sites of feeds: a ``feed_sites``."""
    sites = getattr(spider, "feed_sites", None)
    if sites is None:
        return None
    rounds = session_of(crawler).component(Rounds)
    rounds.open(node, spider, sites)
    return rounds
