"""Retry-After: for how long a server wants to be left alone (RFC 9110, 10.2.3).

It says so in seconds, or with a date. A date is compared with the ``Date`` of the same
answer, if that has one: what counts is the server's clock. What neither is says
nothing, and is no error.
"""

from __future__ import annotations

from calendar import timegm
from email.utils import parsedate_tz
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def retry_after(
    values: Iterable[bytes | None], date: bytes | None, now: float
) -> float | None:
    """The seconds that the fields *values* ask for; the most if there are several.

    *date* is the field ``Date`` beside them, *now* is seconds since the Unix epoch.
    ``None`` if none of them says anything; 0 for a time that is over.
    """
    found = []
    said = http_date(date)
    for value in values:
        text = (value or b"").strip(b" \t")
        if text.isdigit():
            found.append(float(text))
        elif (until := http_date(text)) is not None:
            found.append(max(0.0, until - (now if said is None else said)))
    return max(found, default=None)


def http_date(value: bytes | None) -> float | None:
    """The seconds since the Unix epoch of an HTTP-date; ``None`` if it is none.

    In each of the three forms of RFC 9110, 5.6.7; a year 69 is 1969, a year 68 2068.
    """
    parts = parsedate_tz((value or b"").decode("latin-1"))
    try:
        return None if parts is None else float(timegm(parts[:9]) - (parts[9] or 0))
    except (ValueError, OverflowError):
        return None
