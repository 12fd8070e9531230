"""What a setting may be: parsers, each of which returns a value that can work.

What always holds:

1.  A parser takes what a settings file, the command line or `Config.as_settings`
    may hold, and returns the value in effect, or raises `ValueError` (`TypeError`
    if it is no such thing at all) with what it must be. The caller, who knows the
    setting's name, adds that.
"""

from __future__ import annotations

import difflib
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from frontier.files import mode_of
from frontier.model import Order
from frontier.settings.patterns import compiled

PREFIX = "FRONTIER_"
"""What the names of our settings begin with."""
ADDRESSES = ("public", "private", "loopback", "link-local", "metadata", "reserved")
"""Classes of network addresses; see `frontier.urls.addresses`."""
TIERS = ("recent", "bloom", "set")
QUEUE_KEYS = ("host", "domain")
RULES = ("mime", "status", "url")
"""Kinds of rules about what is archived."""
MIME = re.compile(r"[A-Za-z0-9*?.+_-]+(?:/[A-Za-z0-9*?.+_-]+)?")
UNNAMED = "-"
"""The default collection, in a list of names."""
RESERVED = frozenset({"c", "commit", "frontier", "h", "purge", "rev", "src"})
"""How keys of the default collection begin: the key of its digests of a crawl
``alldupes`` would be that of the digests of all crawls of a collection ``h``."""
CANON_RULES = (
    "scrapy",
    "heritrix",
    "openwayback",
    "openwayback-key",
    "surt",
    "surt-ordinary",
    "whatwg",
)
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")

PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")

Parser = Callable[[Any], Any]


def shown(value: Any) -> str:
    """*value* as a message has it: its first 200 characters."""
    try:
        text = repr(value)
    except ValueError:  # Python does not write a number with so many digits
        text = "a huge number"
    return text if len(text) <= 200 else f"{text[:200]}..."


def boolean(value: Any) -> bool:
    """True or False, also as the words that Scrapy takes for them."""
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text in {"1", "true", "yes", "on"}:
        return True
    if text in {"0", "false", "no", "off"}:
        return False
    raise ValueError("must be True or False")


def scrapys_boolean(value: Any) -> bool:
    """True or False, as `Settings.getbool` of Scrapy takes them."""
    words = {"True": True, "true": True, "False": False, "false": False}
    try:
        return words[value] if value in words else bool(int(value))
    except ValueError:
        raise ValueError("must be True or False") from None


def whole(least: int, most: int) -> Parser:
    """A parser of whole numbers from *least* to *most*."""

    def parse(value: Any) -> int:
        try:
            number = int(value)
        except (TypeError, ValueError, OverflowError):
            raise ValueError("must be a whole number") from None
        if isinstance(value, float) and value != number:
            raise ValueError("must be a whole number")
        if not least <= number <= most:
            raise ValueError(f"must be between {least:,} and {most:,}")
        return number

    return parse


def real(above: float, below: float) -> Parser:
    """A parser of finite numbers between *above* and *below*, exclusive."""

    def parse(value: Any) -> float:
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise ValueError("must be a number") from None
        if not (math.isfinite(number) and above < number < below):
            raise ValueError(f"must be greater than {above:g} and less than {below:g}")
        return number

    return parse


UNITS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
"""Seconds of each unit of a time."""
_WORDS = {
    "w": "weeks?",
    "d": "days?",
    "h": "hours?",
    "m": "min(?:ute)?s?",
    "s": "sec(?:ond)?s?",
}
"""Words that may stand for a unit, besides its letter."""
_DURATION = re.compile(
    r"\s*".join(
        rf"(?:([0-9]{{1,9}})\s?(?:{word}|{unit}))?" for unit, word in _WORDS.items()
    ),
    re.IGNORECASE,
)
_NUMBER = re.compile(r"[0-9.eE+-]+")
MAX_DURATION = 64
"""Characters of a time as text."""


