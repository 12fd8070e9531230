"""A short cut for a spider's output on its way to the scheduler.

Most links of a page are on the page before as well. Scrapy sends each through
its chain of spider middlewares, through signals and into the scheduler, which
takes ten times as long as asking the recent tier. So that is asked first, where
the callback's output begins. Scrapy also makes a hundred tasks for each response
(``CONCURRENT_ITEMS``), so that items are processed at the same time, a queue for
them, and a task for each item and handler to tell what came of it. Here one task
handles all items of a response that wait for nothing, and requests need none.

What always holds:

1.  What is dropped here is what the scheduler would have dropped by its recent
    tier, with the same stats and the same line in the log.
2.  Nothing is dropped here where anybody would notice: nothing is connected to a
    signal that would have been sent, there is no foreign spider middleware that
    would have seen or changed the request, and it is not too deep.
3.  At most ``CONCURRENT_ITEMS`` items of a response are in pipelines, begun in the
    order in which they were made. The response is not done before all of them are,
    in whatever way they end. An item that waits holds up no other, and has the same
    task from its first pipeline to its last signal.
4.  While a callback, an errback or a pipeline of a request runs, and while what it
    yields, or what a downloader middleware made of the request, is scheduled,
    `PARENT` is that request; in its items' pipelines, so is `ORIGIN`.
5.  While such code runs, the watchdog can see it, step by step: from the call until it
    waits for something, while its output is handed on, and in pipelines.
6.  The signals of an item, and the log line about a handler that fails, are Scrapy's.
    But a handler that is no coroutine is called at once, and not in a task of its own,
    unless another handler of that signal is one.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
)
from contextvars import ContextVar
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from typing import TYPE_CHECKING, Any

from pydispatch.dispatcher import getAllReceivers, liveReceivers
from pydispatch.robustapply import robustApply
from scrapy import Request, signals
from scrapy.downloadermiddlewares.offsite import OffsiteMiddleware
from scrapy.http import Response
from scrapy.signalmanager import SignalManager
from scrapy.spidermiddlewares.depth import DepthMiddleware
from scrapy.utils.asyncgen import as_async_generator
from scrapy.utils.defer import aiter_errback, ensure_awaitable
from scrapy.utils.python import global_object_name
from typing_extensions import override

from frontier.node.context import Tasks
from frontier.scrapy_internals import (
    spider_middlewares,
    stand_before_outcomes,
    stand_before_spider,
    tell_of_items_by,
)

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from frontier.queue.reserve import Ran
    from frontier.watchdog.child import Watchdog

OWN = ("scrapy.spidermiddlewares.", "frontier.")
"""Modules whose spider middlewares change nothing but the request itself."""
SIGNALS = (signals.request_scheduled, signals.request_dropped)
AT_ONCE = 50
"""Requests that are scheduled before other work has its turn in the reactor."""
SIGNAL_LOG = logging.getLogger("scrapy.utils.signal")
"""Where Scrapy logs that a handler has failed."""
HANDLER_FAILED = "Error caught on signal handler: %(receiver)s"
"""What it logs then."""
TELLING = frozenset({"redirect_urls", "depth_reset"})
"""Keys of a request's ``meta`` that make it a special case."""


PARENT: ContextVar[Request | None] = ContextVar("frontier_parent", default=None)
"""The request that leads to what is scheduled now; ``None`` if that is not known."""
ORIGIN: ContextVar[Request | None] = ContextVar("frontier_origin", default=None)
"""In pipelines, the request that led to the item; ``None`` if `Spider.start` did. It is
not `PARENT`, which changes if a pipeline downloads something."""


def filtered(
    output: Any,
    wanted: Callable[[Any], bool],
    end: Callable[[], object] = lambda: None,
) -> Any:
    """The *wanted* part of a callback's *output*, as an iterator of the same kind.

    *end* is called when the callback has ended, in whatever way.
    """
    if isinstance(output, AsyncIterator):
        return _slowly(output, wanted, end)
    return _quickly(output, wanted, end) if isinstance(output, Iterable) else output


def _quickly(
    output: Iterable[Any], wanted: Callable[[Any], bool], end: Callable[[], object]
) -> Iterator[Any]:
    try:
        for made in output:
            if wanted(made):
                yield made
    finally:
        end()


async def _slowly(
    output: AsyncIterator[Any],
    wanted: Callable[[Any], bool],
    end: Callable[[], object],
) -> AsyncIterator[Any]:
    try:
        async for made in output:
            if wanted(made):
                yield made
    finally:
        end()


