"""What a schedule would do to a site, before anybody runs it.

Pages change at random, each at a rate of its own (a Poisson process, as Cho and
Garcia-Molina found pages to behave), and are visited as the schedule says. Time is
simulated: years take seconds. No request waits for another, so politeness, which may
make a real crawl slower, is not in it.

What is measured:

* **freshness**: the share of pages whose copy is current, at the mean over time and
  pages (Cho and Garcia-Molina, "The Evolution of the Web and Implications for an
  Incremental Crawler", 2000).
* **captured**: the share of the versions of pages that were captured before the next
  one replaced them. It is freshness weighted by how often pages change: a version is
  captured exactly if the copy is fresh when the page changes again.
* **age**: for how long a copy has been out of date, at the mean over time and pages.
* **revisits**: the share of visits that found nothing new.

What always holds:

1.  The same seed gives the same figures.
2.  At most `MOST_VISITS` visits are simulated, and at most `MOST_PAGES` pages; of more
    a sample is, and `Outcome.sampled` says so.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from frontier.recrawl.schedule import Answer, Kind, Mark, Schedule, after

if TYPE_CHECKING:
    from collections.abc import Sequence

DAY = 86_400.0
MOST_PAGES = 5_000
MOST_VISITS = 1_000_000
BINS = 60
"""Spans into which the time is divided for a plot."""


@dataclass(frozen=True, slots=True)
class Site:
    """Pages that change at Zipf-like rates: the nth at 1/n**exponent of the first's."""

    pages: int = 10_000
    fastest: float = 3_600.0
    """Seconds between two changes of the page that changes most, at the mean."""
    exponent: float = 1.0
    still: float = 0.0
    """Share of further pages that never change."""

    def rates(self, most: int = MOST_PAGES) -> list[float]:
        """Changes a second of *most* pages that stand for all, evenly spread."""
        count = min(self.pages, most)
        changing = max(1, round(count * (1 - self.still)))
        step = self.pages * (1 - self.still) / changing
        ranks = [max(1.0, (n + 0.5) * step + 0.5) for n in range(changing)]
        if count == self.pages:
            ranks = [float(n + 1) for n in range(changing)]
        rates = [1 / self.fastest / rank**self.exponent for rank in ranks]
        return rates + [0.0] * (count - changing)


@dataclass(slots=True)
class Outcome:
    """What a schedule did to a site; sums over the pages that were simulated."""

    scale: float
    """Pages of the site for each that was simulated."""
    days: float
    visits: int = 0
    revisits: int = 0
    fresh: float = 0.0
    """Seconds of pages, with `stale` all that were simulated after the first visit."""
    stale: float = 0.0
    aged: float = 0.0
    """Seconds by which copies were out of date, times the seconds for which."""
    changes: float = 0.0
    captured: float = 0.0
    """Changes at the mean, and those of versions that were captured."""
    visits_by_bin: list[int] = field(default_factory=lambda: [0] * BINS)
    fresh_by_bin: list[float] = field(default_factory=lambda: [0.0] * BINS)
    cut: bool = False
    """Whether it was ended by `MOST_VISITS`."""
    sampled: int = 0
    """Pages that were simulated."""

    @property
    def pages_a_day(self) -> float:
        """Visits of the whole site, first ones included."""
        return self.visits * self.scale / self.days

    @property
    def freshness(self) -> float:
        """The mean share of pages whose copy is current."""
        return self.fresh / max(self.fresh + self.stale, 1e-9)

    @property
    def versions_captured(self) -> float:
        """The share of versions that were captured; 1 if nothing changes."""
        return self.captured / self.changes if self.changes else 1.0

    @property
    def age(self) -> float:
        """Seconds by which a copy is out of date, at the mean; 0 while it is fresh."""
        return self.aged / max(self.fresh + self.stale, 1e-9)

    @property
    def revisit_share(self) -> float:
        """The share of visits that found nothing new."""
        return self.revisits / max(self.visits, 1)

    def by_day(self) -> list[tuple[float, float, float]]:
        """Of each span its middle in days, its pages a day, and its freshness."""
        span = self.days / BINS
        seconds = span * DAY * max(self.sampled, 1)
        return [
            (
                (n + 0.5) * span,
                self.visits_by_bin[n] * self.scale / span,
                min(1.0, self.fresh_by_bin[n] / seconds),
            )
            for n in range(BINS)
        ]