def seconds_of(value: Any) -> float:
    """The seconds of a time: a number of them, or text such as ``1h 30m``.

    In text there are weeks, days, hours, minutes and seconds, in that order and each at
    most once, as letters or as words (``40 days``). A number alone is seconds.

    Raises:
        ValueError: It is not a time.
    """
    form = "must be a time such as 1h 30m or 40 days, or a number of seconds"
    text = value.strip() if isinstance(value, str) else repr(value)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(form)  # noqa: TRY004
    if len(text) > MAX_DURATION:
        raise ValueError(f"{form}, of at most {MAX_DURATION} characters")
    if text and (found := _DURATION.fullmatch(text)):
        amounts = (int(amount or 0) for amount in found.groups())
        return float(
            sum(n * unit for n, unit in zip(amounts, UNITS.values(), strict=True))
        )
    try:
        seconds = float(text) if _NUMBER.fullmatch(text) else math.nan
    except ValueError:
        seconds = math.nan
    if not math.isfinite(seconds):
        raise ValueError(form)
    return seconds


def duration(least: float, most: float, *, or_zero: bool = False) -> Parser:
    """A parser of times, as `seconds_of` reads them, from *least* to *most*; or 0."""

    def parse(value: Any) -> float:
        seconds = seconds_of(value)
        if not (least <= seconds <= most or (or_zero and seconds == 0)):
            zero = "0, or " if or_zero else ""
            raise ValueError(
                f"must be {zero}from {least:,g} to {most:,.10g} seconds, as a number "
                "or such as 1h 30m"
            )
        return seconds

    return parse


def limit_time(value: Any) -> str:
    """The seconds of a limit, without digits that say nothing; empty for no limit."""
    return f"{duration(0, 1e9)(value):.10g}" if value else ""


def end(value: Any) -> str:
    """A datetime with a zone, in ISO 8601, or a time as for `duration`; or empty."""
    if value is None or value == "":
        return ""
    form = "must be a time such as 90d, or a date and time with a zone"
    try:
        at = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    except (TypeError, ValueError):
        try:
            return f"{duration(0, 1e9)(value):g}"
        except ValueError:
            raise ValueError(form) from None
    if at.utcoffset() is None:
        raise ValueError(f"{form}: it has none")
    return at.isoformat()


def end_ms(value: str, began_ms: float) -> float:
    """*value*, which `end` has returned, in milliseconds since the Unix epoch.

    A time without a date counts from *began_ms*; empty means never.
    """
    if not value:
        return math.inf
    try:
        return began_ms + float(value) * 1000
    except ValueError:
        at = datetime.fromisoformat(value)
        return (at - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000


_PORTS = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")
HOST = re.compile(r"[A-Za-z0-9:._-]{1,253}")


def ports(value: Any) -> str:
    """A port, 0 for any, or a range such as ``9401-9420``; empty for none."""
    text = "" if value is None else str(value).strip()
    form = "must be a port, 0 for any free one, or a range such as 9401-9420"
    if not text:
        return ""
    found = _PORTS.fullmatch(text)
    if found is None:
        raise ValueError(form)
    first, last = int(found[1]), int(found[2] or found[1])
    if not first <= last <= 65_535 or (first == 0 and found[2]):
        raise ValueError(form)
    return text


def ports_of(text: str) -> range:
    """The ports of *text*, which `ports` has returned."""
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def matched(pattern: re.Pattern[str] | str, what: str) -> Callable[[Any], str]:
    """A parser of text that matches *pattern*; *what* says what it must be."""
    known = re.compile(pattern)

    def parse(value: Any) -> str:
        text = str(value)
        if not known.fullmatch(text):
            raise ValueError(f"must be {what}")
        return text

    return parse


def optional(parser: Parser, nothing: Any = "") -> Parser:
    """A parser of what *parser* takes, or *nothing*."""

    def parse(value: Any) -> Any:
        return parser(value) if value else nothing

    return parse


host = matched(rf"\s*{HOST.pattern}\s*", "an address such as 127.0.0.1 or ::")
name = matched(
    NAME,
    "1 to 100 letters, digits, '.', '_' or '-', and begin with a letter or digit",
)
optional_name: Callable[[Any], str] = optional(name)


def line(value: Any) -> str:
    """Text of one line: the name of an item's field, or of a run."""
    text = str(value)
    if not 0 < len(text) <= 200 or not text.isprintable():
        raise ValueError("must be 1 to 200 printable characters")
    return text


run_id: Callable[[Any], str] = optional(line)


def directory(value: Any) -> Path:
    """The path of a directory or a file, which need not exist."""
    text = os.fspath(value)
    if not text:
        raise ValueError("must name a directory")
    return Path(text)


optional_directory = optional(directory, None)


def file_mode(value: Any) -> str:
    """A mode as for chmod, in four octal digits; Python's ``0o640`` will do, too."""
    text = f"{value:o}" if type(value) is int else str(value)
    return f"{mode_of(text):04o}"


def choice(*choices: str) -> Parser:
    """A parser of one of *choices*."""

    def parse(value: Any) -> str:
        if value not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}")
        return str(value)

    return parse


