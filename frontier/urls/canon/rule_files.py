r"""Rule sets of a project: TOML files.

::

    name = "mine"
    base = "heritrix"              # a named set; or steps = ["heritrix.usable"]

    [[rule]]
    site = "com,example)/shop"     # pages whose SURT begins so; or match = 'regex'
    from = 2020-01-01              # valid from this day on
    until = 2024-01-01             # and up to the day before this one
    strip = 'session=[0-9a-f]+&?'  # what to take out

    [[rule]]
    regex = '(https?://)m\\.(.*)'   # all of the URL has to match; $1 is a group
    replace = '$1www.$2'

    [[rule]]
    transcode = '&q=([^&]+)'       # the first group, escaped again
    source = "ISO-8859-1"
    target = "UTF-8"

The rules come first, in their order, then the steps of the base; each is applied
once. Where a rule has neither ``site`` nor ``match`` it is for every URL.
"""

from __future__ import annotations

import codecs
import datetime as dt
import re
from typing import TYPE_CHECKING, Any

import frontier.urls.canon.regex_rules as configured
from frontier.errors import InvalidURL
from frontier.settings.toml_tables import TomlTables, read_bytes
from frontier.urls.canon.regex_rules import (
    MOST,
    MOST_STEPS,
    cautious,
    longest,
    narrowest,
    steps,
)
from frontier.urls.canon.surt import key_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

MAX_BYTES = 1 << 20
"""Of a rule file."""
MAX_RULES = 1_000
LEAST_URL = 256
"""Characters of a URL that each expression, and all together, have to take in time."""
MATCH_STEPS = {"strip": 64, "regex": 64, "transcode": 1024}
"""For each match, by what is done with it."""
SURT_STEPS = 64
"""For each character of a URL whose SURT is made, to tell its site."""
KINDS = ("strip", "regex", "transcode")
_WHERE = ("site", "match")
_KEYS = (*KINDS, *_WHERE, "from", "until", "replace", "source", "target")
_TOP = ("name", "base", "steps")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def read(path: Path) -> dict[str, Any]:
    """The tables of the rule file *path*, checked.

    Raises:
        InputBroken: It cannot be read, or something in it cannot be.
    """
    data = read_bytes(path, MAX_BYTES)
    file = TomlTables(str(path), data, "rule", MAX_RULES, top=_TOP)
    name = file.given.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        file.fail(None, "name", "needs a name of letters, digits, '.', '_' and '-'")
    if ("base" in file.given) == ("steps" in file.given):
        file.fail(None, "base", "needs either a base or steps")
    for number, rule in enumerate(file.tables):
        _check_rule(file, number, rule)
    for later in range(len(file.tables)):
        for earlier in range(later):
            _check_overlap(file, earlier, later)
    _check_together(file)
    return file.given


def valid_on(rule: Mapping[str, Any], day: dt.date) -> bool:
    """Whether *rule* is in effect on *day*."""
    since, until = rule.get("from"), rule.get("until")
    return (since is None or since <= day) and (until is None or day < until)


def kind_of(rule: Mapping[str, Any]) -> str:
    """Which of `KINDS` *rule* is."""
    return next(kind for kind in KINDS if kind in rule)


class Rules:
    """The function that rules, which `read` has checked, make of URLs.

    What they may take for one URL, all together, is counted in steps before each
    expression is tried: see `regex_rules.steps`. A rule of another site costs none.
    """

    def __init__(self, rules: Iterable[Mapping[str, Any]]) -> None:
        self._rules = [_Rule(rule) for rule in rules]

    def __call__(self, url: str) -> str:
        """What the rules make of *url*, each once, in their order.

        Raises:
            InvalidURL: They may take more than `MOST_STEPS` for it, or make more than
                `MOST` characters of it.
        """
        left = float(MOST_STEPS)
        read, surt = None, ""
        for rule in self._rules:
            if len(url) > MOST:
                raise InvalidURL(url, f"rules make more than {MOST:,} characters of it")
            if rule.site:
                if read is not url:
                    left -= SURT_STEPS * len(url)
                    read, surt = url, _surt(url) if left >= 0 else ""
                if left >= 0 and not surt.startswith(rule.site):
                    continue
            elif rule.match is not None:
                left -= rule.steps_to_match(len(url))
                if left >= 0 and not rule.match.search(url):
                    continue
            left -= rule.steps(len(url))
            if left < 0:
                raise InvalidURL(url, "the rules take too long for its length")
            url = rule.act(url)
        return url


