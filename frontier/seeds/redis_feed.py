"""scrapy-redis's start URLs: a key of the store that others fill while the crawl runs.

What always holds:

1.  One node at a time takes entries. It reads them, has their requests stored,
    and only then removes them: a node that dies in between leaves them, and they
    are taken again, so one may be fetched twice but none is lost.
2.  The crawl does not end while entries are being taken.
3.  An entry that makes no request is logged and removed.
4.  No node leaves for lack of entries while there is one, or while anything in the
    crawl is queued or under way, on any node: what a dead one had is nobody's for a
    while.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from scrapy import FormRequest, Request, Spider, signals
from typing_extensions import override

from frontier.cluster.seed_lock import YOURS, SeedLock
from frontier.requests.stored_request import Allowed
from frontier.scrapy_internals import wake_engine
from frontier.session.emitter import PAUSE, Emitter
from frontier.status.validate import printable
from frontier.store.client import Call

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from frontier.node.node import Node

logger = logging.getLogger(__name__)

BATCH = 500
"""Entries that are taken together, without ``REDIS_START_URLS_BATCH_SIZE``."""
KINDS = {
    "list": ("LRANGE", "LREM"),
    "set": ("SRANDMEMBER", "SREM"),
    "zset": ("ZREVRANGE", "ZREM"),
}
"""How the entries of a key are read and removed."""


class StartFeed(Emitter):
    """Takes entries from *key*, where ``%(name)s`` is the name of *spider*.

    It hands their requests to the engine.
    """

    def __init__(self, crawler: Crawler, node: Node, spider: Spider, key: str) -> None:
        release(crawler, spider)
        settings = crawler.settings
        self._spider = spider
        self._key = key = key % {"name": spider.name}
        self._allowed = Allowed.of(node.config)
        self._encoding = settings.get("REDIS_ENCODING") or "utf-8"
        self._batch = settings.getint("REDIS_START_URLS_BATCH_SIZE") or BATCH
        asked = (
            k for k in KINDS if settings.getbool(f"REDIS_START_URLS_AS_{k}".upper())
        )
        self._kind = next(asked, "list")
        list_id = f"feed-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
        self._lock = SeedLock(node.keys, list_id, node.config.node_id)
        self._since = self._waits_from = math.inf
        """Since when the node has started nothing, and since when it has waited."""
        self._is_last = self._told_why = False
        logger.info("start URLs are taken from the %s %r", self._kind, key)
        self.start_looking(crawler, node)

    @override
    def may_close(self, since: float) -> bool:
        """Whether nothing came for as long as the spider waits, and nothing is left.

        Scrapy-redis sets that as ``max_idle_time``, or ``MAX_IDLE_TIME_BEFORE_CLOSE``.
        """
        if since != self._since:  # something was started meanwhile
            self._since = self._waits_from = since
            self._is_last = False
        if self._is_last:
            logger.info("no start URL came for long enough; the crawl stays open")
        return self._is_last

    async def _rest(self) -> None:
        """Close if nothing in the crawl is left anywhere; else wait as long again.

        What another node has may lead to more, and falls to this one if that node dies.
        """
        most, since = int(getattr(self._spider, "max_idle_time", 0) or 0), self._since
        has_waited = 0 < most <= time.monotonic() - self._waits_from
        if not (has_waited and self._node.is_idle()):
            return
        nothing_left = await self._node.end_of_crawl.nothing_left()
        if self._since != since:
            return
        self._waits_from = time.monotonic()
        if nothing_left:
            self._is_last = True
            wake_engine(self._crawler)
        elif not self._told_why:
            self._told_why = True
            logger.info(
                "this node has nothing to do, and waits: "
                "pages are queued or under way on other nodes"
            )

    @override
    async def look(self) -> float:
        """Take the entries that are there; return the seconds until the next look."""
        if not await self._node.answer(Call.command("EXISTS", self._key)):
            await self._rest()
            return PAUSE
        calls = self._lock.hold_calls(keeps_open=True)
        if self._lock.read(await self._node.run(calls)) != YOURS:
            return PAUSE
        try:
            return 0.0 if await self._take() else PAUSE
        finally:
            await self._node.answer(self._lock.done_call())

    async def _take(self) -> int:
        read, remove = KINDS[self._kind]
        some = [self._batch] if self._kind == "set" else [0, self._batch - 1]
        entries = await self._node.answer(Call.command(read, self._key, *some))
        for entry in entries:
            for request in self._requests(entry):
                self._crawler.engine.crawl(request)
        await self._node.outbox.flush()
        count = [1] if self._kind == "list" else []
        # By value and not by position: others may add entries at either end.
        await self._node.run(
            [Call.command(remove, self._key, *count, entry) for entry in entries]
        )
        self._crawler.stats.inc_value("frontier/feed/entries", len(entries))
        return len(entries)

    def _requests(self, entry: bytes) -> list[Request]:
        make = getattr(self._spider, "make_request_from_data", None)
        try:
            made = make(entry) if make else request_of(entry.decode(self._encoding))
            found = list(made) if isinstance(made, Iterable) else [made]
            for request in found:
                # What a spider's own method puts into meta is the project's.
                meta = {} if make else request.meta
                where, why = self._allowed.refused(request.url, meta)
                if where:
                    raise ValueError(f"{where} {why}")  # noqa: TRY301
        except Exception as error:  # noqa: BLE001 (the spider's own code may raise any)
            self._crawler.stats.inc_value("frontier/feed/faulty")
            shown = printable(entry[:200].decode("utf-8", "replace"))
            logger.error(  # noqa: TRY400 (the traceback would say nothing more)
                "an entry of %r makes no request and is skipped: %r: %s",
                self._key,
                shown,
                printable(str(error)),
            )
            return []
        return found


def request_of(text: str) -> Request:
    """The request that scrapy-redis makes of *text*, a URL or a JSON object.

    It is fetched whether it was seen or not. In an object, *url*, *method* and *meta*
    are what they say, and everything else is form data.

    Raises:
        ValueError: It makes no request.
        TypeError: Likewise.
    """
    text = text.strip()
    given: dict[str, Any] = json.loads(text) if text.startswith("{") else {"url": text}
    url, meta = given.pop("url", None), given.pop("meta", None)
    made = {
        "method": str(given.pop("method", "GET")),
        "meta": meta,
        "dont_filter": True,
    }
    return FormRequest(url, formdata=given, **made) if given else Request(url, **made)


def release(crawler: Crawler, spider: Spider) -> None:
    """Keep *spider*, if it is scrapy-redis's, from taking entries and from waiting.

    What it takes itself is lost if its node dies. Whenever it was idle, it would ask
    the server, and block the reactor meanwhile.
    """
    if not hasattr(spider, "schedule_next_requests"):
        return
    vars(spider)["fetch_data"] = lambda *_: []
    idle = getattr(type(spider), "spider_idle", None)
    if idle is not None and idle.__module__ == "scrapy_redis.spiders":
        handler = spider.spider_idle  # type: ignore[attr-defined]
        crawler.signals.disconnect(handler, signal=signals.spider_idle)