def order(value: Any) -> Order:
    """An `Order` by its name."""
    try:
        return Order(str(value).lower())
    except ValueError:
        raise ValueError("must be bfs or dfs") from None


def tiers(value: Any) -> tuple[str, ...]:
    """Tiers of the seen test, in the order in which they are asked."""
    names = words(value)
    for name in names:
        if name not in TIERS:
            raise ValueError(f"has no tier {name!r}; the tiers are {', '.join(TIERS)}")
    if not names or len(set(names)) != len(names):
        raise ValueError("must name each tier at most once, and at least one")
    return tuple(name for name in TIERS if name in names)


def queue_key(value: Any) -> str:
    """A kind of queue key, or the path of a callable that returns it."""
    if callable(value):
        value = f"{value.__module__}.{value.__qualname__}"
    if value in QUEUE_KEYS or PATH.fullmatch(str(value)):
        return str(value)
    raise ValueError(
        f"must be one of {', '.join(QUEUE_KEYS)}, or a module's callable or its path"
    )


def archive_rule(rule: str) -> str:
    """A rule about what is archived, checked, but still as text."""
    kind, _, pattern = rule.partition(":")
    if kind not in RULES or not pattern or re.search(r"\s", pattern):
        kinds = ", ".join(RULES)
        raise ValueError(f"must be one of {kinds}, a colon and a pattern, no spaces")
    if kind == "status" and not re.fullmatch(r"[1-9](xx|[0-9]{2})", pattern):
        raise ValueError("must be like status:404 or status:4xx")
    if kind == "url":
        compiled(pattern)
    return rule


def warcinfo(value: Any) -> str:
    """Names and texts, or a JSON object of them, as JSON; or nothing."""
    try:
        given = json.loads(value) if isinstance(value, str) and value else value or {}
    except (ValueError, RecursionError):
        raise ValueError("must be a dict, or a JSON object") from None
    if not isinstance(given, Mapping):
        raise TypeError("must be a dict, or a JSON object")
    for name, text in given.items():
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,99}", str(name)):
            raise ValueError(f"has {name!r}, which is not a name of a field")
        if not isinstance(text, str):
            raise TypeError(f"has {text!r} as {name}, which is not text")
    return json.dumps(dict(given)) if given else ""


redis_url = optional(
    matched(r"(redis|rediss|unix)://\S+", "a URL, such as redis://host:6379/0")
)
_UPLOAD = optional(matched(r"[a-z][a-z0-9+]*://\S+", "a URL, such as s3://bucket/path"))


def upload_url(value: Any) -> str:
    """A URL without the slash at its end, or nothing."""
    return str(_UPLOAD(value)).rstrip("/")


def each(parser: Callable[[str], Any], gap: str = r"[,\s]+") -> Parser:
    """A parser of several values for *parser*; in text, *gap* is between them."""

    def parse(value: Any) -> tuple[Any, ...]:
        is_text = isinstance(value, str | int)  # one status is a number
        given = re.split(gap, str(value)) if is_text else value
        found = []
        for one in filter(None, (str(name).strip() for name in given)):
            try:
                found.append(parser(one))
            except ValueError as error:
                raise ValueError(f"{one!r}: {error}") from None
        return tuple(found)

    return parse