class _Rule:
    """One rule, and how many steps it may take."""

    def __init__(self, rule: Mapping[str, Any]) -> None:
        self.site: str = rule.get("site", "")
        self.match = re.compile(rule["match"]) if "match" in rule else None
        self._kind = kind_of(rule)
        self._pattern: str = rule[self._kind]
        self._copies = str(rule.get("replace", "")).count("$")
        self._counted: dict[tuple[bool, int], float] = {}
        compiled = re.compile(self._pattern)
        self._width = narrowest(self._pattern)
        if self._kind == "strip":
            self.act = configured.strip(compiled)
        elif self._kind == "regex":
            self.act = configured.regex(compiled, rule["replace"])
        else:
            self.act = configured.transcode(compiled, rule["source"], rule["target"])

    def steps(self, length: int) -> float:
        """Of its own expression and its matches, for a URL of *length* characters."""
        found = self._count(self._pattern, length, whole=self._kind == "regex")
        matches = 1 if self._kind == "regex" else length // self._width + 1
        return found + self._copies * length + matches * MATCH_STEPS[self._kind]

    def steps_to_match(self, length: int) -> float:
        """Of the expression that says whether it is for such a URL."""
        return self._count(self.match.pattern, length) if self.match else 0.0

    def _count(self, pattern: str, length: int, *, whole: bool = False) -> float:
        # Counted for lengths that are an eighth apart: there are few of these.
        grain = 1 << max(length.bit_length() - 4, 0)
        key = (pattern is self._pattern, -(-length // grain) * grain)
        if key not in self._counted:
            self._counted[key] = steps(pattern, key[1], whole=whole)
        return self._counted[key]


def _surt(url: str) -> str:
    try:
        return key_of(url)
    except InvalidURL:
        return ""


def _check_rule(file: TomlTables, at: int, rule: Mapping[str, Any]) -> None:
    file.require_known(at, rule, _KEYS, "a rule")
    kinds = [kind for kind in KINDS if kind in rule]
    if len(kinds) != 1:
        file.fail(at, "", f"needs one of {', '.join(KINDS)}")
    if all(key in rule for key in _WHERE):
        file.fail(at, "match", "has both a site and a match")
    for key in (*kinds, *_WHERE, "replace", "source", "target"):
        if key in rule and not isinstance(rule[key], str):
            file.fail(at, key, f"needs text as {key}")
    for key in (*kinds, "match"):
        if key in rule:
            _check_pattern(file, at, key, rule[key])
    needs = {"regex": ("replace",), "transcode": ("source", "target")}
    for key in needs.get(kinds[0], ()):
        if key not in rule:
            file.fail(at, kinds[0], f"needs a {key} beside {kinds[0]}")
    for key in ("source", "target"):
        if key in rule and not _is_charset(rule[key]):
            file.fail(at, key, f"knows no character set {rule[key]!r}")
    if kinds[0] == "transcode" and re.compile(rule["transcode"]).groups < 1:
        file.fail(at, "transcode", "needs a group: what is escaped again")
    for key in ("from", "until"):
        if key in rule and type(rule[key]) is not dt.date:
            file.fail(at, key, f"needs a day as {key}, like 2020-01-31")
    if "from" in rule and "until" in rule and rule["from"] >= rule["until"]:
        file.fail(at, "until", "ends before it begins")


def _check_pattern(file: TomlTables, at: int, key: str, text: str) -> None:
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        file.fail(at, key, f"has no regular expression: {error}")
    reason = cautious(text)
    if reason is not None:
        file.fail(at, key, f"has an expression that may never end: {reason}")
    most = longest(text, whole=key == "regex")
    if most < LEAST_URL:
        reason = f"takes too long for URLs of more than {most} characters"
        file.fail(at, key, f"has an expression that {reason}")


def _check_together(file: TomlTables) -> None:
    """Refuse rules that take too long for a URL of one site, all together."""
    rules = file.tables
    compiled = [_Rule(rule) for rule in rules]
    costs = [r.steps_to_match(LEAST_URL) + r.steps(LEAST_URL) for r in compiled]
    if sum(costs) <= MOST_STEPS:
        return
    for one in rules:
        total = 0.0
        for number, other in enumerate(rules):
            is_for_it = one.get("site", "").startswith(other.get("site", ""))
            if is_for_it and _are_valid_together(one, other):
                total += costs[number]
            if total > MOST_STEPS:
                reason = (
                    "and the rules before it take too long, all together, for URLs "
                    f"of more than {LEAST_URL} characters: give rules a site, or "
                    "bounds to what they repeat"
                )
                file.fail(number, kind_of(other), reason)


def _check_overlap(file: TomlTables, earlier: int, later: int) -> None:
    one, two = file.tables[earlier], file.tables[later]
    same = ("site", "match", *KINDS)
    if any(one.get(key) != two.get(key) for key in same):
        return
    if _are_valid_together(one, two):
        line = file.line(earlier, "")
        file.fail(later, "from", f"overlaps with the rule of line {line}")


def _are_valid_together(one: Mapping[str, Any], two: Mapping[str, Any]) -> bool:
    """Whether there is a day on which both are in effect."""
    first, last = dt.date.min, dt.date.max
    return bool(
        max(one.get("from", first), two.get("from", first))
        < min(one.get("until", last), two.get("until", last))
    )


def _is_charset(name: str) -> bool:
    """Whether *name* is a character set, and not ``zlib`` or ``rot13``."""
    try:
        return bool(codecs.lookup(name)._is_text_encoding)  # as `str.encode` asks
    except (LookupError, ValueError):
        return False
