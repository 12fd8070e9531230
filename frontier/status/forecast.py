"""When a crawl will end if it goes on as in the last minute.

What always holds:

1.  One look is enough: nodes report the pace of their own last minute.
2.  A time left has a basis, in words. If the time is not known, the basis says why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from frontier.model import frozen
from frontier.status.text import duration
from frontier.status.validate import printable, whole
from frontier.status.views import CrawlSnapshot, LimitProgress

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from frontier.status.figures import Pace

LEAST_S = 30.0
"""Seconds for which a node must have run before there is a trend."""
LONGEST_S = 10 * 365 * 86_400.0
"""Seconds above which a forecast would mean nothing."""
SPENT = ("pages", "items", "errors", "bytes", "active_ms")
"""Fields of the hash of what a crawl with limits has spent."""


@frozen
class TimeLeft:
    """When a crawl will end."""

    seconds: float | None
    """Seconds from now; ``None`` if that is not known."""
    basis: str
    """What it follows from, or why it is not known."""


def time_left(seen: CrawlSnapshot) -> TimeLeft:
    """When the crawl will end, by its queue or by one of its limits."""
    if seen.state != "open":
        return TimeLeft(0.0, f"the crawl is {seen.state}")
    if seen.controls.paused is not None:
        return TimeLeft(None, "unknown: the crawl is paused")
    if held := held_up(seen):
        return TimeLeft(None, held)
    if seen.totals.lately_seconds < LEAST_S:
        return TimeLeft(None, f"unknown: no node has run for {LEAST_S:.0f} s")
    found = _by_queue(seen)
    for limit in seen.limits:
        left = _by_limit(limit, seen.totals.lately)
        if left is not None and (
            found.seconds is None or (left.seconds or 0.0) < found.seconds
        ):
            found = left
    return found


def _by_queue(seen: CrawlSnapshot) -> TimeLeft:
    pace, span = seen.totals.lately, seen.totals.lately_seconds
    queued = seen.queue.ready + seen.queue.reserved
    more = ""
    if seen.queue.waiting:
        more = f"; {seen.queue.waiting:,} more wait until they are due"
    if not queued:
        return TimeLeft(None if more else 0.0, f"nothing is queued{more}")
    # Rounded as it is shown: what is shown as 0.0/s is no change.
    shrinks, over = round(pace.done - pace.queued, 1), f"over {duration(span)}"
    if shrinks <= 0:
        what = f"grew by {-shrinks:,.1f}/s" if shrinks else "did not shrink"
        return TimeLeft(None, f"unknown: the queue {what} {over}{more}")
    seconds = queued / shrinks
    if seconds > LONGEST_S:
        return TimeLeft(None, f"unknown: the queue hardly shrank {over}{more}")
    basis = f"the queue shrank by {shrinks:,.1f}/s {over}{more}"
    return TimeLeft(round(seconds, 1), basis)


def _by_limit(limit: LimitProgress, pace: Pace) -> TimeLeft | None:
    """When *limit* is reached at the present *pace*; ``None`` if that is not known.

    The queue may be empty before.
    """
    left = max(0, limit.limit - limit.value)
    if limit.name == "time":
        basis = f"at most, by the limit of {limit.limit / 1000:,.0f} s"
        return TimeLeft(round(left / 1000, 1), basis)
    each = {"pages": pace.pages, "bytes": pace.bytes}.get(limit.name, 0.0)
    if each <= 0:
        return None
    basis = f"at most, by the limit of {limit.limit:,} {limit.name} at {each:,.1f}/s"
    return TimeLeft(round(left / each, 1), basis)


def held_up(seen: CrawlSnapshot) -> str:
    """What a crawl waits for if only hosts that are left alone have requests left.

    Empty if there is anything else to do.
    """
    hosts = seen.back_offs
    if not hosts.hold_up or not hosts.named:
        return ""
    first = min(one.until_ms for one in hosts.named) - seen.taken_ms
    many = "a host that is" if hosts.hosts == 1 else f"{hosts.hosts:,} hosts that are"
    more = seen.queue.waiting
    waiting = f", and {more:,} that wait until they are due" if more else ""
    return (
        f"unknown: all that is left is {seen.queue.ready:,} requests to {many} left "
        f"alone{waiting}; one is asked again in {duration(max(0, first / 1000))}; "
        "frontier crawl exclude HOST gives one up now"
    )


def limits_of(
    spent: Sequence[Any], settings: Mapping[str, str]
) -> tuple[LimitProgress, ...]:
    """How close a crawl is to its limits, which are among its *settings*.

    *spent* has the values of the fields `SPENT`.
    """
    from frontier.node.ends import LIMITS, TIME  # imports the rules of URLs

    used = dict(zip(SPENT, map(whole, spent), strict=True))
    found = []
    for name, limit in LIMITS.items():
        setting = limit.setting
        value = _amount(settings.get(setting, ""), 1000 if name == TIME else 1)
        if value:
            done = used["active_ms" if name == TIME else name]
            share = round(min(1.0, done / value), 4)
            found.append(LimitProgress(name, printable(setting), done, value, share))
    return tuple(found)


def _amount(text: str, times: int) -> int:
    try:
        return whole(float(text) * times)
    except (ValueError, OverflowError):
        return 0
