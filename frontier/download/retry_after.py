"""Retry-After: for how long a server wants to be left alone (RFC 9110, 10.2.3).

It says so in seconds, or with a date. A date is compared with the ``Date`` of the same
answer, if that has one: what counts is the server's clock. What neither is says
nothing, and is no error.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST = 64
"""Bytes of a value that is read; a date has 40 at the most."""
_SECONDS = re.compile(rb"[0-9]{1,40}")
_MONTHS = tuple(b"Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split())
_MONTH = rb"(?P<month>" + b"|".join(_MONTHS) + rb")"
_TIME = rb"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
_DATES = tuple(
    re.compile(pattern)
    for pattern in (
        rb"[A-Z][a-z]{2}, (?P<day>\d\d) "
        + _MONTH
        + rb" (?P<year>\d{4}) "
        + _TIME
        # of RFC 850, and with the words of days that are obsolete since RFC 1123
        + rb" GMT",
        rb"[A-Z][a-z]{5,8}, (?P<day>\d\d)-"
        + _MONTH
        + rb"-(?P<year>\d\d) "
        + _TIME
        # that of asctime()
        + rb" GMT",
        rb"[A-Z][a-z]{2} "
        + _MONTH
        + rb" (?P<day>[ \d]\d) "
        + _TIME
        + rb" (?P<year>\d{4})",
    )
)
"""An HTTP-date (RFC 9110, 5.6.7): IMF-fixdate, and the two obsolete forms."""
CENTURY = 50
"""Years ahead from which on a year of two digits is one of the past (5.6.7)."""


def retry_after(
    values: Iterable[bytes | None], date: bytes | None, now: float
) -> float | None:
    """The seconds that the fields *values* ask for; the most if there are several.

    *date* is the field ``Date`` beside them, *now* is seconds since the Unix epoch.
    ``None`` if none of them says anything; 0 for a time that is over.
    """
    found = []
    said = None if date is None else http_date(date, now)
    for value in values:
        seconds = None if value is None else _seconds(value, said, now)
        if seconds is not None:
            found.append(seconds)
    return max(found, default=None)


def _seconds(value: bytes, said: float | None, now: float) -> float | None:
    text = value.strip(b" \t")
    if len(text) > LONGEST:
        return None
    if _SECONDS.fullmatch(text):
        return float(text)
    until = http_date(text, now)
    return None if until is None else max(0.0, until - (now if said is None else said))


def http_date(value: bytes, now: float) -> float | None:
    """The seconds since the Unix epoch of an HTTP-date; ``None`` if it is none.

    *now* tells the century of a year with two digits.
    """
    text = value.strip(b" \t")
    if len(text) > LONGEST:
        return None
    for form in _DATES:
        parts = form.fullmatch(text)
        if parts is not None:
            return _epoch(parts, now)
    return None


def _epoch(parts: re.Match[bytes], now: float) -> float | None:
    year, day = int(parts["year"]), int(parts["day"])
    if len(parts["year"]) == 2:
        this = datetime.fromtimestamp(now, UTC).year
        year += this - this % 100
        if year > this + CENTURY:
            year -= 100
    month = _MONTHS.index(parts["month"]) + 1
    second = min(int(parts["second"]), 59)  # one may be a leap second
    try:
        found = datetime(
            year, month, day, int(parts["hour"]), int(parts["minute"]), second, 0, UTC
        )
    except ValueError:
        return None
    return found.timestamp()
