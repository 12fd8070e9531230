"""Feeds as data: RSS 0.9 to 2.0, CDF, Atom 0.3 and 1.0, and JSON Feed 1.0 and 1.1.

feedparser reads twenty years of dialects, but not what hostile servers send: it opens
local files, expands entities, and takes quadratic time for categories, authors,
namespaces and whatever is not closed. So it is given a document of ours: `_Outline`
writes down what names an item, in short, as `frontier.urls.markup` has read it.

What always holds:

1.  feedparser sees no byte of the server's: a `BytesIO` with well-formed XML that has
    known elements, no DOCTYPE, no content, and at most `Limits` of everything. So the
    time is linear, which `tests/feeds/test_hostile.py` measures.
2.  No link but of http and https comes out, each absolute: relative to ``xml:base``,
    or else to the URL that the feed came from, after redirects.
3.  Dates are aware, in UTC; a date without a zone is one of UTC. One that cannot be
    read is left out, and never raises, be its year 1 or 9999.
4.  What is left out, and whether the feed is well-formed, is in `ParsedFeed.faults`.

Nothing here keeps state, so threads may call it at once. `in_thread` is for the event
loop.
"""

from __future__ import annotations

import asyncio
import io
import json
import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit
from xml.sax.saxutils import escape, quoteattr

from frontier.errors import NotAFeed
from frontier.urls.markup import Markup, NotXML, Start, decoded, iso_date

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_ABSOLUTE = ("http://", "https://")
LONGEST_URL = 4_096
"""Characters of a link, or of a base; a longer one is left out."""
LONGEST_GUID = 1_024
"""Characters; of a longer one its digest is the guid."""
LONGEST_TITLE = 500
"""Characters; the rest is cut."""
LONGEST_DATE = 100
MOST_ITEMS = 5_000
MOST_PASSED = 20
"""By how many times as many a feed is read for its last items."""
PARTS = 64
"""Elements of one item that are read."""
EMBEDS = 20
"""Of one item."""

ATOM = "http://www.w3.org/2005/Atom"
SPACES = {
    "": "",
    ATOM.lower(): "",
    "http://purl.org/atom/ns#": "",
    "http://purl.org/rss/1.0/": "",
    "http://my.netscape.com/rdf/simple/0.9/": "",
    "http://purl.org/net/rss1.1#": "",
    "http://blogs.law.harvard.edu/tech/rss": "",
    "http://purl.org/rss/1.0/modules/rss091#": "",
    "http://purl.org/pie/": "",
    "http://purl.org/echo/": "",
    "http://example.com/necho": "",
    "http://example.com/newformat#": "",
    "uri/of/echo/namespace#": "",
    "atom:": "",
    "rss:": "",
    "http://purl.org/dc/elements/1.1/": "dc",
    "dc:": "dc",
    "http://purl.org/dc/terms/": "dcterms",
    "dcterms:": "dcterms",
    "http://search.yahoo.com/mrss/": "media",
    "http://search.yahoo.com/mrss": "media",
    "media:": "media",
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#": "rdf",
    "rdf:": "rdf",
}
"""Namespaces of which elements are read, with our prefix; and what a prefix stands for
that a feed uses without saying so."""
WRITTEN = (
    "xmlns:dc='http://purl.org/dc/elements/1.1/' xmlns:dcterms='http://purl.org/dc/"
    "terms/' xmlns:media='http://search.yahoo.com/mrss/' xmlns:rdf='http://www.w3.org/"
    "1999/02/22-rdf-syntax-ns#'"
)
ROOTS = {"rss": "RSS", "rdf": "RSS", "channel": "CDF", "feed": "Atom"}
DATES = ("published", "updated", "created")
"""As feedparser calls those of an item; of an expiry nothing depends."""
DATE_PARTS = {
    "pubdate",
    "published",
    "issued",
    "updated",
    "modified",
    "created",
    "dc:date",
    "dcterms:created",
    "dcterms:issued",
    "dcterms:modified",
}
PARTS_READ = {
    "title": ("type",),
    "dc:title": (),
    "link": ("href", "rel", "type"),
    "guid": ("ispermalink",),
    "id": (),
    "enclosure": ("url", "href", "uri", "type"),
    "media:content": ("url", "type"),
    **dict.fromkeys(DATE_PARTS, ()),
}
"""Elements of an item that are read, each with its attributes."""
CLOSED = {
    "author",
    "contributor",
    "content",
    "content:encoded",
    "description",
    "image",
    "source",
    "subtitle",
    "summary",
    "textinput",
}
"""Elements that have titles, links and items of something else."""
_NUMBERS = re.compile(
    r"\d{4}(?:-\d\d?)?+|\d{4}([-/])\d\d?\1\d\d?(?:[Tt\s]\s*+\d\d?:\d\d(?!\d).*+)?+"
)
"""Dates without a name that begin with a year, to the month or the day."""
_WORDS = re.compile(r"\D|\d\d?(?!\d)")
"""Dates with names, which begin with one or with a day."""
_NAMES = re.compile(r"[^\W\d_]{2}")
_NO_ZONE = re.compile(r"\d\d?:\d\d(?::\d\d)?+\Z")
_NO_HOST = re.compile(r"https?:(?!//[^/?#])", re.IGNORECASE)
"""What begins as a URL and is none; joined, it would be another page of the site."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of a feed is read."""

    max_bytes: int = 10 << 20
    """A larger feed is refused."""
    max_items: int = MOST_ITEMS
    """Of a feed with more the first half and the last half of so many are read."""

    @property
    def first(self) -> int:
        """How many of the first are read of a feed with more."""
        return self.max_items - self.max_items // 2

    @property
    def too_many(self) -> str:
        """What is said of a feed with more."""
        return (
            f"has more than {self.max_items:,} items: the first {self.first:,} and the "
            f"last {self.max_items // 2:,} are read"
        )


