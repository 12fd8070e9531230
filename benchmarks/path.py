"""The path of a URL from the scheduler to its verdict, as a crawl takes it.

It is the real `Scheduler` on a real `Node`, of which only the outbox runs: no
lease is taken and nothing is reserved, so that nothing else uses the server.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from scrapy.crawler import Crawler
from typing_extensions import override

from benchmarks.harness import Pace, Stopwatch, collected
from benchmarks.links import LinkSpider, requests
from frontier.cluster.controls import Controls
from frontier.node.context import Owner, Part
from frontier.node.crawl_limits import Portions
from frontier.node.memory_limit import SeenMemoryLimit
from frontier.node.node import Node
from frontier.node.outbox import Outbox
from frontier.scheduler import Scheduler
from frontier.seen.config import seen_config
from frontier.seen.recent import Recent
from frontier.session import session
from frontier.session.features import SpiderFeatures
from frontier.store.client import Call, Store
from frontier.store.keys import CrawlKeys
from frontier.store.outage_retry import OutageRetry
from frontier.urls.partition import QueueAddresses

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from scrapy import Request, Spider

    from frontier.queue.push import Push

IN_FLIGHT = 40 * 50
"""URLs without a verdict above which no further page arrives: the slots of requests
are taken by pages whose links are not stored yet."""
PAUSE = 0.0005


class OwnOutbox(Outbox):
    """An outbox of the only node, which has all partitions."""

    @override
    def note_ready(self, became_ready: object) -> list[Call]:
        """Tell nobody."""
        return []


class MarkingOutbox(OwnOutbox):
    """An outbox that marks URLs as seen, and queues none."""

    @override
    def put(self, partition: int, push: Push) -> None:
        """Push as a node does, but to no queue."""
        super().put(partition, push._replace(queue="", priority=0, due=0, forced=0))


class Found(Part):
    """Counts the URLs that were new."""

    new = 0

    @override
    def stored(self, pushes: Sequence[Push], verdicts: str) -> None:
        """Count those of *pushes*."""
        self.new += verdicts.count("n")


class PushingNode(Node):
    """A node that only pushes."""

    queues = True
    """Whether new URLs are queued, or only marked as seen."""

    @override
    async def open(self) -> None:
        """Connect and start the outbox."""
        self.store = Store.from_settings(self.settings)
        self.outage_retry = OutageRetry(self.store)
        self.keys = CrawlKeys(self.config.namespace, "bench")
        self.seen = seen_config(self.config)
        self.outbox = (OwnOutbox if self.queues else MarkingOutbox)(self)
        self.run = self.outage_retry.retry
        self.found = Found()
        self.parts.add(Portions(self), SeenMemoryLimit(self), self.found)
        self.due_times = SimpleNamespace(moved=0)  # type: ignore[assignment]
        self.controls = SimpleNamespace(wanted=Controls())  # type: ignore[assignment]
        self.leaving = SimpleNamespace(watch=lambda: None)  # type: ignore[assignment]
        self.tasks.start(self.outbox.run())

    @override
    async def close(self) -> None:
        """Stop the outbox and disconnect."""
        await self.tasks.stop()
        await self.store.close()


class PushingFeatures(SpiderFeatures):
    """The features of a crawl without an engine."""

    @override
    def _stand_between(self, drop: Any) -> None:
        """There is neither a downloader nor a spider."""


class Pushing(Scheduler):
    """A scheduler without an engine."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._features = PushingFeatures(crawler)


class SeenOnly(Pushing):
    """A scheduler that makes no records of requests, as none is queued."""

    @override
    def _item(self, *_: Any) -> bytes:
        return b""


class PushingSession(session.Session):
    """The session of a crawler that has a `PushingNode` and no engine."""

    node: PushingNode

    @override
    async def open(self, spider: Spider, owner: Owner) -> None:
        """Open the node."""
        settings = dict(self._crawler.settings)
        self.node = PushingNode(
            self.config,
            settings,
            owner,
            spider=spider.name,
        )
        self.queue_addresses = QueueAddresses(self.config)
        await self.node.open()
        self.opened = True

    @override
    def in_progress(self) -> set[Request]:
        """Nothing: there is no engine."""
        return set()


class SeenPath:
    """One node's seen test, from `Scheduler.enqueue_request` to the verdicts."""

    def __init__(self, scheduler: Scheduler, node: PushingNode, spider: Spider) -> None:
        self._scheduler = scheduler
        self._node = node
        self.spider = spider

    async def pace(self, pages: list[list[str]], *, new: bool) -> Pace:
        """The pace until the last verdict on *pages*; all, or none, are *new*."""
        made = requests(pages, self.spider)
        count = sum(len(page) for page in pages)
        outbox, enqueue = self._node.outbox, self._scheduler.enqueue_request
        before = self._node.found.new
        with collected():
            watch = Stopwatch()
            for page in made:
                for request in page:
                    enqueue(request)
                await asyncio.sleep(0)
                while outbox.pending > IN_FLIGHT:  # noqa: ASYNC110 (it has no event)
                    await asyncio.sleep(PAUSE)
            await outbox.flush()
            pace = watch.pace(count)
        found = self._node.found.new - before
        wrong = count - found if new else found
        if wrong > count / 100:
            raise AssertionError(f"{wrong} of {count} URLs got the wrong answer")
        return pace

    async def push(self, made: list[Request]) -> None:
        """Test and queue *made*."""
        for first in range(0, len(made), IN_FLIGHT):
            for request in made[first : first + IN_FLIGHT]:
                self._scheduler.enqueue_request(request)
            await self._node.outbox.flush()

    def forget_recent(self) -> None:
        """Empty the recent tier."""
        self._scheduler._recent = Recent(self._node.config.seen_recent_size)


@asynccontextmanager
async def seen_path(
    url: str, settings: Mapping[str, Any], *, queues: bool
) -> AsyncIterator[SeenPath]:
    """The seen path of a node under *settings* with its store at *url*.

    Without *queues* it is the seen test alone, as a dupefilter is: URLs are
    fingerprinted, tested and marked, but neither recorded nor queued.
    """
    fixed = {"REDIS_URL": url, "TWISTED_REACTOR_ENABLED": False}
    crawler = Crawler(LinkSpider, {**settings, **fixed})
    crawler._apply_settings()
    crawler.spider = spider = LinkSpider()
    linked = PushingSession(crawler)
    session._sessions[crawler] = linked
    made = Pushing if queues else SeenOnly
    scheduler = made.from_crawler(crawler)
    await scheduler._open(spider)
    linked.node.queues = queues
    try:
        path = SeenPath(scheduler, linked.node, spider)
        warm_up = [["https://warm-up.example/"]]
        await path.pace(warm_up, new=True)  # connects and loads the scripts
        yield path
    finally:
        await scheduler._close()
