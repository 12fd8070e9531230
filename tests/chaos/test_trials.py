"""Crawls to which everything happens that may.

``.ci/run`` tries ten seeds, with scrapy-redis for comparison, and ``make chaos``
twenty. Replay one that fails: ``python -m tests.chaos --seed N``.
"""

import json
import subprocess
import sys

import pytest

from tests.chaos.nodes import ROOT
from tests.chaos.oracle import Wrong
from tests.chaos.peer import PeerTrial
from tests.chaos.plan import Plan
from tests.chaos.trials import outcomes

SEEDS = range(1, 21)
HIDDEN = 5
"""A cut on one server, while the pusher is stopped and others push as much."""
NONE = {
    "pages_lost": 0,
    "extra_fetches_beyond_inflight": 0,
    "host_overlaps": 0,
    "dangling_revisits": 0,
    "early_ends": 0,
    "seeds_failed": 0,
}


@pytest.mark.chaos  # `.ci/run` tries ten seeds each time
def test_few_seeds_without_a_fault_where_scrapy_redis_loses_pages():
    words = [sys.executable, "-m", "tests.chaos", "--quick", "--json", "--seeds", "2"]
    done = subprocess.run(
        words, cwd=ROOT, capture_output=True, text=True, check=False
    )  # each of its trials ends, sooner or later

    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    report = json.loads(line)
    ratios = report["ratios"]
    assert {name: ratios[name] for name in NONE} == NONE, done.stderr
    assert ratios["seeds"] >= 2
    assert ratios["recovery_seconds_max"] > 0
    assert ratios["end_seconds_max"] > 0
    done = report["results"]["frontier"]
    assert done["seeds_on_cluster"] + done["seeds_on_single"] >= 2
    assert done["events_migrate"] >= 3  # by the first seed
    assert done["slots_moved"] > 0
    assert ratios["scrapy_redis_pages_lost"] > 0
    for metrics in report["results"].values():
        assert all(isinstance(value, float) for value in metrics.values())


@pytest.mark.chaos
def test_the_judge_finds_no_loss_where_scrapy_redis_is_left_alone():
    """What it finds under kills is the kills' work.

    A busy Scrapy of its own fetches what robots.txt forbids (docs/decisions/urls.md):
    that is `Wrong.STRANGE`, with and without kills.
    """
    outcome = PeerTrial(Plan(0, 2, ())).run()

    assert outcome.count(Wrong.LOST, Wrong.EXTRA) == 0, "\n".join(outcome.lines())


@pytest.mark.chaos
def test_a_push_that_a_cut_file_forgets_is_fetched_though_others_push_as_much():
    ((_, outcome),) = outcomes([(HIDDEN, False)], aimed=True)

    assert outcome.aimed == 1, "\n".join(outcome.lines())
    assert outcome.faults == [], "\n".join(outcome.lines())


@pytest.mark.chaos
def test_thirty_aimed_seeds_lose_no_page():
    """But of those in which the pusher dies and its page is acked elsewhere."""
    failed, cuts = [], 0
    for _, outcome in outcomes([(seed, False) for seed in range(1, 31)], aimed=True):
        cuts += outcome.aimed
        if outcome.faults:
            failed += outcome.lines()

    assert failed == [], "\n" + "\n".join(failed)
    assert cuts >= 25


@pytest.mark.chaos
def test_twenty_seeds_without_a_fault():
    failed = []
    for _, outcome in outcomes([(seed, False) for seed in SEEDS]):
        if outcome.faults:
            failed += outcome.lines()

    assert failed == [], "\n" + "\n".join(failed)
