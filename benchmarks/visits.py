"""What a schedule of recrawls does to a site, simulated: years take seconds.

Pages change at random, each at a rate of its own (a Poisson process, as Cho and
Garcia-Molina found pages to behave), and are visited as the schedule says. No request
waits for another, so politeness, which may make a real crawl slower, is not in it.
The same seed gives the same figures.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from frontier.recrawl.schedule import Answer, Kind, Mark, Schedule, after

DAY = 86_400.0


def zipf_rates(pages: int) -> list[float]:
    """Changes a second of each page: the first's hourly, the nth's 1/n as often."""
    return [1 / 3_600 / (number + 1) for number in range(pages)]


@dataclass(slots=True)
class Outcome:
    """Sums over all pages after their first visit."""

    days: float
    visits: int = 0
    fresh: float = 0.0
    """Seconds in which copies were current."""
    stale: float = 0.0
    changes: float = 0.0
    captured: float = 0.0
    """Changes to be expected, and those from versions that were captured: a version is
    captured exactly if the copy is current when the page changes again."""

    def figures(self) -> dict[str, float]:
        """Means over time and pages (Cho and Garcia-Molina, 2000)."""
        return {
            "pages_a_day": self.visits / self.days,
            "freshness": self.fresh / (self.fresh + self.stale),
            "versions_captured": self.captured / self.changes,
        }


def simulate(rates: list[float], schedule: Schedule, days: float, seed: int) -> Outcome:
    """What *schedule* does in *days* to pages that change at *rates* a second.

    All are visited for the first time within the first interval, one after the other.
    """
    dice = random.Random(seed)
    done = Outcome(days)
    spread = min(schedule.within(schedule.interval), days * DAY / 10)
    for number, rate in enumerate(rates):
        _visit(done, schedule, rate, spread * number / len(rates), dice)
    return done


def _visit(
    done: Outcome, schedule: Schedule, rate: float, begin: float, dice: random.Random
) -> None:
    """Simulate one page that changes at *rate*, first visited at *begin*."""
    now, end = begin, done.days * DAY
    state, version = None, 0
    while now < end:
        done.visits += 1
        mark = Mark(version.to_bytes(8, "big"))
        _, state = after(schedule, state, Answer.PAGE, mark)
        interval = end - now if state is None else state.interval
        span = min(interval, end - now)
        fresh = min(dice.expovariate(rate), span)
        version += fresh < interval
        done.fresh += fresh
        done.stale += span - fresh
        done.changes += rate * span
        done.captured += rate * fresh
        now += interval


def fixed_at_equal_visits(rates: list[float], adaptive: Outcome, seed: int) -> Outcome:
    """Simulate the fixed schedule that has as many visits as *adaptive* had."""
    interval = adaptive.days * DAY * len(rates) / adaptive.visits
    for _ in range(4):  # the first visits are spread, so it is not exact at once
        fixed = Schedule(Kind.FIXED, interval=interval)
        done = simulate(rates, fixed, adaptive.days, seed)
        interval *= done.visits / adaptive.visits
    return done


def best_captured(rates: list[float], visits_a_second: float) -> float:
    """The largest share of versions that any schedule can capture with so many visits.

    If pages are visited in proportion to their rates, one more visit captures as many
    versions of any page, so that is the best: the "proportional policy" of Cho and
    Garcia-Molina, for somebody who knows the rates.
    """
    changes = sum(rates) / visits_a_second
    return -math.expm1(-changes) / changes
