"""What the store knows of the rounds of sites: calls that change it, and their replies.

A site is in one of these states::

    WAITING -> CRAWLING -> WAITING          a round begins, and all its feeds answered
    any -> PAUSED, ENDED -> WAITING         as the configuration says

What always holds:

1.  A round waits for no URL: it is over when all its feeds have answered, or else when
    the next one is due. One script fragment says that, and when the next is due.
2.  A round that was begun, but whose feeds nobody has reported as queued, is begun
    again under its number.
3.  A feed that answers is noted once in a round, with what is known of its items then.
4.  A page that two feeds of a round have is queued by the one that claimed it first. If
    its node died, that feed queues the page again, and no other does.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgpack

from frontier.seen.config import pack
from frontier.store.calls import NOW
from frontier.store.client import Argument, Call
from frontier.store.keys import CrawlKeys, is_same

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from frontier.feeds.model import Site

META = "frontier_round"
"""Key of a request's ``meta``: its place in a round, as a list that begins with its
site. See `frontier.feeds.rounds.Place`."""
MOST_IDS = 500
"""Ids per call of a script."""
LONGEST_BACKOFF_S = 86_400
"""What fails is asked for at least once in this many seconds, or with each round."""


class FeedRecord(NamedTuple):
    """What the crawl knows of one feed."""

    url: str
    digest: str = ""
    """SHA-256 of the last good answer's body, in hex."""
    etag: str = ""
    modified: str = ""
    """Value of Last-Modified."""
    failures: int = 0
    """In a row."""
    resume: int = 0
    """The round before which it is not asked for again."""
    reason: str = ""
    """Why the last attempt failed; empty if it did not."""
    fetched: int = 0
    """When the last good answer came, in seconds since the Unix epoch."""
    newest: int = 0
    """The latest date of an item, in seconds since the Unix epoch."""
    items: int = 0
    """How many new items were found in it so far."""
    moved: str = ""
    """Where it has moved for good, if it has."""
    remark: str = ""
    """What is odd about it, though it was read; for people."""


class FailedPage(NamedTuple):
    """The page of an item that could not be fetched, and is asked for again.

    A newspaper's feed often has an article before the newspaper has its page.
    """

    url: str
    feed: str
    """The URL of the feed whose item it is."""
    failures: int = 0
    """In a row; 0 if an operator has asked for it."""
    resume: int = 0
    """The round before which it is not asked for again."""
    reason: str = ""
    """Why the last attempt failed."""
    asked: bool = False
    """An operator wants it, whether the feed has it or not."""
    tried: int = 0
    """The last round that has queued it since it failed first."""

    def is_due(self, number: int) -> bool:
        """Whether round *number* asks for it; also if it is cut off and begins anew."""
        return number == self.tried or number >= self.resume

    def tried_in(self, number: int, wait_s: int) -> FailedPage:
        """It, queued in round *number*: for a day, all others leave it to that one.

        Its request may wait for longer than *wait_s*. The answer sets a new time.
        """
        return self._replace(tried=number, resume=number + 1 + _most_left_out(wait_s))


_Failing = TypeVar("_Failing", FeedRecord, FailedPage)


def failed(known: _Failing, reason: str, number: int, wait_s: int) -> _Failing:
    """*known* after round *number* has failed to get it, for *reason*.

    It is left out of no round, then of 1, 3, 7, ..., but never of more than a day has
    if one begins every *wait_s* seconds.
    """
    left_out = min(2 ** min(known.failures, 20) - 1, _most_left_out(wait_s))
    return known._replace(
        failures=known.failures + 1, resume=number + 1 + left_out, reason=reason[:200]
    )


