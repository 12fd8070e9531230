"""Sitemaps as bytes: which URLs they name, and when those have changed.

Those of https://www.sitemaps.org/protocol.html: a list of URLs, an index of sitemaps, a
feed, or a text file with a URL in each line; packed with gzip or not; with Google's
news. Of feeds, RSS and Atom, the protocol takes the links of items and their last
changes, no more: who wants all of a feed follows it (`frontier.feeds`).

What always holds:

1.  No more than `MOST_BYTES` are unpacked and `MOST_URLS` read: the protocol's limits.
    What is beyond is left out and told, with the first of it.
2.  A sitemap speaks for its host, and for one whose robots.txt names it: URLs of other
    hosts are not taken, which is told, too.
3.  The time is linear; see `frontier.urls.markup`. Documents are not kept as trees.

It needs nothing of Scrapy's, so that a worker process starts soon.
"""

from __future__ import annotations

import re
import zlib
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from frontier.urls.markup import (
    LONGEST_DATE,
    End,
    Markup,
    NotXML,
    Start,
    decoded,
    iso_date,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MOST_BYTES = 52_428_800
"""Of a sitemap that is not packed."""
MOST_URLS = 50_000
"""Of a list, or sitemaps of an index."""
LONGEST_URL = 4_096
"""Characters; the protocol has 2,048."""
MANY = 2_000
"""Entries that are handed on at a time."""
STEP = 1 << 10
"""Packed bytes that are unpacked at a time: if they are damaged, all are lost."""
ROOM = 1 << 20
REST = "the rest is left out"
GZIP = b"\x1f\x8b"
NEWS = "http://www.google.com/schemas/sitemap-news/"
_PROTOCOL = (
    "http://www.sitemaps.org/schemas/sitemap/",
    "https://www.sitemaps.org/schemas/sitemap/",
    "http://www.google.com/schemas/sitemap/",
)
"""How namespaces of the protocol begin, and the one that Google had before."""
_FEEDS = (
    "http://www.w3.org/2005/atom",
    "http://purl.org/atom/ns#",
    "http://purl.org/rss/1.0/",
    "http://backend.userland.com/rss",
)
"""How namespaces of feeds begin, in lower case."""
_ITEMS = {"rss": ("item", 2), "rdf": ("item", 1), "feed": ("entry", 1)}
"""Roots of feeds: what their items are called, and how deep they stand."""
_CHANGED = ("lastmod", "news:publication_date", "updated", "modified", "pubdate")
"""Where the last change of an entry is told; the first that is there counts."""
_LINE = re.compile(rb"[^\r\n]++")
_MONTH = re.compile(r"\d{4}(?:-\d\d)?+")

Entry = tuple[str, str | None]
"""A URL, and when it has changed, by ISO 8601 in UTC."""


def host_of(url: str) -> str:
    """Host and port of *url*, without the port that its scheme has by default.

    Raises:
        ValueError: It is not a URL of http or https.
    """
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    if scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url[:200]!r} is not a URL of http or https")
    default = 80 if scheme == "http" else 443
    port = parts.port
    return parts.hostname if port in (None, default) else f"{parts.hostname}:{port}"


