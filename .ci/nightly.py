"""Run what takes too long for each change, or a slice of it.

    python .ci/nightly.py                all parts, in turn; hours
    python .ci/nightly.py PART...        these
    python .ci/nightly.py --slice HASH   a share of one part, drawn by a commit's hash

`.ci/run` calls the last form, so that each part is seen by some landings between two
nights. A part that passes whole is written to `nightly.json`, with the day and the
commit. Ends with 1 if a part fails.
"""

import datetime as dt
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
LAST = Path(__file__).with_suffix(".json")
AGAIN = Path(__file__).with_name("again.py")
"""What fails beside others is tried once more, alone, and stays in the log."""
OURS = f"{sys.executable} {AGAIN} -n 2 --dist worksteal"
COMPAT = f".venv-compat/bin/python {AGAIN} -p no:twisted -n 2 --dist worksteal"

TESTS: Mapping[str, tuple[str, int]] = {
    "chaos in crawls": (f"{OURS} -m chaos tests --ignore=tests/chaos", 5),
    "long forms": (f"{OURS} -m long tests", 2),
    "plug-ins and readers": (f"{COMPAT} -m compat tests", 5),
    "benchmarks": (f"{OURS} -m bench tests", 2),
    "guides": (f"{OURS} -m docs tests/docs", 2),
}
"""Tests by pytest, and into how many shares of at most five minutes they are cut."""
WHOLE: Mapping[str, str] = {
    "chaos": f"{sys.executable} -m tests.chaos --seeds 60",
    "lease model": f"{sys.executable} -m tests.cluster.lease_model",
    "simulator": f"{sys.executable} -m tests.harness.sim --seeds 60000 --workers 2",
    "damage": "make damage",
    "Scrapy's suite": ".venv-compat/bin/python tests/compat/scrapy_suite.py",
    "mutants": "make mutants",
    "audit": "make audit",
}
"""Those of which a share says little; only a night runs them."""


def run(name: str, command: str, share: str = "") -> bool:
    """Whether *command* passed; *share* is ``I/N``, see `tests/conftest.py`."""
    print(f"== {name} {share}: {command}", flush=True)
    env = {**os.environ, "TESTS_SHARE": share}
    return not subprocess.run(
        command.split(), cwd=ROOT, env=env, check=False
    ).returncode


def head() -> str:
    """The commit that is checked out."""
    words = ["git", "rev-parse", "HEAD"]
    return subprocess.check_output(words, cwd=ROOT, text=True).strip()


def night(names: list[str]) -> int:
    """Run the parts whole, and note those that passed."""
    parts = {name: command for name, (command, _) in TESTS.items()} | dict(WHOLE)
    failed = []
    for name in names or parts:
        if not run(name, parts[name]):
            failed.append(name)
            continue
        noted = json.loads(LAST.read_text()) if LAST.exists() else {}
        day = dt.datetime.now(dt.UTC).date().isoformat()
        noted[name] = {"day": day, "commit": head()}
        LAST.write_text(json.dumps(noted, indent=2, sort_keys=True) + "\n")
    print("failed:", ", ".join(failed) or "nothing", flush=True)
    return 1 if failed else 0


def slice_of(commit: str) -> int:
    """Run the share that *commit* draws."""
    shares = [(name, i, n) for name, (_, n) in TESTS.items() for i in range(n)]
    name, i, n = shares[int(commit[:8], 16) % len(shares)]
    return 0 if run(name, TESTS[name][0], f"{i}/{n}") else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--slice"]:
        sys.exit(slice_of(sys.argv[2]))
    sys.exit(night(sys.argv[1:]))
