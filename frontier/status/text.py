"""Numbers, sizes and times in words: the same in the terminal and on the page."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import tzinfo

UNITS = ("kB", "MB", "GB", "TB", "PB")


def number(value: float, digits: int = 0) -> str:
    """*value* with separators."""
    return f"{value:,.{digits}f}"


def counted(number: int, what: str) -> str:
    """*number* of the thing *what*, a noun with a plural in -s."""
    return f"{number:,} {what}{'s' * (number != 1)}"


def first_of(names: Sequence[str], most: int, between: str = ", ") -> str:
    """The first *most* of *names*, and how many more there are."""
    text, more = between.join(names[:most]), len(names) - most
    return f"{text} and {more:,} more" if more > 0 else text


def ranges_of(numbers: Iterable[int]) -> list[str]:
    """*numbers*, which are in order, as ranges, such as ``0-41`` and ``77``."""
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return [f"{a}" if a == b else f"{a}-{b}" for a, b in found]


def rate(value: float) -> str:
    """*value*, per second, with as many digits as mean something."""
    return f"{value:,.{0 if value >= 100 else 1 if value >= 1 or not value else 2}f}"


def percent(part: float, whole: float) -> str:
    """*part* of *whole* in percent."""
    return f"{part / whole:.0%}" if whole else "0%"


def size(value: float) -> str:
    """*value* bytes, as ``999 B`` or ``1.5 GB``; a kB has 1,000 bytes."""
    if value < 1000:
        return f"{value:,.0f} B"
    for unit in UNITS:
        value /= 1000
        if value < 999.95 or unit == UNITS[-1]:
            break
    return f"{value:,.1f} {unit}"


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


def ago(milliseconds: float) -> str:
    """*milliseconds* since something, for people."""
    return "now" if milliseconds < 2000 else f"{duration(milliseconds / 1000)} ago"


def moment(at_ms: float, zone: tzinfo | None = UTC) -> str:
    """*at_ms*, milliseconds since the Unix epoch, as a time in *zone*."""
    try:
        at = datetime.fromtimestamp(at_ms / 1000, UTC)
        return at.astimezone(zone).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, OSError, ValueError):
        return "-"


def local_moment(at_ms: float) -> str:
    """*at_ms*, milliseconds since the Unix epoch, as a local time."""
    return moment(at_ms, None)
