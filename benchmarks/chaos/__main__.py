"""``python -m benchmarks.chaos SEED``: one trial; prints its outcome as JSON."""

from __future__ import annotations

import json
import signal
import sys

from benchmarks.chaos.plan import draw
from benchmarks.chaos.trial import Trial


def main() -> int:
    """Run the trial of the seed that the command line names."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    outcome = Trial(draw(int(sys.argv[1]))).run()
    sys.stdout.write(json.dumps(outcome.as_dict()) + "\n")
    return 1 if outcome.faults else 0


if __name__ == "__main__":
    sys.exit(main())
