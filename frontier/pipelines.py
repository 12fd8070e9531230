"""The WARC pipeline: tells each item where its response is archived."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from itemadapter import ItemAdapter
from scrapy import Request, signals
from scrapy.exceptions import NotConfigured
from scrapy.utils.misc import load_object

from frontier.session.session import session_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import Self

    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.settings import BaseSettings

    from frontier.model import Stored

logger = logging.getLogger(__name__)


def feed_uri_params(params: dict[str, Any], spider: Spider) -> dict[str, Any]:
    """What a URI in ``FEEDS`` may name, ``%(frontier_node)s`` beside Scrapy's own.

    The add-on makes it ``FEED_URI_PARAMS``, where the project has none.
    """
    return {**params, "frontier_node": session_of(spider.crawler).config.node_id}


class ItemOriginMiddleware:
    """Remembers which request each item came from, for `WarcPipeline`.

    A spider middleware, because an item pipeline is not told. Where no pipeline of that
    class is named it is left out: it would cost each item as much as Scrapy's own.
    """

    def __init__(self, crawler: Crawler) -> None:
        if not _names_warc_pipeline(crawler.settings):
            raise NotConfigured
        self._origins = origins_of(crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build the middleware of *crawler*'s node.

        Raises:
            NotConfigured: Nobody asks where items come from.
        """
        return cls(crawler)

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        """Note the origin of each item of *result*."""
        async for each in result:
            if each is not None and not isinstance(each, Request):
                self._origins.note(each, response.request)
            yield each


class WarcPipeline:
    """Gives items file, offset, record id, digest, original or revisit.

    They are a dict in the field ``FRONTIER_WARC_ITEM_FIELD``, set where the item
    has such a field or takes any. It must come before pipelines that replace
    items, and it waits until the record is on disk.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._session = session_of(crawler)
        self._origins = origins_of(crawler)
        self._origins.want()
        if not _names_warc_pipeline(crawler.settings):
            logger.warning(
                "items are not told where their responses are archived: name "
                "frontier.pipelines.WarcPipeline, or a class derived from it, in "
                "ITEM_PIPELINES"
            )
        self._field = self._session.config.warc_item_field

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build the pipeline of *crawler*'s node."""
        return cls(crawler)

    async def process_item(self, item: Any) -> Any:
        """Add the dict to *item*, if its response was archived."""
        request = self._origins.take(item)
        if request is None:
            return item
        future = self._session.requests.known(request).stored
        if future is None:
            return item
        stored = await asyncio.wrap_future(future)
        try:
            ItemAdapter(item)[self._field] = stamp(stored)
        except (KeyError, AttributeError):
            logger.debug("%s has no field %s", type(item).__name__, self._field)
        return item


def stamp(stored: Stored) -> dict[str, Any]:
    """The WARC record of an item, as its field says it."""
    facts: dict[str, Any] = {
        "file": stored.file,
        "offset": stored.offset,
        "length": stored.length,
        "record_id": stored.record_id,
        "date": stored.date,
        "payload_digest": stored.payload_digest,
        "type": _kind(stored),
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


def _kind(stored: Stored) -> str:
    """``none`` within FRONTIER_REVISIT_BLACKOUT: then nothing was written."""
    if stored.original is None:
        return "response"
    return "revisit" if stored.file else "none"


class Origins:
    """The request that each item under way came from, by the item's identity."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._wanted = False
        self._noted: dict[int, tuple[Any, Request]] = {}

    def want(self) -> None:
        """From now on somebody takes what is noted."""
        if self._wanted:
            return
        self._wanted = True
        for signal in (signals.item_scraped, signals.item_dropped, signals.item_error):
            self._crawler.signals.connect(self._forget, signal=signal)

    def note(self, item: Any, request: Request | None) -> None:
        """Remember that *item* came from *request*'s response."""
        if self._wanted and request is not None:
            # The item is kept with it, so that its identity is not used again.
            self._noted[id(item)] = (item, request)

    def take(self, item: Any) -> Request | None:
        """The request that *item* came from; forgotten afterwards."""
        return self._noted.pop(id(item), (None, None))[1]

    def _forget(self, item: Any) -> None:
        self._noted.pop(id(item), None)


def _names_warc_pipeline(settings: BaseSettings) -> bool:
    """Whether a `WarcPipeline` is among the item pipelines that are on."""
    chosen = settings.getwithbase("ITEM_PIPELINES")
    on = [load_object(cls) for cls, place in chosen.items() if place is not None]
    return any(isinstance(cls, type) and issubclass(cls, WarcPipeline) for cls in on)


def origins_of(crawler: Crawler) -> Origins:
    """The origins of *crawler*'s items, shared by middleware and pipeline."""
    return session_of(crawler).component(Origins)