def read_sitemap(
    body: bytes, content_type: str | None, url: str, hosts: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Parts with the entries in *body*, from *url*, that are of *hosts*; at last a sum.

    A part has ``is_index``, and ``entries``, each a URL and a time or ``None``. The sum
    has ``faults``, clauses for a line of the log, and ``refused``, which counts the
    URLs of other hosts.
    """
    sitemap = _Sitemap(url, frozenset(hosts))
    unpacked = sitemap.unpacked(body)
    for entry in sitemap.read(unpacked, content_type):
        if not sitemap.take(entry):
            break
        if len(sitemap.entries) >= MANY:
            yield sitemap.part()
    if sitemap.entries:
        yield sitemap.part()
    yield {"faults": sitemap.faults, "refused": sitemap.refused}


def sitemap_job(content: bytes, arguments: Mapping[str, Any]) -> Iterator[Any]:
    """`read_sitemap` in a worker: *arguments* are its."""
    return read_sitemap(content, **arguments)


class _Sitemap:
    """One sitemap at *url*, which may name URLs of *hosts*."""

    def __init__(self, url: str, hosts: frozenset[str]) -> None:
        self.faults: list[str] = []
        self.entries: list[Entry] = []
        self.refused = 0
        self._url = url
        self._hosts = hosts
        self._taken = 0
        self._is_index = False
        self._first_refused = ""
        self._bad_dates = self._bad_urls = 0

    def part(self) -> dict[str, Any]:
        entries, self.entries = self.entries, []
        return {"is_index": self._is_index, "entries": entries}

    def unpacked(self, body: bytes) -> bytes:
        """*body* without gzip, as far as it goes."""
        if not body.startswith(GZIP):
            return self._cut(body)
        made = bytearray()
        member = zlib.decompressobj(wbits=31)
        try:
            for at in range(0, min(len(body), MOST_BYTES), STEP):
                rest = body[at : at + STEP]
                while rest and len(made) <= MOST_BYTES:
                    if member.eof:
                        member = zlib.decompressobj(wbits=31)
                    made += member.decompress(rest, ROOM)
                    rest = member.unconsumed_tail or member.unused_data
            if not member.eof and len(made) <= MOST_BYTES:
                self.faults.append("its gzip is cut")
        except zlib.error as error:
            self.faults.append(f"its gzip is damaged: {error}")
        return self._cut(bytes(made))

    def _cut(self, body: bytes) -> bytes:
        if len(body) > MOST_BYTES:
            self.faults.append(f"has more than {MOST_BYTES:,} bytes; {REST}")
        return body[:MOST_BYTES]

    def read(self, body: bytes, content_type: str | None) -> Iterator[Entry]:
        """All that it names, whatever host it is of; what is wrong is noted."""
        if b"<" not in body[:1000].replace(b"\0", b""):
            yield from self._lines(body)
        else:
            text, fault = decoded(body, content_type)
            markup = Markup(text, fault)
            try:
                yield from self._elements(markup)
            except NotXML as error:
                self.faults.append(str(error))
            if markup.fault:
                self.faults.append(f"is malformed: {markup.fault}")
        self._sum_up()

    def take(self, entry: Entry) -> bool:
        """Whether there is room for more."""
        url, host = self._absolute(entry[0])
        if not host:
            self._bad_urls += 1
            return True
        if self._taken >= MOST_URLS:
            self.faults.append(f"has more than {MOST_URLS:,} URLs; {REST}")
            self._sum_up()
            return False
        if host not in self._hosts:
            self.refused += 1
            self._first_refused = self._first_refused or url
            return True
        self._taken += 1
        self.entries.append((url, entry[1]))
        return True

    def _absolute(self, given: str) -> tuple[str, str]:
        """The URL and its host; no host if it is none that can be fetched."""
        try:
            url = urljoin(self._url, given)
            if len(url) <= LONGEST_URL and url.isprintable() and " " not in url:
                return url, host_of(url)
        except ValueError:
            pass
        return given, ""

    def _sum_up(self) -> None:
        if self.refused:
            self.faults.append(
                f"names {self.refused:,} URLs of hosts that it does not speak for, "
                f"first {self._first_refused[:200]}"
            )
        if self._bad_urls:
            self.faults.append(f"{self._bad_urls:,} of its URLs are none of http(s)")
        if self._bad_dates:
            self.faults.append(f"{self._bad_dates:,} of its dates cannot be read")

    def _lines(self, body: bytes) -> Iterator[Entry]:
        if not body.strip():
            self.faults.append("is empty")
        for line in _LINE.finditer(body.removeprefix(b"\xef\xbb\xbf")):
            text = line[0].strip()[: LONGEST_URL + 1].decode("utf-8", "replace")
            if text.lower().startswith(("http://", "https://")):
                yield text, None
            else:
                self._bad_urls += bool(text)

    def _elements(self, markup: Markup) -> Iterator[Entry]:
        path: list[str] = []
        text: list[str] = []
        found: dict[str, str] = {}
        depth, items, is_feed = 1, ("url", "sitemap"), False
        for event in markup.events():
            if isinstance(event, Start):
                if not path:
                    if not self._begins(event):
                        return
                    if event.name in _ITEMS:
                        item, depth = _ITEMS[event.name]
                        items, is_feed = (item, item), True
                path.append(_name(event))
                text.clear()
                if len(path) == depth + 1:
                    found.clear()
                if len(path) == depth + 2 and is_feed and _is_page(event, path[-1]):
                    found.setdefault("loc", event.attributes["href"].strip())
            elif isinstance(event, End):
                name, told = path.pop(), "".join(text).strip()
                if name == "link" and is_feed:
                    name = "loc" if told else ""
                if len(path) == depth + 1 or name == "news:publication_date":
                    found.setdefault(name, told)
                elif len(path) == depth and name in items and "loc" in found:
                    yield found["loc"], self._changed(found)
                text.clear()
            elif len(path) > depth + 1 and len(text) < LONGEST_URL:
                text.append(event[: LONGEST_URL + 1])

    def _begins(self, root: Start) -> bool:
        self._is_index = root.name == "sitemapindex"
        if root.name in ("sitemapindex", "urlset", *_ITEMS):
            return True
        kind = "an HTML page" if root.name == "html" else f"<{root.name[:50]}>"
        self.faults.append(f"is {kind}, and no sitemap")
        return False

    def _changed(self, found: Mapping[str, str]) -> str | None:
        """The last change that is told: ``lastmod``, or when the news was published."""
        written = next(filter(None, map(found.get, _CHANGED)), None)
        if not written:
            return None
        if _MONTH.fullmatch(written):
            written += "-01-01" if len(written) == 4 else "-01"
        try:
            if found.get("pubdate") == written:
                written = parsedate_to_datetime(written[:LONGEST_DATE]).isoformat()
            return iso_date(written).isoformat()
        except (ValueError, OverflowError):
            self._bad_dates += 1
            return None


def _name(element: Start) -> str:
    """With ``news:``, or no prefix if it is the protocol's; others are not read."""
    if element.space.lower().startswith(NEWS) or element.space == "news:":
        return f"news:{element.name}"
    space = element.space.lower()
    if not space or space.startswith((*_PROTOCOL, *_FEEDS)):
        return element.name
    return "?"


def _is_page(link: Start, name: str) -> bool:
    """Whether *link*, an element called *name*, leads to the page of an Atom entry."""
    given = link.attributes
    if name != "link" or "href" not in given:
        return False
    return given.get("rel", "alternate").lower() == "alternate"
