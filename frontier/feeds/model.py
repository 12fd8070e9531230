"""Sites, their feeds and their waits: the content of a configuration of any kind.

What always holds:

1.  A `Site` that `sites_of` has made can be crawled: its name is one line, its URLs are
    canonical, and its waits are within the limits. No feed is in two sites.
2.  A fault is reported with what would be right, and what cannot be used is left out,
    unless the source makes an error of it.

A wait is written as in CrawlRSS: days, hours, minutes and seconds, in that order, each
at most once, ``1d2h3m4s``. Unlike CrawlRSS we accept blanks between them, weeks, and a
number alone, which is seconds; we refuse a wait below `LEAST_WAIT_S`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from frontier.errors import InvalidURL
from frontier.settings.values import boolean, duration, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from frontier.settings.live_source import Source

    Sites = Source[Mapping[str, "Site"]]
    """A source of the configuration: the sites by name."""

T = TypeVar("T")

LEAST_WAIT_S = 1
"""With no wait at all a site would be asked without a pause."""
MOST_WAIT_S = 366 * 86_400
DEFAULT_WAIT = "1h"
"""The wait of a site for which the configuration has none."""
MAX_URL = 4_096
"""Characters of a URL."""
MAX_NAME = 200
"""Characters of a site's name."""


class Feed(NamedTuple):
    """A feed, and the pages that change when it does."""

    url: str
    """Canonical, of http or https."""
    implied: tuple[str, ...] = ()
    """Implied pages: fetched again whenever the feed has something new."""


class Site(NamedTuple):
    """Feeds that are fetched together, in rounds."""

    name: str
    feeds: tuple[Feed, ...]
    wait_s: int
    """Least seconds from the beginning of one round to that of the next."""
    wait_max_s: int
    """Seconds that an adaptive wait never exceeds; if ``wait_s``, the wait is fixed."""
    paused: bool = False
    """No round begins; what is known of the feeds stays."""
    ended: bool = False
    """The configuration still has it, but it is not crawled any more."""

    @property
    def want(self) -> str:
        """``active``, ``paused`` or ``ended``."""
        return "ended" if self.ended else "paused" if self.paused else "active"


def parse_wait(text: Any) -> int:
    """The seconds of a wait: ``1h30m``, ``1h 30m``, ``40d``, or ``90`` for 90 seconds.

    Raises:
        ValueError: It is not a wait, or is too short or too long.
    """
    try:
        seconds = duration(LEAST_WAIT_S, MOST_WAIT_S)(text)
    except ValueError as error:
        raise ValueError(f"the wait {shown(text)} {error}") from None
    if seconds % 1:
        raise ValueError(f"the wait {shown(text)} must be of whole seconds")
    return int(seconds)


def canonical_url(url: object) -> str:
    """*url* as browsers write it, without a fragment: one spelling for one feed.

    Raises:
        ValueError: It is not an http(s) URL that can be fetched.
    """
    from frontier.urls.canon.rulesets import standard

    try:
        made = standard(url.strip()).partition("#")[0] if isinstance(url, str) else ""
    except InvalidURL:
        made = ""
    if not made.startswith(("http://", "https://")):
        raise ValueError(f"{shown(url)} is not a URL of http or https")
    user, at, _ = made.split("/", 3)[2].rpartition("@")
    if at:
        raise ValueError(
            f"{shown(made.replace(user, '...', 1))} has a user or a password in it; "
            "use HttpAuthMiddleware"
        )
    if len(made) > MAX_URL:
        raise ValueError(f"{shown(url)} has more than {MAX_URL:,} characters")
    return made


def site_name(name: object) -> str:
    """*name*, if it is valid for a site.

    Raises:
        ValueError: It is empty, too long, or not one line of printable characters.
    """
    if not isinstance(name, str) or not name.strip():
        raise ValueError("a site needs a name")
    if len(name) > MAX_NAME or not name.isprintable() or name != name.strip():
        raise ValueError(
            f"{shown(name)} is not a name: at most {MAX_NAME} printable characters, "
            "without blanks around them"
        )
    return name


def sites_of(
    tables: Iterable[Mapping[str, Any]], fault: Callable[[int, str, str], None]
) -> dict[str, Site]:
    """The sites in *tables*, which have the keys of ``feeds.toml``, by name.

    *fault* is called with the number of a table that has a fault, counted from 0, the
    key or value in question, and what is wrong. If it returns, the site, feed, page or
    wait with the fault is left out.
    """
    sites: dict[str, Site] = {}
    known: set[str] = set()
    number = 0

    def checked(key: str, value: Any, check: Callable[[Any], T], other: T) -> T:
        try:
            return check(value)
        except ValueError as error:
            fault(number, key, str(error))
            return other

    def new_name(name: object) -> str:
        if name in sites:
            raise ValueError(f"there is a site {name!r} already")
        return site_name(name)

    def new_feed(url: object) -> str:
        made = canonical_url(url)
        if made in known:
            raise ValueError(f"the feed {made} is listed already")
        return made

    for number, table in enumerate(tables):
        if not (name := checked("name", table.get("name"), new_name, "")):
            continue
        wait = table.get("wait", DEFAULT_WAIT)
        least = checked("wait", wait, parse_wait, parse_wait(DEFAULT_WAIT))
        most = checked("wait_max", table.get("wait_max", least), parse_wait, least)
        if most < least:
            what = f"{table['wait_max']}, is shorter than the wait, {wait}"
            fault(number, "wait_max", f"the longest wait, {what}")
        feeds = []
        entries: list[Any] = checked("feeds", table.get("feeds", []), _list, [])
        for entry in entries:
            given = entry if isinstance(entry, dict) else {"url": entry}
            key = str(given.get("url", "feeds"))
            if not (url := checked(key, given.get("url"), new_feed, "")):
                continue
            known.add(url)
            pages: list[Any] = checked("implied", given.get("implied", []), _list, [])
            made = (checked(str(page), page, canonical_url, "") for page in pages)
            implied = tuple(filter(None, dict.fromkeys(made)))
            feeds.append(Feed(url, implied))
        states = (
            checked(key, table.get(key, False), boolean, False)
            for key in ("paused", "ended")
        )
        sites[name] = Site(name, tuple(feeds), least, max(least, most), *states)
    return sites


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError("write a list, in square brackets")  # noqa: TRY004
    return value
