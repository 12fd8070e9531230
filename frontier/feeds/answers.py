"""Answers of a round: what a feed, an item's page or an implied page leads to.

What always holds:

1.  The scope of a round is one hop of any kind from a feed, then at most one redirect,
    then up to `MOST_EMBEDS` embeds, one in the other. A feed itself may be redirected.
2.  A feed whose payload is what it was last, by its digest or by a 304, is not parsed.
3.  What is no feed, an error page for one, changes nothing of what is known of the feed
    but that it has failed: neither its digest nor its validators are kept.
4.  The event loop does not wait for a parser.
"""

from __future__ import annotations

import hashlib
import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.exceptions import IgnoreRequest

from frontier.download.origin import HostGivenUp, RobotsUnreachable
from frontier.download.pages import Document
from frontier.errors import NotAFeed
from frontier.feeds.items import new_items
from frontier.feeds.parse import in_worker
from frontier.feeds.rounds import (
    BACKLOG,
    DERIVED,
    FEED,
    IMPLIED,
    LINK,
    PRIORITIES,
    Place,
    Rounds,
    place_of,
)
from frontier.session.session import session_of
from frontier.status.validate import printable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping

    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from frontier.feeds.failed_pages import FailedPage
    from frontier.feeds.items import NewItems
    from frontier.feeds.parse import Item, ParsedFeed
    from frontier.feeds.round_state import FeedRecord

logger = logging.getLogger(__name__)

MOST_EMBEDS = 2
"""Embeds of one page in the other that are fetched."""
NO_ANSWER = (HostGivenUp, RobotsUnreachable)
"""What Scrapy takes for a refusal, and is the fault of a host."""
LASTING = 10
"""Failures of a page after which it is given up where no link of its feed lasts."""
SHOWN = 5
"""Pages in a line of the log."""
MOVED = (301, 308)
"""Statuses by which what is redirected has moved for good."""
VALIDATOR = 1_000
"""Longest ETag or Last-Modified that is kept, in characters."""


