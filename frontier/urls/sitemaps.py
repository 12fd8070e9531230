"""Sitemaps as bytes: which URLs they name, and when those last changed.

They are those of https://www.sitemaps.org/protocol.html: a list of URLs, an index of
sitemaps, a feed, or a text file with one URL per line; gzipped or not; with
Google's news extension. Of an RSS or Atom feed the protocol takes only the items' links
and last changes: to get all of a feed, follow it (`frontier.feeds`).

What always holds:

1.  At most `MOST_BYTES` are unpacked and `MOST_URLS` read: the protocol's limits. The
    rest is left out, which is reported.
2.  A sitemap speaks for its host, and for any host whose robots.txt names it. URLs of
    other hosts are refused, which is reported with the first of them.
3.  lxml reads it within the limits of libxml2, such as 256 open elements. Elements are
    dropped once they are read, so that memory does not grow with the number of URLs.
    Nothing that a document refers to is loaded, nor are its own entities expanded,
    which is reported; so are pages that an index names, and sitemaps in a list.
4.  Malformed XML loses what stands next to it, and at worst all that follows; the first
    fault is reported. A bare ``&`` in a URL is taken literally and loses nothing.

It imports nothing of Scrapy, so that a worker process starts fast.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from io import BytesIO
from itertools import islice
from typing import Any

from lxml import etree

from frontier.urls.split import split, web_url

MOST_BYTES = 52_428_800
"""The most bytes of a sitemap, unpacked."""
MOST_URLS = 50_000
"""The most URLs of a list, or sitemaps of an index."""
LONGEST_URL = 4_096
"""Characters; the protocol allows 2,048."""
LONGEST_DATE = 100
MANY = 2_000
"""Entries that are yielded at a time."""
REST = "the rest is left out"
BAD_URLS = "of its URLs are none of http(s)"
GZIP = b"\x1f\x8b"
_ITEMS = {
    "urlset": "url",
    "sitemapindex": "sitemap",
    "rss": "item",
    "rdf": "item",
    "feed": "entry",
}
"""Root elements, and the names of their items; the last three are of feeds."""
_OF_MAPS = {"url", "sitemap"}
"""Items of a list, and of an index; each has only its own."""
_CHANGED = ("lastmod", "news", "updated", "modified", "pubdate")
"""Elements that say when an entry last changed; the first that is there counts."""
_LINE = re.compile(rb"[^\r\n]++")
_UNFIT = re.compile(rb"[\x01-\x08\x0b\x0c\x0e-\x1f]")
"""Characters at which libxml2 stops."""
_BARE = re.compile(
    rb"(<!\[CDATA\[.*?(?:\]\]>|\Z))"
    rb"|&(?!(?:amp|lt|gt|quot|apos|#[0-9]{1,7}|#x[0-9a-fA-F]{1,6});)",
    re.DOTALL,
)
_MONTH = re.compile(r"\d{4}(?:-\d\d)?+")

Entry = tuple[str, str | None]
"""A URL, and when it last changed, in ISO 8601 and UTC."""


def without_bare(document: bytes) -> bytes:
    """*document* with each ``&`` escaped that does not begin a reference.

    Careless programs write them into URLs; to libxml2 that is a fault which loses what
    follows. In a CDATA section they are allowed.
    """
    return _BARE.sub(lambda bare: bare[1] or b"&amp;", document)


def iso_date(text: str) -> datetime:
    """An ISO 8601 date, as in XML Schema or W3C's note, in UTC; no zone means UTC.

    Raises:
        OverflowError: It is outside the years 1 to 9999.
        ValueError: It is not a date.
    """
    date = datetime.fromisoformat(text[:LONGEST_DATE].strip())
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return date.replace(microsecond=0).astimezone(UTC)


def read_sitemap(
    body: bytes, url: str, hosts: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Yield the entries in *body*, from *url*, that are on *hosts*; then a summary.

    They come in parts: each has ``is_index``, and ``entries``, each a URL and a time or
    ``None``. The summary has ``faults``, clauses for a line of the log, and
    ``refused``, the number of URLs of other hosts.
    """
    sitemap = _Sitemap(url, frozenset(hosts))
    found = filter(None, map(sitemap.checked, sitemap.entries(body)))
    count = 0
    while part := list(islice(found, min(MANY, MOST_URLS - count))):
        yield {"is_index": sitemap.is_index, "entries": part}
        count += len(part)
    if next(found, None) is not None:
        sitemap.faults[f"has more than {MOST_URLS:,} URLs; {REST}"] = 0
    faults = clauses(sitemap.faults)
    if sitemap.refused:
        faults.append(
            f"names {len(sitemap.refused):,} URLs of hosts that it does not speak "
            f"for, first {sitemap.refused[0][:200]}"
        )
    yield {"faults": faults, "refused": len(sitemap.refused)}


def clauses(faults: Counter[str]) -> list[str]:
    """*faults* of a document, each after its number if it is counted."""
    return [f"{count:,} {what}" if count else what for what, count in faults.items()]


def sitemap_job(content: bytes, arguments: Mapping[str, Any]) -> Iterator[Any]:
    """Run `read_sitemap` in a worker, with its *arguments*."""
    return read_sitemap(content, **arguments)


