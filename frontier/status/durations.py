"""Times that last, in words: the same in the terminal and on the page."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """*seconds* for people, as ``6.3 s``, ``73 s``, ``42 min`` or ``2 h 05 min``."""
    if seconds < 90:
        digits = f"{seconds:.{1 if seconds < 9.95 else 0}f}"
        return f"{digits.removesuffix('.0')} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60:02} min"
    return f"{minutes // 1440:,} d {minutes % 1440 // 60} h"
