"""Regular expressions that may take too much time, recognized by their form.

A repetition without bound whose inside can match the same text in several ways
makes Python try them all. So an unbounded repetition may not contain another,
nor alternatives, unless it is possessive or atomic. Several in a row take time with
a power of the length of the text: so that is limited, for each expression.
"""

from __future__ import annotations

import math
import re
from typing import Any

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
