import math

import pytest

from frontier.recrawl.schedule import Kind, Schedule
from frontier.recrawl.simulation import (
    DAY,
    MOST_PAGES,
    Site,
    best_captured,
    best_freshness,
    fixed_at_equal_visits,
    simulate,
)

HOUR = 3_600.0


@pytest.mark.parametrize("changes", [0.1, 1.0, 5.0])
def test_fixed_visits_have_the_freshness_of_the_formula(changes):
    """Cho and Garcia-Molina: (1 - exp(-x)) / x, for x changes between two visits."""
    fixed = Schedule(Kind.FIXED, interval=HOUR)

    done = simulate([changes / HOUR] * 50, fixed, days=30)

    wanted = -math.expm1(-changes) / changes
    assert done.freshness == pytest.approx(wanted, rel=0.02)
    assert done.versions_captured == pytest.approx(wanted, rel=0.02)
    assert done.pages_a_day == pytest.approx(50 * 24, rel=0.01)
    assert done.revisit_share == pytest.approx(math.exp(-changes), abs=0.02)


def test_a_page_that_never_changes_is_asked_ever_less():
    done = simulate([0.0], Schedule(interval=HOUR, maximum=30 * DAY), days=365)

    assert done.freshness == 1
    assert done.age == 0
    assert done.visits < 40
    assert done.revisits == done.visits - 1


def test_what_is_off_is_visited_once():
    done = simulate([1 / HOUR] * 3, Schedule(Kind.OFF), days=10)

    assert done.visits == 3


def test_by_day_adds_up_to_the_whole():
    rates = Site(100, fastest=HOUR).rates()
    done = simulate(rates, Schedule(), days=60)

    rows = done.by_day()

    assert sum(pages for _, pages, _ in rows) / len(rows) == pytest.approx(
        done.pages_a_day
    )
    # The last spans have no pages that were not visited yet.
    assert rows[-1][2] == pytest.approx(done.freshness, abs=0.1)


def test_at_equal_visits_more_versions_are_captured():
    rates = Site(1_000, fastest=HOUR).rates()
    adaptive = simulate(rates, Schedule(), days=90)

    fixed, done = fixed_at_equal_visits(rates, Schedule(), adaptive)

    assert fixed.kind is Kind.FIXED
    assert done.visits == pytest.approx(adaptive.visits, rel=0.01)
    assert adaptive.versions_captured > 1.5 * done.versions_captured


def test_nobody_is_fresher_than_the_best():
    rates = Site(300, fastest=HOUR).rates()
    adaptive = simulate(rates, Schedule(), days=90)
    _, done = fixed_at_equal_visits(rates, Schedule(), adaptive)

    pace = done.visits / (done.days * DAY)
    best, captured = best_freshness(rates, pace), best_captured(rates, pace)

    assert max(adaptive.freshness, done.freshness) <= best * 1.01
    assert done.versions_captured < adaptive.versions_captured <= captured * 1.01
    assert max(best, captured) < 1


def test_whoever_visits_in_proportion_to_the_rates_captures_most():
    rates = [1 / HOUR, 1 / DAY]
    each = [
        simulate([rate], Schedule(Kind.FIXED, interval=1 / rate), days=4_000)
        for rate in rates
    ]
    pace = sum(rates)

    changes = sum(one.changes for one in each)
    assert sum(one.captured for one in each) / changes == pytest.approx(
        best_captured(rates, pace), rel=0.02
    )
    assert best_captured(rates, 2 * pace) > best_captured(rates, pace)
    assert best_captured([0.0], 1.0) == 1


def test_pages_that_are_alike_are_best_visited_alike():
    fresh = best_freshness([1 / HOUR] * 20, 20 / HOUR)

    assert fresh == pytest.approx(-math.expm1(-1), rel=1e-3)


def test_a_large_site_is_simulated_by_a_sample():
    rates = Site(1_000_000, fastest=60.0).rates()

    assert len(rates) == MOST_PAGES
    assert sorted(rates, reverse=True) == rates
    assert rates[-1] == pytest.approx(1 / 60 / 1_000_000, rel=0.01)


def test_pages_that_never_change_have_their_share():
    rates = Site(1_000, still=0.3).rates()

    assert rates.count(0.0) == 300


def test_too_many_visits_are_cut_and_said(monkeypatch):
    monkeypatch.setattr("frontier.recrawl.simulation.MOST_VISITS", 200_000)
    fixed = Schedule(Kind.FIXED, interval=1.0)

    done = simulate([1 / HOUR] * 30, fixed, days=1)

    assert done.cut
    assert 0 < done.sampled < 30
    assert done.pages_a_day == pytest.approx(30 * DAY, rel=0.01)


def test_the_same_seed_gives_the_same_figures():
    rates = Site(100).rates()

    one, other = (simulate(rates, Schedule(), days=30, seed=7) for _ in range(2))

    assert one == other
