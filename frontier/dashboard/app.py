"""The pages, the events and the API of the status page."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import socket
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from frontier.dashboard.looks import Looks, Result
from frontier.dashboard.page import Pages
from frontier.errors import FrontierError, NoStore, StoreUnavailable, UnknownCrawl
from frontier.model import frozen
from frontier.status.document import (
    VERSION,
    overview_document,
    schema,
    watch_document,
)
from frontier.status.overview import OverviewWatch
from frontier.status.watch import Watch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.requests import Request
    from starlette.routing import BaseRoute

    from frontier.store.client import BlockingStore

logger = logging.getLogger(__name__)

MOST_VIEWERS = 100
"""Viewers that get events at the same time."""
MOST_LEFT_OUT = 5
"""Nodes that the log names because Prometheus is not told of them."""
INDEX, MEMORY, TARGETS = "", "/memory", "/targets"
"""The names of the list of crawls, of the store's memory, and of where the metrics of
nodes are; no crawl has these."""


@frozen
class Source:
    """What is to be shown."""

    store: Callable[[], BlockingStore]
    """Returns it to the thread that looks, which alone uses it; or raises `NoStore`."""
    namespace: str
    where: str
    """The store, for people, without a password."""


class Application:
    """Answers requests; all that it knows of the store is from its `Looks`.

    It is made in the event loop that runs it.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._pages = Pages(source.where)
        self.looks = Looks(self._watch)
        self._viewers = 0
        self._machine = socket.gethostname()[:255]
        self._left_out: list[str] = []

    def _watch(self, name: str) -> tuple[Callable[[], Any], Callable[..., Any]]:
        store, namespace = self._source.store, self._source.namespace
        if name == INDEX:
            index = functools.cache(lambda: OverviewWatch(store(), namespace))
            return lambda: index().look(), self._pages.index_parts
        if name == MEMORY:
            from frontier.metrics.crawl import StoreMemory

            return lambda: StoreMemory.look(store()), lambda *_: {}
        if name == TARGETS:
            return self._find_targets, lambda *_: {}
        watch = functools.cache(lambda: Watch(store(), namespace, name))
        render = functools.partial(self._pages.crawl_parts, {})
        return lambda: watch().look(), render

    def routes(self) -> list[BaseRoute]:
        """All that can be asked for."""
        return [
            Route("/", self._index),
            Route("/crawls/{crawl}", self._crawl),
            Route("/events", self._events),
            Route("/crawls/{crawl}/events", self._events),
            Route("/api/crawls", self._api_index),
            Route("/api/crawls/{crawl}", self._api_crawl),
            Route("/api/schema", self._api_schema),
            Route("/metrics", self._metrics),
            Route("/targets", self._targets),
            Route("/healthz", self._health),
            Route("/login", self._login),
            Mount("/static", StaticFiles(packages=[("frontier.dashboard", "static")])),
        ]

    async def _index(self, _: Request) -> Response:
        return self._page(INDEX, await self.looks.newest(INDEX))

    async def _crawl(self, request: Request) -> Response:
        name = request.path_params["crawl"]
        return self._page(name, await self.looks.newest(name))

    def _page(self, name: str, result: Result) -> Response:
        if result.view is None:
            text, code = _failure(result.error)
            return HTMLResponse(self._pages.failure(text, code), code)
        return HTMLResponse(self._pages.page(name, result))

    async def _events(self, request: Request) -> Response:
        name = request.path_params.get("crawl", INDEX)
        if self._viewers >= MOST_VIEWERS:
            return PlainTextResponse("too many viewers\n", 503, {"Retry-After": "30"})
        lines = self._changes(name) if request.method == "GET" else ""
        return StreamingResponse(lines, media_type="text/event-stream")

    async def _changes(self, name: str) -> AsyncIterator[str]:
        """Server-sent events: all parts of a page, and then what has changed.

        There is never more to send than the newest result.
        """
        seen = 0
        self._viewers += 1
        try:
            yield "retry: 2000\n\n"
            while not self.looks.stopped:
                result = await self.looks.newest(name, seen)
                if result.view is None:
                    return
                changed = result.newer_than(seen)
                seen = max(seen, result.number)
                data = json.dumps(changed, separators=(",", ":"))
                yield f"data: {data}\n\n" if changed else ":\n\n"
        finally:
            self._viewers -= 1

    async def _api_index(self, _: Request) -> Response:
        return _document(await self.looks.newest(INDEX), overview_document)

    async def _api_crawl(self, request: Request) -> Response:
        name = request.path_params["crawl"]
        return _document(await self.looks.newest(name), watch_document)

    async def _api_schema(self, _: Request) -> Response:
        return JSONResponse(schema())

    async def _metrics(self, request: Request) -> Response:
        """The totals of crawls, for Prometheus; an error if they are not current."""
        if find_spec("prometheus_client") is None:
            return PlainTextResponse(
                "metrics need prometheus_client: pip install "
                "'frontier-crawl[metrics]'\n",
                501,
            )
        from frontier.metrics.crawl import Reading, exported, exposition

        index = await self.looks.newest(INDEX)
        memory = await self.looks.newest(MEMORY)
        for result in (index, memory):
            if not result.is_current:
                text, code = _failure(result.error)
                return PlainTextResponse(f"{text}\n", code)
        chosen, left_out = exported(index.view.crawls, index.view.taken_ms)
        names = [crawl.crawl_id for crawl in chosen]
        results = await asyncio.gather(*map(self.looks.newest, names))
        seen = [result.view.crawl for result in results if result.is_current]
        left_out += len(results) - len(seen)
        content, kind = exposition(
            Reading(seen, left_out, memory.view), request.headers.get("accept", "")
        )
        return Response(content, headers={"Content-Type": kind})

    async def _targets(self, _: Request) -> Response:
        """Where Prometheus finds the nodes; an error if that is not current."""
        result = await self.looks.newest(TARGETS)
        if not result.is_current:
            return _document(result, dict)
        return JSONResponse(result.view)

    def _find_targets(self) -> list[dict[str, object]]:
        from frontier.metrics.targets import find

        source = self._source
        groups, left_out = find(source.store(), source.namespace, self._machine)
        if left_out != self._left_out:
            self._left_out = left_out
            for line in left_out[:MOST_LEFT_OUT]:
                logger.warning("/targets leaves out %s", line)
        return groups

    async def _health(self, _: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def _login(self, request: Request) -> Response:
        return HTMLResponse(self._pages.login("wrong" in request.query_params))


def _failure(error: FrontierError | None) -> tuple[str, int]:
    if isinstance(error, UnknownCrawl):
        return str(error), 404
    if error is None or isinstance(error, StoreUnavailable | NoStore):
        return str(error or "the store has not answered yet"), 503
    return str(error), 500


def _document(result: Result, made: Callable[[Any], dict[str, Any]]) -> Response:
    """What was seen, as JSON; an error if that is not current."""
    if not result.is_current:
        text, code = _failure(result.error)
        return JSONResponse({"schema": VERSION, "error": text}, code)
    return JSONResponse(made(result.view))
