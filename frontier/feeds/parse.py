"""Feeds as data: RSS 0.9 to 2.0, CDF, Atom 0.3 and 1.0, and JSON Feed 1.0 and 1.1.

feedparser reads twenty years of dialects, well-formed or not. It takes quadratic time
for some of what hostile servers send, so feeds are read by a worker process, which has
limits of CPU time and memory and may be killed; `in_worker` asks for that.

What always holds:

1.  feedparser is given a `BytesIO`, for it opens files whose names it is given, with
    text that was decoded here, and no DOCTYPE in which entities could be declared.
2.  No link but of http and https comes out, each absolute: relative to ``xml:base``,
    or else to the URL that the feed came from, after redirects.
3.  Dates are aware, in UTC; a date without a zone is one of UTC. One that cannot be
    read is left out, and never raises, be its year 1 or 9999.
4.  What is left out, and whether the feed is well-formed, is in `ParsedFeed.faults`.
"""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from hashlib import blake2b
from html.entities import html5
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from frontier.errors import NotAFeed, WorkerFailed
from frontier.urls.split import split
from frontier.urls.xml_text import decoded, iso_date

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from frontier.workers.pool import WorkerPool

_ABSOLUTE = ("http://", "https://")
LONGEST_URL = 4_096
"""Characters of a link; a longer one is left out."""
LONGEST_GUID = 1_024
"""Characters; of a longer one its digest is the guid."""
LONGEST_TITLE = 500
"""Characters; the rest is cut."""
LONGEST_DATE = 100
MOST_ITEMS = 5_000
EMBEDS = 20
"""Of one item."""
PART = 500
"""Items that a worker tells at a time."""
ROOTS = ("rss", "rdf", "channel", "feed")
"""Of RSS, of RSS 0.90 and 1.0, of CDF and of Atom."""
DATES = ("published", "updated", "created")
"""As feedparser calls those of an item; of an expiry nothing depends."""

_PROLOG = re.compile(r"(?:\s++|<!--.*?-->|<\?.*?\?>)*+", re.DOTALL)
"""What may stand before a DOCTYPE and the root."""
_DOCTYPE = re.compile(
    r"""<!DOCTYPE(?:[^>\["']++|"[^"]*+"|'[^']*+')*+(.|\Z)""", re.IGNORECASE | re.DOTALL
)
"""With the character that ends it, or begins its body."""
_ROOT = re.compile(r"<(?:[\w.-]+:)?+([\w.-]+)")
_ITEM = re.compile(
    r"<(/?)(?:[\w.-]++:)?+(?:item|entry)(?=[\s/>])([^<>]*+)", re.IGNORECASE
)
"""A tag of an item; an end tag has something in its first group."""
_REFERENCE = re.compile(
    r"<!\[CDATA\[.*?(?:\]\]>|\Z)|&(?!#\w{1,8};|(?:amp|lt|gt|quot|apos);)(\w{1,32};)?+",
    re.DOTALL,
)
"""An ampersand that XML does not take, and the name behind it; or a CDATA section."""
_LINK_URI = re.compile(r"(<link\s[^<>]{0,999}?\b)uri=")
"""An attribute of a link that feedparser takes for its URL, such as ``at://...``."""
_NUMBERS = re.compile(
    r"\d{4}(?:-\d\d?)?+|\d{4}([-/])\d\d?\1\d\d?(?:[Tt\s]\s*+\d\d?:\d\d(?!\d).*+)?+"
)
"""Dates without a name that begin with a year, to the month or the day."""
_WORDS = re.compile(r"\D|\d\d?(?!\d)")
"""Dates with names, which begin with one or with a day."""
_NAMES = re.compile(r"[^\W\d_]{2}")
_ONE_DIGIT = re.compile(r"(?<!\d)(\d)(?!\d)")
_NO_HOST = re.compile(r"https?:(?!//[^/?#])", re.IGNORECASE)
"""What begins as a URL and is none; joined, it would be another page of the site."""


MOST_BYTES = 10 << 20
"""Of a feed: a megabyte takes half a second of CPU time, and a worker has ten."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of a feed is read."""

    max_bytes: int = MOST_BYTES
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
    """``guid``, ``id`` or ``rdf:about``."""
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

    items: tuple[Item, ...] = ()
    faults: tuple[str, ...] = ()
    """What is wrong with it or left out, each a clause for a line of the log."""
    is_cut: bool = False
    """Whether it ends in its last item, of which anything may be missing or cut."""


