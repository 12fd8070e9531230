"""OPML: the lists of feeds that readers and editors exchange, read and written.

What is read is untrusted: `frontier.urls.markup` reads it in linear time and refuses a
DOCTYPE with a body. There are limits for its size and for the feeds in it.

An outline with an ``xmlUrl`` is a feed, however deep it is. Its site is the outline
around it that says so in our attributes (``frontier:wait`` and others), as `written`
writes it; else the host of the feed. Folders of a feed reader are topics, not sites.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from email.utils import format_datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from xml.sax.saxutils import quoteattr

from frontier.errors import FeedConfigError
from frontier.feeds.model import (
    DEFAULT_WAIT,
    MAX_FEEDS,
    Feed,
    Site,
    canonical_url,
    feed_of,
    format_wait,
    site_of,
    with_feeds,
)
from frontier.files import read_input
from frontier.urls.markup import End, Markup, NotXML, Start, decoded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime
    from pathlib import Path

MAX_BYTES = 32 << 20
MOST_FEEDS = 100_000
SPACE = "urn:frontier-crawl:opml"
"""The namespace of our attributes; they are read by their prefix."""
_PREFIX = "frontier:"


@dataclass(slots=True)
class Imported:
    """What a file of OPML says, in the order in which it says it."""

    sites: dict[str, Site] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    """What was left out, and why."""


def read(path: Path, wait: str = DEFAULT_WAIT, *, pages: bool = False) -> Imported:
    """The sites in the file *path*; those without a wait get *wait*.

    With *pages* the page of a feed, ``htmlUrl``, is its implied page.

    Raises:
        FeedConfigError: It cannot be read, or is not OPML, or is too much.
    """
    where = str(path)
    try:
        data = read_input(path, MAX_BYTES)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise FeedConfigError(where, f"cannot be read: {reason}") from None
    text, _ = decoded(data)
    reading = _Outlines(where, wait, pages=pages)
    try:
        reading.read(Markup(text))
    except NotXML as error:
        raise FeedConfigError(where, f"is not OPML: {error}") from None
    return reading.made


class _Outlines:
    """Makes sites of outlines, as they come."""

    def __init__(self, where: str, wait: str, *, pages: bool) -> None:
        self.made = Imported()
        self._where, self._wait, self._pages = where, wait, pages
        self._open: list[str | None] = []
        """Of each element that is open, the site that it is, if it is one."""
        self._owners: dict[str, str] = {}

    def read(self, markup: Markup) -> None:
        is_opml = False
        for event in markup.events():
            if isinstance(event, End):
                self._open.pop()
            elif isinstance(event, Start):
                if not is_opml and event.name != "opml":
                    reason = f"is not OPML: its root is <{event.name[:40]}>"
                    raise FeedConfigError(self._where, reason)
                is_opml = True
                self._open.append(self._begin(event))
        if markup.fault:
            self.made.faults.append(f"the file is not well-formed: {markup.fault}")

    def _begin(self, event: Start) -> str | None:
        """Take an element; the name of the site that it is."""
        if event.name != "outline":
            return None
        given = {name.lower(): text for name, text in event.attributes.items()}
        if url := given.get("xmlurl", "").strip():
            self._feed(url, given)
            return None
        ours = {n.removeprefix(_PREFIX): t for n, t in given.items() if _PREFIX in n}
        return self._site(given.get("text", ""), ours) if ours else None

    def _site(self, name: str, ours: Mapping[str, str]) -> str | None:
        try:
            site = site_of(
                name,
                (),
                ours.get("wait", self._wait),
                ours.get("waitmax"),
                paused=ours.get("paused") == "true",
                ended=ours.get("ended") == "true",
            )
        except ValueError as error:
            self.made.faults.append(f"the site {name[:80]!r} is not taken: {error}")
            return None
        self.made.sites.setdefault(site.name, site)
        return site.name

    def _feed(self, given: str, attributes: Mapping[str, str]) -> None:
        try:
            url = canonical_url(given)
            feed = feed_of(url, self._implied(url, attributes))
            if url in self._owners:
                return  # readers have one feed in several folders
            if len(self._owners) >= MOST_FEEDS:
                raise FeedConfigError(
                    self._where, f"has more than {MOST_FEEDS:,} feeds"
                )
            around = next((site for site in reversed(self._open) if site), None)
            name = around or str(urlsplit(url).hostname)
            site = self.made.sites.get(name) or site_of(name, (), self._wait)
            if len(site.feeds) >= MAX_FEEDS:
                self.made.faults.append(
                    f"{name!r} has too many feeds: {url} is not taken"
                )
                return
            self.made.sites[name] = replace(site, feeds=(*site.feeds, feed))
            self._owners[url] = name
        except ValueError as error:
            self.made.faults.append(f"a feed is not taken: {error}")

    def _implied(self, url: str, attributes: Mapping[str, str]) -> Iterator[str]:
        yield from attributes.get(f"{_PREFIX}implied", "").split()
        page = attributes.get("htmlurl", "").strip()
        if not self._pages or not page:
            return
        try:
            yield canonical_url(page)
        except ValueError as error:
            self.made.faults.append(f"the page of {url} is not taken: {error}")


def written(sites: Iterable[Site], when: datetime) -> str:
    """*sites* as OPML 2.0: an outline for each, and one in it for each feed."""
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<opml version="2.0" xmlns:frontier="{SPACE}">',
        "  <head>",
        "    <title>Feeds</title>",
        f"    <dateCreated>{format_datetime(when)}</dateCreated>",
        "  </head>",
        "  <body>",
    ]
    for site in sites:
        given = {"text": site.name, "frontier:wait": format_wait(site.wait_s)}
        if site.wait_max_s != site.wait_s:
            given["frontier:waitMax"] = format_wait(site.wait_max_s)
        given |= {
            f"frontier:{k}": "true" for k in ("paused", "ended") if getattr(site, k)
        }
        lines.append(f"    <outline{_attributes(given)}>")
        inner = (_attributes(_feed_attributes(feed)) for feed in site.feeds)
        lines += [f"      <outline{attributes}/>" for attributes in inner]
        lines.append("    </outline>")
    return "\n".join([*lines, "  </body>", "</opml>", ""])


def _feed_attributes(feed: Feed) -> dict[str, str]:
    given = {"type": "rss", "text": feed.url, "xmlUrl": feed.url}
    if feed.implied:
        given["htmlUrl"] = feed.implied[0]
        given["frontier:implied"] = " ".join(feed.implied)
    return given


def _attributes(given: Mapping[str, str]) -> str:
    return "".join(f" {name}={quoteattr(text)}" for name, text in given.items())


def merged(before: Mapping[str, Site], imported: Imported) -> dict[str, Site]:
    """The sites that are other than *before* when those *imported* are added.

    A feed that is there already, in whichever site, stays where it is. A site that is
    there keeps its wait and gets the feeds that it has not.
    """
    known = {feed.url for site in before.values() for feed in site.feeds}
    made: dict[str, Site] = {}
    for name, site in imported.sites.items():
        new = [feed for feed in site.feeds if feed.url not in known]
        if name not in before and (new or not site.feeds):
            made[name] = with_feeds(site, new)
        elif new:
            had = before[name]
            made[name] = with_feeds(had, (*had.feeds, *new)[:MAX_FEEDS])
    return made
