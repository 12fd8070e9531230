"""The interval of a URL: how it grows, how it shrinks, and when it ends.

What always holds:

1.  An interval is within the minimum and the maximum of the schedule in effect, even
    if it was stored under another schedule, or by somebody else.
2.  A visit that found nothing out, because the host did not answer or answered with an
    error of its own, leaves the interval as it is.
3.  A URL leaves the schedule after `GONE_AFTER` answers in a row that say that it is
    gone. Any other answer starts the count again.
4.  The stored state of a URL has `SIZE` bytes, whatever happened to it. Bytes that
    `State.packed` does not write are not a state: the URL starts over.

The defaults of growth and decay are those of Heritrix's ``WaitEvaluator``: half as long
again if nothing changed, and two thirds of it if something did. With both at 1.5 the
interval settles where every other visit finds a change.
"""

from __future__ import annotations

import hashlib
import struct
from enum import StrEnum
from typing import TYPE_CHECKING, Self

from frontier.model import frozen

if TYPE_CHECKING:
    from frontier.settings.config import Config

SIZE = 9
"""Bytes of a packed state."""
DIGEST_BYTES = 4
"""How much of a digest is kept: one change in 4 * 10**9 is missed."""
GONE = frozenset({404, 410})
"""Statuses that say that there is no such page."""
GONE_AFTER = 3
"""How many of them in a row take a URL out of the schedule."""
TICKS = 10
"""Units of a stored interval in a second."""
LEAST = 1 / TICKS
"""Shortest interval, in seconds."""
MOST = 2 * 366 * 86_400.0
"""Longest interval, in seconds: two years, as for all that waits in a queue."""

_LAYOUT = struct.Struct(f">BI{DIGEST_BYTES}s")
"""Flags, the interval in ticks, the digest."""
_VERSION = 2
_GONE_BITS, _HAS_DIGEST, _OF_TEXT = 0b11, 0b100, 0b1000
_NO_DIGEST = bytes(DIGEST_BYTES)


class Kind(StrEnum):
    """How a schedule sets intervals."""

    OFF = "off"
    """Not at all: a page is fetched once."""
    FIXED = "fixed"
    ADAPTIVE = "adaptive"


@frozen
class Schedule:
    """What sets the intervals of some URLs; all times are in seconds."""

    kind: Kind = Kind.ADAPTIVE
    interval: float = 86_400.0
    """From the first visit to the second, and with `Kind.FIXED` between any two."""
    minimum: float = 3_600.0
    maximum: float = 28 * 86_400.0
    growth: float = 1.5
    """What the interval is multiplied by if nothing changed; at least 1."""
    decay: float = 1.5
    """What it is divided by if something did; at least 1."""
    text: bool = False
    """Whether HTML has changed only if its text has."""

    def within(self, interval: float) -> float:
        """*interval*, or the nearest one that this schedule allows."""
        if self.kind is Kind.FIXED:
            interval = self.interval
        else:
            interval = min(max(interval, self.minimum), self.maximum)
        return min(max(interval, LEAST), MOST)

    def problem(self) -> tuple[str, str]:
        """Which field is invalid, and why; empty if none is."""
        if self.minimum > self.maximum:
            return "minimum", "is more than the maximum"
        for name in ("interval", "minimum", "maximum"):
            if not LEAST <= getattr(self, name) <= MOST:
                return name, f"must be from {LEAST} s to {MOST / 86_400:,.0f} days"
        for name in ("growth", "decay"):
            if not 1 <= getattr(self, name) <= 100:
                return name, "must be from 1 to 100"
        return "", ""


@frozen
class Mark:
    """What tells one version of a page from the next."""

    digest: bytes
    of_text: bool = False
    """Whether it is of the text of the page instead of its payload."""

    @classmethod
    def of(cls, whole: bytes, *, of_text: bool = False) -> Self:
        """The mark of *whole*, a digest of any length."""
        short = hashlib.blake2b(whole, digest_size=DIGEST_BYTES).digest()
        return cls(short, of_text)


