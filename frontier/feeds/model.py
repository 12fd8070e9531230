"""Sites, their feeds and their waits: what a configuration says, whatever it is.

What always holds:

1.  A `Site` that `site_of` has made can be crawled: its name is one line, its URLs are
    canonical, no feed is in it twice, and its waits are within the limits.
2.  What is wrong is a `InputBroken` that says where, and what would be right.

A wait is written as CrawlRSS does: days, hours, minutes and seconds, in that order,
each at most once, ``1d2h3m4s``. Unlike CrawlRSS we take blanks between them, weeks,
and a number alone, which is seconds; we refuse a wait below `LEAST_WAIT_S`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from frontier.errors import InvalidURL
from frontier.settings.values import UNITS, seconds_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

LEAST_WAIT_S = 1
"""With none at all a site would be asked without end."""
_DAYS = 366
MOST_WAIT_S = _DAYS * 86_400
DEFAULT_WAIT = "1h"
"""Of a site for which the configuration says none."""
MAX_SITES = 100_000
MAX_FEEDS = 1_000
"""Of one site."""
MAX_IMPLIED = 100
"""Pages of one feed."""
MAX_URL = 4_096
"""Characters of a URL."""
MAX_NAME = 200
"""Characters of a site's name."""


@dataclass(frozen=True, slots=True)
class Feed:
    """A feed, and the pages that change when it does."""

    url: str
    """Canonical, of http or https."""
    implied: tuple[str, ...] = ()
    """Implied pages: fetched again whenever the feed has something new."""


@dataclass(frozen=True, slots=True)
class Site:
    """Feeds that are fetched together, in rounds."""

    name: str
    feeds: tuple[Feed, ...]
    wait_s: int
    """Seconds from the beginning of one round to that of the next, at least."""
    wait_max_s: int
    """What an adaptive wait never exceeds; equal to ``wait_s``: the wait is fixed."""
    paused: bool = False
    """No round begins; what is known of the feeds stays."""
    ended: bool = False
    """The configuration still has it, but it is not crawled any more."""


class Sites(Protocol):
    """A source of the configuration: a file, or a database."""

    where: str
    """What it is called in messages; without a password."""
    notes: tuple[str, ...]
    """What the last reading left out, and why."""

    def read(self) -> Mapping[str, Site]:
        """The sites by name; may block, so it is called in a thread.

        Raises:
            InputBroken: It cannot be read, or says what cannot be.
        """
        ...


def parse_wait(text: str | int) -> int:
    """The seconds of a wait: ``1h30m``, ``1h 30m``, ``40d``, or ``90`` for 90 seconds.

    Raises:
        ValueError: It is no wait, or one that is too short or too long.
    """
    if isinstance(text, bool) or not isinstance(text, str | int):
        raise ValueError(f"{_shown(text)} is not a wait: {_FORM}")  # noqa: TRY004
    try:
        seconds = seconds_of(text)
    except ValueError:
        raise ValueError(f"{_shown(text)} is not a wait: {_FORM}") from None
    if seconds < LEAST_WAIT_S:
        raise ValueError(
            f"the wait {_shown(text)} is too short; it is {LEAST_WAIT_S}s at least"
        )
    if seconds > MOST_WAIT_S:
        raise ValueError(f"the wait {_shown(text)} is too long; it is {_DAYS}d at most")
    if seconds != int(seconds):
        raise ValueError(f"the wait {_shown(text)} is not in whole seconds")
    return int(seconds)


_FORM = (
    "write weeks, days, hours, minutes and seconds in that order, such as 40 days, "
    "1h30m or 90s; a number alone is seconds"
)


def format_wait(seconds: int) -> str:
    """*seconds* as `parse_wait` reads them, and as CrawlRSS does: ``1d2h3m4s``."""
    parts = []
    for unit in ("d", "h", "m", "s"):
        amount, seconds = divmod(seconds, UNITS[unit])
        if amount:
            parts.append(f"{amount}{unit}")
    return "".join(parts) or "0s"


def canonical_url(url: object) -> str:
    """*url* as browsers write it, without a fragment: one spelling for one feed.

    Raises:
        ValueError: It is not a URL of http or https that can be fetched.
    """
    from frontier.urls.canon.rulesets import standard

    if not isinstance(url, str) or not url.strip():
        raise ValueError(f"{_shown(url)} is not a URL")
    if len(url) > MAX_URL:
        raise ValueError(f"{_shown(url)} has more than {MAX_URL:,} characters")
    try:
        made = standard(url.strip()).partition("#")[0]
    except InvalidURL:
        raise ValueError(f"{_shown(url)} is not a URL") from None
    if not made.startswith(("http://", "https://")):
        raise ValueError(f"{_shown(url)} is not a URL of http or https")
    if "@" in made.split("/", 3)[2]:
        shown = made.replace(made.split("/", 3)[2].rpartition("@")[0] + "@", "...@", 1)
        raise ValueError(
            f"{_shown(shown)} has a user or a password in it; use HttpAuthMiddleware"
        )
    if len(made) > MAX_URL:
        raise ValueError(f"{_shown(url)} has more than {MAX_URL:,} characters")
    return made


def site_name(name: object) -> str:
    """*name*, which one site of a configuration has.

    Raises:
        ValueError: It is empty, too long, or not one line of printable characters.
    """
    if not isinstance(name, str) or not name.strip():
        raise ValueError("a site needs a name")
    if len(name) > MAX_NAME or not name.isprintable() or name != name.strip():
        raise ValueError(
            f"{_shown(name)} is not a name: at most {MAX_NAME} printable characters, "
            "without blanks around them"
        )
    return name


def feed_of(url: object, implied: Iterable[object] = ()) -> Feed:
    """A feed of what a configuration says.

    Raises:
        ValueError: A URL cannot be one, or there are too many pages.
    """
    pages = tuple(dict.fromkeys(canonical_url(page) for page in implied))
    if len(pages) > MAX_IMPLIED:
        raise ValueError(
            f"the feed {_shown(url)} has more than {MAX_IMPLIED} implied pages"
        )
    return Feed(canonical_url(url), pages)


def site_of(
    name: object,
    feeds: Iterable[Feed],
    wait: str | int = DEFAULT_WAIT,
    wait_max: str | int | None = None,
    *,
    paused: bool = False,
    ended: bool = False,
) -> Site:
    """A site of what a configuration says; without *wait_max* the wait is fixed.

    Raises:
        ValueError: Something of it cannot be; the message does not name the site.
    """
    called = site_name(name)
    least = parse_wait(wait)
    most = least if wait_max is None else parse_wait(wait_max)
    if most < least:
        raise ValueError(
            f"the longest wait, {format_wait(most)}, is shorter than the wait, "
            f"{format_wait(least)}"
        )
    site = Site(called, (), least, most, paused=paused, ended=ended)
    return with_feeds(site, feeds)


def with_feeds(site: Site, feeds: Iterable[Feed]) -> Site:
    """*site* with *feeds* instead of its own.

    Raises:
        ValueError: One of them is there twice, or they are too many.
    """
    listed = tuple(feeds)
    if len(listed) > MAX_FEEDS:
        raise ValueError(f"the site has more than {MAX_FEEDS:,} feeds")
    known: set[str] = set()
    for feed in listed:
        if feed.url in known:
            raise ValueError(f"the feed {feed.url} is in the site twice")
        known.add(feed.url)
    return replace(site, feeds=listed)


def _shown(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > 64:
        return "a huge number"
    text = repr(value[:201] if isinstance(value, str) else value)
    return text if len(text) <= 200 else f"{text[:200]}..."
