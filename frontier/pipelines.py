"""Item pipelines: they say where an item's response is archived, and drop doubles."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import secrets
from typing import TYPE_CHECKING, Any, NoReturn
from weakref import WeakKeyDictionary

from itemadapter import ItemAdapter
from scrapy import Request, Spider, signals
from scrapy.exceptions import DropItem, NotConfigured
from scrapy.utils.misc import load_object

from frontier.errors import StoreError, WriterStopped
from frontier.item_files import mark_of
from frontier.session.session import OfCrawler, session_of
from frontier.store.client import Call

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.settings import BaseSettings

    from frontier.model import Stored

logger = logging.getLogger(__name__)


def feed_uri_params(params: dict[str, Any], spider: Spider) -> dict[str, Any]:
    """Return *params*, which URIs in ``FEEDS`` may name, with ``frontier_node`` added.

    The add-on sets it as ``FEED_URI_PARAMS``, unless the project has its own.
    """
    return {**params, "frontier_node": session_of(spider.crawler).config.node_id}


class ItemOriginMiddleware(OfCrawler):
    """Notes which request each item came from, for our pipelines, and in the item.

    It is a spider middleware because item pipelines do not learn that. Unless one of
    our pipelines or ``FRONTIER_ITEM_ORIGIN_FIELD`` needs it, it is left out: it would
    cost each item as much as Scrapy's own work.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._session = session_of(crawler)
        self._told = False
        self._field = self._session.config.item_origin_field
        asked = _names(crawler.settings, WarcPipeline, UniqueItemsPipeline)
        if not asked and not self._field:
            raise NotConfigured
        self._origins = origins_of(crawler)

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        """Note the origin of each item of *result*."""
        async for each in result:
            if each is not None and not isinstance(each, Request):
                self._origins.note(each, response.request)
                if self._field and response.request is not None:
                    self._tell(each, response.request)
            yield each

    def _tell(self, item: Any, request: Request) -> None:
        """Write into *item* which page it is from, and which delivery of that."""
        origin = self._origins.delivery(request)
        if origin is None:
            return
        try:
            ItemAdapter(item)[self._field] = origin
        except (KeyError, AttributeError, TypeError):
            if not self._told:
                logger.warning(
                    "%s has no field %s for its origin (shown once; the stat "
                    "frontier/items/without_origin counts such items)",
                    type(item).__name__,
                    self._field,
                )
            self._told = True
            self._session.count("frontier/items/without_origin")


WARC_FIELD = "warc"
"""The field of an item that `WarcPipeline` fills."""


class WarcPipeline(OfCrawler):
    """Tells each item where its response is archived, in the item's field ``warc``.

    The field is a dict: ``file`` (name of the WARC file), ``offset`` and ``length``
    (of the record, in bytes), ``record_id``, ``date`` (WARC-Date), ``payload_digest``
    (``sha256:<hex>``) and ``type``, which is ``response`` or ``revisit``. A revisit has
    ``refers_to`` too, a dict with the ``url``, ``date`` and ``crawl_id`` of the
    original. Items that have no such field, or whose response is not archived, pass
    unchanged. Put it before pipelines that replace items. Each item waits until its
    record is on disk.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._session = session_of(crawler)
        self._origins = origins_of(crawler)
        self._origins.want()
        if not _names(crawler.settings, WarcPipeline):
            logger.warning(
                "items do not learn where their responses are archived: put "
                "frontier.pipelines.WarcPipeline, or a class derived from it, in "
                "ITEM_PIPELINES"
            )
        self._field = WARC_FIELD

    async def process_item(self, item: Any) -> Any:
        """Add the dict to *item*, if its response was archived.

        Raises:
            DropItem: The node ends, and its archive cannot be written.
        """
        request = self._origins.take(item)
        if request is None:
            return item
        future = self._session.requests.known(request).stored
        if future is None:
            return item
        try:
            stored = await asyncio.wrap_future(future)
        except WriterStopped as error:  # its page is not acked, and fetched again
            raise DropItem(str(error), log_level="DEBUG") from error
        try:
            ItemAdapter(item)[self._field] = stamp(stored)
        except (KeyError, AttributeError):
            logger.debug("%s has no field %s", type(item).__name__, self._field)
        return item


class UniqueItemsPipeline(OfCrawler):
    """Drops items with an id that another page of the crawl has given, on any node.

    The id is in the field that ``FRONTIER_ITEM_ID_FIELD`` names; an item without it is
    passed on. Put the pipeline after those that drop items for other reasons.

    1.  An item is dropped only if another page gave its id, or the same callback did
        before. If a page is fetched again after a kill, its items are not dropped:
        nobody knows whether the first ones are in the feed.
    2.  While the store does not answer, items wait here, and their pages are not done.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._session = session_of(crawler)
        self._told = False
        self._origins = origins_of(crawler)
        self._origins.want()
        self._field = self._session.config.item_id_field
        self._given: WeakKeyDictionary[Request, set[bytes]] = WeakKeyDictionary()
        """The ids that the page of each request has given."""

    async def process_item(self, item: Any) -> Any:
        """Pass *item* on.

        Raises:
            DropItem: Another page has given an item with its id.
        """
        request = self._origins.take(item)
        value = ItemAdapter(item).get(self._field)
        if value is None:
            self._note_without(item)
            return item
        digest = _digest_of(value)
        given = set() if request is None else self._given.setdefault(request, set())
        if digest in given:
            self._drop(value)
        given.add(digest)
        page = self._origins.page(request) or secrets.token_bytes(16)
        if await self._claim(digest, page) not in {page, b""}:
            self._drop(value)
        return item

    async def _claim(self, digest: bytes, page: bytes) -> bytes:
        """The mark of the page that gave *digest* first; empty if the crawl is gone.

        Raises:
            DropItem: The node has given up waiting for the store, and ends.
            StoreError: The store cannot be asked; this node ends.
        """
        node = self._session.node
        number = int.from_bytes(digest[:4]) % node.config.partitions
        keys = node.keys.partition(number)
        is_there = [(("HGET", keys.counts, "born"), node.keys.born)]
        note = [("HSETNX", keys.items, digest, page), ("HGET", keys.items, digest)]
        try:
            found = await node.answer(Call.txn(is_there, note))
        except StoreError as error:
            if node.leaving.given_up.is_set():  # then nothing is acked any more
                raise DropItem(str(error), log_level="DEBUG") from error
            node.fail(error)  # Scrapy only logs it, and the page would be acked
            raise
        owner: bytes = found[-1] if found else b""
        return owner

    def _drop(self, value: Any) -> NoReturn:
        self._session.count("frontier/items/doubles")
        raise DropItem(
            f"another page has given an item with {self._field} = {str(value)[:80]!r}"
        )

    def _note_without(self, item: Any) -> None:
        if not self._told:
            logger.warning(
                "an item has no %s and is passed on: %s (shown once; the stat "
                "frontier/items/without_id counts them)",
                self._field,
                type(item).__name__,
            )
        self._told = True
        self._session.count("frontier/items/without_id")


