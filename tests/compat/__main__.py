"""`make compat`: what others wrote, tried with the add-on; a row for each.

    python tests/compat [--short]

The rows are in `rows.toml`. A row fails if one of its tests does, or if none ran. The
exit code is 1 if a row fails, or if Scrapy's own suite does (`scrapy_suite.py`).
``--short`` is for CI, after `make test`: of our tests some with the mark ``compat``,
of Scrapy's the files that crawl. `.ci/nightly.py` has the others.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import tomllib
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import scrapy_suite

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
WIDTH = 61


def run(tests: Sequence[str], report: Path, mark: str, *, alone: bool) -> str:
    """Run those of *tests*, which are ours, that have *mark*; what pytest printed.

    With *alone* one at a time, as rates and delays are counted by the clock.
    """
    told = "one at a time" if alone else "two at a time"
    print(f"running our tests, {told} ...", file=sys.stderr, flush=True)
    # pytest-twisted, which others' suites need, runs a loop around tests of ours.
    options = ["-q", "-m", mark, "-p", "no:twisted"]
    if not alone:
        options += ["-n", "2", "--dist", "worksteal"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, f"--junitxml={report}", *tests],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    )
    return done.stdout


def outcomes(report: Path) -> Mapping[str, str]:
    """What came of each test: ``passed``, ``failed`` or ``skipped``, by its id."""
    found = {}
    for case in ET.parse(report).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            outcome = "failed"
        else:
            outcome = "passed" if case.find("skipped") is None else "skipped"
        file = case.get("classname", "").replace(".", "/") + ".py"
        found[f"{file}::{case.get('name')}"] = outcome
    return found


def matches(test: str, wanted: str) -> bool:
    """Whether *wanted*, a file or a test without its parameters, has *test*."""
    return test == wanted or test.startswith((f"{wanted}::", f"{wanted}["))


def main() -> int:
    """Run everything, print the rows; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="what only this runs")
    options = parser.parse_args()
    rows = tomllib.loads((HERE / "rows.toml").read_text("utf-8"))["row"]
    if options.short:
        rows = [row for row in rows if row.get("compat") and not row.get("long")]
    mark = "compat" if options.short else "not bench and not chaos and not long"
    found: dict[str, str] = {}
    printed = ""
    with tempfile.TemporaryDirectory() as name:
        for alone in (False, True):
            chosen = [row for row in rows if row.get("alone", False) == alone]
            if not chosen:
                continue  # without a name pytest would run all that there is
            report = Path(name) / f"{alone}.xml"
            tests = sorted({test for row in chosen for test in row["tests"]})
            printed += run(tests, report, mark, alone=alone)
            if not report.exists():
                print(printed)
                return 1
            found |= outcomes(report)
    failing = 0
    print(f"{'point':7}{'what':{WIDTH}}{'passed':>8}{'failed':>8}{'skipped':>8}")
    for row in rows:
        counts: Counter[str] = Counter(
            outcome
            for test, outcome in found.items()
            if any(matches(test, wanted) for wanted in row["tests"])
        )
        fails = counts["failed"] or not counts["passed"]
        failing += bool(fails)
        numbers = "".join(f"{counts[k]:>8}" for k in ("passed", "failed", "skipped"))
        name = f"{row['point']:>5}  {row['name']:{WIDTH}}"
        print(f"{name}{numbers}{'   FAILS' if fails else ''}")
    failed = sum(outcome == "failed" for outcome in found.values())
    if failing or failed:  # one that is in no row, too: a file that cannot be read
        print(printed)
    print(flush=True)
    print("running Scrapy's own test-suite ...", file=sys.stderr, flush=True)
    suite = scrapy_suite.main(["--short"] if options.short else [])
    passed = sum(outcome == "passed" for outcome in found.values())
    print(f"{passed} passed, {failed} failed")
    return 1 if failing or failed or suite else 0


if __name__ == "__main__":
    sys.exit(main())
