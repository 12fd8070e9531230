"""``python -m benchmarks compare COMMIT NAME``: this tree against another commit.

The other is checked out beside this one, and both run with the packages of this one.
For `instructions` the counts are compared: if one has grown by more than `MOST`, and
the message of the last commit has no line such as `REASON`, the exit code is 1. Any
other benchmark is run by turns in its short form, and its CPU time, including that of
the processes that it waited for, is reported as a ratio with its spread.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parents[1]
MOST = 0.03
"""By how much a count may grow without a reason given."""
TIMED = ("page, ", "start", "frontier crawl status", "seen URL, recent tier")
"""Parts in which something waits, by how their names begin: reported, but not judged.
A URL in the recent tier takes so little that a node's timers show: the same code
differed by 10 %. The server is not judged either, as it has timers of its own."""
REASON = re.compile(r"(?m)^Instructions: \S.*")
"""A line of a commit's message that says why more are needed."""
ROUNDS = 5


def compare(commit: str, name: str) -> int:
    """Compare this tree with *commit*; return the exit code."""
    with checked_out(commit) as other:
        if name == "instructions":
            return _instructions(other, commit)
        return _cpu(other, commit, name)


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """A work tree of *commit*, which is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        tree = Path(name) / "tree"
        _git("worktree", "add", "--quiet", "--detach", str(tree), commit)
        try:
            yield tree
        finally:
            _git("worktree", "remove", "--force", str(tree))


def _instructions(other: Path, commit: str) -> int:
    if not (other / "benchmarks" / "instructions.py").exists():
        sys.stdout.write(f"{commit} counts no instructions: nothing to compare\n")
        return 0
    grown = _grown(other)
    if grown:  # what is not chance happens again
        sys.stdout.write("once more:\n")
        grown = [part for part in _grown(other) if part in grown]
    said = REASON.search(_git("log", "-1", "--format=%B"))
    if grown and said is None:
        sys.stdout.write(
            f"more instructions for {'; '.join(grown)}: mend it, or say why in the "
            "commit's message, in a line `Instructions: WHY`\n"
        )
        return 1
    return 0


def _grown(other: Path) -> list[str]:
    """Count both, report all, and return the parts that grew by more than they may."""
    with ThreadPoolExecutor(2) as pool:
        before, after = pool.map(_counts, (other, HERE))
    grown = []
    for part in dict.fromkeys([*before, *after]):
        was, now = before.get(part), after.get(part)
        if was is None or now is None:
            continue  # one of them does not count it
        change = now / was - 1
        waits = part.startswith(TIMED) or part.endswith(": server")
        mark = " (waits)" if waits else " !" if change > MOST else ""
        if mark == " !":
            grown.append(part)
        sys.stdout.write(f"{part:40}{was:15,.0f}{now:15,.0f}{change:+8.1%}{mark}\n")
    return grown


def _counts(tree: Path) -> dict[str, float]:
    report = json.loads(_run(tree, "instructions", "--json").stdout.splitlines()[-1])
    results: dict[str, dict[str, float]] = report["results"]
    return {part: row["instructions"] for part, row in results.items()}


def _cpu(other: Path, commit: str, name: str) -> int:
    ratios = []
    for turn in range(ROUNDS):
        trees = (HERE, other) if turn % 2 else (other, HERE)
        used = {tree: _seconds(tree, name) for tree in trees}
        ratios.append(used[HERE] / used[other])
        sys.stdout.write(
            f"{name}: {used[other]:.2f} s before, {used[HERE]:.2f} s now, "
            f"{ratios[-1]:.3f}\n"
        )
    sys.stdout.write(
        f"{name}: CPU time by that of {commit}: {statistics.median(ratios):.3f} "
        f"({min(ratios):.3f} to {max(ratios):.3f}, {ROUNDS} rounds)\n"
    )
    return 0


def _seconds(tree: Path, name: str) -> float:
    """CPU seconds of a short run in *tree*, of servers and nodes too."""
    before = os.times()
    _run(tree, name, "--quick", "--json")
    after = os.times()
    return (
        after.children_user
        - before.children_user
        + after.children_system
        - before.children_system
    )


def _run(tree: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *words],
        cwd=tree,  # whose packages come first
        env=env | {"PYTHONPATH": str(tree)},
        check=True,
        text=True,
        stdout=subprocess.PIPE,
    )


def _git(*words: str) -> str:
    done: Any = subprocess.run(
        ["git", "-C", str(HERE), *words],
        check=True,
        text=True,
        stdout=subprocess.PIPE,
    )
    return str(done.stdout)
