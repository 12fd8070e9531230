"""What the store has of the rounds of sites: calls that change it, and their replies.

A site is in one of these states::

    WAITING -> CRAWLING -> WAITING          a round begins, and all its feeds answered
    any -> PAUSED, ENDED -> WAITING         as the configuration says

What always holds:

1.  A round waits for no URL: it is over when all its feeds have answered, or else when
    the next one is due. One script says that, and when the next is due.
2.  A round that was begun, and of which nobody said that its feeds are queued, is begun
    again under its number.
3.  A feed that answers is noted once in a round, with what is known of its items then.
4.  A page that two feeds of a round have is queued by the one that claimed it first.
    That one queues it again if its node died, and no other does.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import msgpack

from frontier.seen.config import pack
from frontier.store.client import Call
from frontier.store.scripts import (
    PAGES_NOTE,
    ROUND_CLAIM,
    ROUND_NOTE,
    SITE_TAKE,
    SITE_UPDATE,
    SITES_DUE,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from frontier.feeds.model import Site
    from frontier.store.client import Argument
    from frontier.store.keys import CrawlKeys

ACTIVE, PAUSED, ENDED = "active", "paused", "ended"
"""What the configuration wants of a site."""
OURS = "y"
"""What `claim_call` says of a page that the feed is to queue."""
IDLE_MS = 60_000
"""Until a site of which no feed may be fetched is looked at again, in ms."""
MOST_IDS = 500
"""Ids per call of a script."""
MOST_PAGES = 10_000
"""Pages of one site that failed; pages beyond are not asked for again."""
LONGEST_BACKOFF_S = 86_400
"""A feed that fails is asked once in so many seconds at least, or with each round."""


def feed_field(url: str) -> str:
    """What fields of the feed at *url* are called, behind ``feed:`` or ``items:``."""
    return hashlib.blake2s(url.encode(), digest_size=12).hexdigest()


def names_of(keys: CrawlKeys, name: str) -> list[str]:
    """The keys of the site *name*, in the order in which scripts take them."""
    return [keys.sites(), keys.site(name), keys.rounds(name)]


def update_call(keys: CrawlKeys, site: Site) -> Call:
    """The call that has *site* be as the configuration says."""
    want = ENDED if site.ended else PAUSED if site.paused else ACTIVE
    config = pack([[feed.url, list(feed.implied)] for feed in site.feeds])
    args = [site.name, want, config, site.wait_s, site.wait_max_s]
    return Call.to(SITE_UPDATE, names_of(keys, site.name), args)


def end_call(keys: CrawlKeys, name: str) -> Call:
    """The call that ends the site *name*, which the configuration has no more."""
    return Call.to(SITE_UPDATE, names_of(keys, name), [name, ENDED, "", "", ""])


class Due(NamedTuple):
    """What is to be looked at."""

    now: int
    """Time of the server in ms since the Unix epoch."""
    next: int
    """When the next site is due that is not yet, in ms; -1 if none will be."""
    names: list[str]


def due_call(keys: CrawlKeys, most: int) -> Call:
    """The call whose reply `due_of` reads: *most* sites that are due."""
    return Call.to(SITES_DUE, [keys.sites(), keys.meta()], [most, keys.born])


def due_of(reply: list[bytes]) -> Due:
    """What the *reply* to `due_call` says."""
    now, later, *names = reply
    told = (name.decode("utf-8", "surrogateescape") for name in names)
    return Due(int(now), int(later), list(told))


class Taken(NamedTuple):
    """A round that is to begin."""

    number: int
    now_ms: int
    """By the server's clock."""
    feeds: list[tuple[str, list[str]]]
    """URLs of feeds, and of their implied pages."""


def take_call(keys: CrawlKeys, name: str, *, look_ms: int, idle: bool = False) -> Call:
    """The call that takes the site *name*; `taken_of` reads its reply.

    Its feeds are taken once more after *look_ms* if nobody says that they are queued.
    No round begins of a site that is *idle*: of its feeds none may be fetched.
    """
    names = [*names_of(keys, name), keys.claimed(name)]
    return Call.to(SITE_TAKE, names, [name, look_ms, IDLE_MS if idle else ""])


def taken_of(reply: list[Any]) -> Taken | None:
    """What the *reply* to `take_call` says; `None` if no round is to begin."""
    if len(reply) < 3:
        return None
    return Taken(int(reply[0]), int(reply[1]), read_config(reply[2]))


def claim_call(
    keys: CrawlKeys, name: str, number: int, feed: str, pages: Sequence[bytes]
) -> Call:
    """The call whose reply has a letter for each of *pages*, by their fingerprints.

    It is `OURS` if the feed at the URL *feed* is to queue that page in the round.
    """
    args: list[Argument] = [number, feed_field(feed), *pages]
    return Call.to(ROUND_CLAIM, [keys.site(name), keys.claimed(name)], args)


