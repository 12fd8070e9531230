"""``python -m tests.chaos [--seeds N | --seed N]``: crawls hit by every fault.

A *plan* (`plan`) is drawn from a seed: kills, freezes, joins and so on. A *trial*
(`trial`) crawls the built-in site with real processes and makes the plan happen. An
*oracle* (`oracle`) judges its facts: what the site served, what the archive has, what
was reserved in the store at each injected fault.
"""

import argparse
import json
import logging
import signal
import sys

from tests.chaos.trials import outcomes, sums


def main():
    """Try the seeds that the command line names; 1 if one of them has a fault.

    Each that failed is told on stderr, and the sums are printed as JSON.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.chaos")
    parser.add_argument("--seeds", type=int, default=20, help="the seeds 1 to SEEDS")
    parser.add_argument("--seed", type=int, help="this one, which is told in full")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # stops what was started
    logging.disable(logging.INFO)
    alone = given.seed is not None
    done = []
    for outcome in outcomes([given.seed] if alone else range(1, given.seeds + 1)):
        done.append(outcome)
        if alone or outcome.faults:
            sys.stderr.write("\n".join(outcome.lines()) + "\n")
    found = sums(done)
    sys.stdout.write(json.dumps(found) + "\n")
    return 1 if found["seeds_failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
