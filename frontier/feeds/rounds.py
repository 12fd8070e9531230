"""Rounds: a node's part in the crawl of sites of feeds.

Any node may begin the round of a site that is due; `round_state` has what the store
knows of rounds. A request of a round has a `Place` in its ``meta``, at `META`: which
site and round it belongs to, what it is there, and for which feed.

What always holds:

1.  What is known of a feed is noted in the store after all that it led to is queued and
    its record is on disk, but before its ack. So a feed whose items were not all queued
    is read again as if for the first time, and one that is killed later is noted once.
2.  No round waits for a URL: a feed that never answers is asked for again after
    `UNANSWERED_S`, and the other feeds of its site go on meanwhile.
3.  Feeds, new items and implied pages bypass the seen test, once in a round, and count
    as seen from then on; so do the URLs that they redirect to. What they embed does not
    bypass it.
4.  A round that was begun, but not emitted as a whole, is emitted again by whichever
    node looks at it next.
5.  Nothing here compares clocks: the server says what is due.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy import Request, Spider
from typing_extensions import override

from frontier.feeds.round_state import (
    META,
    MOST_IDS,
    FeedRecord,
    Taken,
    due_call,
    feed_field,
    note_call,
    read_feed,
    take_call,
    taken_of,
    update_call,
)
from frontier.queue.push import MARK
from frontier.requests.discovery import META as FOUND, SEED
from frontier.requests.left_out import LeftOut
from frontier.session.emitter import PAUSE, Emitter
from frontier.session.session import session_of
from frontier.settings.live_source import Live
from frontier.status.text import counted, first_of
from frontier.store.calls import batches
from frontier.store.client import Call

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from scrapy.crawler import Crawler

    from frontier.feeds.model import Site, Sites
    from frontier.node.delivery import Delivery, Link
    from frontier.node.node import Node
    from frontier.queue.reserve import Reservation

logger = logging.getLogger(__name__)

FEED, LINK, IMPLIED, DERIVED = "feed", "link", "implied", "derived"
"""What a request is in its round: a feed, a new item, an implied page, or what one of
these embeds."""
PRIORITIES = {FEED: 20, LINK: 30, IMPLIED: 30, DERIVED: 10}
"""What was found goes before what is asked for again: otherwise, on a host that is
slower than the waits of its feeds, no item would get its turn."""
BACKLOG = 15
"""Priority of the items of a feed that is read for the first time: what is new in later
rounds does not wait for them."""
REDIRECTS = {FEED: 5, LINK: 1, IMPLIED: 1, DERIVED: 0}
"""How often a request may be redirected."""
LEAST_PAUSE = 0.02
TAKEN = 20
"""Sites that a node takes before it looks again."""
MAX_PENDING = 2_000
"""URLs in a node's outbox above which it begins no round."""
UNANSWERED_S = 3600
"""Seconds in which a feed may answer before a round asks for it again. Other feeds do
not wait for it, so this only has to be longer than the back-offs that servers usually
ask for, and shorter than a day, in which most sites have rounds."""


class Place(NamedTuple):
    """What a request is in a round."""

    site: str
    number: int
    kind: str
    feed: str
    """The URL, as it is configured, of the feed that it is or was found in."""
    embeds: int = 0
    """How deep it is embedded: in how many pages, one in the other."""

    @property
    def bypasses(self) -> bool:
        """Whether it is fetched even if it was seen."""
        return self.kind != DERIVED


def place_of(request: Request) -> Place | None:
    """The place of *request* in a round; ``None`` if it belongs to none."""
    found = request.meta.get(META)
    return None if found is None else Place(*found)