class Marks:
    """Tells the watchdog which request's code runs, of those from the store."""

    def __init__(
        self,
        ran: Callable[[Request], Ran | None],
        watchdog: Watchdog,
    ) -> None:
        self._ran = ran
        self._watchdog = watchdog
        self._last: tuple[Ran | None, str, bytes] = (None, "", b"")
        """The last record, and what it is about: a page's items follow one another."""

    def _record(self, request: Request | None) -> bytes | None:
        ran = self._ran(request) if request is not None else None
        if ran is None or request is None:
            return None
        known, url, record = self._last
        if known != ran or url != request.url:
            url = request.url
            record = self._watchdog.record(ran, url)
            self._last = ran, url, record
        return record

    async def awaited(self, what: Coroutine[Any, Any, Any], request: Any) -> Any:
        """Await *what*, which does something for *request*; return its result."""
        record = self._record(request)
        if record is None:
            return await what
        return await self._watchdog.awaited(record, what)


class SpiderOutput:
    """Stands between a spider's callbacks and the rest of Scrapy.

    *drop* counts a request as filtered and returns true if it is seen; without it there
    is no short cut. *noting* is given what the callback of a request yields, before
    that, and its result is used instead; so is *of_errback*, for an errback.
    *marks* tells what runs, if it is given. *show* is given each request whose callback
    or errback is about to be called.
    """

    def __init__(
        self,
        crawler: Crawler,
        drop: Callable[[Request], bool] | None = None,
        noting: Callable[[Any, Request], Any] | None = None,
        of_errback: Callable[[Any, Request], Any] = lambda output, _: output,
        marks: Marks | None = None,
        show: Callable[[Request], None] = lambda _: None,
    ) -> None:
        self._crawler = crawler
        self._show = show
        self._noting = noting
        self._of_errback = of_errback
        self._drop = drop or (lambda _: False)
        engine: Any = crawler.engine
        self._crawl = engine.crawl
        chain = spider_middlewares(crawler)
        settings = crawler.settings
        self._counts_depth = any(isinstance(m, DepthMiddleware) for m in chain)
        self.change_depth(settings.getint("DEPTH_LIMIT"))
        has_others = any(map(_is_others, chain))
        self._may_drop = drop is not None and not has_others
        if settings.getbool("DEPTH_STATS_VERBOSE"):
            self._may_drop = False
        self._marks = marks
        stand_before_outcomes(crawler, PARENT.set)
        before = stand_before_spider(crawler, self.call, self.handle)
        self._call, self._on_error, self._process = before
        tell_of_items_by(crawler, _item_signals)
        self._most_items = max(1, settings.getint("CONCURRENT_ITEMS"))

    def change_depth(self, most: int) -> None:
        """Take no short cut for links deeper than *most*; 0 means any depth."""
        self._deepest = most or 10**9

    async def call(self, result: Any, request: Request) -> Any:
        """Call the spider; what it yields is without links that are seen."""
        PARENT.set(request)
        self._show(request)
        calling = self._call(result, request)
        if self._marks is not None:
            calling = self._marks.awaited(calling, request)
        output = await calling
        if self._noting is not None and isinstance(result, Response):
            output = self._noting(output, request)
        if not isinstance(result, Response):
            return self._of_errback(output, request)
        if not self._may_drop:
            return output
        if self._has_witness():
            return output
        depth = 0
        if self._counts_depth:
            depth = result.meta.get("depth", 0) + 1
            if depth > self._deepest:
                return output

        def is_new(made: Any) -> bool:
            nonlocal depth
            if (
                not isinstance(made, Request)
                or made.dont_filter
                or not TELLING.isdisjoint(made.meta)
                or not self._drop(made)
            ):
                return True
            if depth:  # counted as Scrapy would, which needs it once per response
                self._crawler.stats.max_value("request_depth_max", depth)
                depth = 0
            return False

        return filtered(output, is_new)

    async def handle(self, output: Any, request: Request, response: Any) -> None:
        """Schedule the requests of *output*, and send its items through pipelines."""
        PARENT.set(request)
        ORIGIN.set(request)
        if not isinstance(output, AsyncIterator):  # an errback's
            output = as_async_generator(output)
        handling = self._hand_on(output, request, response)
        if self._marks is not None:
            handling = self._marks.awaited(handling, request)
        await handling

    async def _hand_on(
        self, output: AsyncIterator[Any], request: Request, response: Any
    ) -> None:
        made = aiter_errback(output, self._on_error, request, response)
        count = 0
        process = partial(self._process, response=response)
        marked = None
        if self._marks is not None:
            marked = partial(self._marks.awaited, request=request)
        items = PageItems(process, self._most_items, marked)
        try:
            async for one in made:
                if isinstance(one, Request):
                    self._crawl(one)
                elif one is not None:
                    await items.add(one)
                count += 1
                if count % AT_ONCE == 0:
                    await asyncio.sleep(0)
        finally:
            await items.ended()

    def _has_witness(self) -> bool:
        """Whether anybody listens for requests that are scheduled or dropped."""
        return any(
            type(getattr(receiver, "__self__", None)) is not OffsiteMiddleware
            for signal in SIGNALS
            for receiver in liveReceivers(getAllReceivers(self._crawler, signal))
        )


