"""``python -m tests.chaos.one_trial SEED``: prints its outcome as a line of JSON."""

import json
import signal
import sys

from tests.chaos.plan import draw
from tests.chaos.trial import Trial

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    outcome = Trial(draw(int(sys.argv[1]))).run()
    sys.stdout.write(json.dumps(outcome.as_dict()) + "\n")