async def in_worker(
    workers: WorkerPool,
    body: bytes,
    content_type: str | None,
    url: str,
    limits: Limits,
) -> ParsedFeed:
    """`parse`, done by one of *workers*.

    Raises:
        NotAFeed: It is none, or reading it reaches a limit of the workers.
    """
    given = {"url": url, "content_type": content_type, "limits": asdict(limits)}
    items: list[Item] = []
    about: dict[str, Any] = {}
    try:
        async for part in workers.run("feed", body, given):
            if isinstance(part, dict):
                about = part
            else:
                items += map(_item_told, part)
    except WorkerFailed as failed:
        raise NotAFeed(url, f"cannot be read: {failed.reason}") from None
    if "refused" in about:
        raise NotAFeed(url, about["refused"])
    faults = tuple(about["faults"])
    return ParsedFeed(tuple(items), faults, about["is_cut"])


def feed_job(content: bytes, arguments: Mapping[str, Any]) -> Iterator[Any]:
    """`parse` in a worker: yields lists of items, and then what else the feed is."""
    limits = Limits(**arguments["limits"])
    try:
        feed = parse(content, arguments["content_type"], arguments["url"], limits)
    except NotAFeed as error:
        yield {"refused": error.reason}
        return
    for at in range(0, len(feed.items), PART):
        yield [
            [
                one.guid,
                one.link,
                [d.isoformat() for d in one.dates],
                one.title,
                *one.embeds,
            ]
            for one in feed.items[at : at + PART]
        ]
    yield {"faults": feed.faults, "is_cut": feed.is_cut}


def _item_told(told: list[Any]) -> Item:
    guid, link, dates, title, *embeds = told
    read = tuple(datetime.fromisoformat(date) for date in dates)
    return Item(guid, link, read, title, tuple(embeds))


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
            f"has {len(body):,} bytes, and {limits.max_bytes:,} are read",
        )
    text, fault = decoded(body, content_type)
    text = text.lstrip("\ufeff \t\r\n")
    faults = _Faults([fault] if fault else [])
    if text[:1] in ("{", "["):
        return _json_feed(text, url, limits, faults)
    text, is_cut = _within(text[_root(text, url) :], limits, faults)
    budget, entries = _Budget(limits.max_bytes), _entries(text, url, faults)
    items = [_item(dict(entry), url, faults, budget) for entry in entries]
    if budget.is_spent:
        faults.say(f"has more than {limits.max_bytes:,} bytes of links; others are out")
    return ParsedFeed(tuple(items), faults.all(), is_cut)


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
class _Budget:
    """Characters of links that may come out: a relative one has its base's length."""

    left: int

    @property
    def is_spent(self) -> bool:
        return self.left < 0


def _root(text: str, url: str) -> int:
    """Where the root of the feed *text* begins.

    Raises:
        NotAFeed: It is none.
    """
    at = _end(_PROLOG, text, 0)
    while (doctype := _DOCTYPE.match(text, at)) is not None:
        if doctype[1] == "[":
            raise NotAFeed(url, "has a DOCTYPE with a body, where entities could stand")
        if doctype[1] != ">":
            raise NotAFeed(url, "has a DOCTYPE that does not end")
        at = _end(_PROLOG, text, doctype.end())
    root = _ROOT.search(text, at)
    if root is None:
        raise NotAFeed(url, "there is no element in it" if text else "is empty")
    name = root[1].lower()
    if name in ("html", "head", "body"):
        raise NotAFeed(url, "is an HTML page, and no feed")
    if name not in ROOTS:
        raise NotAFeed(url, f"begins with <{name[:50]}>, which no feed does")
    return root.start()


def _end(expression: re.Pattern[str], text: str, at: int) -> int:
    found = expression.match(text, at)
    return found.end() if found else at


def _within(text: str, limits: Limits, faults: _Faults) -> tuple[str, bool]:
    """*text* without the items in its middle that are too many; whether it is cut."""
    starts, is_open = [], False
    for tag in _ITEM.finditer(text):
        is_open = not tag[1] and not tag[2].endswith("/")
        if not tag[1]:
            starts.append(tag.start())
    if len(starts) > limits.max_items:
        faults.say(limits.too_many)
        last = len(starts) - limits.max_items // 2
        end = starts[last] if last < len(starts) else len(text)
        text = text[: starts[limits.first]] + text[end:]
    return text, is_open


