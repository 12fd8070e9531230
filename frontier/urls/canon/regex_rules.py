r"""Rules that take arguments: a regular expression and what to put for a match.

Replacements are written as Java has them: ``$1`` is the first group, ``\$`` a
dollar sign.

Regular expressions that may take too much time are recognized by their form.

If the inside of an unbounded repetition can match the same text in several ways, Python
tries them all. So an unbounded repetition may not contain another, or alternatives,
unless it is possessive or atomic. With several in a row the time grows with a power of
the length of the text. What an expression may take for a text of some length is counted
in steps, from its form alone: the same on every machine.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote_plus, unquote_plus

if TYPE_CHECKING:
    from collections.abc import Callable

    Step = Callable[[str], str]


_parser: Any = re._parser  # type: ignore[attr-defined]
_MANY = 64
"""Bound of a repetition from which on it counts as having none."""
MOST = 65_536
"""Characters of a text, for whatever expression."""
MOST_STEPS = 1 << 26
"""Of all expressions for one text: 0.02 to 0.7 s, as a step takes 0.3 to 11 ns."""
_BEYOND = 500
"""Bits of a number of ways that is not computed any more."""


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


def longest(*patterns: str, whole: bool = False) -> int:
    """How long a text may be so that all *patterns* are found in it in `MOST_STEPS`.

    At most `MOST` characters. With *whole* each has to match all of the text.
    """
    least, most = 0, MOST + 1
    while most - least > 1:
        middle = (least + most) // 2
        fits = sum(steps(p, middle, whole=whole) for p in patterns) <= MOST_STEPS
        least, most = (middle, most) if fits else (least, middle)
    return least


@lru_cache(maxsize=100_000)
def steps(pattern: str, length: int, *, whole: bool = False) -> float:
    """Characters that are compared, at most, to look for *pattern* in *length* of them.

    No less than Python does for any text of that length; often much more, as what
    follows a repetition rules out most of the places where it may end. Infinite
    for what is too much to be told.
    """
    parsed = _parser.parse(pattern)
    begins = 1 if whole else _places(parsed, length)
    return length + begins * _work(parsed, length).steps


def narrowest(pattern: str) -> int:
    """How many characters a match of *pattern* has, at least; 1 for none."""
    return max(int(_parser.parse(pattern).getwidth()[0]), 1)


def _places(parsed: Any, length: int) -> int:
    """At how many places of *length* characters a match may begin, at most."""
    first = next(iter(parsed), (None, None))
    if str(first[1]) == "AT_BEGINNING_STRING":
        return 1
    if str(first[1]) == "AT_BEGINNING" and not parsed.state.flags & re.MULTILINE:
        return 1
    begin = _literal(parsed)
    apart = (n for n in range(1, len(begin)) if begin.startswith(begin[n:]))
    return length // next(apart, max(len(begin), 1)) + 1


def _literal(parsed: Any) -> str:
    """The text with which each match begins, in one case."""
    found = ""
    for operation, value in parsed:
        if str(operation) == "LITERAL":
            found += chr(value).casefold()
        elif str(operation) == "SUBPATTERN" and not value[1] and not value[2]:
            return found + _literal(value[3])
        else:
            break
    return found


class _Work(NamedTuple):
    """What it takes to try all that an expression can match from one place on."""

    ends: float
    """In how many ways it can match."""
    steps: float


def _work(parsed: Any, length: int) -> _Work:
    """Each thing is tried once for each way in which what is before it can match."""
    ends, steps = 1.0, 1.0
    for operation, value in parsed:
        one = _work_of(str(operation), value, length)
        steps += ends * one.steps
        ends *= one.ends
    return _Work(ends, steps)


def _work_of(name: str, value: Any, length: int) -> _Work:
    if name in {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}:
        least, most, body = value
        times = min(most, length // max(body.getwidth()[0], 1) + 1)
        inner = _work(body, length)
        if name == "POSSESSIVE_REPEAT":
            return _Work(1, times * inner.steps)
        return _repeated(inner, min(least, times), times)
    if name == "ATOMIC_GROUP":
        return _Work(1, _work(value, length).steps)
    if name == "BRANCH":
        branches = [_work(branch, length) for branch in value[1]]
        ends = (max if _begin_apart(value[1]) else sum)(b.ends for b in branches)
        return _Work(ends, sum(b.steps for b in branches))
    if name == "SUBPATTERN":
        return _work(value[3], length)
    if name in {"ASSERT", "ASSERT_NOT"}:
        return _Work(1, _work(value[1], length).steps)
    if name == "GROUPREF_EXISTS":
        branches = [_work(branch, length) for branch in value[1:] if branch]
        return _Work(max(b.ends for b in branches), sum(b.steps for b in branches))
    return _Work(1, length if name.startswith("GROUPREF") else 1)


def _repeated(inner: _Work, least: int, times: int) -> _Work:
    if inner.ends == 1:
        return _Work(times - least + 1, times * inner.steps + 1)
    if times * math.log2(inner.ends) > _BEYOND:
        return _Work(math.inf, math.inf)
    ways = (inner.ends ** (times + 1) - 1) / (inner.ends - 1)
    return _Work(ways, ways * inner.steps)


def _begin_apart(branches: Any) -> bool:
    """Whether no two of *branches* can match the same text."""
    begins = [next(iter(branch), ("", 0)) for branch in branches]
    if any(str(operation) != "LITERAL" for operation, _ in begins):
        return False
    letters = {chr(int(code)).casefold() for _, code in begins}
    return len(letters) == len(begins)


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
        pieces, at = [], 0
        for found in pattern.finditer(url):
            start, end = found.span(1)
            if start < at:  # no such group, or one that was looked at before
                continue
            text = unquote_plus(found[1], source, "replace")
            escaped = quote_plus(text, _UNRESERVED, target, "replace")
            pieces += [url[at:start], escaped.replace("~", "%7E")]
            at = end
        return "".join([*pieces, url[at:]])

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
