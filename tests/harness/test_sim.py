"""The simulator finds nothing, does the same each time, and finds what is put back.

A few seeds: `.ci/run` tries hundreds, and `make nightly` 60,000.
"""

import re

import pytest

from tests.harness.modules import ROOT, run


def test_simulated_crawls_with_faults_are_complete_and_repeatable():
    done = run("sim", "--seeds", "4", "--twice")

    assert "4 seeds, 0 wrong" in done.stdout, done.stdout + done.stderr


def test_simulator_finds_a_node_that_hands_over_a_started_request():
    mutant = "hands_over_what_is_started"
    done = run("sim", "--seeds", "300", "--until", "--mutant", mutant)

    assert " 1 wrong" in done.stdout, done.stdout + done.stderr


@pytest.mark.long
def test_each_documented_seed_finds_the_fault_that_is_put_back():
    page = (ROOT / "docs" / "decisions" / "tests.md").read_text("utf-8")
    found = re.findall(r"^\| `(\w+)`: .+ \| (\d+) \|$", page, re.MULTILINE)

    assert len(found) == 8
    for mutant, seed in found:
        done = run("sim", "--seed", seed, "--mutant", mutant)
        assert "1 seeds, 1 wrong" in done.stdout, (mutant, seed, done.stdout)
