"""Feeds as data: RSS 0.9 to 2.0, CDF, Atom 0.3 and 1.0, and JSON Feed 1.0 and 1.1.

feedparser reads twenty years of dialects, well-formed or not. It takes quadratic time
for some of what hostile servers send, so feeds are read by a worker process, which has
limits of CPU time and memory and may be killed; `in_worker` asks one to.

What always holds:

1.  feedparser is given a `BytesIO`, because it would open a file whose name it is
    given. Of the entities in a DOCTYPE it takes only those that stand for plain text.
2.  Only http(s) links come out, all absolute: they are resolved against ``xml:base``,
    or else against the URL that the feed came from, after redirects.
3.  A date that cannot be read is left out; so are a link that cannot be fetched, and
    the middle of a very long feed. `ParsedFeed.faults` says so, and also if the feed
    is malformed.
"""

from __future__ import annotations

import io
import json
import re
from calendar import timegm
from codecs import BOM_UTF8
from collections import Counter
from email.utils import parsedate
from typing import TYPE_CHECKING, Any, NamedTuple

from frontier.errors import NotAFeed, WorkerFailed
from frontier.urls.sitemaps import clauses, iso_date
from frontier.urls.split import split, web_url

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from frontier.workers.pool import WorkerPool

    _Parts = tuple[object, list[object], Iterable[str], list[object]]
    """What an entry has for an item: its guid, its links, the best first, the names of
    its dates, and its embeds."""

MOST_BYTES = 10 << 20
"""A larger feed is refused: a megabyte takes half a second of CPU time."""
MOST_ITEMS = 5_000
"""Items that are read of a longer feed, half of them at each end."""
LONGEST_URL = 4_096
"""Characters of a link; a longer one is left out."""
LONGEST_TITLE = 500
"""Characters; the rest is cut."""
EMBEDS = 20
"""The most embeds of one item; others are left out."""

_ITEM = re.compile(
    rb"<(/?)(?:[\w.-]++:)?+(?:item|entry)(?=[\s/>])([^<>]*+)", re.IGNORECASE
)
"""A tag of an item; an end tag has something in its first group."""
_BARE = re.compile(rb"(<!\[CDATA\[.*?(?:\]\]>|\Z))|&(?!#?\w{1,32};)", re.DOTALL)
"""An ampersand that does not begin a reference, as in the URLs of careless programs:
feedparser makes a bracket of ``&lang=en``. Or a CDATA section, which may have some."""
_LINK_URI = re.compile(rb"(<link\s[^<>]{0,999}?\b)uri=")
"""An attribute of a link that feedparser mistakes for its URL, such as ``at://...``."""
_HTML = re.compile(rb"<(?:!doctype )?(?:html|head|body)\b", re.IGNORECASE)


class Item(NamedTuple):
    """What a feed says about one page; empty where it says nothing."""

    guid: str = ""
    """``guid``, ``id`` or ``rdf:about``."""
    link: str = ""
    """Absolute."""
    dates: Sequence[int] = ()
    """All its dates, the earliest first, in seconds since the Unix epoch."""
    title: str = ""
    embeds: Sequence[str] = ()
    """Enclosures, ``media:content``, attachments: what a page of the item embeds."""


class ParsedFeed(NamedTuple):
    """A feed that was read, with the items in its order."""

    items: Sequence[Item]
    faults: Sequence[str]
    """What is wrong with it or left out, each a clause for a line of the log."""
    is_cut: bool
    """Whether it ends inside its last item, of which anything may be missing or cut."""


async def in_worker(
    workers: WorkerPool, body: bytes, content_type: str, url: str
) -> ParsedFeed:
    """Have one of *workers* `parse` a feed.

    Raises:
        NotAFeed: It is not a feed, or reading it reaches a limit of the workers.
    """
    given = {"url": url, "content_type": content_type}
    try:
        (said,) = [part async for part in workers.run("feed", body, given)]
    except WorkerFailed as failed:
        raise NotAFeed(url, f"cannot be read: {failed.reason}") from None
    if isinstance(said, str):
        raise NotAFeed(url, said)
    return ParsedFeed([Item._make(item) for item in said[0]], *said[1:])


def feed_job(content: bytes, arguments: Mapping[str, Any]) -> Iterator[Any]:
    """Run `parse` in a worker; yield the feed, or why it is not one."""
    try:
        yield parse(content, **arguments)
    except NotAFeed as error:
        yield error.reason


def parse(body: bytes, content_type: str, url: str) -> ParsedFeed:
    """The feed in *body*, which came from *url* after all redirects.

    *body* is without content coding; *content_type* is the value of the header.

    Raises:
        NotAFeed: It is too large, or something else, such as an HTML page.
    """
    if len(body) > MOST_BYTES:
        raise NotAFeed(url, f"has {len(body):,} bytes, and {MOST_BYTES:,} are read")
    faults: Counter[str] = Counter()
    is_json = body.removeprefix(BOM_UTF8).lstrip()[:1] in {b"{", b"["}
    if is_json:
        parts, entries = _json_parts, _of_json(body, url)
    else:
        parts, entries = _xml_parts, _of_xml(body, content_type, url, faults)
    if len(entries) > MOST_ITEMS:
        half = MOST_ITEMS // 2
        faults[f"has more than {MOST_ITEMS:,} items: {half:,} at each end are read"] = 0
        entries = entries[:half] + entries[-half:]
    items = []
    for entry in entries:
        guid, links, dates, embeds = parts(entry)
        title = entry.get("title")
        line = " ".join(title.split()) if isinstance(title, str) else ""
        item = Item(
            "" if guid is None else str(guid).strip(),
            "".join(_urls(links, url, faults)[:1]),
            _dates(entry, dates, faults),
            line[:LONGEST_TITLE],
            _urls(embeds, url, faults),
        )
        items.append(item)
    tags = [] if is_json else _ITEM.findall(body)
    is_cut = bool(tags) and not tags[-1][0] and not tags[-1][1].endswith(b"/")
    return ParsedFeed(items, clauses(faults), is_cut)