def _digest_of(value: Any) -> bytes:
    """16 bytes that stand for *value*, the same in all processes."""
    text = json.dumps(value, sort_keys=True, default=str, ensure_ascii=True)
    return hashlib.sha256(text.encode()).digest()[:16]


def stamp(stored: Stored) -> dict[str, Any]:
    """Where an item's response is archived, as the item's field says it."""
    facts: dict[str, Any] = {
        "file": stored.file,
        "offset": stored.offset,
        "length": stored.length,
        "record_id": stored.record_id,
        "date": stored.date,
        "payload_digest": stored.payload_digest,
        "type": "response" if stored.original is None else "revisit",
    }
    if stored.original is not None:
        facts["refers_to"] = {
            "url": stored.original.url,
            "date": stored.original.date,
            "crawl_id": stored.original.crawl_id,
        }
        if stored.original.source:
            facts["refers_to"]["cdx_server"] = stored.original.source
    return facts


class Origins:
    """The request that each item under way came from, by the item's identity."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._session = session_of(crawler)
        self._deliveries: WeakKeyDictionary[Request, str] = WeakKeyDictionary()
        self._wanted = 0
        self._noted: dict[int, tuple[Any, Request, int]] = {}

    def want(self) -> None:
        """Keep what is noted from now on, for one more caller of `take`."""
        self._wanted += 1
        if self._wanted > 1:
            return
        for signal in (signals.item_scraped, signals.item_dropped, signals.item_error):
            self._crawler.signals.connect(self._forget, signal=signal)

    def note(self, item: Any, request: Request | None) -> None:
        """Remember that *item* came from *request*'s response."""
        if self._wanted and request is not None:
            # The item is kept with it, so that its identity is not used again.
            self._noted[id(item)] = (item, request, self._wanted)

    def take(self, item: Any) -> Request | None:
        """The request that *item* came from; forgotten once all takers have it."""
        known, request, left = self._noted.pop(id(item), (None, None, 0))
        if request is not None and left > 1:
            self._noted[id(item)] = (known, request, left - 1)
        return request

    def page(self, request: Request | None) -> bytes | None:
        """The mark of *request* in the crawl, 16 bytes, the same on each delivery.

        `None` if it did not come from the store, nor from a request that did.
        """
        if request is None:
            return None
        delivery = self._session.requests.delivery(request)
        if delivery is None:
            return None
        crawl = mark_of(self._session.node.keys.crawl_id)
        return crawl + hashlib.sha256(crawl + delivery.identity).digest()[:12]

    def delivery(self, request: Request) -> str | None:
        """The mark in hex, and when its first item came, by the server's clock, in ms.

        It is the same for all items of a delivery; see `frontier.item_files`.
        """
        known = self._deliveries.get(request)
        if known is None and (page := self.page(request)) is not None:
            known = f"{page.hex()}-{self._session.node.clock():.0f}"
            self._deliveries[request] = known
        return known

    def _forget(self, item: Any) -> None:
        self._noted.pop(id(item), None)


def _names(settings: BaseSettings, *classes: type) -> bool:
    """Whether one of *classes* is among the item pipelines that are on."""
    chosen = settings.getwithbase("ITEM_PIPELINES")
    on = [load_object(cls) for cls, place in chosen.items() if place is not None]
    return any(isinstance(cls, type) and issubclass(cls, classes) for cls in on)


def origins_of(crawler: Crawler) -> Origins:
    """The origins of *crawler*'s items, shared by middleware and pipeline."""
    return session_of(crawler).component(Origins)