@frozen
class State:
    """What is remembered of a URL between two visits."""

    interval: float
    mark: Mark | None = None
    """Of the last version seen; ``None`` if there was none yet."""
    gone: int = 0
    """How many answers in a row said that it is gone."""

    def packed(self) -> bytes:
        """The state in `SIZE` bytes."""
        flags = _VERSION << 4 | min(self.gone, GONE_AFTER)
        digest = _NO_DIGEST
        if self.mark is not None:
            flags |= _HAS_DIGEST | (_OF_TEXT if self.mark.of_text else 0)
            digest = self.mark.digest
        ticks = round(min(max(self.interval, LEAST), MOST) * TICKS)
        return _LAYOUT.pack(flags, ticks, digest)

    @classmethod
    def unpacked(cls, packed: object) -> Self | None:
        """The state in *packed*, of unknown origin; ``None`` if it is not a state."""
        if not isinstance(packed, bytes) or len(packed) != SIZE:
            return None
        flags, ticks, digest = _LAYOUT.unpack(packed)
        if flags >> 4 != _VERSION or not LEAST * TICKS <= ticks <= MOST * TICKS:
            return None
        mark = Mark(digest, bool(flags & _OF_TEXT)) if flags & _HAS_DIGEST else None
        return cls(ticks / TICKS, mark, flags & _GONE_BITS)


class Answer(StrEnum):
    """What a visit found."""

    PAGE = "page"
    """A version of the page, whose mark says which."""
    SAME = "same"
    """The server says that it has not changed."""
    GONE = "gone"
    FAILED = "failed"
    """Nothing about the page: no answer, or an error of the server's own."""

    @classmethod
    def of_status(cls, status: int) -> Answer:
        """What an HTTP *status* says of the page."""
        if status in GONE:
            return cls.GONE
        if status == 304:
            return cls.SAME
        if 200 <= status < 400:
            return cls.PAGE
        return cls.FAILED


class Finding(StrEnum):
    """What a visit meant for the schedule."""

    FIRST = "first"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    FAILED = "failed"
    GONE = "gone"
    """The server said so, but not often enough yet."""
    LEFT = "left"
    """The server said so often enough: the URL is not visited again."""


def after(
    schedule: Schedule, state: State | None, answer: Answer, mark: Mark | None = None
) -> tuple[Finding, State | None]:
    """What a visit to a URL in *state* meant, and the state to remember.

    *mark* is that of the page, if *answer* is `Answer.PAGE`. The state is ``None`` if
    the URL leaves the schedule.
    """
    state = state or State(schedule.interval)
    interval, before, gone = schedule.within(state.interval), state.mark, state.gone
    longer = schedule.within(interval * schedule.growth)
    if answer is Answer.FAILED:
        return Finding.FAILED, State(interval, before, gone)
    if answer is Answer.GONE:
        if gone + 1 >= GONE_AFTER:
            return Finding.LEFT, None
        return Finding.GONE, State(interval, before, gone + 1)
    if answer is Answer.SAME:
        if before is None:
            return Finding.FIRST, State(interval)
        return Finding.UNCHANGED, State(longer, before)
    if before is None or mark is None or before.of_text != mark.of_text:
        # Marks of payload and of text are not compared with each other.
        return Finding.FIRST, State(interval, mark or before)
    if before.digest == mark.digest:
        return Finding.UNCHANGED, State(longer, mark)
    return Finding.CHANGED, State(schedule.within(interval / schedule.decay), mark)


def schedule_of(config: Config) -> Schedule:
    """The schedule of the settings, without rules."""
    return Schedule(
        Kind(config.recrawl),
        config.recrawl_interval,
        config.recrawl_min,
        config.recrawl_max,
        config.recrawl_growth,
        config.recrawl_decay,
        config.recrawl_text,
    )