def _of_xml(
    body: bytes, content_type: str, url: str, faults: Counter[str]
) -> list[dict[str, Any]]:
    """The items that feedparser finds.

    Raises:
        NotAFeed: It cannot read *body*.
    """
    import feedparser  # most processes read no feed

    if b"\0" not in body[:8]:  # wide characters have them
        body = _BARE.sub(lambda bare: bare[1] or b"&amp;", body)
        body = _LINK_URI.sub(rb"\1data-uri=", body)
    try:
        found = feedparser.parse(
            io.BytesIO(body),
            # Without a base it leaves relative URLs, and guids, as they are.
            response_headers={"content-type": content_type or "application/xml"},
            resolve_relative_uris=False,
            sanitize_html=False,
        )
    except Exception as error:  # noqa: BLE001 (it may raise anything)
        raise NotAFeed(url, f"cannot be read: {error!r}"[:200]) from None
    if not found.get("version") and not found["entries"]:
        is_page = _HTML.search(body[:1_000])
        kind = "an HTML page, and no feed" if is_page else "no feed that is known"
        raise NotAFeed(url, f"is {kind}" if body.strip() else "is empty")
    fault = found.get("bozo_exception")
    if fault and not isinstance(fault, feedparser.ThingsNobodyCaresAboutButMe):
        faults[f"is malformed: {str(fault).splitlines()[0][:200]}"] = 0
    # feedparser's own dicts look elsewhere for a key that they lack.
    return [dict(entry) for entry in found["entries"]]


def _xml_parts(entry: dict[str, Any]) -> _Parts:
    links = [dict(link) for link in entry.get("links") or ()]
    guid, link = entry.get("id") or "", entry.get("link")
    if entry.get("guidislink") and link == guid and not split(guid).is_web:
        link = None  # it only claims to be one
    others = [one.get("href") for one in links if one.get("rel") == "alternate"]
    if "guidislink" not in entry and split(guid).is_web:
        others.append(guid)  # an rdf:about
    embeds = [one.get("href") for one in links if one.get("rel") == "enclosure"]
    embeds += [dict(content).get("src") for content in entry.get("content") or ()]
    embeds += [dict(media).get("url") for media in entry.get("media_content") or ()]
    return guid, [link, *others], ("published", "updated", "created"), embeds


def _of_json(body: bytes, url: str) -> list[dict[str, Any]]:
    """The items of https://www.jsonfeed.org/version/1.1/ or 1.0.

    Raises:
        NotAFeed: It is not such a feed.
    """
    try:
        feed = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise NotAFeed(url, f"is broken JSON: {error}"[:200]) from None
    if not isinstance(feed, dict) or not isinstance(feed.get("items"), list):
        raise NotAFeed(url, "is JSON, and no JSON Feed")
    return [item for item in feed["items"] if isinstance(item, dict)]


def _json_parts(entry: dict[str, Any]) -> _Parts:
    attached = entry.get("attachments")
    embeds = [
        one.get("url")
        for one in (attached if isinstance(attached, list) else ())
        if isinstance(one, dict)
    ]
    urls = [entry.get("url"), entry.get("external_url")]
    return entry.get("id"), urls, ("date_published", "date_modified"), embeds


def _dates(
    entry: Mapping[str, Any], names: Iterable[str], faults: Counter[str]
) -> list[int]:
    dates = set()
    for name in names:
        if not (written := entry.get(name)):
            continue
        try:
            dates.add(_date(written, entry.get(f"{name}_parsed")))
        except (TypeError, ValueError, OverflowError):
            faults["dates cannot be read"] += 1
    return sorted(dates)


def _date(written: str, parsed: Any) -> int:
    """The date that is *written*, in Unix seconds; feedparser may have *parsed* it.

    Raises:
        OverflowError: It is outside the years 1 to 9999.
        TypeError: It is not a date.
        ValueError: The same.
    """
    try:
        return int(iso_date(written).timestamp())
    except ValueError:
        return timegm(parsed or parsedate(written) or ())


def _urls(given: Iterable[object], base: str, faults: Counter[str]) -> list[str]:
    """Those of *given* that can be crawled, absolute, each once, at most `EMBEDS`."""
    urls: dict[str, None] = {}
    for one in dict.fromkeys(one for one in given if isinstance(one, str) and one):
        if url := web_url(base, one.strip().replace(" ", "%20"), LONGEST_URL):
            urls[url] = None
        else:
            faults["links are no URLs of http or https"] += 1
    return list(urls)[:EMBEDS]
