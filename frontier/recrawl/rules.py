"""``recrawl.toml``: hosts, paths and media types that have schedules of their own.

::

    [[rule]]
    host = "news.example"          # this host; "*.news.example": and all below it
    path = "/live/"                # whose path begins so
    mime = "text/html"             # or "image/*"
    schedule = "adaptive"          # or "fixed", or "off"
    minimum = "5m"
    maximum = "2d"

The first rule that matches a page says what its schedule is; what the rule does not
say, and pages that no rule matches, have what the settings say.

What always holds:

1.  A `Rules` exists only if each of its rules can be in effect. What is wrong is a
    `RecrawlRulesBroken` with file and line and, of a wrong name, with the nearest right
    one.
2.  To find the schedule of a page takes time that is linear in the number of rules,
    which is at most `MAX_RULES`.
3.  `LiveRules` always has rules. A file that cannot be used while the crawl runs
    changes nothing but the log: the last good rules stay in effect.
"""

from __future__ import annotations

import logging
import re
import tomllib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from frontier.errors import RecrawlRulesBroken
from frontier.files import read_input
from frontier.recrawl.schedule import Kind, Schedule
from frontier.settings.values import nearest, seconds_of
from frontier.urls.split import split

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

logger = logging.getLogger(__name__)

MAX_BYTES = 1 << 20
"""Of a rule file."""
MAX_LINE = 4_000
"""Characters of a line: what is read for a key of many parts grows as their square."""
MAX_RULES = 1_000
MAX_TEXT = 1_000
"""Characters of what a rule matches."""

_TIMES = ("interval", "minimum", "maximum")
_FACTORS = ("growth", "decay")
_MATCHES = ("host", "path", "mime")
_SETS = ("schedule", *_TIMES, *_FACTORS, "text")
KEYS = (*_MATCHES, *_SETS)
"""What a rule may say."""
_HOST = re.compile(r"(?:\*\.)?[a-z0-9_\[\]:-]+(?:\.[a-z0-9_-]+)*\.?")
_MIME = re.compile(r"[a-z0-9!#$&^_.+-]+/(?:\*|[a-z0-9!#$&^_.+-]+)")
_HEADER = re.compile(r"\s*\[\[\s*(?:rule|'rule'|\"rule\")\s*\]\]")


@dataclass(frozen=True, slots=True)
class Rule:
    """Which pages it is about, and what it says of their schedule."""

    host: str = ""
    """Empty for all; with ``*.`` in front for one and all below it."""
    path: str = ""
    mime: str = ""
    changes: tuple[tuple[str, Any], ...] = ()
    """Fields of `Schedule`, and their values."""

    def matches(self, host: str, path: str, mime: str) -> bool:
        """Whether it is about a page of *host* and *path*, of the type *mime*."""
        if self.host:
            below = self.host.removeprefix("*")
            is_below = below != self.host and host.endswith(below)
            if not is_below and host != self.host.removeprefix("*."):
                return False
        if not path.startswith(self.path):
            return False
        if self.mime.endswith("/*"):
            return mime.startswith(self.mime[:-1])
        return not self.mime or mime == self.mime


@dataclass(frozen=True, slots=True)
class Rules:
    """The schedules of a crawl."""

    default: Schedule
    """What the settings say."""
    rules: tuple[Rule, ...] = ()

    def of(self, url: str, mime: str = "") -> Schedule:
        """The schedule of the page at *url*, which is of the media type *mime*."""
        if not self.rules:
            return self.default
        parts = split(url)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        for rule in self.rules:
            if rule.matches(parts.host, path, mime):
                return replace(self.default, **dict(rule.changes))
        return self.default


