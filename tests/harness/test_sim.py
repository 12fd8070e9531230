"""The simulator finds nothing, does the same each time, and finds what is put back.

A few seeds: `.ci/run` tries hundreds, and `make nightly` 60,000.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def simulate():
    def simulate(*words):
        return subprocess.run(
            [sys.executable, "-m", "tests.harness.sim", *words],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=600,  # only so that a loop without an end fails
            check=False,
        )

    return simulate


def test_simulated_crawls_with_faults_are_complete_and_repeatable(simulate):
    done = simulate("--seeds", "4", "--twice")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 seeds, 0 wrong" in done.stdout


def test_simulator_finds_a_node_that_hands_over_a_started_request(simulate):
    mutant = "hands_over_what_is_started"
    done = simulate("--seeds", "300", "--until", "--mutant", mutant)

    assert done.returncode == 1, done.stdout + done.stderr
    assert " 1 wrong" in done.stdout


@pytest.mark.long
def test_each_documented_seed_finds_the_fault_that_is_put_back(simulate):
    page = (ROOT / "docs" / "decisions" / "tests.md").read_text("utf-8")
    found = re.findall(r"^\| `(\w+)`: .+ \| (\d+) \|$", page, re.MULTILINE)

    assert len(found) == 7
    for mutant, seed in found:
        done = simulate("--seed", seed, "--mutant", mutant)
        assert "1 seeds, 1 wrong" in done.stdout, (mutant, seed, done.stdout)
