"""Seeds: a URL, several, or a file with one on each line; or JSON objects with one.

What always holds:

1.  What is read is data, and of the types that a request takes. A name that is
    not known is a fault, so that a slip does not pass silently.
"""

from __future__ import annotations

import json
import logging
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from frontier.errors import ConfigurationError
from frontier.files import read_input
from frontier.urls.fingerprint import canonical

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


logger = logging.getLogger(__name__)

SCHEMES = ("http", "https")
MAX_BYTES = 64 << 20
"""Of a list of seeds that a spider is given; `frontier crawl seed` has no limit."""
_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


def read_seeds(given: str) -> list[str]:
    """The seeds that *given* names: a URL, several with commas, or a file.

    Empty lines of a file and those that begin with ``#`` are skipped. A line
    that is not a URL is logged with its number and the rest goes on.

    Raises:
        ConfigurationError: There is no such file, or no good seed in it.
    """
    if not given:
        raise ConfigurationError(
            "no seeds: give a URL or a file with one URL per line, -a seeds=URL|FILE"
        )
    if _URL.match(given):
        return _checked(
            [(f"seed {n}", url) for n, url in enumerate(given.split(","), 1)], given
        )
    path = Path(given)
    try:
        lines = read_input(path, MAX_BYTES).decode("utf-8", "replace").splitlines()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigurationError(
            f"the seeds file {given[:200]!r} cannot be read: {reason}"
        ) from None
    return _checked([(f"{given}:{n}", line) for n, line in enumerate(lines, 1)], given)


def _checked(lines: list[tuple[str, str]], given: str) -> list[str]:
    seeds: dict[str, None] = {}
    for place, line in lines:
        text = line.strip().lstrip("\ufeff")
        if not text or text.startswith("#"):
            continue
        reason = fault_of(text)
        if reason is None:
            seeds[text] = None
        else:
            logger.error("%s: %r %s; it is left out", place, text[:200], reason)
    if not seeds:
        raise ConfigurationError(f"no seed in {given[:200]!r} can be crawled")
    return list(seeds)


def fault_of(url: str) -> str | None:
    """What keeps *url* from being crawled, or ``None``."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        return f"is not a URL ({error})"
    if parts.scheme.lower() not in SCHEMES:
        return "is not an http or https URL"
    if not parts.hostname:
        return "has no host"
    if any(character.isspace() for character in url):
        return "has white space in it"
    return None


MAX_PRIORITY = 10**9
_TOKEN = re.compile(r"[A-Za-z][A-Za-z0-9!#$%&'*+.^_`|~-]{0,31}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


class SeedFault(ValueError):
    """A line is no seed; the message says why, and can follow its place."""


@dataclass(frozen=True, slots=True)
class Seed:
    """A request to begin with, as data."""

    url: str
    method: str = "GET"
    headers: Mapping[str, Any] = field(default_factory=dict)
    body: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict)
    priority: int = 0
    callback: str = ""
    """The name of a method of the spider; empty for ``parse``."""
    cb_kwargs: Mapping[str, Any] = field(default_factory=dict)


def is_plain(url: str) -> bool:
    """Whether *url* is one that nothing has to be done to, as Scrapy requests it."""
    return "#" not in url and canonical(url) is not None


def read_line(text: str) -> Seed | None:
    """The seed in *text*, or ``None`` if it is empty or begins with ``#``.

    Raises:
        SeedFault: It is neither a URL nor a JSON object that makes a request.
    """
    text = text.strip().removeprefix("\ufeff")
    if not text or text.startswith("#"):
        return None
    if is_plain(text):
        return Seed(text)
    if not text.startswith("{"):
        return Seed(_url(text))
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SeedFault(f"is not JSON: {error}") from None
    if "url" not in given:
        raise SeedFault("has no url")
    for name in given:
        if name not in _CHECKS:
            known = ", ".join(_CHECKS)
            raise SeedFault(f"has a {name[:50]!r}, which is none of {known}")
    return Seed(**{name: _value(name, value) for name, value in given.items()})


def _value(name: str, value: Any) -> Any:
    try:
        return _CHECKS[name](value)
    except SeedFault as fault:
        if name == "url":
            raise
        raise SeedFault(f"has a {name} that {fault}") from None


def _url(value: Any) -> str:
    if not isinstance(value, str):
        raise SeedFault("has a url that is not text")
    if _CONTROL.search(value):
        raise SeedFault("has a control character in it")
    if reason := fault_of(value):
        raise SeedFault(reason)
    return value


def _method(value: Any) -> str:
    if not isinstance(value, str) or not _TOKEN.fullmatch(value):
        raise SeedFault("is none of HTTP's")
    return value.upper()


def _headers(value: Any) -> dict[str, Any]:
    found = _mapping(value)
    for name, given in found.items():
        lines = given if isinstance(given, list) else [given]
        for line in (name, *lines):
            if not isinstance(line, str) or _CONTROL.search(line):
                raise SeedFault("is not text, or text with control characters")
    return found


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise SeedFault("is not an object")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise SeedFault("is not text")
    return value


def _priority(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise SeedFault("is not a whole number")
    if abs(value) > MAX_PRIORITY:
        raise SeedFault(f"is beyond {MAX_PRIORITY:,}")
    return value


def _name(value: Any) -> str:
    if not isinstance(value, str) or not value.isidentifier() or value[0] == "_":
        raise SeedFault("is not a name of a public method")
    return value


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "url": _url,
    "method": _method,
    "headers": _headers,
    "body": _text,
    "meta": _mapping,
    "priority": _priority,
    "callback": _name,
    "cb_kwargs": _mapping,
}
