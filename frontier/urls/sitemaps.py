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
3.  lxml reads it with the limits of libxml2, 256 open elements for one. What was read
    is forgotten, so that memory does not grow with the number of URLs. Nothing is
    loaded that a document names, and no entity of its own is put in.
4.  What is malformed costs what stands beside it, and at worst what follows; the first
    fault is told. A bare ``&`` in a URL is meant, and costs nothing.

It needs nothing of Scrapy's, so that a worker process starts soon.
"""

from __future__ import annotations

import re
import zlib
from email.utils import parsedate_to_datetime
from io import BytesIO
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from lxml import etree

from frontier.urls.split import split
from frontier.urls.xml_text import LONGEST_DATE, decoded, iso_date

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
_ITEMS = {
    "urlset": "url",
    "sitemapindex": "sitemap",
    "rss": "item",
    "rdf": "item",
    "feed": "entry",
}
"""Roots, and what the items of each are called; the last three are of feeds."""
_CHANGED = ("lastmod", "news:news", "updated", "modified", "pubdate")
"""Where the last change of an entry is told; the first that is there counts."""
_LINE = re.compile(rb"[^\r\n]++")
_UNFIT = re.compile("[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f]")
"""Characters at which libxml2 ends."""
_BARE = re.compile(r"&(?!(?:amp|lt|gt|quot|apos|#[0-9]{1,7}|#x[0-9a-fA-F]{1,6});)")
_MONTH = re.compile(r"\d{4}(?:-\d\d)?+")

Entry = tuple[str, str | None]
"""A URL, and when it has changed, by ISO 8601 in UTC."""


def host_of(url: str) -> str:
    """Host and port of *url*, without the port that its scheme has by default.

    Raises:
        ValueError: It is not a URL of http or https.
    """
    parts = split(url)
    if not parts.is_web:
        raise ValueError(f"{url[:200]!r} is not a URL of http or https")
    return parts.authority


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
            if fault:
                self.faults.append(f"is malformed: {fault}")
            yield from self._elements(text)
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

    def _elements(self, text: str) -> Iterator[Entry]:
        text = _BARE.sub("&amp;", _UNFIT.sub("", text))
        parsed = etree.iterparse(
            BytesIO(text.encode("utf-8", "replace")),
            encoding="utf-8",
            recover=True,
            resolve_entities=False,
            collect_ids=False,
            remove_comments=True,
            remove_pis=True,
        )
        item = ""
        try:
            for _, element in parsed:
                item = item or self._item_of(element.getroottree().getroot())
                if not item:
                    return
                if _name(element) == item:
                    if (entry := self._entry(element)) is not None:
                        yield entry
                    before = element.getprevious()
                    if before is not None and _name(before) == item:
                        before.getparent().remove(before)
                    element.clear()
        except etree.XMLSyntaxError as error:
            self.faults.append(f"is malformed: {error.msg}"[:300])
        else:
            for fault in parsed.error_log:
                self.faults.append(f"is malformed: {fault.message}"[:300])
                break

    def _item_of(self, root: Any) -> str:
        """What items are called that stand in *root*; nothing if it is no sitemap."""
        name = etree.QName(root).localname.lower()
        self._is_index = name == "sitemapindex"
        if name not in _ITEMS:
            kind = "an HTML page" if name == "html" else f"<{name[:50]}>"
            self.faults.append(f"is {kind}, and no sitemap")
        return _ITEMS.get(name, "")

    def _entry(self, item: Any) -> Entry | None:
        found: dict[str, str] = {}
        for part in item:
            name = _name(part)
            if name == "link":  # of a feed: an Atom's has attributes, an RSS's a text
                name = "loc"
                if part.get("rel", "alternate").lower() != "alternate":
                    continue
            told = part.get("href") or "".join(part.itertext())
            if name == "news:news":
                told = part.findtext("{*}publication_date") or ""
            if told := told[: LONGEST_URL + 1].strip():
                found.setdefault(name, told)
        return (found["loc"], self._changed(found)) if "loc" in found else None

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


def _name(element: Any) -> str:
    """With ``news:``, or no prefix if it is the protocol's; others are not read."""
    name = etree.QName(element)
    space = (name.namespace or "").lower()
    if space.startswith(NEWS):
        return f"news:{name.localname}"
    if not space or space.startswith((*_PROTOCOL, *_FEEDS)):
        return str(name.localname).lower()
    return "?"
