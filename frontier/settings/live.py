"""The settings that an operator may change while a crawl runs: a closed list.

Each is read by the parser that reads it when a node starts; Scrapy's settings, by
parsers as strict. All others are refused with a reason: those that nodes share are
fixed when a crawl is created, and the rest are read only when a node starts.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import fields
from typing import Any

from frontier.errors import ConfigurationError
from frontier.model import frozen
from frontier.settings import values as parsers
from frontier.settings.config import PREFIX, Config

DELAY = "DOWNLOAD_DELAY"
PER_HOST = "CONCURRENT_REQUESTS_PER_DOMAIN"
DEPTH = "DEPTH_LIMIT"
SCOPE = "scope"
QUOTAS = ("FRONTIER_HOST_MAX_PAGES", "FRONTIER_HOST_MAX_BYTES")
LONGEST = 500
"""The most characters of a value."""


@frozen
class Live:
    """A setting that can be changed while a crawl runs."""

    parser: parsers.Parser
    about: str
    by_host: bool = False
    """Whether one host may have another value than the rest."""


_OURS = {PREFIX + one.name.upper(): one.metadata for one in fields(Config)}
_COUNT = parsers.whole(0, 10**12)
LIVE: dict[str, Live] = {
    DELAY: Live(parsers.duration(0, 86_400.0), "seconds between requests", True),
    PER_HOST: Live(parsers.whole(1, 1_000), "requests at a time to one host", True),
    "CLOSESPIDER_PAGECOUNT": Live(_COUNT, "pages of the crawl; 0: no limit"),
    "CLOSESPIDER_ITEMCOUNT": Live(_COUNT, "items of the crawl; 0: no limit"),
    "CLOSESPIDER_ERRORCOUNT": Live(_COUNT, "exceptions in callbacks; 0: no limit"),
    "CLOSESPIDER_TIMEOUT": Live(parsers.duration(0, 1e9), "seconds; 0: no limit"),
    SCOPE: Live(
        parsers.choice("host", "domain", "prefix", "all"),
        "what a spider with a scope follows",
    ),
    DEPTH: Live(parsers.whole(0, 10**6), "links from a seed; 0: no limit"),
    **{
        name: Live(row["parser"], row["live"])
        for name, row in _OURS.items()
        if row["live"]
    },
}
"""All of them by name, in the order in which they are listed."""


def value_of(name: str, text: str, host: str = "", fixed: Container[str] = ()) -> Any:
    """The value that *text* gives to the setting *name*, for one *host* if not empty.

    *fixed* are the names of the settings that were fixed when the crawl was created.

    Raises:
        ConfigurationError: It cannot be changed, or not to that, or not for one host.
    """
    live = LIVE.get(name)
    if live is None:
        raise ConfigurationError(_why_not(name, fixed))
    if host and not live.by_host:
        names = " and ".join(one for one in LIVE if LIVE[one].by_host)
        raise ConfigurationError(f"{name} is for all hosts; --host is for {names}")
    if len(text) > LONGEST or not text.isprintable() or not text:
        raise ConfigurationError(f"{name} = {text[:40]!r}: is not a value")
    try:
        return live.parser(text)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{name} = {text[:100]!r}: {error}") from None


def _why_not(name: str, fixed: Container[str]) -> str:
    shown = name[:100]
    if name in fixed:
        return f"{shown} is fixed when a crawl is created: another needs a new crawl"
    near = parsers.nearest(name, LIVE, least=0.75)
    if near:
        return f"{shown} cannot be changed while a crawl runs; did you mean {near}?"
    if name in _OURS:
        reason = "is read when a node starts"
    elif name.startswith(PREFIX):
        known = parsers.nearest(name, _OURS)
        hint = f"; did you mean {known}?" if known else ""
        return f"{shown} is not a setting of frontier{hint}"
    else:
        reason = "is not among those that can be changed while a crawl runs"
    return (
        f"{shown} {reason}: drain the nodes one after the other, and start them with "
        "it; frontier crawl set --list has those that can"
    )