def _most_left_out(wait_s: int) -> int:
    """How many rounds may leave out what fails, if one begins every *wait_s*."""
    return max(LONGEST_BACKOFF_S // max(wait_s, 1), 1)


def feed_field(url: str) -> str:
    """The name of the fields of the feed at *url*, after ``feed:`` or ``items:``."""
    return hashlib.blake2s(url.encode(), digest_size=12).hexdigest()


def read_feed(url: str, packed: bytes | None) -> FeedRecord:
    """The record of the feed at *url*; an empty one if the store has none."""
    return FeedRecord._make(msgpack.unpackb(packed)) if packed else FeedRecord(url)


def read_pages(fields: Mapping[bytes, bytes]) -> dict[bytes, FailedPage]:
    """The pages of a site that failed, by their fingerprints."""
    return {
        field: FailedPage._make(msgpack.unpackb(packed))
        for field, packed in fields.items()
    }


def read_config(packed: bytes | None) -> dict[str, list[str]]:
    """The feeds of a site, and the implied pages of each."""
    return dict(msgpack.unpackb(packed)) if packed else {}


def update_call(keys: CrawlKeys, name: str, site: Site | None) -> Call:
    """The call that stores *site* as the configuration has it; ``None``: as ended."""
    said: list[Argument] = ["ended", "", "", ""]
    if site is not None:
        said = [site.want, pack(site.feeds), site.wait_s, site.wait_max_s]
    return Call.to("site_update", [keys.sites, keys.site(name)], [name, *said])


def due_call(keys: CrawlKeys, most: int) -> Call:
    """The call for at most *most* sites that are due, the longest first.

    It replies with their names, and with the name of the first site and when that is
    due, in ms; or with ``None`` if the crawl is not open.
    """
    is_open = [*is_same(keys), (("HGET", keys.meta, "state"), "open")]
    due = ("ZRANGEBYSCORE", keys.sites, "-inf", NOW, "LIMIT", 0, most)
    return Call.txn(is_open, [due, ("ZRANGE", keys.sites, 0, 0, "WITHSCORES")])


class Taken(NamedTuple):
    """A round that is to begin."""

    number: int
    now_ms: int
    """By the server's clock."""
    feeds: list[str]
    """Their URLs."""


def take_call(keys: CrawlKeys, name: str, look_ms: int) -> Call:
    """The call that takes the site *name*; `taken_of` reads its reply.

    Its feeds are taken again after *look_ms* if nobody reports that they are queued.
    """
    names = [keys.sites, keys.site(name), keys.claimed(name)]
    return Call.to("site_take", names, [name, look_ms])


def taken_of(reply: list[Any]) -> Taken | None:
    """What the *reply* to `take_call` says; `None` if no round is to begin."""
    if len(reply) < 3:
        return None
    return Taken(int(reply[0]), int(reply[1]), list(read_config(reply[2])))


def claim_call(
    keys: CrawlKeys, name: str, number: int, feed: str, pages: Sequence[bytes]
) -> Call:
    """The call that claims *pages*, given by their fingerprints.

    Its reply has a letter for each: ``y`` if the feed at the URL *feed* is to queue
    that page in the round.
    """
    args: list[Argument] = [number, feed_field(feed), *pages]
    return Call.to("round_claim", [keys.claimed(name)], args)


def note_call(
    keys: CrawlKeys,
    name: str,
    number: int,
    *,
    asked: Sequence[str] | None = None,
    feed: Sequence[Any] = (),
) -> Call:
    """The call that notes what is known of a round of the site *name*.

    *asked* are the fields of all feeds that the round has queued, once that is done;
    *feed* is ``[field, new items, name, value, ...]`` of one that has answered.
    """
    args = [name, number, "" if asked is None else pack(asked), pack(feed)]
    return Call.to("round_note", [keys.sites, keys.site(name)], args)


def refetch_call(
    keys: CrawlKeys, name: str, fingerprint: bytes, page: FailedPage
) -> Call:
    """The call that makes the next round of the site *name* ask for *page*.

    It returns the state of the site, and makes a round due now if the site waits.
    """
    names = [keys.sites, keys.site(name), keys.failed(name)]
    return Call.to("site_refetch", names, [name, fingerprint, pack(page)])
