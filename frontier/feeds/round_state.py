"""What the store has of the rounds of sites: calls that change it, and their replies.

A site is in one of these states::

    WAITING -> CRAWLING -> WAITING          a round begins, and ends
    CRAWLING -> UPDATING -> WAITING         its configuration changes in a round
    WAITING -> PAUSED, ENDED -> WAITING     as the configuration says

UPDATING is no state of its own in the store: it is a round that goes on while the site
is wanted otherwise, or with other feeds, than the round began with.

What always holds:

1.  A round ends in one script, when none of its URLs is in progress and all its feeds
    were queued, or when somebody gives it up. That script says when the next is due.
2.  What is in progress is a set of ids, not a number: to note twice that a URL is
    queued, or done with, changes nothing. An id is in it before its URL is queued.
3.  A URL is queued once in a round, for its id is known until the round ends; twice
    only if a node died, or a round was given up. It is queued for the feed that noted
    it first, and for that again if its node died. A note that comes late, of a node
    that was frozen, changes nothing of a URL that is done with.
4.  What the store says is data of unknown origin: what cannot be is as if it were not
    there.
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
    ROUND_ADD,
    ROUND_BEGIN,
    ROUND_NOTE,
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
QUEUE, QUEUED, LATE = "n", "q", "l"
"""What `add_call` says of a URL: to be queued, queued before, its round is over."""
IDLE_MS = 60_000
"""Until a site of which no feed may be fetched is looked at again, in ms."""
MOST_IDS = 500
"""Ids per call of a script."""
MOST_PAGES = 10_000
"""Pages of one site that failed; pages beyond are not asked for again."""
MAX_STATE = 2_000_000
"""Bytes of a value that are read."""
URL_KEPT = 300
"""Characters of a URL that is in progress, for messages."""
LONGEST_BACKOFF_S = 86_400
"""A feed that fails is asked once in so many seconds at least, or with each round."""


def round_id(fingerprint: bytes, attempt: int) -> bytes:
    """What a round knows a URL by; an *attempt* after the first is another id."""
    told = fingerprint + str(attempt).encode()
    return hashlib.blake2s(told, digest_size=9).digest()


def feed_field(url: str) -> str:
    """What fields of the feed at *url* are called, behind ``feed:`` or ``items:``."""
    return hashlib.blake2s(url.encode(), digest_size=12).hexdigest()


def names_of(keys: CrawlKeys, name: str) -> list[str]:
    """The keys of the site *name*, in the order in which scripts take them."""
    return [
        keys.sites(),
        keys.site(name),
        keys.round(name),
        keys.had(name),
        keys.rounds(name),
    ]


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


def begin_call(
    keys: CrawlKeys,
    name: str,
    node_id: str,
    *,
    look_ms: int,
    max_ms: int,
    idle: bool = False,
) -> Call:
    """The call by which *node_id* takes the site *name*; `taken_of` reads its reply.

    The site is looked at again after *look_ms*; a round of *max_ms* is ended. No round
    begins of one that is *idle*: of its feeds none may be fetched.
    """
    args: list[Argument] = [name, node_id, look_ms, max_ms, IDLE_MS if idle else ""]
    return Call.to(ROUND_BEGIN, names_of(keys, name), args)


class InProgress(NamedTuple):
    """A URL of a round that nobody has done with."""

    id: bytes
    partition: int
    """-1 if it is not known."""
    url: str
    feed: str = ""
    """The URL of the feed for which it is queued; only to be told, never read."""


class Taken(NamedTuple):
    """What there is to do about a site that was due."""

    what: str
    """``begin``, ``look``, ``over`` or ``not``; see `round_begin.lua`."""
    number: int
    feeds: list[tuple[str, list[str]]]
    """URLs of feeds and of their implied pages, if the round is to begin."""
    left: list[InProgress]


def taken_of(reply: list[Any]) -> Taken:
    """What the *reply* to `begin_call` says."""
    what, number = reply[0].decode(), int(reply[1])
    if what == "begin":
        return Taken(what, number, read_config(reply[2]), [])
    pairs = zip(reply[2::2], reply[3::2], strict=True)
    return Taken(what, number, [], [in_progress(*pair) for pair in pairs])


def in_progress(id_: bytes, value: bytes) -> InProgress:
    """What a round's *value* says of the URL that it knows by *id_*."""
    partition, _, url = (
        value[1 : URL_KEPT * 4].decode("utf-8", "replace").partition(" ")
    )
    partition = partition.partition(":")[0]
    is_known = partition.isascii() and partition.isdecimal() and len(partition) < 7
    return InProgress(id_, int(partition) if is_known else -1, url)