@dataclass(frozen=True, slots=True)
class Item:
    """What a feed says of one page."""

    guid: str | None = None
    """``guid``, ``id`` or ``rdf:about``, as it is written."""
    link: str | None = None
    """Absolute; ``None`` if it has none of http(s)."""
    dates: tuple[datetime, ...] = ()
    """All that it has, the earliest first, in UTC: published, updated, created."""
    title: str = ""
    embeds: tuple[str, ...] = ()
    """Enclosures, ``media:content``, attachments: what a page of the item embeds."""


@dataclass(frozen=True, slots=True)
class ParsedFeed:
    """A feed that was read, in its order."""

    kind: str
    """``RSS``, ``CDF``, ``Atom`` or ``JSON Feed``."""
    title: str = ""
    items: tuple[Item, ...] = ()
    faults: tuple[str, ...] = ()
    """What is wrong with it or left out, each a clause for a line of the log."""
    is_cut: bool = False
    """Whether it ends in its last item, of which anything may be missing or cut."""


async def in_thread(
    body: bytes, content_type: str | None, url: str, limits: Limits | None = None
) -> ParsedFeed:
    """`parse`, while the event loop goes on."""
    return await asyncio.to_thread(parse, body, content_type, url, limits)


def parse(
    body: bytes, content_type: str | None, url: str, limits: Limits | None = None
) -> ParsedFeed:
    """The feed in *body*, which came from *url* after all redirects.

    *body* is without content coding; *content_type* is the header's.

    Raises:
        NotAFeed: It is too large, or something else, such as an HTML page.
    """
    limits = limits or Limits()
    if len(body) > limits.max_bytes:
        raise NotAFeed(
            url,
            f"has {len(body):,} bytes, and FRONTIER_FEEDS_MAX_BYTES is "
            f"{limits.max_bytes:,}",
        )
    text, fault = decoded(body, content_type)
    if text.lstrip("\ufeff \t\r\n")[:1] in ("{", "["):
        return _json_feed(text, url, limits, _Faults([fault] if fault else []))
    outline = _Outline(url, limits)
    if fault:
        outline.faults.say(fault)
    try:
        outline.read(text)
    except NotXML as error:
        raise NotAFeed(url, str(error)) from None
    return _interpreted(outline, url)


@dataclass(slots=True)
class _Faults:
    """What is wrong with a feed: each kind once, with how often."""

    _said: list[str] = field(default_factory=list)
    _counts: Counter[str] = field(default_factory=Counter)

    def say(self, fault: str) -> None:
        self._said.append(fault)

    def count(self, what: str) -> None:
        self._counts[what] += 1

    def all(self) -> tuple[str, ...]:
        counted = (f"{count:,} {what}" for what, count in self._counts.items())
        return (*self._said, *counted)


@dataclass(slots=True)
class _Frame:
    """An open element: what it is to us, and the base of what is in it."""

    role: str
    base: str


FEED, ITEM, PART, SKIPPED, GROUP = "feed", "item", "part", "skipped", "group"


