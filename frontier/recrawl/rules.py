"""``recrawl.toml``: hosts, paths and media types that have schedules of their own.

::

    [[rule]]
    host = "news.example"          # this host; "*.news.example": and all below it
    path = "/live/"                # whose path begins so
    mime = "text/html"             # or "image/*"
    schedule = "adaptive"          # or "fixed", or "off"
    minimum = "5m"
    maximum = "2d"

The first rule that matches a page decides its schedule. What the rule leaves out, and
pages that no rule matches, follow the settings.

What always holds:

1.  A `Rules` exists only if all its rules are valid. A fault raises `InputBroken` with
    file and line and, for an unknown key, the nearest known one.
2.  Finding the schedule of a page takes time linear in the number of rules, which is
    at most `MAX_RULES`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from frontier.model import frozen
from frontier.recrawl.schedule import Kind, Schedule
from frontier.settings.live_source import File
from frontier.settings.toml_tables import TomlTables
from frontier.settings.values import boolean, choice, real, seconds_of
from frontier.urls.split import split

MAX_BYTES = 1 << 20
"""The most bytes of a rule file."""
MAX_RULES = 1_000
MAX_TEXT = 1_000
"""The most characters of a host, path or media type in a rule."""


def _text(pattern: str, form: str) -> Callable[[Any], str]:
    """A parser of text that matches *pattern*; *form* says in words what that is."""
    expression = re.compile(pattern, re.IGNORECASE)

    def parse(value: Any) -> str:
        is_text = isinstance(value, str) and len(value) <= MAX_TEXT
        if not is_text or not expression.fullmatch(value):
            raise ValueError(f"must be {form}")
        return str(value)

    return parse


MATCHES = {
    "host": _text(
        r"(?:\*\.)?[a-z0-9_\[\]:-]+(?:\.[a-z0-9_-]+)*\.?",
        "a host, such as news.example or *.news.example",
    ),
    "path": _text(r"/.*", "a path, which begins with a slash"),
    "mime": _text(
        r"[a-z0-9!#$&^_.+-]+/(?:\*|[a-z0-9!#$&^_.+-]+)",
        "a media type, such as text/html or image/*",
    ),
}
"""What a rule may say about its pages."""
CHANGES: dict[str, Callable[[Any], Any]] = {
    "schedule": choice(*Kind),
    **dict.fromkeys(("interval", "minimum", "maximum"), seconds_of),
    **dict.fromkeys(("growth", "decay"), real(0, math.inf)),
    "text": boolean,
}
"""What a rule may say about their schedule."""


@frozen
class Rule:
    """Which pages it is about, and what schedule they have."""

    schedule: Schedule
    host: str = ""
    """Empty for all hosts; with ``*.`` in front for a host and all below it."""
    path: str = ""
    mime: str = ""

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


@frozen
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
                return rule.schedule
        return self.default


def rules_file(path: Path, default: Schedule) -> File[Rules]:
    """The rules of the file *path*, over *default*."""

    def parse(data: bytes) -> Rules:
        file = TomlTables(str(path), data, "rule", MAX_RULES)
        rules = (_rule(file, number, default) for number in range(len(file.tables)))
        return Rules(default, tuple(rules))

    return File(path, MAX_BYTES, parse)


def _rule(file: TomlTables, number: int, default: Schedule) -> Rule:
    given, matches = dict(file.tables[number]), dict.fromkeys(MATCHES, "")
    file.require_known(number, given, {**MATCHES, **CHANGES}, "a rule")
    for key in filter(given.__contains__, MATCHES):
        with file.at(number, key, f"{key}: "):
            matches[key] = MATCHES[key](given.pop(key))
    for key in ("host", "mime"):
        matches[key] = matches[key].lower().rstrip(".")
    if not given:
        file.fail(number, "", f"says none of {', '.join(CHANGES)}")
    try:
        return Rule(changed_by(default, given), **matches)
    except ValueError as error:
        key, reason = error.args
        file.fail(number, key, f"{key}: {reason}")


def changed_by(schedule: Schedule, said: Mapping[str, Any]) -> Schedule:
    """*schedule* with what is *said* of a rule's pages, or of one request.

    Raises:
        ValueError: It is invalid; with the key, and what is wrong with it.
    """
    made: dict[str, Any] = {}
    for key, value in said.items():
        if key not in CHANGES:
            raise ValueError(repr(key), f"is none of {', '.join(CHANGES)}")
        try:
            made[key] = CHANGES[key](value)
        except ValueError as error:
            raise ValueError(key, str(error)) from None
    kind = Kind(made.pop("schedule", schedule.kind))
    changed = replace(schedule, kind=kind, **made)
    key, reason = changed.problem()
    if key and kind is not Kind.OFF:
        raise ValueError(key, reason)
    return changed
