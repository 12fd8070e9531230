"""Crawls to which everything happens that may.

``.ci/run`` and ``make chaos`` try ten seeds. Replay one that fails: ``python -m
tests.chaos --seed N``.
"""

import pytest

from tests.chaos.trials import outcomes, sums


@pytest.mark.chaos
def test_twenty_seeds_without_a_fault():
    done = list(outcomes(range(1, 21)))

    lines = [line for outcome in done if outcome.faults for line in outcome.lines()]
    assert lines == [], "\n" + "\n".join(lines)
    found = sums(done)
    assert found["stores"].keys() == {"single", "cluster", "sentinel"}
    assert found["events"]["migrate"] >= 3
    assert found["slots_moved"] > 0
    assert found["end_seconds_max"] > 0
