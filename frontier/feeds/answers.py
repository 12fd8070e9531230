"""Answers of a round: what a feed, an item's page or an implied page leads to.

What always holds:

1.  The scope of a round is one hop of any kind from a feed, then at most one redirect,
    then up to `MOST_EMBEDS` embeds, one in the other. A feed itself may be redirected.
2.  A feed whose payload is unchanged, by its digest or by a 304, is not parsed.
3.  An answer that is not a feed, such as an error page, changes nothing in what is
    known of the feed, except that it has failed: neither the answer's digest nor its
    validators are kept.
4.  A feed that answers with an error, or not at all, is asked for again in later
    rounds, less and less often; so is the page of an item as long as its feed has it.
    While its request waits for an answer, no other round asks for it for a day.
5.  The event loop does not wait for a parser.
"""

from __future__ import annotations

import hashlib
import logging
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy import Request
from scrapy.exceptions import IgnoreRequest

from frontier.download.outcomes import HostGivenUp, RobotsUnreachable
from frontier.download.pages import Document
from frontier.errors import NotAFeed
from frontier.feeds.items import NewItems, new_items
from frontier.feeds.parse import in_worker
from frontier.feeds.round_state import (
    META,
    MOST_IDS,
    FailedPage,
    FeedRecord,
    claim_call,
    failed,
    feed_field,
    note_call,
    read_config,
    read_feed,
    read_pages,
)
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
from frontier.seen.config import pack
from frontier.session.session import session_of
from frontier.status.text import counted
from frontier.status.validate import printable
from frontier.store.calls import batches
from frontier.store.client import Call

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Callable,
        Collection,
        Iterator,
        Mapping,
    )

    from scrapy.crawler import Crawler
    from scrapy.http import Response


logger = logging.getLogger(__name__)

MOST_EMBEDS = 2
"""How deep embeds are fetched, one in the other."""
NO_ANSWER = (HostGivenUp, RobotsUnreachable)
"""Errors that Scrapy takes for a refusal, but that are the fault of a host."""
LASTING = 10
"""Failures after which a page is given up if no link of its feed lasts."""
MOVED = {301, 308}
"""Statuses of redirects that say that a page has moved for good."""
VALIDATOR = 1_000
"""Longest ETag or Last-Modified that is kept, in characters."""


class Known(NamedTuple):
    """What the store knows of the feed that a request is for, or was found by."""

    request: Request
    place: Place
    record: FeedRecord
    items: bytes | None
    """What is remembered of its items; ``None`` before its first answer."""
    wait_s: int
    """Of its site."""
    implied: list[str]
    """Its implied pages."""
    pages: dict[bytes, FailedPage]
    """Pages of the site that are to be asked for again, by fingerprints."""