def _entries(text: str, url: str, faults: _Faults) -> list[Any]:
    """The items that feedparser finds in *text*.

    Raises:
        NotAFeed: It makes nothing of it.
    """
    import feedparser  # most processes read no feed

    # Without a base it leaves relative URLs as they are, and guids, too.
    headers = {"content-type": "application/xml; charset=utf-8"}
    mended = 0

    def as_xml(reference: re.Match[str]) -> str:
        """An ampersand as XML takes it; an entity of HTML is what it stands for."""
        nonlocal mended
        if reference[0].startswith("<"):
            return reference[0]
        mended += 1
        name = reference[1] or ""
        return html5.get(name, f"&amp;{name}")

    text = _LINK_URI.sub(r"\1data-uri=", _REFERENCE.sub(as_xml, text))
    try:
        found = feedparser.parse(
            io.BytesIO(text.encode("utf-8", "replace")),
            response_headers=headers,
            resolve_relative_uris=False,
            sanitize_html=False,
        )
    except Exception as error:  # noqa: BLE001 (it raises what it happens to)
        raise NotAFeed(url, f"cannot be read: {error!r}"[:200]) from None
    if mended:
        faults.say(f"is malformed: {mended:,} references are none of XML")
    if found["bozo"]:
        reason = str(found["bozo_exception"]).splitlines()[0]
        faults.say(f"is malformed: {reason[:200]}")
    entries: list[Any] = found["entries"]
    return entries


def _item(entry: Mapping[str, Any], url: str, faults: _Faults, budget: _Budget) -> Item:
    """*entry* of feedparser's, as a plain dict: its own looks elsewhere for a key."""
    own: Callable[..., Any] = entry.get
    guid, links = own("id") or "", [dict(link) for link in own("links") or []]
    given = [own("link")]
    given += [link.get("href") for link in links if link.get("rel") == "alternate"]
    if guid.lower().startswith(_ABSOLUTE):
        given += [] if "guidislink" in entry else [guid]  # an rdf:about
    elif own("guidislink"):
        given = [one for one in given if one != guid]  # it only says that it is one
    embeds = [link.get("href") for link in links if link.get("rel") == "enclosure"]
    embeds += [dict(content).get("src") for content in own("content") or []]
    embeds += [dict(media).get("url") for media in own("media_content") or []]
    dates = []
    for name in DATES:
        if not (written := own(name)):
            continue
        try:
            dates.append(_date(written, own(f"{name}_parsed")))
        except (TypeError, ValueError, OverflowError):
            faults.count("dates cannot be read")
    return Item(
        guid=_guid(guid),
        link=_first_url(given, url, faults, budget),
        dates=tuple(sorted(set(dates))),
        title=_line(own("title")),
        embeds=_urls(embeds, url, faults, budget),
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
    items, budget = [], _Budget(limits.max_bytes)
    for given in listed:
        if isinstance(given, dict):
            items.append(_json_item(given, url, faults, budget))
        else:
            faults.count("items are no objects")
    return ParsedFeed(tuple(items), faults.all())


def _json_item(
    given: Mapping[str, Any], url: str, faults: _Faults, budget: _Budget
) -> Item:
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
    links = [given.get("url"), given.get("external_url")]
    guid = given.get("id")
    if isinstance(guid, int | float) and not isinstance(guid, bool):
        guid = str(guid)
    return Item(
        guid=_guid(guid) if isinstance(guid, str) else None,
        link=_first_url(links, url, faults, budget),
        dates=tuple(sorted(set(dates))),
        title=_line(given.get("title")),
        embeds=_urls(embeds, url, faults, budget),
    )


def _date(text: str, parsed: Any) -> datetime:
    """The date *text*, which feedparser has *parsed*, or not.

    It takes any four digits for a year and what is missing from today's date,
    ``2024-032`` for the second of December, and a time without a zone for none.

    Raises:
        OverflowError: It is outside of the years 1 to 9999.
        TypeError: It is none.
        ValueError: The same.
    """
    if len(text) > LONGEST_DATE:
        raise ValueError
    try:
        return iso_date(text)
    except ValueError:
        is_named = _WORDS.match(text) and _NAMES.search(text)
        if not is_named and not _NUMBERS.fullmatch(text):
            raise
    if "/" in text[:10]:  # as of 2024/2/1, which feedparser has in no year
        return iso_date(_ONE_DIGIT.sub(r"0\1", text.replace("/", "-")))
    if parsed:
        year, month, day, hour, minute, second = parsed[:6]
        return datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    found = parsedate_to_datetime(text)
    zoned = found if found.tzinfo else found.replace(tzinfo=UTC)
    return zoned.astimezone(UTC)


def _first_url(
    given: list[Any], base: str, faults: _Faults, budget: _Budget
) -> str | None:
    found = _urls(given, base, faults, budget)
    return found[0] if found else None


def _urls(
    given: list[Any], base: str, faults: _Faults, budget: _Budget
) -> tuple[str, ...]:
    """Those of *given* that can be crawled, absolute, each once."""
    urls: dict[str, None] = {}
    for one in dict.fromkeys(one for one in given if isinstance(one, str)):
        url = _url(one, base, faults) if one else None
        if url is None:
            continue
        budget.left -= len(url)
        if budget.is_spent:
            break
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
    except ValueError:
        return None
    is_one = split(url).is_web and url.isprintable() and len(url) <= LONGEST_URL
    return url if is_one else None


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