class _Outline:
    """Writes down what names the items of a feed, as XML that feedparser can read."""

    def __init__(self, url: str, limits: Limits) -> None:
        self.kind = ""
        self.title = ""
        self.items: list[str] = []
        self.guids: list[str | None] = []
        self.faults = _Faults()
        self.size = 0
        self.is_cut = False
        self._seen = 0
        self._url = url
        self._limits = limits
        self._core = ""
        self._frames: list[_Frame] = []
        self._item: list[str] | None = None
        self._part: tuple[str, str, str] | None = None
        self._text: list[str] = []

    def read(self, text: str) -> None:
        """Read the document, or as much of it as is allowed."""
        markup = Markup(text)
        for event in markup.events():
            if isinstance(event, str):
                if self._part is not None:
                    self._text.append(event)
            elif isinstance(event, Start):
                if not self._start(event):
                    break
            else:
                self.is_cut |= markup.is_cut and self._item is not None
                self._end()
        self._leave_out()
        if markup.fault:
            self.faults.say(f"is malformed: {markup.fault}")

    def _start(self, element: Start) -> bool:
        """Whether there is room for it."""
        if not self._frames:
            self._begin(element)
            return True
        name = self._name(element)
        role, base = self._frames[-1].role, self._base(element)
        if role == SKIPPED:
            pass
        elif name in ("item", "entry"):
            self._finish_part()
            self._finish_item()
            if not self._has_room():
                return False
            self._begin_item(element, base)
            role = ITEM
        elif role == FEED:
            role = self._at_feed(name)
        elif role == PART:
            role = SKIPPED if element.name in ("script", "style") else PART
        elif self._item is not None:
            role = self._in_item(name, element, base, self._item)
        self._frames.append(_Frame(role, base))
        return True

    def _has_room(self) -> bool:
        most = self._limits
        last = most.max_items // 2
        self._seen += 1
        if self._seen == most.max_items + 1:
            self.faults.say(most.too_many)
        if len(self.items) >= most.max_items + last:
            self._leave_out()
        if self._seen > most.max_items * (MOST_PASSED if last else 1):
            return False
        if self.size >= most.max_bytes:  # each relative link has the base's length
            self.faults.say(
                f"has more than {most.max_bytes:,} bytes of links; the rest is left out"
            )
            return False
        return True

    def _leave_out(self) -> None:
        """Leave out what is between the first and the last items that are read."""
        last = self._limits.max_items // 2
        if len(self.items) > self._limits.max_items:
            middle = slice(self._limits.first, len(self.items) - last)
            del self.items[middle], self.guids[middle]

    def _end(self) -> None:
        frame = self._frames.pop()
        parent = self._frames[-1].role if self._frames else FEED
        if frame.role == PART and parent != PART:
            self._finish_part()
        elif frame.role == ITEM:
            self._finish_item()

    def _begin(self, root: Start) -> None:
        """Take the root, or refuse it."""
        self._core = root.space.lower()
        kind = ROOTS.get(root.name)
        if root.name in ("html", "head", "body"):
            raise NotAFeed(self._url, "is an HTML page, and no feed")
        if kind is None:
            raise NotAFeed(
                self._url, f"begins with <{root.name[:50]}>, which no feed does"
            )
        self.kind = kind
        self._frames.append(_Frame(FEED, self._url))
        self._frames[0].base = self._base(root)

    def _name(self, element: Start) -> str:
        """With our prefix; nothing that is read if the namespace is another."""
        space = element.space.lower()
        prefix = SPACES.get(space, "" if space == self._core else "?")
        return f"{prefix}:{element.name}" if prefix else element.name

    def _base(self, element: Start) -> str:
        """What links in *element* are relative to."""
        outer = self._frames[-1].base
        given = element.attributes.get("xml:base")
        if self.kind == "CDF":
            given = given or element.attributes.get("base")
        if not given:
            return outer
        base = _joined(outer, given)
        if base is None:
            self.faults.count("xml:base are no URLs of http or https")
        return base or outer

    def _at_feed(self, name: str) -> str:
        if name in ("title", "dc:title") and not self.title:
            self._part = ("feed", "", "")
            return PART
        return SKIPPED if name in CLOSED else FEED

    def _begin_item(self, element: Start, base: str) -> None:
        given = element.attributes
        about = next((v for k, v in given.items() if k.endswith("about")), "")
        attributes = {"href": given["href"]} if "href" in given else {}
        if changed := given.get("lastmod"):
            attributes["lastmod"] = self._date(changed)
        tag = "entry" if self.kind == "Atom" else "item"
        self._item = [f"<{tag}{self._attributes(attributes, base)}>"]
        self.guids.append(_guid(about))
        if about.strip().lower().startswith(_ABSOLUTE):
            self._item.append(f"<guid>{escape(about)}</guid>")  # unless it has a link

    def _in_item(self, name: str, element: Start, base: str, item: list[str]) -> str:
        if name == "media:group":
            return GROUP
        if name == "content" and element.attributes.get("src"):
            given = {"url": element.attributes["src"]}
            item.append(f"<enclosure{self._attributes(given, base)}/>")
        if name not in PARTS_READ:
            return SKIPPED
        if len(item) > PARTS:
            self.faults.count(f"elements beyond {PARTS} of an item are left out")
            return SKIPPED
        found = element.attributes
        given = {key: found[key] for key in PARTS_READ[name] if key in found}
        self._part = (name, self._attributes(given, base), base)
        return PART

    def _attributes(self, given: Mapping[str, str], base: str) -> str:
        written = ""
        for name, text in given.items():
            is_url = text and name in ("href", "url", "uri")
            value = _url(text, base, self.faults) if is_url else text
            if value is not None and len(value) <= LONGEST_URL:
                written += f" {name}={quoteattr(value)}"
        return written

    def _finish_part(self) -> None:
        if self._part is None:
            return
        name, attributes, base = self._part
        text, self._text, self._part = "".join(self._text).strip(), [], None
        if name == "feed":
            self.title = _line(text)
            return
        if self._item is None:
            return
        if name in ("guid", "id"):
            self.guids[-1] = _guid(text) or self.guids[-1]
            if not text.lower().startswith(_ABSOLUTE) or len(text) > LONGEST_URL:
                return  # no link, whatever it says
        elif name in ("title", "dc:title"):
            text = _line(text)
        elif name == "link":
            text = (text and _url(text, base, self.faults)) or ""
        elif name in DATE_PARTS:
            text = self._date(text)
        self._item.append(f"<{name}{attributes}>{escape(text)}</{name}>")

    def _date(self, text: str) -> str:
        try:
            return _date_text(text)
        except (ValueError, OverflowError):
            self.faults.count("dates cannot be read")
            return ""

    def _finish_item(self) -> None:
        if self._item is not None:
            tag = "entry" if self.kind == "Atom" else "item"
            self.items.append("".join(self._item) + f"</{tag}>")
            self.size += len(self.items[-1])
            self._item = None

    def document(self) -> bytes:
        """What feedparser is given."""
        if self.kind == "Atom":
            before, after = f"<feed xmlns='{ATOM}' {WRITTEN}>", "</feed>"
        else:
            before = f"<rss version='2.0' {WRITTEN}><channel>"
            after = "</channel></rss>"
        return "".join((before, *self.items, after)).encode()


