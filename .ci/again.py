"""Run the tests that failed once more, each alone, and say which passed then.

    python .ci/again.py PYTEST-OPTION...

To be called when pytest has ended with 1. Two workers share the cores with the nodes,
servers and sites of their tests: a machine that stands still for seconds fails a test
that waits for a process. Such a test passes alone; a defect mostly fails again. What
the first run printed stays in the log, and the last lines here name the tests: each is
a fault to be looked into, of the test or of ours. More than `MOST` failures are no
accident.
"""

import json
import subprocess
import sys
from pathlib import Path

MOST = 3
"""Tests that may have failed."""
FAILED = Path(".pytest_cache/v/cache/lastfailed")


def main() -> int:
    """Run them; 0 if all have passed."""
    tests = sorted(json.loads(FAILED.read_text()))
    print(f"{len(tests)} failed beside others:", *tests, sep="\n  ", flush=True)
    if not 1 <= len(tests) <= MOST:
        return 1
    pytest = [sys.executable, "-m", "pytest", "-q", *sys.argv[1:]]
    ended = {test: subprocess.run([*pytest, test], check=False) for test in tests}
    again = [test for test, done in ended.items() if done.returncode]
    for test in tests:
        result = "again" if test in again else "beside others, and passed alone"
        print(f"FAILED {result}: {test}", flush=True)
    return 1 if again else 0


if __name__ == "__main__":
    sys.exit(main())
