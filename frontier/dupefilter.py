"""The seen test alone, as a duplicate filter for a scheduler that is not ours.

``DUPEFILTER_CLASS = "frontier.dupefilter.RedisDupeFilter"`` works under
Scrapy's own scheduler and under scrapy-redis's, without the add-on.

What always holds:

1.  What is dropped, logged and counted is what Scrapy's own filter would drop,
    log and count, had it seen what the crawl's other processes have seen.
2.  A URL is called seen only if the store says so. If the first question about it was
    not answered, the store may have marked it all the same, so it then counts as new:
    it may be fetched twice, but is not lost.
3.  Test and mark are one script, so of all who ask about a URL exactly one is told that
    it is new. A URL's partition follows from its fingerprint, so equal fingerprints
    meet whatever their URLs are. A crawl that queues by host has other partitions, so
    neither kind joins a crawl of the other.
4.  Stopping deletes nothing: what `close` leaves behind is there for the next `open`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from typing import TYPE_CHECKING, Any, Self

from scrapy import Request, Spider, signals
from scrapy.dupefilters import RFPDupeFilter
from typing_extensions import override

from frontier.cluster import crawls
from frontier.cluster.endings import cancel
from frontier.cluster.shared_settings import crawl_settings
from frontier.errors import CrawlClosed, FrontierError, StoreUnavailable
from frontier.node.ends import FAILED, REFUSED
from frontier.node.remove_crawl import delete_crawl
from frontier.queue.push import NEW, SEEN, SEEN_BY_BLOOM, TEST, Push, Pusher
from frontier.seen.config import seen_config
from frontier.seen.recent import Recent
from frontier.session.launch import developing, server_of
from frontier.session.session import refuse, session_of
from frontier.store.address import address_of
from frontier.store.client import BlockingStore, Call, at_once, check_server, given
from frontier.store.embedded import EmbeddedStore
from frontier.store.outage_retry import pauses
from frontier.urls.fingerprint import seen_hash
from frontier.urls.partition import partition_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scrapy.crawler import Crawler

    from frontier.settings.config import Config

logger = logging.getLogger(__name__)

CALL_TIMEOUT = 5.0
"""Seconds that the store has for one answer, unless ``REDIS_PARAMS`` says otherwise."""
PATIENCE = 60.0
"""Seconds for which a store that does not answer is asked again."""

STATS = {SEEN: "frontier/seen/set", SEEN_BY_BLOOM: "frontier/seen/bloom"}


class BlockingSeenTest:
    """The seen-set of one crawl, which is made if there is none, until `close`.

    For callers that have a queue of their own and cannot go on without an answer.

    Raises:
        ConfigurationError: The settings do not fit the crawl's.
        StoreError: The store does not answer, or may forget keys.
    """

    patience = PATIENCE

    def __init__(
        self, config: Config, settings: Mapping[str, Any], *, spider: str
    ) -> None:
        self._config = config
        self._spider = spider
        self._tiers = seen_config(config)
        self._shape = crawl_settings(config, settings)
        self._shape["FRONTIER_QUEUE_KEY"] = crawls.BY_FINGERPRINT
        self.crawl_id = config.crawl_id or f"{spider}-dupefilter"
        with contextlib.ExitStack() as opened:
            if not given(settings):
                embedded = EmbeddedStore.join(config.store_dir)
                opened.callback(embedded.leave)
                settings = {**settings, "REDIS_URL": embedded.url}
            address = address_of(settings, CALL_TIMEOUT)
            # A call repeated without our knowing would report a new URL as seen.
            self._store = BlockingStore.at(address, CALL_TIMEOUT, repeats=False)
            opened.callback(self._store.close)
            memory = self._store.command("INFO", "memory")
            check_server(memory, self._store.where)
            self._pusher: Pusher | None = self._enter()
            self._opened = opened.pop_all()
        logger.info("the seen-set is %s on %s", self.crawl_id, self._store.where)

    def close(self) -> None:
        """Disconnect. What was seen stays seen."""
        self._opened.close()

    def ask(self, fingerprint: bytes) -> str:
        """Mark *fingerprint* as seen; return the verdict's letter: whether it was.

        While the store does not answer, this waits and asks again.

        Raises:
            StoreUnavailable: It has not answered for `PATIENCE` seconds.
            StoreRefused: It answered with an error.
        """
        if not (self._tiers.has_bloom or self._tiers.has_set):
            return NEW
        began, waits, has_waited = time.monotonic(), pauses(), False
        while True:
            try:
                verdict = self._ask(fingerprint)
                break
            except StoreUnavailable as error:
                if time.monotonic() - began > self.patience:
                    raise
                if not has_waited:
                    logger.warning("%s; waiting for it", error)
                has_waited = True
                time.sleep(next(waits))
        if not has_waited:
            return verdict
        waited = time.monotonic() - began
        logger.warning("the store answers again after %.1f s", waited)
        return NEW

    def clear(self) -> None:
        """Forget everything that was seen, and the crawl with it.

        Only for a crawl that nobody else asks about at the time. The next question
        enters it again.

        Raises:
            StoreError: The store did not answer, or answered with an error.
        """
        if self._pusher is not None:
            keys = self._pusher.keys
            with contextlib.suppress(CrawlClosed):
                cancel(self._store, keys)
            delete_crawl(self._store, keys, self._spider)
            self._pusher = None

    def _ask(self, fingerprint: bytes) -> str:
        pusher = self._pusher = self._pusher or self._enter()
        number = partition_of(fingerprint.hex(), self._config.partitions)
        push = Push(TEST, seen_hash(fingerprint), "", 0, b"")
        ((_, _, done),) = pusher.push(self._store, [(number, push)])
        return done.verdicts

    def _enter(self) -> Pusher:
        async def run(calls: Sequence[Call]) -> list[Any]:
            return self._store.run(calls)

        named = (self._config.namespace, self._spider, self.crawl_id)
        return Pusher(at_once(crawls.enter(run, *named, self._shape)), self._tiers)


class RedisDupeFilter(RFPDupeFilter):
    """Drops requests that this crawl has seen, in this process or in another.

    For projects with another scheduler: name it in ``DUPEFILTER_CLASS``. It asks the
    tiers of ``FRONTIER_SEEN_TIERS``, in the store that ``REDIS_URL`` in the environment
    or ``REDIS_*`` settings name, else in the embedded one in ``FRONTIER_STORE_DIR``.

    What was seen belongs to the crawl ``FRONTIER_CRAWL_ID``, else
    ``<spider>-dupefilter``, and outlives the process, as with ``JOBDIR``: a later run
    drops what an earlier one has seen, and so do runs at the same time. To start from
    nothing, choose another id. With scrapy-redis's scheduler, what was seen is deleted
    when the spider closes, unless ``SCHEDULER_PERSIST`` is set.

    Scrapy wants the answer at once. So a URL that the recent tier does not know costs a
    round trip to the store, for which the whole process waits. If the store does not
    answer, a call ends after 5 seconds (or the ``socket_timeout`` of ``REDIS_PARAMS``),
    and after 60 seconds the spider is closed as ``frontier_failed``. The frontier's own
    scheduler never waits.

    Under commands such as ``scrapy shell`` it asks no store, and knows only what this
    process has seen.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(
            debug=crawler.settings.getbool("DUPEFILTER_DEBUG"),
            fingerprinter=crawler.request_fingerprinter,
        )
        self._crawler = crawler
        self._seen_test: BlockingSeenTest | None = None
        self._recent: Recent | None = None
        self._alone = bool(developing())

    @classmethod
    @override
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build the filter of *crawler*; its scheduler opens it."""
        return cls(crawler)

    @classmethod
    def from_spider(cls, spider: Spider) -> Self:
        """Build and open the filter for scrapy-redis, which does not open it."""
        made = cls(spider.crawler)
        made.open()
        return made

    @override
    def open(self) -> None:
        """Enter the crawl; if that fails, have the spider close at once."""
        crawler = self._crawler
        if self._alone:
            return
        crawler.signals.connect(self._on_closed, signal=signals.spider_closed)
        try:
            session = session_of(crawler)
            config = session.config
            name = crawler.spider.name if crawler.spider else "spider"
            settings = dict(crawler.settings)
            if url := server_of(crawler.settings, os.environ):
                settings["REDIS_URL"] = url
            self._identity = session.fingerprints
            self._seen_test = BlockingSeenTest(config, settings, spider=name)
        except FrontierError as error:
            refuse(crawler, REFUSED.of(error))
            return
        if "recent" in config.seen_tiers:
            self._recent = Recent(config.seen_recent_size)

    @override
    def request_seen(self, request: Request) -> bool:
        """Whether *request* was seen before; it is marked as seen."""
        if self._alone:
            return super().request_seen(request)
        if self._seen_test is None:
            return False
        if self._recent is not None and self._recent.add(self._identity.key(request)):
            self._count("frontier/seen/recent")
            return True
        try:
            verdict = self._seen_test.ask(self._identity.of(request))
        except FrontierError as error:
            self._fail(error)
            return False
        if verdict in STATS:
            self._count(STATS[verdict])
            return True
        return False

    @override
    def close(self, reason: str) -> None:
        """Leave the store; what was seen stays seen."""
        seen_test, self._seen_test = self._seen_test, None
        if seen_test is None:
            return
        try:
            seen_test.close()
        except FrontierError as error:
            logger.error("%s", error)  # noqa: TRY400 (a traceback says no more)

    def clear(self) -> None:
        """Forget what was seen, as scrapy-redis does with its queue."""
        if self._recent is not None:
            self._recent = Recent(session_of(self._crawler).config.seen_recent_size)
        if self._seen_test is None:
            return
        try:
            self._seen_test.clear()
        except FrontierError as error:
            logger.error("the seen-set was not cleared: %s", error)  # noqa: TRY400

    def _count(self, name: str) -> None:
        self._crawler.stats.inc_value(name)

    def _on_closed(self, reason: str) -> None:
        self.close(reason)

    def _fail(self, error: FrontierError) -> None:
        """Close the spider; the store is asked no more, and every URL counts as new."""
        self.close("")
        session_of(self._crawler).on_end(FAILED.of(error))
