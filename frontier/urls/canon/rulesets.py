"""The rule sets: named steps, composed as data.

What always holds:

1.  A rule set is the names of its steps, in their order; each is applied once.
2.  A URL has one canonical form in a rule set, whoever asks: nothing here reads a
    clock, the network or a setting.
"""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ada_url
from w3lib.url import canonicalize_url

import frontier.urls.canon.heritrix as heritrix
import frontier.urls.canon.openwayback as openwayback
import frontier.urls.canon.rule_files as files
import frontier.urls.canon.surt as surt
from frontier.errors import ConfigurationError, InputBroken, InvalidURL
from frontier.urls.canon.usable_uri import usable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Step = Callable[[str], str]


def standard(url: str) -> str:
    """*url* as browsers serialize it.

    Raises:
        InvalidURL: It is not a URL by the standard.
    """
    try:
        return str(ada_url.normalize_url(url))
    except (ValueError, UnicodeError):
        raise InvalidURL(url, "it is not a URL by the WHATWG's standard") from None


SCRAPY = "scrapy"
"""Scrapy's own rules."""
SUFFIX = ".toml"
"""A rule set whose name ends with this is a file."""
VERSION = 1
"""The version of what the steps do: raised when the form of any URL changes."""


def _scrapy(url: str) -> str:
    """w3lib's canonicalize_url, as Scrapy's fingerprinter uses it."""
    try:
        return str(canonicalize_url(url))
    except ValueError as error:
        raise InvalidURL(url, str(error)) from None


STEPS: dict[str, Step] = {
    "scrapy.canonicalize": _scrapy,
    "heritrix.usable": usable,
    "heritrix.lowercase": heritrix.lowercase,
    "heritrix.strip-userinfo": heritrix.strip_userinfo,
    "heritrix.strip-www": heritrix.strip_www,
    "heritrix.strip-wwwn": heritrix.strip_wwwn,
    "heritrix.strip-session-ids": heritrix.strip_session_ids,
    "heritrix.strip-session-cfids": heritrix.strip_session_cfids,
    "heritrix.fixup-query": heritrix.fixup_query,
    "heritrix.strip-extra-slashes": heritrix.strip_extra_slashes,
    "openwayback.canonicalize": openwayback.canonicalize,
    "openwayback.key": openwayback.key,
    "commons.key": surt.key_of,
    "commons.ordinary-key": lambda url: surt.key_of(url, is_ordinary=True),
    "whatwg.standard": standard,
}
"""Functions by name: each name says which rule of which system it is."""

KEYS = frozenset({"openwayback.key", "commons.key", "commons.ordinary-key"})
"""Steps that make a key to sort by instead of a URL."""

_DEFAULT = (
    "heritrix.lowercase",
    "heritrix.strip-userinfo",
    "heritrix.strip-wwwn",
    "heritrix.strip-session-ids",
    "heritrix.strip-session-cfids",
    "heritrix.fixup-query",
)


class RuleSet:
    """Steps under a name, preceded by the *rules* of a file."""

    def __init__(
        self, name: str, steps: Sequence[str], rules: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        self.name = name
        self.steps = tuple(steps)
        self.rules = rules
        self.one_by_one: list[tuple[str, Step]] = [
            (f"rule {number}, {files.kind_of(rule)}", files.step_of(rule))
            for number, rule in enumerate(rules, 1)
        ]
        """The functions, with names: rules of a file, then steps."""
        self.one_by_one += [(name, STEPS[name]) for name in steps]
        self._functions = [step for _, step in self.one_by_one]
        if self.steps[-len(_DEFAULT) :] == _DEFAULT:  # one function, and faster
            self._functions[-len(_DEFAULT) :] = [heritrix.default]

    def apply(self, url: str) -> str:
        """The canonical form of *url*.

        Raises:
            InvalidURL: The rules refuse it, as their original does.
        """
        for function in self._functions:
            url = function(url)
        return url

    @property
    def statement(self) -> str:
        """What an archive says about this rule set: name, version and digest."""
        return f"{self.name}; version={VERSION}; sha256={self.digest}"

    @property
    def makes_keys(self) -> bool:
        """Whether canonical forms are keys to sort by instead of URLs."""
        return bool(KEYS & set(self.steps))

    def as_json(self) -> str:
        """All that decides what it does; equal rule sets have equal JSON."""
        rules = {"rules": self.rules} if self.rules else {}
        facts = {"name": self.name, "steps": self.steps, "version": VERSION, **rules}
        return json.dumps(facts, sort_keys=True, separators=(",", ":"))

    @property
    def digest(self) -> str:
        """SHA-256 of `as_json`, in hex."""
        return hashlib.sha256(self.as_json().encode()).hexdigest()


NAMED = {
    name: RuleSet(name, steps)
    for name, steps in (
        ("scrapy", ("scrapy.canonicalize",)),
        ("heritrix", ("heritrix.usable", *_DEFAULT)),
        ("openwayback", ("openwayback.canonicalize",)),
        ("openwayback-key", ("openwayback.key",)),
        ("surt", ("commons.key",)),
        ("surt-ordinary", ("commons.ordinary-key",)),
        ("whatwg", ("whatwg.standard",)),
    )
}
"""The built-in rule sets."""


def label_of(name: str) -> str:
    """What a crawl notes about its rules: equal labels mean equal canonical forms."""
    rules = named(name)
    return "w3lib" if name == SCRAPY else f"{rules.name}@{rules.digest[:16]}"


@lru_cache(maxsize=1024)
def host_of_origin(origin: str, rules: str) -> str | None:
    """The host that *rules* give pages of *origin*, with any port but the scheme's.

    *origin* is the part of a URL before its path. ``None`` if the rules refuse it, or
    are Scrapy's. Slash pages get the host of the other pages, though Heritrix's rules
    keep their ``www``: a host is asked from one queue.
    """
    try:
        form = named(rules).apply(f"{origin}/x")
    except InvalidURL:
        return None
    if "://" in form:
        return None if rules == SCRAPY else form.partition("://")[2].partition("/")[0]
    key, bracket, _ = form.partition(")")
    if bracket:
        host, colon, port = key.partition(":")
        return ".".join(reversed(host.split(","))) + colon + port
    return form.partition("/")[0]


@lru_cache(maxsize=256)
def named(name: str) -> RuleSet:
    """The rule set *name*: one of ours, or a file.

    Raises:
        ConfigurationError: There is no such set.
        InputBroken: The file cannot be used.
    """
    if name.endswith(SUFFIX):
        return _of_file(name)
    if name not in NAMED:
        known = ", ".join(NAMED)
        raise ConfigurationError(f"there are no rules {name!r}; there are {known}")
    return NAMED[name]


def _of_file(path: str) -> RuleSet:
    given = files.read(Path(path))
    base, steps = given.get("base"), given.get("steps")
    if str(base) in NAMED:
        steps = NAMED[str(base)].steps
    if not isinstance(steps, list | tuple) or not set(map(str, steps)) <= set(STEPS):
        what, known = ("base", NAMED) if base else ("steps", STEPS)
        reason = f"{what} = {base or steps!r}: there are {', '.join(known)}"
        raise InputBroken(path, reason)
    return RuleSet(given["name"], steps, given.get("rule", ()))