def read_rules(path: Path, default: Schedule) -> Rules:
    """The rules in the file *path*, over *default*.

    Raises:
        RecrawlRulesBroken: It cannot be read, or something in it cannot be.
    """
    name = str(path)
    try:
        data = read_input(path, MAX_BYTES)
    except OSError as error:
        raise RecrawlRulesBroken(name, 0, error.strerror or str(error)) from None
    try:
        text = data.decode("utf-8")
        for number, content in enumerate(text.split("\n"), 1):
            if len(content) > MAX_LINE:
                reason = f"has a line of more than {MAX_LINE:,} characters"
                raise RecrawlRulesBroken(name, number, reason)
        given = tomllib.loads(text)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise RecrawlRulesBroken(name, line, "is not UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"line (\d+)", str(error))
        line = int(found[1]) if found else text.count("\n") + 1
        raise RecrawlRulesBroken(name, line, f"is not TOML: {error}") from None
    except (ValueError, RecursionError) as error:  # a huge number, or a deep array
        raise RecrawlRulesBroken(name, 0, f"is not TOML: {error}") from None
    return _Reader(name, text).rules(given, default)


class _Reader:
    """Checks what a file has, and knows its lines."""

    def __init__(self, file: str, text: str) -> None:
        self._file = file
        self._lines = text.split("\n")
        self._begins = [
            number for number, line in enumerate(self._lines) if _HEADER.match(line)
        ]

    def rules(self, given: Mapping[str, Any], default: Schedule) -> Rules:
        for key in given:
            if key != "rule":
                raise self._broken(None, key, _unknown(key, ("rule",)))
        rules = given.get("rule", [])
        if not isinstance(rules, list) or not all(isinstance(r, dict) for r in rules):
            raise self._broken(None, "rule", "a rule is a table: write [[rule]]")
        if len(rules) > MAX_RULES:
            raise self._broken(None, "", f"has more than {MAX_RULES:,} rules")
        return Rules(
            default, tuple(self._rule(n, rule, default) for n, rule in enumerate(rules))
        )

    def _rule(self, number: int, given: Mapping[str, Any], default: Schedule) -> Rule:
        for key in given:
            if key not in KEYS:
                raise self._broken(number, key, _unknown(key, KEYS))
        made: dict[str, Any] = {}
        for key, value in given.items():
            try:
                made[key] = _value(key, value)
            except ValueError as error:
                raise self._broken(number, key, f"{key}: {error}") from None
        changes = {key: made[key] for key in _SETS if key in made}
        if "schedule" in changes:
            changes["kind"] = changes.pop("schedule")
        if not changes:
            raise self._broken(number, "", f"says none of {', '.join(_SETS)}")
        if changes.get("kind") is not Kind.OFF:
            key, reason = replace(default, **changes).problem()
            if key:
                raise self._broken(number, key, f"{key} {reason}")
        matches = {key: made[key] for key in _MATCHES if key in made}
        return Rule(**matches, changes=tuple(changes.items()))

    def _broken(self, number: int | None, key: str, reason: str) -> RecrawlRulesBroken:
        return RecrawlRulesBroken(self._file, self._line(number, key), reason)

    def _line(self, number: int | None, key: str) -> int:
        """The line of *key* in rule *number*, counted from 1; 0 if it is not found."""
        begin, end = 0, len(self._lines)
        if number is not None and number < len(self._begins):
            begin = self._begins[number]
            end = (*self._begins, end)[number + 1]
        wanted = re.compile(rf"""\s*\[*\s*["']?{re.escape(key)}["']?\s*[\]=.]""")
        for at in range(begin, end) if key else ():
            if wanted.match(self._lines[at]):
                return at + 1
        return begin + 1 if number is not None and self._begins else 0


def changed_by(schedule: Schedule, said: Mapping[str, Any]) -> Schedule:
    """*schedule* with what is *said* of one request, in the words of a rule.

    Raises:
        ValueError: It cannot be.
    """
    changes: dict[str, Any] = {}
    for key, value in said.items():
        if key not in _SETS:
            raise ValueError(_unknown(str(key), _SETS))
        try:
            changes["kind" if key == "schedule" else key] = _value(key, value)
        except ValueError as error:
            raise ValueError(f"{key}: {error}") from None
    made = replace(schedule, **changes)
    key, reason = made.problem()
    if key:
        raise ValueError(f"{key} {reason}")
    return made


def _value(key: str, value: Any) -> Any:
    """What a rule's *value* of *key* is.

    Raises:
        ValueError: It is no such thing.
    """
    if key == "text":
        if not isinstance(value, bool):
            raise ValueError("must be true or false")
        return value
    if key in _TIMES:
        return seconds_of(value)
    if key in _FACTORS:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError("must be a number")
        return float(value)
    if not isinstance(value, str) or not 0 < len(value) <= MAX_TEXT:
        raise ValueError(f"must be text of 1 to {MAX_TEXT:,} characters")
    if key == "schedule":
        try:
            return Kind(value)
        except ValueError:
            raise ValueError(_unknown(value, [*Kind])) from None
    if key == "path":
        if not value.startswith("/"):
            raise ValueError("must begin with a slash")
        return value
    lowered = value.lower().rstrip(".")
    pattern, form = (
        (_HOST, "a host, such as news.example or *.news.example")
        if key == "host"
        else (_MIME, "a media type, such as text/html or image/*")
    )
    if not pattern.fullmatch(lowered):
        raise ValueError(f"must be {form}")
    return lowered


def _unknown(word: str, known: Any) -> str:
    near = nearest(word, known, least=0.5)
    hint = f"; did you mean {near}?" if near else f"; known: {', '.join(known)}"
    return f"{word[:100]!r} is not known{hint}"


class LiveRules:
    """The rules of *path* as the file is now, or as it was when it was last right.

    Without a path, the *default* schedule alone. `reload` reads a file: call it in a
    thread.
    """

    def __init__(self, path: Path | None, default: Schedule) -> None:
        self._path = path
        self._default = default
        self._known: tuple[int, ...] | None = None
        self.current = Rules(default)

    def open(self) -> None:
        """Read the file for the first time.

        Raises:
            RecrawlRulesBroken: It cannot be used.
        """
        if self._path is not None:
            self._known = self._version()
            self.current = read_rules(self._path, self._default)

    def reload(self) -> bool:
        """Read the file again if it has changed; whether there are other rules now."""
        if self._path is None or (version := self._version()) == self._known:
            return False
        self._known = version
        try:
            rules = read_rules(self._path, self._default)
        except RecrawlRulesBroken as error:
            logger.error(  # noqa: TRY400 (all is said)
                "%s; the %d rules that were read before stay in effect",
                error,
                len(self.current.rules),
            )
            return False
        if rules == self.current:
            return False
        self.current = rules
        logger.info("%s: %d rules are in effect now", self._path, len(rules.rules))
        return True

    def _version(self) -> tuple[int, ...] | None:
        """What differs where the file was written again; ``None``: it is not there."""
        if self._path is None:
            return None
        try:
            about = self._path.stat()
        except OSError:
            return None
        return (about.st_mtime_ns, about.st_size, about.st_ino)
