"""Spiders and middlewares from before Scrapy 2.13, which start in a way of their own.

Scrapy 2.16 and newer call neither `start_requests` nor `process_start_requests`. A
spider that has only the former would start with nothing, and its crawl would end as
finished. So it is served here, and the log has a line about each of both kinds.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import scrapy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from scrapy import Spider

logger = logging.getLogger(__name__)

OLD = "start_requests"
OF_SCRAPY_REDIS = "scrapy_redis."
"""Modules whose `start_requests` is left to `frontier.seeds.redis_feed`."""


def serve_start_requests(spider: Spider) -> None:
    """Have `start` of *spider* yield what its `start_requests` yields.

    This is done if a class overrides `start_requests`, and no nearer one `start`.
    """
    order = type(spider).__mro__
    start = next(cls for cls in order if "start" in vars(cls))
    old = next((cls for cls in order if OLD in vars(cls)), None)
    if old is None or old.__module__.startswith(OF_SCRAPY_REDIS):
        return
    if order.index(start) <= order.index(old):
        return  # it has both, or start() is nearer: Scrapy calls start(), as it should
    name = f"{type(spider).__module__}.{type(spider).__qualname__}"
    if not start.__module__.startswith("scrapy."):
        logger.warning(
            "%s.start_requests() is not called: start() of %s is",
            name,
            start.__qualname__,
        )
        return
    logger.warning(
        "%s has start_requests() and no start(): it is called here, but not by "
        "Scrapy %s alone; write `async def start(self)`",
        name,
        scrapy.__version__,
    )
    # What `super().start_requests()` found in older versions.
    setattr(scrapy.Spider, OLD, lambda self: map(_unfiltered, self.start_urls))

    async def serve() -> AsyncIterator[Any]:
        for item_or_request in getattr(spider, OLD)():
            yield item_or_request

    vars(spider)["start"] = serve


def _unfiltered(url: str) -> scrapy.Request:
    return scrapy.Request(url, dont_filter=True)


def tell_of_start_middlewares(middlewares: Iterable[Any]) -> None:
    """Warn of the spider middlewares whose work on start requests is not called for."""
    for middleware in middlewares:
        if hasattr(middleware, "process_start_requests") and not hasattr(
            middleware, "process_start"
        ):
            logger.warning(
                "%s.%s has process_start_requests() and no process_start(): it is not "
                "called, and start requests pass by it; write `process_start`",
                type(middleware).__module__,
                type(middleware).__qualname__,
            )
