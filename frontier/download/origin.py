"""Whether a server sent a response, or something else made it.

A ``response`` record says that a server sent these headers and this body (WARC 1.1,
section 6.3). That is known for what our own handler saw on the wire, and assumed for
what Scrapy's HTTP handlers return. It is not true of what a browser rendered
(scrapy-playwright), what a service extracted, what a cache returned, or what a
downloader middleware made itself: those are documents that have a maker.

What always holds:

1.  If our handler got a response, it is archived, whatever a downloader middleware has
    put in its place.
2.  A response that did not come from a download handler was not sent by a server.
3.  A handler that is neither Scrapy's nor named in ``FRONTIER_WARC_HTTP_HANDLERS`` is
    taken to have made its responses itself; the log names each such maker once.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy.utils.misc import load_object

from frontier.errors import ConfigurationError
from frontier.scrapy_internals import handler_for
from frontier.urls.split import split

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from frontier.session.session import Session


logger = logging.getLogger(__name__)

MIDDLEWARE = "a downloader middleware"
"""The maker of a response that no handler gave; Scrapy does not say which one it is."""
RENDERED = frozenset({"playwright"})
"""Flags of responses that a browser rendered, by handlers that also fetch without."""
_SCRAPYS = "scrapy.core.downloader.handlers."
_ABSTRACT = "scrapy.core.downloader.handlers.base"  # any handler may inherit from it


class Answering:
    """Tells who made one crawler's responses."""

    def __init__(self, crawler: Crawler, session: Session) -> None:
        """Load the handlers that the project names.

        Raises:
            ConfigurationError: One of them cannot be loaded, or is not a class.
        """
        self._crawler = crawler
        self._session = session
        self._told: set[str] = set()
        self._named = tuple(map(_load, session.config.warc_http_handlers))

    def answer(self, request: Request, response: Response) -> tuple[Response, str]:
        """What there is instead of a `Wire`: a response, and what made it.

        The response is the handler's, if that returned one. The maker is empty if a
        server sent the response.
        """
        state = self._session.requests.of(request)
        given, state.answer = state.answer, None
        if given is None:
            maker, given = MIDDLEWARE, response
        else:
            maker = self._maker(request, given)
        if maker and maker not in self._told:
            self._told.add(maker)
            self._tell(maker, given)
        return given, maker

    def _maker(self, request: Request, response: Response) -> str:
        handler = handler_for(self._crawler, split(request.url).scheme)
        if RENDERED.isdisjoint(response.flags):
            # Scrapy's handlers set a protocol; a subclass that makes responses doesn't.
            if response.protocol and _is_scrapys(type(handler)):
                return ""
            if isinstance(handler, self._named):
                return ""
        return f"{type(handler).__module__}.{type(handler).__qualname__}"

    def _tell(self, maker: str, response: Response) -> None:
        if maker == MIDDLEWARE or not RENDERED.isdisjoint(response.flags):
            logger.info(
                "what %s returns is archived as resource records, as no server sent it",
                maker,
            )
        else:
            logger.warning(
                "what %s returns is archived as resource records, as it may not come "
                "from a server; if it does, name the handler in "
                "FRONTIER_WARC_HTTP_HANDLERS",
                maker,
            )


def _is_scrapys(handler: type) -> bool:
    modules = {each.__module__ for each in handler.__mro__}
    return any(name.startswith(_SCRAPYS) for name in modules - {_ABSTRACT})


def _load(path: str) -> type:
    try:
        loaded = load_object(path)
    except (ImportError, NameError, ValueError) as error:
        raise ConfigurationError(f"FRONTIER_WARC_HTTP_HANDLERS: {error}") from None
    if not isinstance(loaded, type):
        raise ConfigurationError(f"FRONTIER_WARC_HTTP_HANDLERS: {path} is not a class")
    return loaded
