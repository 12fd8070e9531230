"""OPML: lists of feeds, as feed readers and editors exchange them, read into sites.

An element with an ``xmlUrl`` is a feed, however deep it is. Its site is the host of the
feed. Folders of a feed reader are topics, not sites.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from frontier.errors import InputBroken
from frontier.feeds.model import Site, sites_of
from frontier.settings.toml_tables import read_bytes
from frontier.urls.sitemaps import local_name, without_bare
from frontier.urls.split import split

MAX_BYTES = 32 << 20


def read(
    path: Path, wait: str, known: Mapping[str, Site], *, pages: bool
) -> tuple[list[Site], list[str]]:
    """The sites in the file *path*, each with *wait*; and what was left out, and why.

    They lack the feeds of the *known* sites, and do not have the names of these. With
    *pages*, the page of a feed, ``htmlUrl``, is its implied page.

    Raises:
        InputBroken: It cannot be read, or is not OPML.
    """
    from lxml import etree

    where = str(path)
    data = without_bare(read_bytes(path, MAX_BYTES))
    parser = etree.XMLParser(recover=True, resolve_entities=False, no_network=True)
    try:
        root = etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        raise InputBroken(where, f"is not OPML: {error.msg}") from None
    if root is None or local_name(root) != "opml":
        raise InputBroken(where, "is not OPML: it has no such element at its top")
    faults = [f"is not well-formed: {error.message}" for error in parser.error_log[:1]]
    tables: dict[str, dict[str, Any]] = {}
    for outline in root.iter("{*}*"):
        given = {name.lower(): value for name, value in outline.attrib.items()}
        if url := given.get("xmlurl", "").strip():
            host = split(url).host or "no host"
            table = tables.setdefault(host, {"name": host, "wait": wait, "feeds": {}})
            page = pages and given.get("htmlurl")
            table["feeds"][url] = {"url": url, "implied": [page] if page else []}
    if not tables:
        faults.append("names no feed: nothing in it has an xmlUrl")
    for table in tables.values():
        table["feeds"] = list(table["feeds"].values())
    made = sites_of(tables.values(), lambda _, __, why: faults.append(why))
    sites = []
    there = {feed.url for site in known.values() for feed in site.feeds}
    for site in made.values():
        if feeds := tuple(feed for feed in site.feeds if feed.url not in there):
            name = f"{site.name} (more)" if site.name in known else site.name
            sites.append(site._replace(name=name, feeds=feeds))
    return sites, faults
