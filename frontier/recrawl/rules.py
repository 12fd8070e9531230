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
    `InputBroken` with file and line and, of a wrong name, with the nearest right
    one.
2.  To find the schedule of a page takes time that is linear in the number of rules,
    which is at most `MAX_RULES`.
3.  `LiveRules` always has rules. A file that cannot be used while the crawl runs
    changes nothing but the log: the last good rules stay in effect.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from frontier.errors import InputBroken
from frontier.recrawl.schedule import Kind, Schedule
from frontier.settings.toml_tables import TomlTables, read_bytes
from frontier.settings.values import nearest, seconds_of
from frontier.urls.split import split

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

logger = logging.getLogger(__name__)

MAX_BYTES = 1 << 20
"""Of a rule file."""
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
        InputBroken: It cannot be read, or something in it cannot be.
    """
    file = TomlTables(str(path), read_bytes(path, MAX_BYTES), "rule", MAX_RULES)
    rules = (_rule(file, number, default) for number in range(len(file.tables)))
    return Rules(default, tuple(rules))


def _rule(file: TomlTables, number: int, default: Schedule) -> Rule:
    given = file.tables[number]
    file.require_known(number, given, KEYS, "a rule")
    made: dict[str, Any] = {}
    for key, value in given.items():
        with file.at(number, key, f"{key}: "):
            made[key] = _value(key, value)
    changes = {key: made[key] for key in _SETS if key in made}
    if "schedule" in changes:
        changes["kind"] = changes.pop("schedule")
    if not changes:
        file.fail(number, "", f"says none of {', '.join(_SETS)}")
    if changes.get("kind") is not Kind.OFF:
        key, reason = replace(default, **changes).problem()
        if key:
            file.fail(number, key, f"{key} {reason}")
    matches = {key: made[key] for key in _MATCHES if key in made}
    return Rule(**matches, changes=tuple(changes.items()))


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
            InputBroken: It cannot be used.
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
        except InputBroken as error:
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
