"""``python -m tests.chaos.one_trial SEED [--peer|--aimed]``: prints its outcome.

The outcome is one line of JSON.
"""

import argparse
import json
import signal
import sys

from tests.chaos.aim import draw_aimed
from tests.chaos.aimed import AimedTrial
from tests.chaos.peer import PeerTrial
from tests.chaos.plan import Kind, draw
from tests.chaos.trial import Trial


def main():
    """Run the trial that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.one_trial")
    parser.add_argument("seed", type=int)
    parser.add_argument(
        "--peer", action="store_true", help="scrapy-redis, and the plan's kills only"
    )
    parser.add_argument(
        "--aimed", action="store_true", help="a file cut just before one push"
    )
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    plan = draw(given.seed)
    trial = PeerTrial(plan.only(Kind.KILL)) if given.peer else Trial(plan)
    if given.aimed:
        trial = AimedTrial(draw_aimed(given.seed))
    sys.stdout.write(json.dumps(trial.run().as_dict()) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
