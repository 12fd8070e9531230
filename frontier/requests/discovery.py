"""How a URL came to be fetched: which page led to it, over which hops, from which seed.

This is what archivists ask first about an odd capture. It travels in the ``meta`` of
requests, so that it is in the queue, and reaches another node after a kill. The words
and the hop letters are Heritrix's (``org.archive.modules.extractor.Hop``):

====  ==========================================
``L``  a link of a page
``M``  an entry of a sitemap
``S``  a form that was sent: not GET
``R``  a redirect
``P``  needed before others: robots.txt
====  ==========================================

What always holds:

1.  What a request carries is overwritten where a page yields it: a spider that passes
    on ``response.meta`` passes on none of this.
2.  It comes from the store, and may be anybody's data: whatever does not have the form
    that is written here counts as not known.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.exceptions import NotConfigured
from scrapy.http.request import NO_CALLBACK

from frontier import model
from frontier.model import Found
from frontier.requests.spider_output import filtered
from frontier.session.session import OfCrawler, Session, session_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from scrapy.crawler import Crawler
    from scrapy.http import Response


META = "frontier_found"
"""Key of ``meta``: ``[via, hops, seed, redirects]``; *hops* is ``None`` if not known,
and *redirects* is how many ``redirect_urls`` the request had when it was made."""
URL_LIMIT = 2_000
"""Longest URL that is carried along; a longer one leaves its place empty."""
HOPS_LIMIT = 50
"""Most hops that are written out, as in Heritrix, after the count of earlier ones."""
_HOPS = re.compile(r"(?:([0-9]{1,6})\+)?([A-Z]{0,50})")
SEED = ["", "", "", 0]
MOST_OUTLINKS = 6_000
"""Most links of a page that are recorded; Heritrix's ``CrawlURI.MAX_OUTLINKS``."""


class DiscoveryMiddleware(OfCrawler):
    """Notes in each request of a page how it was found."""

    def __init__(self, crawler: Crawler) -> None:
        self._requests = session_of(crawler).requests
        config = session_of(crawler).config
        if not (config.warc_enabled and (config.warc_metadata or config.warc_log)):
            raise NotConfigured  # with a reason, Scrapy would warn

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Mark what *start* yields as seeds."""
        async for each in start:
            if isinstance(each, Request):
                each.meta[META] = SEED
            yield each

    def process_spider_input(self, response: Response) -> None:
        """Hide what *response*'s request carries: it is not meant for items."""
        if response.request is not None and META in response.request.meta:
            state = self._requests.of(response.request)
            state.found = response.request.meta.pop(META)

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        """Note in the requests of *result* that *response* led to them."""
        found: Found | None = None
        parent = response.request
        async for each in result:
            if isinstance(each, Request):
                if found is None:
                    found = Found("", None, "")
                    if parent is not None:
                        found = found_of(parent, self._requests.known(parent).found)
                each.meta[META] = _step(response, found, each)
            yield each


def noting_of(session: Session) -> Callable[[Any, Request], Any] | None:
    """A function that notes the links of pages; ``None`` if they are not wanted.

    It is given what a callback yields, and the request, and notes links before anything
    drops them: those that are seen, off site or too deep are links, too. The record is
    queued when the callback has ended, in whatever way, and thus before the page's
    request can be acked; the ack waits for it.
    """
    archive = session.archive
    if archive is None or not session.config.warc_outlinks:
        return None

    def noting(output: Any, request: Request) -> Any:
        page = session.requests.known(request).stored
        if page is None:
            return output
        links = _Links(_letter_of(request))

        def record() -> None:
            if links.found:
                found = tuple(links.found.items())
                archive.note_outlinks(model.Outlinks(page, found, links.left_out))

        return filtered(output, links.add, record)

    return noting


class _Links:
    """The first `MOST_OUTLINKS` links of a page, and how many more there are."""

    def __init__(self, letter: str) -> None:
        self._letter = letter
        self.found: dict[str, str] = {}
        """The hop letter of each URL."""
        self.left_out = 0

    def add(self, made: Any) -> bool:
        """Note *made*, if it is a link, and let it pass."""
        if not isinstance(made, Request) or made.url in self.found:
            return True
        if len(made.url) > URL_LIMIT or len(self.found) >= MOST_OUTLINKS:
            self.left_out += 1
        else:
            self.found[made.url] = "S" if made.method != "GET" else self._letter
        return True


def found_of(request: Request, noted: Any = None) -> Found:
    """How *request* was found, including the redirects on its way.

    *noted* is what its ``meta`` had before its callback was called.
    """
    given = request.meta.get(META, noted)
    if given is None:
        return _without(request)
    via, hops, seed, before = given if _is_written_here(given) else ("", None, "", 0)
    urls = request.meta.get("redirect_urls")
    passed = urls[before:] if isinstance(urls, list) else []
    if passed:
        if not seed and hops == "":
            seed = str(passed[0])
        for _ in passed[:HOPS_LIMIT]:
            hops = extended(hops, "R")
        via = str(passed[-1])
    return Found(_limited(via), hops, _limited(seed))


def hops_of(request: Request) -> int:
    """How many links and redirects led to *request*, as far as it is known."""
    given = request.meta.get(META)
    urls = request.meta.get("redirect_urls")
    passed = len(urls) if isinstance(urls, list) else 0
    if given is not None and _is_written_here(given) and given[1] is not None:
        found = _HOPS.fullmatch(given[1])
        if found is not None:
            counted = int(found[1] or 0) + len(found[2])
            return counted + max(0, passed - int(given[3]))
    depth = request.meta.get("depth", 0)
    return (depth if isinstance(depth, int) else 0) + passed


def extended(hops: str | None, letter: str) -> str | None:
    """*hops* and one more; beyond `HOPS_LIMIT`, the first ones become a number."""
    if hops is None:
        return None
    more = _HOPS.fullmatch(hops)
    if more is None:
        return None
    letters = more[2] + letter
    left_out = int(more[1] or 0) + max(0, len(letters) - HOPS_LIMIT)
    return (f"{left_out}+" if left_out else "") + letters[-HOPS_LIMIT:]


def _without(request: Request) -> Found:
    """For a request without `META`: robots.txt, media of pipelines, a feed's start."""
    if request.callback is NO_CALLBACK:
        is_robots = request.url.partition("?")[0].endswith("/robots.txt")
        return Found("", "P" if is_robots else None, "")
    return Found("", "" if not request.meta.get("depth") else None, "")


def _step(response: Response, found: Found, request: Request) -> list[Any]:
    letter = "S" if request.method != "GET" else _letter_of(response.request)
    redirects = request.meta.get("redirect_urls")
    seed = found.seed or (response.url if found.is_seed else "")
    return [
        _limited(response.url),
        extended(found.hops, letter),
        _limited(seed),
        len(redirects) if isinstance(redirects, list) else 0,
    ]


def _letter_of(parent: Request | None) -> str:
    """The letter of the hop from *parent*'s response to what it links to."""
    callback = getattr(parent.callback, "__name__", "") if parent else ""
    return "M" if callback == "_parse_sitemap" else "L"


def _limited(url: str) -> str:
    return url if len(url) <= URL_LIMIT else ""


def _is_written_here(given: Any) -> bool:
    return (
        isinstance(given, list | tuple)
        and len(given) == 4
        and isinstance(given[0], str)
        and (given[1] is None or isinstance(given[1], str))
        and (given[1] is None or _HOPS.fullmatch(given[1]) is not None)
        and isinstance(given[2], str)
        and type(given[3]) is int
        and 0 <= given[3] < 10_000
    )
