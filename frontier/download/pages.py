"""Pages: reading what a server sent without making the node wait for it.

What always holds:

1.  A document of at most `INLINE` bytes is read at once, which takes some milliseconds.
    One that is larger, or has more open elements than libxml2 usually takes, is read
    by a worker process, which the reactor waits for as it waits for a server.
2.  A document that cannot be read to its end is archived all the same. The links read
    so far are followed; one log line names the document and the reason, it is counted,
    and its request becomes a dead letter, for ``frontier crawl requeue`` to take.
3.  Links that a limit leaves out are counted by kind, and each kind is logged once.
"""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Any

from scrapy.http import HtmlResponse, Response, TextResponse

from frontier.errors import WorkerFailed
from frontier.requests.left_out import LeftOut
from frontier.session.session import session_of
from frontier.urls.links import TREE_FACTOR, PageCut, read_links

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

INLINE = 131_072
"""The most bytes of a document that is read in the reactor's thread. Handing one of
that size to a worker would take about as long; see `benchmarks/README.md`."""


class Document:
    """The links of *response*: iterate `links`, then ask for `title`.

    With *embeds*, only what the page needs to be shown, not what it links to.
    """

    def __init__(
        self, crawler: Crawler, response: Response, *, embeds: bool = False
    ) -> None:
        self._session = session_of(crawler)
        self._response = response
        config = self._session.config
        self._limits: dict[str, Any] = {
            "most": config.trap_page_links,
            "longest": config.trap_url_length,
            "embeds": embeds,
        }
        self.title: str | None = None
        """The title of an HTML page that was read to its end; empty if it has none."""

    async def links(self) -> AsyncIterator[str]:
        """Absolute URLs that it leads to, in order, each once, without fragments.

        For HTML these are links and requisites; for CSS, what it imports and shows. No
        document, whatever is in it, makes this raise an error.
        """
        response = self._response
        is_html = _is_html(response)
        if is_html is None or not isinstance(response, TextResponse):
            return
        given = {"url": response.url, "is_html": is_html, **self._limits}
        if len(response.body) <= INLINE:
            with contextlib.suppress(PageCut, MemoryError):
                for part in list(read_links(response.text, **given)):
                    for url in self._links_in(part):
                        yield url
                return
        most = self._session.config.worker_max_bytes // TREE_FACTOR
        given["encoding"] = response.encoding
        try:
            workers = self._session.workers
            start = response.body[: most + 1]  # so that it tells of the rest
            async for part in workers.run("links", start, given):
                for url in self._links_in(part):
                    yield url
                await self._session.let_store()
        except WorkerFailed as failed:
            self._give_up(failed.reason)

    def _links_in(self, part: list[str] | dict[str, Any]) -> list[str]:
        if isinstance(part, list):
            return part
        self.title = part["title"]
        for kind, (count, example) in part["left_out"].items():
            page = self._response.url
            self._session.component(LeftOut).leave_out(kind, example, count, page)
        return []

    def _give_up(self, reason: str) -> None:
        response = self._response
        self._session.count("frontier/pages/unread")
        logger.error(
            "%s is archived, but not all of its links are followed: %s",
            response.url,
            reason,
        )
        if response.request is not None:
            reason = f"not all of its links could be read: {reason}"
            self._session.requests.give_up(response.request, reason)


def _is_html(response: Response) -> bool | None:
    """Whether links are read from *response* as HTML, or else as CSS; ``None``: not."""
    if isinstance(response, HtmlResponse):
        return True
    kind = response.headers.get("Content-Type") or b""
    is_css = kind.split(b";")[0].strip().lower() == b"text/css"
    return False if is_css and isinstance(response, TextResponse) else None