def _interpreted(outline: _Outline, url: str) -> ParsedFeed:
    """The items as feedparser understands them."""
    import feedparser  # most nodes read no feed

    found = feedparser.parse(
        io.BytesIO(outline.document()),
        response_headers={
            "content-type": "application/xml; charset=utf-8",
            "content-location": url,
        },
        resolve_relative_uris=False,
        sanitize_html=False,
    )
    entries = found["entries"]
    if len(entries) != len(outline.items):
        raise NotAFeed(url, f"cannot be read: {found.get('bozo_exception')}")
    items = [
        _item(entry, guid, url, outline.faults)
        for entry, guid in zip(entries, outline.guids, strict=True)
    ]
    faults = outline.faults.all()
    return ParsedFeed(outline.kind, outline.title, tuple(items), faults, outline.is_cut)


def _item(
    entry: Mapping[str, Any], guid: str | None, url: str, faults: _Faults
) -> Item:
    """*entry* of feedparser's; its dicts look elsewhere for what they do not have."""
    own: Callable[..., Any] = dict(entry).get
    links = [dict(link) for link in own("links") or []]
    given = [own("link")]
    given += [link.get("href") for link in links if link.get("rel") == "alternate"]
    embeds = [link.get("href") for link in links if link.get("rel") == "enclosure"]
    embeds += [dict(media).get("url") for media in own("media_content") or []]
    dates = []
    for name in DATES:
        if not own(name):
            continue
        try:
            year, month, day, hour, minute, second = own(f"{name}_parsed")[:6]
            dates.append(datetime(year, month, day, hour, minute, second, tzinfo=UTC))
        except (TypeError, ValueError):  # there is none, or its year is 0 or 10000
            faults.count("dates cannot be read")
    return Item(
        guid=guid,
        link=_first_url(given, url, faults),
        dates=tuple(sorted(set(dates))),
        title=own("title") or "",
        embeds=_urls(embeds, url, faults),
    )


