"""Feeds that a page names: ``<link rel=alternate type=application/rss+xml href=...>``.

What always holds:

1.  Nothing is guessed: what a page does not name is not asked for.
2.  The page is read as any is, in linear time (`frontier.urls.links`), and `MOST` feeds
    of it are taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from typing_extensions import override

from frontier.errors import NotAFeed
from frontier.feeds.parse import Limits, parse
from frontier.urls.links import Links, Page
from frontier.urls.markup import decoded

if TYPE_CHECKING:
    from collections.abc import Mapping

TYPES = {
    "application/rss+xml": "RSS",
    "application/rdf+xml": "RSS",
    "application/x-rss+xml": "RSS",
    "application/atom+xml": "Atom",
    "application/x.atom+xml": "Atom",
    "application/feed+json": "JSON Feed",
}
"""Media types of feeds. ``application/json`` is not among them: pages name their
interfaces for programs so."""
RELS = {"alternate", "feed"}
MOST = 100
LONGEST = 300
"""Characters of a title."""


@dataclass(frozen=True, slots=True)
class FeedLink:
    """A feed, as a page says it."""

    url: str
    """Absolute, of http or https."""
    kind: str
    """``RSS``, ``Atom`` or ``JSON Feed``; what it says it is, unless it was read."""
    title: str = ""


def feeds_of(body: bytes, content_type: str | None, url: str) -> list[FeedLink]:
    """The feeds that the page *body*, which came from *url*, names, each once.

    If it is a feed itself, that one.

    Raises:
        ValueError: The page could not be read to its end.
    """
    try:
        feed = parse(body, content_type, url, Limits(len(body), max_items=1))
    except NotAFeed:
        page = _FeedLinks(url)
        page.read(decoded(body, content_type)[0])
        page.finish()
        return page.feeds()
    return [FeedLink(url, feed.kind, feed.title)]


class _FeedLinks(Page):
    """Keeps, of the links of a page, those to its feeds."""

    def __init__(self, url: str) -> None:
        self._base = Links(url)
        self._found: list[tuple[str, str, str]] = []
        super().__init__(self._base)

    @override
    def _look_at(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag == "base":
            super()._look_at(tag, attributes)
        if tag != "link" or len(self._found) >= MOST:
            return
        rels = attributes.get("rel", "")[:LONGEST].lower().split()
        kind = attributes.get("type", "")[:LONGEST].partition(";")[0].strip().lower()
        if kind in TYPES and not RELS.isdisjoint(rels):
            title = " ".join(attributes.get("title", "")[:LONGEST].split())
            self._found.append((attributes.get("href", ""), TYPES[kind], title))

    def feeds(self) -> list[FeedLink]:
        """What was found, in the order of the page."""
        feeds = []
        for href, kind, title in self._found:
            self._base.add(href)
            feeds += [FeedLink(url, kind, title) for url in self._base.taken()]
        return feeds
