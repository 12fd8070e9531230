"""Regular expressions that may take exponential time, recognized by their form.

A repetition without bound whose inside can match the same text in several ways
makes Python try them all. So an unbounded repetition may not contain another,
nor alternatives, unless it is possessive or atomic.
"""

from __future__ import annotations

import re
from typing import Any

_parser: Any = re._parser  # type: ignore[attr-defined]
_MANY = 64
"""Bound of a repetition from which on it counts as having none."""


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
