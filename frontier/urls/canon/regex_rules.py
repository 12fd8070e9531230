r"""Rules that take arguments: a regular expression and what to put for a match.

Replacements are written as Java has them: ``$1`` is the first group, ``\$`` a
dollar sign.

Regular expressions that may take too much time are recognized by their form.

If the inside of an unbounded repetition can match the same text in several ways, Python
tries them all. So an unbounded repetition may not contain another, or alternatives,
unless it is possessive or atomic. With several in a row the time grows with a power of
the length of the text, so that power is limited.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus, unquote_plus

if TYPE_CHECKING:
    from collections.abc import Callable

    Step = Callable[[str], str]


_parser: Any = re._parser  # type: ignore[attr-defined]
_MANY = 64
"""Bound of a repetition from which on it counts as having none."""
MOST = 65_536
"""Characters of a text, for whatever expression."""
_BITS = 26
_OPTION = 0.5
"""Of what is there or not, and of alternatives: most differ in what they begin with."""


def cautious(pattern: str) -> str | None:
    """Why *pattern* may take exponential time; ``None`` if it may not.

    Raises:
        re.error: It is none.
    """
    return _look(_parser.parse(pattern), inside=False)


def _look(parsed: Any, *, inside: bool) -> str | None:
    for operation, value in parsed:
        name = str(operation)
        if name in {"POSSESSIVE_REPEAT", "ATOMIC_GROUP"}:
            found = _look(value[2] if name[0] == "P" else value, inside=False)
        elif name in {"MAX_REPEAT", "MIN_REPEAT"}:
            least, most, body = value
            unbounded = most > _MANY and most != least
            if unbounded and inside:
                return "a repetition within a repetition"
            found = _look(body, inside=inside or unbounded)
        elif name == "BRANCH":
            if inside:
                return "alternatives within a repetition"
            found = next(
                filter(None, (_look(b, inside=inside) for b in value[1])), None
            )
        elif name == "SUBPATTERN":
            found = _look(value[3], inside=inside)
        elif name in {"ASSERT", "ASSERT_NOT"}:
            found = _look(value[1], inside=inside)
        elif name in {"GROUPREF", "GROUPREF_EXISTS"} and inside:
            return "a reference to a group within a repetition"
        else:
            found = None
        if found is not None:
            return found
    return None


def longest(pattern: str, *, whole: bool = False) -> int:
    """How long a text may be so that *pattern* is found in it, or not, in short time.

    At most `MOST` characters: the most ways to match are at most 2 to the power of
    `_BITS`. With *whole* the expression has to match all of the text. Several
    repetitions after another take time with a power of the length.
    """
    parsed = _parser.parse(pattern)
    begins = not whole and not _is_anchored(parsed)
    least, most = 0, MOST + 1
    while most - least > 1:
        middle = (least + most) // 2
        ways = _ways(parsed, middle) + (math.log2(middle + 1) if begins else 0)
        least, most = (middle, most) if ways <= _BITS else (least, middle)
    return least


def _is_anchored(parsed: Any) -> bool:
    first = next(iter(parsed), (None, None))
    return str(first[1]) in {"AT_BEGINNING", "AT_BEGINNING_STRING"}


def _ways(parsed: Any, length: int) -> float:
    """How many ways there are to match *length* characters: a binary logarithm.

    Each repetition may end anywhere, and each alternative may be what matches: more
    than Python tries, as what follows rules most of them out.
    """
    found = 0.0
    for operation, value in parsed:
        name = str(operation)
        if name in {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}:
            least, most, body = value
            found += min(most, length) * _ways(body, length)
            if most > least + 1 and name != "POSSESSIVE_REPEAT":
                found += math.log2(min(most - least, length) + 1)
            elif most > least:
                found += _OPTION
        elif name == "ATOMIC_GROUP":
            found += _ways(value, length)
        elif name == "BRANCH":
            found += max(_ways(branch, length) for branch in value[1]) + _OPTION
        elif name == "SUBPATTERN":
            found += _ways(value[3], length)
        elif name in {"ASSERT", "ASSERT_NOT"}:
            found += _ways(value[1], length)
        elif name == "GROUPREF_EXISTS":
            branches = (_ways(branch, length) for branch in value[1:] if branch)
            found += max(branches, default=0.0)
    return found


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
    """OpenWayback's UriTranscoder: the first group of each match, escaped again."""

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