def _json_feed(text: str, url: str, limits: Limits, faults: _Faults) -> ParsedFeed:
    """A feed of https://www.jsonfeed.org/version/1.1/ or 1.0."""
    try:
        feed = json.loads(text.lstrip("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise NotAFeed(url, f"is broken JSON: {error}"[:200]) from None
    if not isinstance(feed, dict) or not isinstance(feed.get("items"), list):
        raise NotAFeed(url, "is JSON, and no JSON Feed")
    if "jsonfeed.org/version/1" not in str(feed.get("version"))[:100]:
        faults.say("does not say that it is a JSON Feed 1 or 1.1")
    listed = feed["items"]
    if len(listed) > limits.max_items:
        faults.say(limits.too_many)
        del listed[limits.first : len(listed) - limits.max_items // 2]
    items = []
    for given in listed:
        if isinstance(given, dict):
            items.append(_json_item(given, url, faults))
        else:
            faults.count("items are no objects")
    return ParsedFeed("JSON Feed", _line(feed.get("title")), tuple(items), faults.all())


def _json_item(given: Mapping[str, Any], url: str, faults: _Faults) -> Item:
    dates = []
    for name in ("date_published", "date_modified"):
        written = given.get(name)
        if written is None:
            continue
        try:
            dates.append(iso_date(written))
        except (TypeError, ValueError, OverflowError):
            faults.count("dates cannot be read")
    attached = given.get("attachments")
    embeds = [
        one.get("url")
        for one in (attached if isinstance(attached, list) else [])[:EMBEDS]
        if isinstance(one, dict)
    ]
    guid = given.get("id")
    if isinstance(guid, int | float) and not isinstance(guid, bool):
        guid = str(guid)
    return Item(
        guid=_guid(guid) if isinstance(guid, str) else None,
        link=_first_url([given.get("url"), given.get("external_url")], url, faults),
        dates=tuple(sorted(set(dates))),
        title=_line(given.get("title")),
        embeds=_urls(embeds, url, faults),
    )


def _date_text(text: str) -> str:
    """A date as feedparser reads it right, or nothing.

    It takes any four digits for a year and what is missing from today's date,
    ``2024-032`` for the second of December, and a time without a zone for none.

    Raises:
        OverflowError: It is outside of the years 1 to 9999.
        ValueError: It is none.
    """
    if not text or len(text) > LONGEST_DATE:
        raise ValueError
    try:
        return iso_date(text).isoformat()
    except ValueError:
        if _NUMBERS.fullmatch(text):
            return text.replace("/", "-")
        if not _WORDS.match(text) or not _NAMES.search(text):
            raise
        return f"{text} GMT" if _NO_ZONE.search(text) else text


def _first_url(given: list[Any], base: str, faults: _Faults) -> str | None:
    found = _urls([one for one in given if one], base, faults)
    return found[0] if found else None


def _urls(given: list[Any], base: str, faults: _Faults) -> tuple[str, ...]:
    """Those of *given* that can be crawled, absolute, each once."""
    urls: dict[str, None] = {}
    for one in given:
        url = _url(one, base, faults) if one else None
        if url is None:
            continue
        if len(urls) < EMBEDS:
            urls[url] = None
        else:
            faults.count(f"links beyond {EMBEDS} of an item are left out")
    return tuple(urls)


def _url(given: object, base: str, faults: _Faults) -> str | None:
    url = _joined(base, given) if isinstance(given, str) else None
    if url is None:
        faults.count("links are no URLs of http or https")
    return url


def _joined(base: str, given: str) -> str | None:
    """*given*, relative to *base*; ``None`` if that is no URL of http(s)."""
    given = given.strip()
    if len(given) > LONGEST_URL or _NO_HOST.match(given):
        return None
    try:
        url = urljoin(base, given).replace(" ", "%20")
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return None
    return url if url.isprintable() and len(url) <= LONGEST_URL else None


def _guid(text: str) -> str | None:
    text = text.strip()
    if len(text) > LONGEST_GUID:
        digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16)
        return f"blake2b:{digest.hexdigest()}"
    return text or None


def _line(text: Any) -> str:
    """*text* on one line, cut."""
    if not isinstance(text, str):
        return ""
    return " ".join(text[: 4 * LONGEST_TITLE].split())[:LONGEST_TITLE]