def read_config(packed: bytes | None) -> list[tuple[str, list[str]]]:
    """The feeds of a site, and the implied pages of each."""
    return [(url, pages) for url, pages in unpacked(packed) or ()]


def unpacked(packed: bytes | None) -> Any:
    """What is in *packed*; ``None`` if nothing that can be read."""
    try:
        return msgpack.unpackb(packed, strict_map_key=False) if packed else None
    except Exception:  # noqa: BLE001 (msgpack raises many types)
        return None


@dataclass(slots=True)
class Facts:
    """What is known of one round, and the store has not been told yet."""

    asked: list[str] | None = None
    """Fields of all feeds that it has queued, once that is done."""
    feeds: list[list[Any]] = field(default_factory=list)
    """``[field, new items, name, value, ...]`` of each that has answered."""
    pages: list[tuple[bytes, bytes]] = field(default_factory=list)
    """Fingerprints of items' pages, and what is kept of those that failed."""
    urls: int = 0
    """By how many more of its URLs are queued."""


def note_calls(keys: CrawlKeys, name: str, number: int, facts: Facts) -> list[Call]:
    """The calls that note *facts*."""
    calls = [
        pages_call(keys, name, facts.pages[first : first + MOST_IDS])
        for first in range(0, len(facts.pages), MOST_IDS)
    ]
    if facts.feeds or facts.urls or facts.asked is not None:
        asked = "" if facts.asked is None else pack(facts.asked)
        args = [name, number, asked, pack(facts.feeds), facts.urls]
        calls.append(Call.to(ROUND_NOTE, names_of(keys, name), args))
    return calls


def pages_call(
    keys: CrawlKeys, name: str, pages: Sequence[tuple[bytes, bytes]]
) -> Call:
    """The call that notes which *pages* failed, and which do not now."""
    args = [MOST_PAGES, pack([list(page) for page in pages])]
    return Call.to(PAGES_NOTE, [keys.site(name), keys.failed(name)], args)


def rounds_left_out(failures: int, wait_s: int) -> int:
    """Rounds that leave out what has failed so often in a row: none, 1, 3, 7, ...

    But no more than there are in a day, if one begins each *wait_s* seconds.
    """
    most = max(LONGEST_BACKOFF_S // max(wait_s, 1), 1)
    doubled: int = 2 ** min(max(failures, 1) - 1, 20)
    return min(doubled - 1, most)


@dataclass(frozen=True, slots=True)
class FeedRecord:
    """What the crawl knows of one feed."""

    url: str
    digest: str = ""
    """Of the last good answer's body, in hex."""
    etag: str = ""
    modified: str = ""
    """Value of Last-Modified."""
    failures: int = 0
    """In a row."""
    resume: int = 0
    """The round before which it is not asked again."""
    reason: str = ""
    """Why the last answer was none; empty if it was one."""
    fetched: int = 0
    """When an answer came last, in seconds since the Unix epoch."""
    newest: int = 0
    """The latest date of an item, in the same."""
    items: int = 0
    """New ones that were found in it so far."""
    location: str = ""
    """Where it was found, if that is another URL than its own."""
    moved: str = ""
    """Where it has moved for good, if that is so."""
    remark: str = ""
    """What is odd about it, though it was read; for people."""

    def failed(self, reason: str, number: int, wait_s: int) -> FeedRecord:
        """This, after round *number* has failed to get it.

        `rounds_left_out` says how many leave it out.
        """
        failures = min(self.failures + 1, 1_000)
        resume = number + 1 + rounds_left_out(failures, wait_s)
        return replace(self, failures=failures, resume=resume, reason=reason[:200])

    def answered(self, fetched: int) -> FeedRecord:
        """This, after it has answered as it should."""
        return replace(self, failures=0, resume=0, reason="", fetched=fetched)

    def packed(self) -> bytes:
        """This as the store has it."""
        made: bytes = pack({name: getattr(self, name) for name in self.__slots__})
        return made


def read_feed(url: str, packed: bytes | None) -> FeedRecord:
    """The record of the feed at *url*; one of which nothing is known if it has none."""
    value = unpacked(packed)
    is_one = isinstance(value, dict) and value.keys() == set(FeedRecord.__slots__)
    return FeedRecord(**value) if is_one else FeedRecord(url)


class PastRound(NamedTuple):
    """A round that has ended."""

    number: int
    emitted_ms: int
    """When it began, in ms since the Unix epoch."""
    feeds: int
    """That were asked for."""
    unanswered: int
    """Feeds that had not answered when the next round was due."""
    items: int
    """New ones in its feeds."""
    failed: int
    """Pages of items that could not be had, and are asked for again."""
    wait_s: int
    """From its beginning to that of the next."""


def read_rounds(lines: Iterable[bytes]) -> list[PastRound]:
    """The rounds in *lines*, in their order."""
    return [PastRound(*map(int, line.split(b" "))) for line in lines]