def read_config(packed: bytes | None) -> list[tuple[str, list[str]]]:
    """The feeds of a site, and the implied pages of each; those that can be read."""
    found: list[tuple[str, list[str]]] = []
    value = unpacked(packed)
    for each in value if isinstance(value, list) else ():
        match each:
            case [str(url), [*pages]] if all(isinstance(page, str) for page in pages):
                found.append((url, pages))
    return found


def unpacked(packed: bytes | None) -> Any:
    """What is in *packed*, of unknown origin; ``None`` if nothing."""
    if not packed or len(packed) > MAX_STATE:
        return None
    try:
        return msgpack.unpackb(packed, strict_map_key=False)
    except Exception:  # noqa: BLE001 (msgpack raises many types)
        return None


def add_call(
    keys: CrawlKeys, name: str, number: int, urls: Sequence[InProgress]
) -> Call:
    """The call that notes *urls* in the round; its reply has a letter for each."""
    args: list[str | bytes | int] = [name, number]
    for one in urls:
        place = f"{one.partition}:{feed_field(one.feed)}"
        args += (one.id, f"{place} {one.url[:URL_KEPT]}")
    return Call.to(ROUND_ADD, names_of(keys, name), args)


@dataclass(slots=True)
class Facts:
    """What is known of the URLs of one round, and the store has not been told yet."""

    queued: list[bytes] = field(default_factory=list)
    seen: list[bytes] = field(default_factory=list)
    """Tested, and not queued."""
    lost: list[bytes] = field(default_factory=list)
    done: list[bytes] = field(default_factory=list)
    feeds: list[list[Any]] = field(default_factory=list)
    """``[id, new items, field, value, ...]``"""
    pages: list[tuple[bytes, bytes]] = field(default_factory=list)
    """Fingerprints of items' pages, and what is kept of those that failed."""
    whole: int | None = None
    """How many feeds the round has, once all of them are queued."""


def note_calls(keys: CrawlKeys, name: str, number: int, facts: Facts) -> list[Call]:
    """The calls that note *facts*; a reply of 1 says that one of them ended the round.

    What ends it goes last, and not before what is in progress because of it is told.
    """
    names = names_of(keys, name)
    calls = [
        pages_call(keys, name, number, facts.pages[first : first + MOST_IDS])
        for first in range(0, len(facts.pages), MOST_IDS)
    ]
    columns = (facts.queued, facts.seen, facts.lost, facts.done)
    longest = max(map(len, columns))
    for first in range(0, max(longest, 1), MOST_IDS):
        is_last = first + MOST_IDS >= longest
        some = [column[first : first + MOST_IDS] for column in columns]
        ids = set(some[-1])
        feeds = [one for one in facts.feeds if is_last or one[0] in ids]
        facts.feeds = [one for one in facts.feeds if one not in feeds]
        whole = "" if facts.whole is None or not is_last else facts.whole
        packed = pack([*some, feeds])
        calls.append(Call.to(ROUND_NOTE, names, [name, number, whole, packed]))
    return calls


def pages_call(
    keys: CrawlKeys, name: str, number: int, pages: Sequence[tuple[bytes, bytes]]
) -> Call:
    """The call that notes which *pages* failed in the round, and which do not now."""
    args = [number, MOST_PAGES, pack([list(page) for page in pages])]
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
    """The record of the feed at *url*; of what cannot be read nothing is known."""
    value = unpacked(packed)
    record = FeedRecord(url)
    if not isinstance(value, dict) or value.get("url") != url:
        return record
    known: dict[str, Any] = {}
    for name in record.__slots__:
        told: Any = value.get(name)
        if type(told) is type(getattr(record, name)):
            known[name] = max(told, 0) if isinstance(told, int) else told[:4_000]
    return replace(record, **known)


class PastRound(NamedTuple):
    """A round that has ended."""

    number: int
    emitted_ms: int
    """When it began, in ms since the Unix epoch."""
    took_ms: int
    feeds: int
    urls: int
    """That were in progress at some time of it."""
    items: int
    """New ones in its feeds."""
    lost: int
    """URLs that nobody had any more, or that were not done with when it was ended."""
    wait_s: int
    """From its beginning to that of the next."""
    failed: int = 0
    """Pages of items that could not be had, and are asked for again."""


def read_rounds(lines: Iterable[bytes]) -> list[PastRound]:
    """The rounds in *lines*, in their order; what is none is left out."""
    found = []
    for line in lines:
        numbers = line[:200].split(b" ")
        many = len(PastRound._fields)
        if len(numbers) in (many - 1, many) and all(
            number.isdigit() and len(number) < 16 for number in numbers
        ):
            found.append(PastRound(*map(int, numbers)))
    return found
