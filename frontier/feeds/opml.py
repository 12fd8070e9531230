"""OPML: the lists of feeds that readers and editors exchange, read into sites.

An outline with an ``xmlUrl`` is a feed, however deep it is. Its site is the host of the
feed. Folders of a feed reader are topics, not sites.

What is read is untrusted: a DOCTYPE that declares something is refused, and there are
limits for the file's size and for the feeds in it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from frontier.errors import InputBroken
from frontier.feeds.model import (
    DEFAULT_WAIT,
    MAX_FEEDS,
    Site,
    canonical_url,
    feed_of,
    site_of,
    with_feeds,
)
from frontier.files import read_input
from frontier.urls.xml_text import decoded

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MAX_BYTES = 32 << 20
MOST_FEEDS = 100_000
BARE = re.compile(r"&(?!#?\w{1,32};)")
"""An ampersand that begins no reference, as in the URLs of careless programs."""


@dataclass(slots=True)
class Imported:
    """What a file of OPML says, in the order in which it says it."""

    sites: dict[str, Site] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    """What was left out, and why."""


def read(path: Path, wait: str = DEFAULT_WAIT, *, pages: bool = False) -> Imported:
    """The sites in the file *path*, each with *wait*.

    With *pages* the page of a feed, ``htmlUrl``, is its implied page.

    Raises:
        InputBroken: It cannot be read, or is not OPML, or is too much.
    """
    from lxml import etree

    where = str(path)
    try:
        data = read_input(path, MAX_BYTES)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputBroken(where, f"cannot be read: {reason}") from None
    text, _ = decoded(data)
    parser = etree.XMLParser(
        encoding="utf-8", recover=True, resolve_entities=False, no_network=True
    )
    try:
        root = etree.fromstring(BARE.sub("&amp;", text).encode(), parser)
    except etree.XMLSyntaxError as error:
        raise InputBroken(where, f"is not OPML: {error.msg}") from None
    if root is None:
        raise InputBroken(where, "is not OPML: there is no element in it")
    declared = root.getroottree().docinfo.internalDTD
    if declared is not None and list(declared.iterentities()):
        raise InputBroken(where, "is not OPML: it declares entities")
    if not isinstance(root.tag, str) or etree.QName(root).localname.lower() != "opml":
        raise InputBroken(where, f"is not OPML: its root is <{root.tag[:40]}>")
    imported = Imported()
    if parser.error_log:
        fault = parser.error_log[0].message
        imported.faults.append(f"the file is not well-formed: {fault}")
    owners: set[str] = set()
    for outline in root.iter("outline"):
        given = {str(name).lower(): str(v) for name, v in outline.attrib.items()}
        try:
            _add(imported, owners, given, wait, pages=pages)
        except ValueError as error:
            imported.faults.append(f"a feed is not taken: {error}")
        if len(owners) > MOST_FEEDS:
            raise InputBroken(where, f"has more than {MOST_FEEDS:,} feeds")
    return imported


def _add(
    imported: Imported,
    owners: set[str],
    given: Mapping[str, str],
    wait: str,
    *,
    pages: bool,
) -> None:
    """Add the feed that an outline with the attributes *given* is, if it is one.

    Raises:
        ValueError: It cannot be followed.
    """
    if not given.get("xmlurl", "").strip():
        return
    url, page, implied = canonical_url(given["xmlurl"]), given.get("htmlurl", ""), []
    if pages and page.strip():
        try:
            implied.append(canonical_url(page))
        except ValueError as error:
            imported.faults.append(f"the page of {url} is not taken: {error}")
    if url in owners:
        return  # readers have one feed in several folders
    name = str(urlsplit(url).hostname)
    site = imported.sites.get(name) or site_of(name, (), wait)
    if len(site.feeds) >= MAX_FEEDS:
        imported.faults.append(f"{name!r} has too many feeds: {url} is not taken")
        return
    feeds = (*site.feeds, feed_of(url, implied))
    imported.sites[name] = replace(site, feeds=feeds)
    owners.add(url)


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
