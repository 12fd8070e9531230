r"""Rules that take arguments: a regular expression and what to put for a match.

Replacements are written as Java has them: ``$1`` is the first group, ``\$`` a
dollar sign.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote_plus, unquote_plus

if TYPE_CHECKING:
    from collections.abc import Callable

    Step = Callable[[str], str]

_REFERENCE = re.compile(r"\\(.)|\$([0-9]+)", re.DOTALL)
_UNRESERVED = ".-*_"
"""What Java's URLEncoder leaves beside letters and digits."""


def regex(pattern: re.Pattern[str], replacement: str) -> Step:
    """Heritrix's RegexRule: the whole URL has to match."""

    def step(url: str) -> str:
        found = pattern.fullmatch(url)
        return url if found is None else expanded(replacement, found)

    return step


def rewrite(pattern: re.Pattern[str], replacement: str, prefix: str = "") -> Step:
    """webarchive-commons' RewriteRule: of keys that begin with *prefix* and match."""

    def step(key: str) -> str:
        if not key.startswith(prefix) or pattern.fullmatch(key) is None:
            return key
        return pattern.sub(lambda found: expanded(replacement, found), key)

    return step


def strip(pattern: re.Pattern[str]) -> Step:
    """OpenWayback's UriStripper: every match is taken out."""
    return lambda url: pattern.sub("", url)


def transcode(pattern: re.Pattern[str], source: str, target: str) -> Step:
    """OpenWayback's UriTranscoder: the first group of each match, escaped anew."""

    def step(url: str) -> str:
        made, offset = url, 0
        for found in pattern.finditer(url):
            if found.group(1) is None:
                continue
            text = unquote_plus(found[1], source, "replace")
            escaped = quote_plus(text, _UNRESERVED, target, "replace").replace(
                "~", "%7E"
            )
            start, end = found.span(1)
            made = made[: start + offset] + escaped + made[end + offset :]
            offset += len(escaped) - (end - start)
        return made

    return step


def expanded(replacement: str, found: re.Match[str]) -> str:
    """*replacement* with the groups of *found*; a group that is not there is empty."""

    def put(reference: re.Match[str]) -> str:
        if reference[1] is not None:
            return reference[1]
        digits = reference[2]
        # As Java: as many digits as there are groups for.
        for length in range(len(digits), 0, -1):
            number = int(digits[:length])
            if number <= (found.re.groups or 0) or length == 1:
                break
        group = found[number] if number <= found.re.groups else ""
        return (group or "") + digits[length:]

    return _REFERENCE.sub(put, replacement)
