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
from scrapy import Request, Spider
from scrapy.exceptions import DropItem, NotConfigured

from frontier.errors import StoreError, WriterStopped
from frontier.item_files import mark_of
from frontier.requests.spider_output import ORIGIN
from frontier.session.session import OfCrawler, session_of
from frontier.store.client import Call

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from frontier.model import Stored
    from frontier.session.session import Session

logger = logging.getLogger(__name__)


def feed_uri_params(params: dict[str, Any], spider: Spider) -> dict[str, Any]:
    """Return *params*, which URIs in ``FEEDS`` may name, with ``frontier_node`` added.

    The add-on sets it as ``FEED_URI_PARAMS``, unless the project has its own.
    """
    return {**params, "frontier_node": session_of(spider.crawler).config.node_id}


def own_feed(uri: str, node_id: str) -> str:
    """*uri*, a key of ``FEEDS``, with *node_id* in its name, if no part of it has that.

    It stands before the first dot, so that the last suffix still says the format.
    """
    if "%(frontier_node)" in uri or uri.startswith("stdout:"):
        return uri
    place, slash, name = uri.rpartition("/")
    stem, dot, suffixes = name.partition(".")
    return f"{place}{slash}{stem}-{node_id}{dot}{suffixes}"


class ItemOriginMiddleware(OfCrawler):
    """Writes into each item which page it is from, and which delivery of that.

    That goes into the field ``FRONTIER_ITEM_ORIGIN_FIELD``: the mark of the page in
    hex, and when its first item came, by the server's clock, in ms. It is the same for
    all items of a delivery; see `frontier.item_files`.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._session = session_of(crawler)
        self._field = self._session.config.item_origin_field
        if not self._field:
            raise NotConfigured
        self._deliveries: WeakKeyDictionary[Request, str] = WeakKeyDictionary()

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        """Note the origin of each item of *result*."""
        async for each in result:
            if each is not None and not isinstance(each, Request) and response.request:
                self._tell(each, response.request)
            yield each

    def _tell(self, item: Any, request: Request) -> None:
        origin = self._deliveries.get(request)
        if origin is None and (page := page_of(self._session, request)) is not None:
            origin = f"{page.hex()}-{self._session.node.clock():.0f}"
            self._deliveries[request] = origin
        if origin is None:
            return
        try:
            ItemAdapter(item)[self._field] = origin
        except (KeyError, AttributeError, TypeError):
            self._session.warn_once(
                "%s has no field %s for its origin (shown once; the stat "
                "frontier/items/without_origin counts such items)",
                type(item).__name__,
                self._field,
            )
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
    unchanged. Each item waits until its record is on disk.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._session = session_of(crawler)

    async def process_item(self, item: Any) -> Any:
        """Add the dict to *item*, if its response was archived.

        Raises:
            DropItem: The node ends, and its archive cannot be written.
        """
        request = ORIGIN.get()
        states = self._session.requests
        future = None if request is None else states.known(request).stored
        if future is None:
            return item
        try:
            stored = await asyncio.wrap_future(future)
        except WriterStopped as error:  # its page is not acked, and fetched again
            raise DropItem(str(error), log_level="DEBUG") from error
        try:
            ItemAdapter(item)[WARC_FIELD] = stamp(stored)
        except (KeyError, AttributeError):
            logger.debug("%s has no field %s", type(item).__name__, WARC_FIELD)
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
        self._field = self._session.config.item_id_field
        self._given: WeakKeyDictionary[Request, set[bytes]] = WeakKeyDictionary()
        """The ids that the page of each request has given."""

    async def process_item(self, item: Any) -> Any:
        """Pass *item* on.

        Raises:
            DropItem: Another page has given an item with its id.
        """
        request = ORIGIN.get()
        value = ItemAdapter(item).get(self._field)
        if value is None:
            self._note_without(item)
            return item
        digest = _digest_of(value)
        given = set() if request is None else self._given.setdefault(request, set())
        if digest in given:
            self._drop(value)
        given.add(digest)
        page = page_of(self._session, request) or secrets.token_bytes(16)
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
        self._session.warn_once(
            "an item has no %s and is passed on: %s (shown once; the stat "
            "frontier/items/without_id counts them)",
            self._field,
            type(item).__name__,
        )
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


def page_of(session: Session, request: Request | None) -> bytes | None:
    """The mark of *request* in the crawl, 16 bytes, the same on each delivery.

    `None` if it did not come from the store, nor from a request that did.
    """
    delivery = None if request is None else session.requests.delivery(request)
    if delivery is None:
        return None
    crawl = mark_of(session.node.keys.crawl_id)
    return crawl + hashlib.sha256(crawl + delivery.identity).digest()[:12]