class Answers:
    """Reads what the sites of feeds answer to the requests of rounds."""

    def __init__(
        self, crawler: Crawler, follow: Callable[..., Any], failed: Callable[..., Any]
    ) -> None:
        self._crawler = crawler
        self._follow = follow
        """The callback of all that is no feed."""
        self._failed = failed
        """The errback of all; it calls `failed`."""
        self._session = session_of(crawler)
        self._rounds: Rounds = self._session.component(Rounds)

    async def _parsed(self, response: Response) -> ParsedFeed:
        """The feed that *response* is.

        Raises:
            NotAFeed: It is none.
        """
        content_type = (response.headers.get("Content-Type") or b"").decode("latin-1")
        return await in_worker(
            self._session.workers, response.body, content_type, response.url
        )

    def _told(
        self,
        place: Place,
        parsed: ParsedFeed,
        known: Any,
        links: Mapping[str, bytes],
    ) -> tuple[NewItems, list[str]]:
        """What *parsed* tells that is new, for all that was *known* before.

        And what is odd about it. What stands for each link is in *links*.
        """
        faults, items = list(parsed.faults), parsed.items
        if parsed.is_cut and known is not None:
            items = items[:-1]  # the whole of it comes with the whole feed
        told = new_items(items, known, links.__getitem__)
        if told.redated:
            many = told.redated
            faults.append(f"all its {many} known items have other dates: no news")
        if faults:
            said = printable("; ".join(faults))[:300]
            logger.info("the feed %s of %s: %s", place.feed, place.site, said)
        return told, faults

    async def of_feed(self, response: Response) -> AsyncIterator[Request]:
        """The requests of what is new in a feed; it is noted what is known of it."""
        request = _request_of(response)
        place = place_of(request)
        if place is None:
            return
        record, items = await self._rounds.feed_record(place)
        digest = hashlib.sha256(response.body).hexdigest()
        if response.status == 304 and record.digest:
            digest = record.digest
        elif response.status != 200:
            more = ": it is gone for good" if response.status == 410 else ""
            reason = f"it answers {response.status}{more}"
            await self._rounds.fail_feed(request, reason)
            return
        answered = replace(record.answered(int(time.time())), moved=_moved(response))
        if answered.moved and answered.moved != record.moved:
            logger.warning(
                "the feed %s of %s has moved for good to %s: configure that in its "
                "place",
                place.feed,
                place.site,
                answered.moved,
            )
        failed = await self._rounds.failed_pages(place)
        if digest == record.digest:
            self._crawler.stats.inc_value("frontier/feeds/unchanged")
            self._rounds.keep_feed(request, answered)
            for made in await self._ours(self._again(failed, place), place):
                yield made
            return
        try:
            parsed = await self._parsed(response)
        except NotAFeed as error:
            await self._rounds.fail_feed(request, str(error))
            return
        named = dict.fromkeys(item.link for item in parsed.items if item.link)
        links = {link: self._rounds.fingerprint_of(link) for link in named}
        told, faults = self._told(place, parsed, items, links)
        new = told.new
        if told.renamed:
            odd = (
                f"has other {told.renamed} at each request: its items are known without"
            )
            faults.insert(0, f"{odd} them, and are not fetched again")
            if odd not in record.remark:
                logger.warning(
                    "the feed %s of %s %s", place.feed, place.site, faults[0]
                )
        now = answered.fetched
        dates = [at for item in parsed.items for at in item.dates if at <= now]
        found = replace(
            _noted(answered, response, place),
            remark=printable("; ".join(faults))[:1_000],
            digest=digest,
            newest=max(dates, default=record.newest),
            items=record.items + len(new),
        )
        self._rounds.keep_feed(request, found, len(new), told.state)
        self._crawler.stats.inc_value("frontier/feeds/items", len(new))
        there = set(links.values())
        gone = {
            key: page
            for key, page in failed.items()
            if key not in there
            and not page.asked
            and (told.renamed != "links" or page.failures > LASTING)
        }
        self._forget(request, place, gone)
        wanted = {key: page for key, page in failed.items() if key not in gone}
        pages = await self._rounds.implied_by(place) if new else ()
        implied = (self._request(p, place._replace(kind=IMPLIED)) for p in pages)
        found_in_it = (
            *self._requests_of(new, place, is_first=items is None),
            *self._again(wanted, place),
            *implied,
        )
        for made in await self._ours(found_in_it, place):
            yield made

    async def _ours(self, requests: Iterable[Request], place: Place) -> list[Request]:
        """Those of *requests* that no other feed of the site queues, each once."""
        made = list(requests)
        left = await self._rounds.claim(place, (r.url for r in made if r.dont_filter))
        ours = []
        for request in made:
            key = self._rounds.fingerprint_of(request.url)
            if not request.dont_filter or key in left:
                ours.append(request)
            left.discard(key)
        return ours

    def _again(
        self, pages: Mapping[bytes, FailedPage], place: Place
    ) -> Iterator[Request]:
        """The requests of *pages* that this round is to ask for again."""
        for page in pages.values():
            if page.resume <= place.number:
                yield self._request(page.url, place._replace(kind=LINK))

    def _forget(
        self, request: Request, place: Place, gone: Mapping[bytes, FailedPage]
    ) -> None:
        """Ask no more for pages that the feed does not have any more, and say so."""
        self._rounds.forget_pages(request, gone)
        if gone:
            logger.warning(
                "%d pages of the feed %s could not be fetched as long as it had them, "
                "and are not asked for again: %s",
                len(gone),
                place.feed,
                ", ".join(printable(page.url) for page in list(gone.values())[:SHOWN]),
            )

    def _requests_of(
        self, items: Iterable[Item], place: Place, *, is_first: bool
    ) -> Iterator[Request]:
        """The requests of new *items*: their pages, and what feeds say these embed."""
        without = 0
        for item in items:
            if item.link:
                made = self._request(item.link, place._replace(kind=LINK))
                yield made.replace(priority=BACKLOG) if is_first else made
            without += not item.link and not item.embeds
            for url in item.embeds:
                embedded = place._replace(kind=DERIVED, embeds=1)
                yield self._request(url, embedded)
        if without:
            logger.warning(
                "%d new items of the feed %s have no link, and are not fetched",
                without,
                place.feed,
            )

    def _request(self, url: str, place: Place) -> Request:
        return Request(
            url,
            callback=self._follow,
            errback=self._failed,
            priority=PRIORITIES[place.kind],
            dont_filter=place.bypasses,
            meta=place.meta(),
        )

    async def of_page(self, response: Response) -> AsyncIterator[Request]:
        """The requests of what a page embeds, if that is in scope."""
        place = place_of(_request_of(response))
        if place is None or place.kind == FEED:
            return
        request, is_bad = _request_of(response), response.status >= 400
        reason = f"it answers {response.status}" if is_bad else ""
        await self._rounds.note_page(request, reason)
        if is_bad or place.embeds >= MOST_EMBEDS:
            return  # an error page is archived, and not what was wanted
        embedded = place._replace(kind=DERIVED, embeds=place.embeds + 1)
        async for url in Document(self._crawler, response, embeds=True).links():
            yield self._request(url, embedded)

    async def failed(self, request: Request, error: BaseException) -> None:
        """Note that a feed, or the page of an item, has no answer, because of *error*.

        A page that is not to be fetched at all, by a robots.txt for example, is none
        that has failed.
        """
        place, reason = place_of(request), str(error) or type(error).__name__
        if place is not None and place.kind == FEED:
            await self._rounds.fail_feed(request, reason)
        elif not isinstance(error, IgnoreRequest) or isinstance(error, NO_ANSWER):
            await self._rounds.note_page(request, reason)


def _noted(record: FeedRecord, response: Response, place: Place) -> FeedRecord:
    """*record* with the validators of *response*, and where it came from."""
    kept = []
    for name in ("ETag", "Last-Modified"):
        value = (response.headers.get(name) or b"").decode("latin-1")
        is_one = len(value) <= VALIDATOR and value.isprintable()
        kept.append(value if is_one else "")
    location = "" if response.url == place.feed else response.url
    if location and location != record.location:
        logger.info(
            "the feed %s of the site %s is redirected to %s",
            place.feed,
            place.site,
            printable(location),
        )
    return replace(record, etag=kept[0], modified=kept[1], location=location)


def _moved(response: Response) -> str:
    """Where the feed in *response* has moved for good; empty if it has not."""
    meta = _request_of(response).meta
    reasons = meta.get("redirect_reasons", ())
    is_moved = meta.get("redirect_urls") and all(one in MOVED for one in reasons)
    return printable(response.url) if is_moved and reasons else ""


def _request_of(response: Response) -> Request:
    request = response.request
    if request is None:
        raise ValueError(f"{response.url} came from no request")
    return request