class Rounds(Emitter):
    """Begins and accounts for rounds, on one node.

    Built by `Session.component`; it does nothing before `open`.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._session = session_of(crawler)
        self._told: Mapping[str, Site] = {}
        """The configuration that the store was last told."""

    def open(self, node: Node, spider: Spider, sites: Sites) -> None:
        """Begin to look for rounds that are due."""
        self._spider = spider
        self._live = Live(sites, node.config.feeds_refresh)
        self._keys = node.keys
        self._live.start()
        self.start_looking(self._crawler, node)

    @override
    def busy(self) -> bool:
        """Whether rounds may still begin, so that the crawl has not ended."""
        return not self._stopped.is_set()

    @override
    async def quit(self) -> None:
        """Stop, and wait for what is being emitted."""
        self._live.stop()
        await super().quit()

    @override
    async def look(self) -> float:
        """Begin the rounds that are due; return the seconds until the next look."""
        await self._configure()
        return await self._look()

    # The configuration.

    async def _configure(self) -> None:
        """Tell the store what has changed in the configuration, if that was read."""
        sites, before = self._live.value, self._told
        if sites is None or sites is before:
            return
        members = await self._node.answer(
            Call.command("ZRANGE", self._keys.sites, 0, -1)
        )
        gone = sorted({name.decode() for name in members} - sites.keys())
        changed = [n for n, site in sites.items() if site != before.get(n)]
        for some in batches([*gone, *changed], MOST_IDS):
            replies = await self._node.run(
                [update_call(self._keys, name, sites.get(name)) for name in some]
            )
            told = zip(some, replies, strict=True)
            names = [name for name, reply in told if reply != b"same"]
            if names:
                what = counted(len(names), "site")
                logger.info("%s begin, change or end: %s", what, first_of(names, 5))
        self._told = sites

    # What is due.

    async def _look(self) -> float:
        """Take sites that are due; return the seconds until there is more to do."""
        if self._node.controls.paused or self._node.outbox.pending > MAX_PENDING:
            return PAUSE
        reply = await self._node.answer(due_call(self._keys, TAKEN))
        due, first = reply or ((), ())
        now = self._node.clock()
        if now >= self._node.end_of_crawl.until:
            logger.info("no further round begins: FRONTIER_RECRAWL_UNTIL has passed")
            self.stop()
        look_ms = int(self._node.config.lease_ttl * 1000)
        for name in map(bytes.decode, due):
            if self._stopped.is_set():
                break
            reply = await self._node.answer(take_call(self._keys, name, look_ms))
            if taken := taken_of(reply):
                await self._emit(name, taken)
        if due:
            return LEAST_PAUSE
        wait = (float(first[1]) - now) / 1000 if first else PAUSE
        return min(max(wait, LEAST_PAUSE), PAUSE)

    async def _emit(self, name: str, taken: Taken) -> None:
        """Queue all feeds of a site that are not left out, and then tell the store.

        Left out are feeds that have failed and are not due again, that an operator has
        excluded, or that may still answer to an earlier round.
        """
        fields = [
            f"{what}:{feed_field(url)}"
            for url in taken.feeds
            for what in ("feed", "at", "asked")
        ]
        read = Call.command("HMGET", self._keys.site(name), *(fields or ["feed"]))
        found = await self._node.answer(read)
        asked = []
        exclusions = self._session.component(LeftOut).exclusions
        for number, url in enumerate(taken.feeds):
            packed, at, was_asked = found[3 * number : 3 * number + 3]
            known = read_feed(url, packed)
            is_out = exclusions is not None and exclusions.why(url) is not None
            # It was asked for, has not answered since, and may still do so.
            round_, asked_ms = map(int, (was_asked or b"0 0").split(b" "))
            age_ms = taken.now_ms - asked_ms
            is_waited_for = round_ > int(at or 0) and age_ms < UNANSWERED_S * 1000
            if known.resume > taken.number or is_waited_for or is_out:
                self._crawler.stats.inc_value("frontier/feeds/left_out")
                continue
            place = Place(name, taken.number, FEED, url)
            self._crawler.engine.crawl(self._feed_request(place, known))
            asked.append(feed_field(url))
        await self._node.outbox.flush()
        note = note_call(self._keys, name, taken.number, asked=asked)
        await self._node.answer(note)
        self._crawler.stats.inc_value("frontier/feeds/rounds")
        level = logging.INFO if asked else logging.DEBUG
        what = counted(len(asked), "feed")
        logger.log(level, "round %d of the site %s: %s", taken.number, name, what)

    def _feed_request(self, place: Place, known: FeedRecord) -> Request:
        headers = {"If-None-Match": known.etag, "If-Modified-Since": known.modified}
        asks_by_itself = self._node.config.revisit_conditional_get
        spider: Any = self._spider
        return Request(
            place.feed,
            callback=spider.parse_feed,
            errback=spider.feed_failed,
            headers={k: v for k, v in headers.items() if v and not asks_by_itself},
            priority=PRIORITIES[FEED],
            dont_filter=True,
            meta={META: list(place), FOUND: SEED},
        )

    # What becomes of requests.

    @override
    def link(self, link: Link) -> bool:
        """Mark *link* as seen if its place bypasses the seen test.

        Also limit how often it is redirected, by its place.
        """
        place = place_of(link.request)
        if place is not None:
            link.request.meta.setdefault("redirect_ttl", REDIRECTS[place.kind])
            if place.bypasses:
                link.mode = MARK
        return True

    def keep(self, request: Request, calls: list[Call]) -> None:
        """Make *calls* once *request* is done with."""
        if (delivery := self._session.requests.delivery(request)) is not None:
            delivery.notes[Rounds] = calls

    @override
    async def before_ack(self, reservations: Iterable[Reservation]) -> None:
        """Note in the store that *reservations* are done with, before they are acked.

        What they led to is in the store by now, and their records are on disk.
        """
        calls: list[Call] = []
        for reservation in reservations:
            delivery: Delivery = reservation.delivery
            if delivery.again is None:
                calls += delivery.notes.pop(Rounds, ())
        if calls:
            await self._node.run(calls)