def simulate(
    rates: Sequence[float],
    schedule: Schedule,
    days: float,
    *,
    scale: float = 1.0,
    seed: int = 1,
) -> Outcome:
    """What *schedule* does in *days* to pages that change at *rates* a second.

    All are visited for the first time within the first interval, one after the other.
    """
    dice = random.Random(seed)
    done = Outcome(scale=scale, days=days, sampled=len(rates))
    spread = min(schedule.within(schedule.interval), days * DAY / 10)
    for number, rate in enumerate(rates):
        if done.visits >= MOST_VISITS:
            done.cut, done.sampled = True, number
            done.scale = scale * len(rates) / max(number, 1)
            break
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
        done.visits_by_bin[min(int(now / end * BINS), BINS - 1)] += 1
        mark = Mark(version.to_bytes(8, "big"))
        was_first = state is None
        finding, state = after(schedule, state, Answer.PAGE, mark)
        if finding == "unchanged" and not was_first:
            done.revisits += 1
        if state is None or schedule.kind is Kind.OFF:
            interval = end - now
        else:
            interval = state.interval
        span = min(interval, end - now)
        fresh = min(dice.expovariate(rate), span) if rate else span
        if fresh < interval and rate:
            version += 1
        done.fresh += fresh
        done.stale += span - fresh
        done.aged += (span - fresh) ** 2 / 2
        done.changes += rate * span
        done.captured += rate * fresh
        _spread(done.fresh_by_bin, now, now + fresh, end / BINS)
        now += interval


def _spread(bins: list[float], begin: float, end: float, width: float) -> None:
    """Add the seconds from *begin* to *end* to the spans that they are in."""
    at = begin
    number = int(begin / width)
    while at < end and number < BINS:
        stop = min(end, (number + 1) * width)
        bins[number] += stop - at
        at, number = stop, number + 1


def fixed_at_equal_visits(
    rates: Sequence[float],
    schedule: Schedule,
    adaptive: Outcome,
    *,
    seed: int = 1,
) -> tuple[Schedule, Outcome]:
    """The fixed schedule with as many visits as *adaptive* had, and what it does."""
    visits = max(adaptive.visits / max(adaptive.sampled, 1), 1.0)
    fixed = replace(schedule, kind=Kind.FIXED, interval=adaptive.days * DAY / visits)
    for _ in range(4):  # the first visits are spread, so it is not exact at once
        done = simulate(rates, fixed, adaptive.days, scale=adaptive.scale, seed=seed)
        ratio = done.visits * adaptive.sampled / (adaptive.visits * done.sampled)
        if math.isclose(ratio, 1, rel_tol=0.005):
            break
        fixed = replace(fixed, interval=fixed.interval * ratio)
    return fixed, done


def best_freshness(rates: Sequence[float], visits_a_second: float) -> float:
    """The highest freshness over pages that any schedule can have.

    That of somebody who knows the *rates* and may visit all pages together so often: of
    Cho and Garcia-Molina's optimal refresh policy. It visits a page the less the faster
    it changes beyond what can be kept up with.
    """
    moving = [rate for rate in rates if rate > 0]
    if not moving:
        return 1.0
    low, high = 1e-18, 1 / min(moving)
    for _ in range(60):
        gain = math.sqrt(low * high)
        wanted = sum(_visits_for(rate, gain) for rate in moving)
        low, high = (gain, high) if wanted > visits_a_second else (low, gain)
    fresh = sum(_freshness(rate, _visits_for(rate, high)) for rate in moving)
    return (fresh + len(rates) - len(moving)) / len(rates)


def best_captured(rates: Sequence[float], visits_a_second: float) -> float:
    """The largest share of versions that any schedule can capture with so many visits.

    One more visit captures as many versions of each page where all are visited in
    proportion to their rates, so that is the best: the "proportional policy" of Cho and
    Garcia-Molina, of somebody who knows the rates.
    """
    changes = sum(rates) / visits_a_second
    return -math.expm1(-changes) / changes if changes else 1.0


def _freshness(rate: float, visits: float) -> float:
    if visits <= 0:
        return 0.0
    x = rate / visits
    return -math.expm1(-x) / x


def _visits_for(rate: float, gain: float) -> float:
    """The visits a second at which one more adds *gain* to the freshness of a page."""
    if gain * rate >= 1:
        return 0.0  # it changes too fast to be worth it
    low, high = rate * 1e-3, rate * 1e9
    for _ in range(60):
        visits = math.sqrt(low * high)
        x = rate / visits
        adds = (-math.expm1(-x) - x * math.exp(-x)) / rate
        low, high = (visits, high) if adds > gain else (low, visits)
    return high