def address(text: str) -> str:
    """A URL of http or https."""
    if not re.fullmatch(r"https?://[^\s/?#]+[^\s#]*", text):
        raise ValueError("must be a URL of http or https")
    urlsplit(text).port  # noqa: B018 - raises if it is not a port
    return text


archive_rules = each(archive_rule, r"\s+")
_SCHEME = matched(r"[a-z][a-z0-9+.-]*", "the scheme of a URL, such as ftp")
_MODULE = matched(r"[^\W\d]\w*(\.[^\W\d]\w*)*", "the name of a module")
addresses = each(address, r"\s+")
words = each(str)
schemes = each(lambda text: _SCHEME(text.lower()))
modules = each(_MODULE)
class_paths = each(matched(PATH, "the path of a class"))


def without_secrets(url: str) -> str:
    """*url* without user, password and query."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


def sites(value: Any) -> str:
    """A file with sites, the URL of a database that has them, or nothing.

    Its faults are reported where it is opened: a message from here would have the
    password in it.
    """
    if not isinstance(value, str | Path | None):
        raise TypeError("must be the path of a file, or the URL of a database")
    return os.fspath(value or "").strip()


def sites_without_secrets(text: str) -> str:
    """*text*, which `sites` has returned, without user, password and query.

    A password may have any character.
    """
    return re.sub(r"://.*@", "://", text, flags=re.DOTALL).partition("?")[0]


def media_type(text: str) -> str:
    """A media type or a pattern of one, in lower case."""
    if not MIME.fullmatch(text):
        raise ValueError("must be a media type, or a pattern of one")
    return text.lower()


def statuses(text: str) -> str:
    """An HTTP status, a class of them as ``2xx``, or ``*`` for all."""
    if not re.fullmatch(r"\*|[1-9](xx|[0-9]{2})", text.lower()):
        raise ValueError("must be a status such as 404, a class such as 4xx, or *")
    return text.lower()


def collection(value: Any) -> str:
    """The name of a collection, or nothing for the default one."""
    text = optional_name(value)
    if text in RESERVED:
        raise ValueError("the keys of the default collection begin with that name")
    return text


def collection_name(text: str) -> str:
    """A name of a collection, or `UNNAMED`."""
    return text if text == UNNAMED else collection(name(text))


def canon_rules(value: Any) -> str:
    """The name of a set of rules, or a file that has one."""
    text = str(os.fspath(value))
    if text not in CANON_RULES and not text.endswith(".toml"):
        known = ", ".join(CANON_RULES)
        raise ValueError(
            f"must be one of {known}, or a file of rules that ends in .toml"
        )
    return text


SEEDS = "seeds"
"""Leaves it to the seeds which addresses are allowed."""


def address_classes(value: Any) -> tuple[str, ...]:
    """Classes of network addresses, sorted; or ``seeds``, or ``all`` of them."""
    chosen = {word for text in words(value) for word in text.split(",") if word}
    if chosen == {"all"}:
        chosen = set(ADDRESSES)
    if chosen != {SEEDS} and (not chosen or chosen - set(ADDRESSES)):
        raise ValueError(f"must be 'seeds', 'all', or some of {', '.join(ADDRESSES)}")
    return tuple(sorted(chosen))


def nearest(word: str, known: Iterable[str], *, least: float = 0.6) -> str:
    """The one of *known* that is most like *word*; empty if none is like it.

    *least* is how alike they must be, from 0 to 1. The prefix of our settings is left
    out: names that share it would all be alike.
    """
    names = {name.removeprefix(PREFIX): name for name in known}
    word = word.removeprefix(PREFIX)[:100]
    found = difflib.get_close_matches(word, names, n=1, cutoff=least)
    return names[found[0]] if found else ""
