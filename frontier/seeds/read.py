"""Seed lists: a URL, several, or a file with one on each line."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from urllib.parse import urlsplit

from frontier.errors import ConfigurationError
from frontier.files import read_input

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
