"""Values from the store, none of which is trusted.

Whatever is read, the result has the type that was asked for: a value of
another type, too large or not finite, becomes zero or empty.
"""

from __future__ import annotations

import json
from typing import Any

MAX_JSON = 64 * 1024
"""Bytes of a JSON object that is read."""
MAX_TEXT = 300
"""Characters of a text that are kept."""
MAX_FIGURE = 2**63


def mapping(value: bytes | None) -> dict[str, Any]:
    """The JSON object in *value*; empty if there is none."""
    if value is None or len(value) > MAX_JSON:
        return {}
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def whole(value: Any) -> int:
    """*value* as a whole number that is not negative; 0 if it is not one."""
    if isinstance(value, bool):
        return 0
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return 0
    return number if 0 <= number < MAX_FIGURE else 0


def real(value: Any) -> float:
    """*value* if it is a number that is not negative, else 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if 0 <= value < MAX_FIGURE else 0.0


def text(value: bytes | None) -> str:
    """*value* as text that can be printed."""
    return printable((value or b"")[: 4 * MAX_TEXT].decode("utf-8", "replace"))


def printable(value: str) -> str:
    """*value* without anything that a terminal would obey."""
    kept = value[:MAX_TEXT]
    if kept.isprintable():  # as nearly always
        return kept
    return "".join(c if c.isprintable() else "\ufffd" for c in kept)