class _Sitemap:
    """One sitemap at *url*, which may name URLs of *hosts*."""

    def __init__(self, url: str, hosts: frozenset[str]) -> None:
        self.faults = Counter[str]()
        """What is wrong, and how often; 0 if that is not counted."""
        self.refused: list[str] = []
        self.is_index = False
        self._url = url
        self._hosts = hosts

    def entries(self, body: bytes) -> Iterator[Entry]:
        """The entries of *body*, as they are written there."""
        body = self.unpacked(body)
        return self.elements(body) if b"<" in body[:1000] else self.lines(body)

    def unpacked(self, body: bytes) -> bytes:
        """*body* unpacked, as far as its gzip can be read."""
        if body.startswith(GZIP):
            made = bytearray()
            try:
                with gzip.GzipFile(fileobj=BytesIO(body)) as file:
                    while len(made) <= MOST_BYTES and (part := file.read1()):
                        made += part
            except (OSError, EOFError, zlib.error) as error:
                self.faults[f"its gzip is cut or damaged: {error}"] = 0
            body = bytes(made)
        if len(body) > MOST_BYTES:
            self.faults[f"has more than {MOST_BYTES:,} bytes; {REST}"] = 0
        return body[:MOST_BYTES]

    def checked(self, entry: Entry) -> Entry | None:
        """*entry* with an absolute URL; ``None`` if that is not on the hosts."""
        url = web_url(self._url, entry[0][: LONGEST_URL + 1], LONGEST_URL)
        if url and split(url).authority in self._hosts:
            return url, entry[1]
        if url:
            self.refused.append(url)
        else:
            self.faults[BAD_URLS] += 1
        return None

    def lines(self, body: bytes) -> Iterator[Entry]:
        if not body.strip():
            self.faults["is empty"] = 0
        elif self.faults:  # it is cut, and half a line is another URL
            body = body[: max(body.rfind(b"\n"), body.rfind(b"\r")) + 1]
        for line in _LINE.finditer(body.removeprefix(b"\xef\xbb\xbf")):
            text = line[0].strip()[: LONGEST_URL + 1].decode("utf-8", "replace")
            if text.lower().startswith(("http://", "https://")):
                yield text, None
            elif text:
                self.faults[BAD_URLS] += 1

    def elements(self, body: bytes) -> Iterator[Entry]:
        if b"\0" not in body[:100]:  # in UTF-16 they are halves of characters
            # Text behind the last tag is half a URL, if it is not white space.
            body = without_bare(_UNFIT.sub(b"", body[: body.rfind(b">") + 1]))
        parsed = etree.iterparse(
            BytesIO(body),
            recover=True,
            resolve_entities=False,
            collect_ids=False,
            remove_comments=True,
            remove_pis=True,
        )
        item = ""
        try:
            for _, element in parsed:
                item = item or self._item_of(element.getroottree())
                if not item:
                    return
                name = local_name(element)
                if {name, item} == _OF_MAPS:
                    kind = "an index" if self.is_index else "a list"
                    self.faults[f"<{name}> elements in {kind} are not read"] += 1
                if name == item:
                    if (entry := self._entry(element)) is not None:
                        yield entry
                    before = element.getprevious()
                    if before is not None and local_name(before) == item:
                        before.getparent().remove(before)
                    element.clear()
        except etree.XMLSyntaxError as error:
            self.faults[f"is malformed: {error.msg}"[:300]] = 0
        else:
            for fault in parsed.error_log[:1]:
                self.faults[f"is malformed: {fault.message}"[:300]] = 0

    def _item_of(self, tree: Any) -> str:
        """The name of the items of *tree*; empty if it is not a sitemap's."""
        name, dtd = local_name(tree.getroot()), tree.docinfo.internalDTD
        if dtd is not None and dtd.entities():
            said = "declares entities: they are left in its URLs as they are written"
            self.faults[said] = 0
        self.is_index = name == "sitemapindex"
        if name not in _ITEMS:
            kind = "an HTML page" if name == "html" else f"<{name[:50]}>"
            self.faults[f"is {kind}, and no sitemap"] = 0
        return _ITEMS.get(name, "")

    def _entry(self, item: Any) -> Entry | None:
        found = {"news": item.findtext("{*}news/{*}publication_date", "").strip()}
        space = etree.QName(item).namespace or ""
        # Other elements are of an extension: an image, another language.
        for part in item.iterchildren(f"{{{space}}}*"):
            name = local_name(part)
            told = part.get("href") or "".join(part.itertext())
            if name == "link":  # of a feed: an Atom's has attributes, an RSS's a text
                name = "loc"
                if part.get("rel", "alternate").lower() != "alternate":
                    continue
            if told := told.strip():
                found.setdefault(name, told)
        url = found.get("loc") or (item.text or "").strip()
        return (url, self._changed(found)) if url else None

    def _changed(self, found: Mapping[str, str]) -> str | None:
        """When it last changed: its ``lastmod``, or when the news was published."""
        name = next(filter(found.get, _CHANGED), "")
        if not name:
            return None
        written = found[name][:LONGEST_DATE]
        if _MONTH.fullmatch(written):
            written += "-01-01"[len(written) - 4 :]
        try:
            if name == "pubdate":
                written = parsedate_to_datetime(written).isoformat()
            return iso_date(written).isoformat()
        except (ValueError, OverflowError):
            self.faults["of its dates cannot be read"] += 1
            return None


def local_name(element: Any) -> str:
    """The name of *element* without its namespace, in small letters.

    A prefix that no namespace is declared for is part of it.
    """
    return str(element.tag).rpartition("}")[2].lower()