class Answers:
    """Reads what the sites of feeds answer to the requests of rounds."""

    def __init__(
        self, crawler: Crawler, follow: Callable[..., Any], failed: Callable[..., Any]
    ) -> None:
        self._crawler = crawler
        self._follow = follow
        """The callback of all requests but those for feeds."""
        self._failed = failed
        """The errback of all those; it calls `failed`."""
        self._session = session_of(crawler)
        self._rounds: Rounds = self._session.component(Rounds)

    async def of_feed(self, response: Response) -> AsyncIterator[Request]:
        """Yield requests for what is new in a feed, and note what is known of it."""
        request: Any = response.request
        known = await self._known(request)
        try:
            found = await self._read(response, known)
        except NotAFeed as error:
            self._fail_feed(known, f"it {error.reason}")
            return
        for made in await self._ours(found, known):
            yield made

    async def _read(self, response: Response, known: Known) -> list[Request]:
        """What a feed leads to; also note what it says.

        Raises:
            NotAFeed: It is not a feed.
        """
        place, record, status = known.place, known.record, response.status
        digest = hashlib.sha256(response.body).hexdigest()
        if status == 304 and record.digest:
            digest = record.digest
        elif status != 200:
            more = ": it is gone for good" if status == 410 else ""
            raise NotAFeed(place.feed, f"answers {status}{more}")
        reasons = known.request.meta.get("redirect_reasons") or ("no",)
        moved = printable(response.url) if MOVED.issuperset(reasons) else ""
        if moved and moved != record.moved:
            where = f"{moved}: configure that in its place"
            self._warn(place, f"has moved for good to {where}")
        record = record._replace(
            moved=moved, failures=0, resume=0, reason="", fetched=int(time.time())
        )
        pages = {k: p for k, p in known.pages.items() if p.feed == place.feed}
        if digest != record.digest:
            read = known._replace(record=record._replace(digest=digest), pages=pages)
            return await self._of_news(response, read)
        self._session.count("frontier/feeds/unchanged")
        self._note_feed(known, record)
        return self._again(pages, place)

    async def _of_news(self, response: Response, known: Known) -> list[Request]:
        """Requests for what is new in a feed that has changed.

        Raises:
            NotAFeed: It is not a feed.
        """
        headers = response.headers
        content_type = (headers.get("Content-Type") or b"").decode("latin-1")
        given = (response.body, content_type, response.url)
        parsed = await in_worker(self._session.workers, *given)
        items, record, place = list(parsed.items), known.record, known.place
        links = {item.link: self._fingerprint(item.link) for item in items if item.link}
        is_first = known.items is None
        if parsed.is_cut and not is_first:
            del items[-1:]  # it is read when the feed comes whole
        told = new_items(items, known.items, links.__getitem__)
        remark = printable("; ".join([*parsed.faults, *_oddities(told)]))
        if remark and remark != record.remark:
            self._warn(place, remark)
        dates = [at for item in items for at in item.dates if at <= record.fetched]
        record = record._replace(
            remark=remark,
            etag=_validator(response, "ETag"),
            modified=_validator(response, "Last-Modified"),
            newest=max([record.newest, *dates]),
            items=record.items + len(told.new),
        )
        there, lasts = set(links.values()), told.renamed != "links"
        gone = [
            key
            for key, page in known.pages.items()
            if key not in there
            and not page.asked
            and (lasts or page.failures > LASTING)
        ]
        urls = [known.pages.pop(key).url for key in gone]
        if urls:
            many = f"{len(urls)} pages could not be fetched as long as it had them"
            self._warn(place, f"has other items: {many}: {', '.join(urls)}")
        self._note_feed(known, record, len(told.new), told.state, gone)
        self._session.count("frontier/feeds/items", len(told.new))
        page = place._replace(kind=LINK)
        embedded = place._replace(kind=DERIVED, embeds=1)
        found = []
        for item in told.new:
            if item.link:
                made = self._request(item.link, page)
                found.append(made.replace(priority=BACKLOG) if is_first else made)
            found += [self._request(url, embedded) for url in item.embeds]
        found += self._again(known.pages, place)
        implied = place._replace(kind=IMPLIED)
        return found + [self._request(u, implied) for u in known.implied if told.new]

    async def of_page(self, response: Response) -> AsyncIterator[Request]:
        """Yield requests for what a page embeds, if that is in scope."""
        request: Any = response.request
        place = place_of(request)
        if place is None or place.kind == FEED:
            return
        is_bad = response.status >= 400
        reason = f"it answers {response.status}" if is_bad else ""
        await self._note_page(request, place, reason)
        if is_bad or place.embeds >= MOST_EMBEDS:
            return  # an error page is archived, but is not what was wanted
        embedded = place._replace(kind=DERIVED, embeds=place.embeds + 1)
        async for url in Document(self._crawler, response, embeds=True).links():
            yield self._request(url, embedded)

    async def failed(self, request: Request, error: BaseException) -> None:
        """Note that a feed, or the page of an item, was not fetched because of *error*.

        A page that must not be fetched at all, for example because of robots.txt, has
        not failed.
        """
        place, reason = place_of(request), str(error) or type(error).__name__
        if place is not None and place.kind == FEED:
            self._fail_feed(await self._known(request), reason)
        elif not isinstance(error, IgnoreRequest) or isinstance(error, NO_ANSWER):
            await self._note_page(request, place, reason)

    # What is known.

    def _fingerprint(self, url: str) -> bytes:
        """What the page at *url* is known by."""
        return self._session.fingerprints.of(Request(url))

    async def _known(self, request: Request) -> Known:
        """What is known of the feed and of the site of *request*."""
        place, keys = Place(*request.meta[META]), self._session.node.keys
        field = feed_field(place.feed)
        names = ("wait", "config", f"feed:{field}", f"items:{field}")
        (wait, config, record, items), pages = await self._session.node.run(
            [
                Call.command("HMGET", keys.site(place.site), *names),
                Call.command("HGETALL", keys.failed(place.site)),
            ]
        )
        return Known(
            request,
            place,
            read_feed(place.feed, record),
            items,
            int(wait or 0),
            read_config(config).get(place.feed, []),
            read_pages(pages),
        )

    async def _ours(self, requests: list[Request], known: Known) -> list[Request]:
        """Those of *requests* that no other feed of the site queues, each once.

        Failed pages are noted as tried before they are queued: their answers may come
        before the ack of the feed.
        """
        pages = {self._fingerprint(r.url): r for r in requests if r.dont_filter}
        ours = [r for r in requests if not r.dont_filter]
        node, place = self._session.node, known.place
        tried: list[bytes] = []
        for some in batches(list(pages), MOST_IDS):
            claim = claim_call(node.keys, place.site, place.number, place.feed, some)
            letters = await node.answer(claim)
            for key, letter in zip(some, letters.decode(), strict=True):
                if letter == "y":
                    ours.append(pages[key])
                    if page := known.pages.get(key):
                        tried += [key, pack(page.tried_in(place.number, known.wait_s))]
        if tried:
            kept = node.keys.failed(place.site)
            await node.answer(Call.command("HSET", kept, *tried))
        return ours

    def _again(self, pages: Mapping[bytes, FailedPage], place: Place) -> list[Request]:
        """Requests for those of *pages* that this round is to ask for again."""
        of_item = place._replace(kind=LINK)
        due = (page.url for page in pages.values() if page.is_due(place.number))
        return [self._request(url, of_item) for url in due]

    def _request(self, url: str, place: Place) -> Request:
        return Request(
            url,
            callback=self._follow,
            errback=self._failed,
            priority=PRIORITIES[place.kind],
            dont_filter=place.bypasses,
            meta={META: list(place)},
        )

    # What is to be noted.

    def _warn(self, place: Place, what: str) -> None:
        where = f"the feed {place.feed} of the site {place.site}"
        logger.warning("%s %s", where, printable(what))

    def _note_feed(
        self,
        known: Known,
        record: FeedRecord,
        found: int = 0,
        items: bytes | None = None,
        gone: Collection[bytes] = (),
    ) -> None:
        """Note *record*, and that *found* of its items are new, once that is acked.

        *items* is what is remembered of all items, if that changes; *gone* are pages
        that are not to be asked for any more.
        """
        keys, place = self._session.node.keys, known.place
        field = feed_field(place.feed)
        told: list[Any] = [field, found, f"feed:{field}", pack(record)]
        if items is not None:
            told += [f"items:{field}", items]
        calls = [note_call(keys, place.site, place.number, feed=told)]
        if gone:
            calls.append(Call.command("HDEL", keys.failed(place.site), *gone))
        self._rounds.keep(known.request, calls)

    def _fail_feed(self, known: Known, reason: str) -> None:
        """Note that a feed cannot be read, and log why."""
        number = known.place.number
        record = failed(known.record, reason, number, known.wait_s)
        self._session.count("frontier/feeds/failed")
        self._warn(known.place, f"cannot be read: {reason} {_times(record, number)}")
        self._note_feed(known, record)

    async def _note_page(
        self, request: Request, place: Place | None, reason: str
    ) -> None:
        """Note that the page of an item failed for *reason*; empty if it did not."""
        if place is None or place.kind != LINK:
            return
        url = next(iter(request.meta.get("redirect_urls", ())), request.url)
        key, kept = self._fingerprint(url), self._session.node.keys.failed(place.site)
        call = Call.command("HDEL", kept, key)
        if reason:
            known = await self._known(request)
            before = known.pages.get(key) or FailedPage(url, place.feed)
            page = failed(before, reason, place.number, known.wait_s)
            self._session.count("frontier/feeds/pages_failed")
            level = logging.INFO if before.failures else logging.WARNING
            what = printable(f"{url} cannot be fetched: {reason}")
            logger.log(level, "%s %s", what, _times(page, place.number))
            if not page.asked:
                call = Call.command("HSET", kept, key, pack(page))
        self._rounds.keep(request, [call])


def _oddities(told: NewItems) -> Iterator[str]:
    """What is odd about the items of a feed, as clauses for a line of the log."""
    if told.redated:
        yield f"all its {told.redated} known items have other dates: no news"
    if told.renamed:
        yield (
            f"has other {told.renamed} at each request: its items are known without "
            "them, and are not fetched again"
        )
    if without := sum(not item.link and not item.embeds for item in told.new):
        yield f"{without} new items have no link, and are not fetched"


def _times(known: FeedRecord | FailedPage, number: int) -> str:
    """How often it has failed up to the round *number*, and when it is asked again."""
    when = counted(known.resume - number, "round")
    return f"(failure {known.failures}, asked again in {when})"


def _validator(response: Response, name: str) -> str:
    value = (response.headers.get(name) or b"").decode("latin-1")
    return value if len(value) <= VALIDATOR and value.isprintable() else ""