class PageItems:
    """Sends the items of one response through the pipelines.

    One task handles one item after the other, as long as none of them waits. When one
    does, each item after it gets a task of its own. Tasks run what *marked* makes of
    their coroutine.
    """

    def __init__(
        self,
        process: Callable[[Any], Awaitable[None]],
        most: int,
        marked: Callable[[Coroutine[Any, Any, None]], Coroutine[Any, Any, None]] | None,
    ) -> None:
        self._process = process
        self._marked = marked
        self._room = asyncio.Semaphore(most)
        self._waiting: deque[Any] = deque()
        self._tasks = Tasks()
        self._cared_for = False
        """Whether what waits will be handled in this turn of the loop or the next."""

    async def add(self, item: Any) -> None:
        """Have *item* processed, once there is room for it."""
        await self._room.acquire()
        self._waiting.append(item)
        if not self._cared_for:
            self._cared_for = True
            self._begin(self._all())

    async def ended(self) -> None:
        """Wait until every item is done, in whatever way it ends."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _begin(self, doing: Coroutine[Any, Any, None]) -> None:
        self._tasks.begin(self._marked(doing) if self._marked else doing)

    async def _all(self) -> None:
        # It runs before what an item may wait for, and before this task counts as done.
        asyncio.get_running_loop().call_soon(self._spread)
        while self._waiting:
            await self._one()

    def _spread(self) -> None:
        """Give each item that is left a task of its own: the one before them waits."""
        self._cared_for = False
        for _ in self._waiting:
            self._begin(self._one())

    async def _one(self) -> None:
        if self._waiting:
            try:
                await self._process(self._waiting.popleft())
            finally:
                self._room.release()


class ItemSignals(SignalManager):
    """Scrapy's signals, without tasks for handlers that are plain functions."""

    @override
    async def send_catch_log_async(
        self, signal: Any, **kwargs: Any
    ) -> list[tuple[Any, Any]]:
        """Call the handlers of *signal*, and wait for what they return.

        As in Scrapy's own, an exception in a handler is logged and returned.
        """
        sender = kwargs.get("sender", self.sender)
        receivers = list(liveReceivers(getAllReceivers(sender, signal)))
        if "dont_log" in kwargs or any(map(iscoroutinefunction, receivers)):
            return await super().send_catch_log_async(signal, **kwargs)
        kwargs["sender"] = sender
        told: list[tuple[Any, Any]] = []
        waits = False
        for receiver in receivers:
            try:
                result = robustApply(receiver, signal=signal, **kwargs)
            except Exception as error:  # noqa: BLE001 (a handler is anybody's)
                result = _logged(error, receiver, kwargs.get("spider"))
            waits = waits or isawaitable(result)
            told.append((receiver, result))
        if waits:
            spider = kwargs.get("spider")
            told = await asyncio.gather(*(_answered(*one, spider) for one in told))
        return told


async def _answered(receiver: Any, result: Any, spider: Any) -> tuple[Any, Any]:
    """*receiver*, and *result* once it was awaited."""
    try:
        waited = ensure_awaitable(result, _warn=global_object_name(receiver))
        return receiver, await waited
    except Exception as error:  # noqa: BLE001 (as above)
        return receiver, _logged(error, receiver, spider)


def _logged(error: Exception, receiver: Any, spider: Any) -> Exception:
    told = {"receiver": receiver}
    SIGNAL_LOG.error(HANDLER_FAILED, told, exc_info=error, extra={"spider": spider})
    return error


def _item_signals(before: Any) -> Any:
    """Our replacement for *before*, unless that is a project's own."""
    return ItemSignals(before.sender) if type(before) is SignalManager else before


def _is_others(middleware: Any) -> bool:
    """Whether *middleware* may do something to requests that we do not know of."""
    if type(middleware).__module__.startswith(OWN):
        return False
    return any(
        hasattr(middleware, name)
        for name in ("process_spider_output", "process_spider_output_async")
    )
