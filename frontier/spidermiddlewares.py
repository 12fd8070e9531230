"""Spider middlewares: seeds once per crawl, and which response made an item."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.exceptions import CloseSpider, NotConfigured

from frontier.cluster.seed_lock import DONE, TAKEN, SeedLock
from frontier.errors import CoordinationError, StoreError, WriterStopped
from frontier.node.ends import START_FAILED, UNDONE
from frontier.queue.reserve import deadly_in
from frontier.requests.discovery import META as FOUND
from frontier.scrapy_internals import spider_middlewares
from frontier.session.old_spiders import (
    serve_start_requests,
    tell_of_start_middlewares,
)
from frontier.session.other_schedulers import check_scheduler
from frontier.session.session import OfCrawler, one_message, session_of
from frontier.store.calls import Call
from frontier.store.outage_retry import pauses
from frontier.warc.records import target_uri

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy.crawler import Crawler
    from scrapy.http import Response


logger = logging.getLogger(__name__)

OF_ALL = {"depth", "is_start_request", FOUND}
"""What Scrapy's middlewares and ours put into the ``meta`` of all start requests."""
NOT_OF_START = (CoordinationError, StoreError)
"""Errors that do not come from `Spider.start`: the node itself cannot go on."""


class StartMiddleware(OfCrawler):
    """Runs `Spider.start` on one node of the crawl, once.

    All nodes may have the same seeds: one holds the lock and iterates, the others wait.
    If it dies, another one starts over: what was queued already counts as seen, and
    start requests that cannot be stored are made again. This must be the middleware
    nearest to the engine.

    In a crawl that began with what others saw, start requests are queued even if they
    were seen there, but only once.
    """

    def __init__(self, crawler: Crawler) -> None:
        with one_message():
            check_scheduler(crawler.settings)
        self._session = session_of(crawler)
        self._crawler = crawler
        if crawler.spider is not None:
            serve_start_requests(crawler.spider)

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Pass on what *start* yields if this node is the one to load it."""
        session = self._session
        if not session.opened:
            return  # the spider is about to be closed
        node = session.node
        tell_of_start_middlewares(spider_middlewares(self._crawler))
        lock = node.lock_start(session.start_id)
        heartbeat = None
        try:
            if not await self._acquire(lock):
                return
            heartbeat = asyncio.create_task(self._renew(lock))
            async for item_or_request in self._noted(start):
                yield item_or_request
                await session.let_store()
            if (stands := session.start_delivery) is not None and stands.over:
                node.deliveries.end(stands)
                await stands.over.wait()
                if stands.reason:
                    logger.error(
                        "start requests that cannot be stored are given up: %s",
                        stands.reason,
                    )
                    session.on_end(UNDONE)
            await node.acks.settle(())
            await node.answer(lock.loaded_call())
            node.has_seeds = True
        except CloseSpider as error:
            session.end_by_spider(error)
            raise
        except NOT_OF_START as error:
            node.fail(error)  # raised, Scrapy would log a traceback
        except Exception as error:
            kind = type(error).__name__
            session.on_end(START_FAILED.of(error, kind=kind))
            if heartbeat is not None:  # the others need not wait for the lock's end
                heartbeat.cancel()
                await node.answer(lock.release_call())
            raise
        finally:
            # Even if `Spider.start` has failed, as it will on other nodes: the crawl
            # goes on with what is queued, and ends. Not if this was cut short, as the
            # spider closes: what is left of it is for the next run.
            session.starting = session.closing
            if heartbeat is not None:
                heartbeat.cancel()

    async def _noted(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Yield what *start* does, and note its requests as start requests."""
        before: Counter[bytes] = Counter()
        async for item_or_request in start:
            if isinstance(item_or_request, Request):
                state = self._session.requests.of(item_or_request)
                state.is_start = True
                if item_or_request.dont_filter and _is_particular(item_or_request):
                    key = self._session.fingerprints.key(item_or_request)
                    state.repeat = before[key]
                    before[key] += 1
                # As Scrapy's own middleware does, which a project may have taken out.
                item_or_request.meta.setdefault("is_start_request", True)
            yield item_or_request

    async def _hold(self, lock: SeedLock) -> str:
        """Take or renew *lock*; what became of that."""
        return lock.read(await self._session.node.run(lock.hold_calls()))

    async def _acquire(self, lock: SeedLock) -> bool:
        """Wait for *lock*; return false once another node has loaded the seeds."""
        session = self._session
        waits = pauses()  # few seeds are loaded quickly, and many nodes may wait
        while (state := await self._hold(lock)) == TAKEN:
            session.start_salt = lock.start_salt
            session.knows_start.set()
            await asyncio.sleep(min(next(waits), session.config.lease_ttl / 5))
        session.start_salt = lock.start_salt
        session.knows_start.set()
        if state == DONE:
            await session.node.answer(lock.release_call())
            session.node.has_seeds = True
            logger.info("the seeds of this crawl are loaded already")
            await session.node.tell_if_empty()
            return False
        ask = Call.command("HVALS", session.node.keys.ended)
        session.deadly = deadly_in(await session.node.answer(ask))
        return True

    async def _renew(self, lock: SeedLock) -> None:
        """Keep *lock*, until cancelled."""
        while True:
            await asyncio.sleep(self._session.config.lease_ttl / 3)
            try:
                await self._hold(lock)
            except NOT_OF_START as error:
                self._session.node.fail(error)
                return


def _is_particular(request: Request) -> bool:
    """Whether *request* has anything that may tell it from others with its URL.

    Requests that Scrapy makes from ``start_urls`` have nothing.
    """
    made = request.callback or request.cb_kwargs or request.cookies
    return bool(made or request.meta.keys() - OF_ALL)


class SkipLinksMiddleware(OfCrawler):
    """Does not follow duplicate pages below ``FRONTIER_REVISIT_SKIP_LINKS_DEPTH``.

    A page is a duplicate if it became a revisit, but not one of itself in the same
    crawl: if a page is fetched again after a kill, its links are not stored yet.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._session = session_of(crawler)
        self._depth = self._session.config.revisit_skip_links_depth
        if self._depth < 0:
            raise NotConfigured  # with a reason, Scrapy would warn

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        """Pass on *result*, without its requests if the page is a deep duplicate."""
        skipped = await self._is_skipped(response)
        async for each in result:
            if skipped and isinstance(each, Request):
                self._session.count("frontier/archive/not_followed")
            else:
                yield each

    async def _is_skipped(self, response: Response) -> bool:
        request = response.request
        if request is None or request.meta.get("depth", 0) <= self._depth:
            return False
        future = self._session.requests.known(request).stored
        if future is None:
            return False
        try:
            stored = await asyncio.wrap_future(future)
        except WriterStopped:
            return False
        original, crawl_id = stored.original, self._session.node.keys.crawl_id
        if original is None:
            return False
        return original.crawl_id != crawl_id or original.url != target_uri(request.url)
