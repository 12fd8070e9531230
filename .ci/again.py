"""Run pytest, and the few tests that failed once more, each alone.

    python .ci/again.py PYTEST-OPTION...

Two workers share the cores with the nodes, servers and sites of their tests: a machine
that stands still for seconds fails a test that waits for a process. Such a test passes
alone; a defect mostly fails again. What the first run printed stays in the log, and the
last lines here name the tests: each is a fault to be looked into, of the test or of
ours. More than `MOST` failures are no accident, and what ends pytest in another way
than by tests that failed is none at all.

The CPU time of the first run is told. If it was one of all tests, with no path and no
mark, it has a budget (`budget.toml`).
"""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

MOST = 3
"""Tests that may have failed."""
TESTS_FAILED = 1
"""Pytest's exit code for that alone; see `pytest.ExitCode`."""
FAILED = Path(".pytest_cache/v/cache/lastfailed")
PYTEST = [sys.executable, "-m", "pytest", "-q"]


BUDGET = Path(__file__).with_name("budget.toml")


def is_within_budget(words: list[str]) -> bool:
    """Whether the processes that have ended took no more than *words* may."""
    times = os.times()
    used = times.children_user + times.children_system
    whole = "-m" not in words and not any(word.startswith("tests") for word in words)
    most = tomllib.loads(BUDGET.read_text())["cpu_seconds"]["all_tests"]
    of = f" of at most {most:,}" if whole else ""
    print(f"CPU seconds: {used:,.0f}{of}; by the clock {times.elapsed - BEGUN:,.0f}")
    return not whole or used <= most


BEGUN = os.times().elapsed


def main() -> int:
    """Run them; pytest's exit code, or 0 if all that failed have passed alone."""
    FAILED.unlink(missing_ok=True)  # of another stage
    code = subprocess.run([*PYTEST, *sys.argv[1:]], check=False).returncode
    if not is_within_budget(sys.argv[1:]):
        print("FAILED: all tests together take more CPU time than budget.toml has")
        return code or TESTS_FAILED
    if code != TESTS_FAILED:
        return code
    tests = sorted(json.loads(FAILED.read_text())) if FAILED.exists() else []
    print(f"{len(tests)} failed beside others:", *tests, sep="\n  ", flush=True)
    if not 1 <= len(tests) <= MOST:
        return code
    # The marks and the share that chose them are not asked again: the tests are named.
    env = {name: value for name, value in os.environ.items() if name != "TESTS_SHARE"}
    ended = {
        test: subprocess.run([*PYTEST, "-m", "", test], check=False, env=env)
        for test in tests
    }
    again = [test for test, done in ended.items() if done.returncode]
    for test in tests:
        result = "again" if test in again else "beside others, and passed alone"
        print(f"FAILED {result}: {test}", flush=True)
    return code if again else 0


if __name__ == "__main__":
    sys.exit(main())
