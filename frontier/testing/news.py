"""The part of the site that publishes: feeds, and the items in them, numbered from 0.

What there is on every host of a site that has so many items *published*:

=====================  ==========================================================
``/feed/rss.xml``      RSS 2.0 of the even items, the last ``SHOWN`` of them
``/feed/atom.xml``     Atom of the odd ones
``/news``              the page of all that the RSS feed shows: it is implied
``/news/N``            an item, if it is published; it shows ``/img/news-N.png``
``/feed/moved.xml``    301 to ``/feed/rss.xml``
``/feed/self.xml``     301 to itself
``/feed/page.xml``     a page in place of a feed
``/feed/broken.xml``   500
=====================  ==========================================================

No page elsewhere links here, and nothing here reads a clock: an item is dated by its
number.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

SHOWN = 20
"""Items in a feed."""
FIRST = datetime(2024, 1, 1, tzinfo=UTC)
"""Date of item 0; each other item is an hour later than the one before."""
IMPLIED = "/news"
FEEDS = ("/feed/rss.xml", "/feed/atom.xml")
ODD: Mapping[str, str] = {
    "/feed/moved.xml": "/feed/rss.xml",
    "/feed/self.xml": "/feed/self.xml",
}
"""What is redirected, and where to."""


def shown(parity: int, published: int) -> list[int]:
    """The items of a feed, the newest first: even ones if *parity* is 0, or odd."""
    numbers = [n for n in range(published) if n % 2 == parity]
    return numbers[::-1][:SHOWN]


def item_url(base: str, number: int) -> str:
    """The page of item *number*."""
    return f"{base}/news/{number}"


def image_path(number: int) -> str:
    """The picture on that page."""
    return f"/img/news-{number}.png"


def rss(base: str, published: int) -> bytes:
    """The RSS feed of the host at *base*; links are relative in every third item."""
    items = []
    for number in shown(0, published):
        link = f"/news/{number}" if number % 3 == 0 else item_url(base, number)
        date = format_datetime(FIRST + timedelta(hours=number), usegmt=True)
        items.append(
            f"<item><title>Item {number}</title><link>{link}</link>"
            f"<guid isPermaLink='false'>n{number}</guid>"
            f"<pubDate>{date}</pubDate></item>"
        )
    return (
        "<?xml version='1.0'?>\n<rss version='2.0'><channel><title>Even news</title>"
        f"<link>{base}/news</link>{''.join(items)}</channel></rss>\n"
    ).encode()


def atom(base: str, published: int) -> bytes:
    """The Atom feed of the host at *base*."""
    entries = []
    for number in shown(1, published):
        date = (FIRST + timedelta(hours=number)).isoformat()
        entries.append(
            f"<entry><title>Item {number}</title><id>tag:{number}</id>"
            f"<link href='{item_url(base, number)}'/><updated>{date}</updated></entry>"
        )
    return (
        "<?xml version='1.0'?>\n<feed xmlns='http://www.w3.org/2005/Atom'>"
        f"<title>Odd news</title>{''.join(entries)}</feed>\n"
    ).encode()


def expected(base: str, published: int) -> set[str]:
    """The URLs of a host that a crawl following both feeds from the start fetches."""
    urls = {base + path for path in (*FEEDS, IMPLIED)}
    for number in range(published):
        urls |= {item_url(base, number), base + image_path(number)}
    return urls
