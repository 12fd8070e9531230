"""``python -m tests.chaos [--quick] [--json]``: crawls that are hit by every fault.

A *plan* (`plan`) is drawn from a seed: kills, freezes, joins and so on. A *trial*
(`trial`) crawls the built-in site with real processes and makes the plan happen. An
*oracle* (`oracle`) judges its facts: what the site served, what the archive has, what
was reserved in the store at each injected fault.
"""

import argparse
import logging
import signal
import sys

from tests.chaos.trials import Options, run


def main(words=None):
    """Try the seeds that *words* name; 1 if one of them has a fault.

    The last line printed is the sums as JSON.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.chaos")
    parser.add_argument("--quick", action="store_true", help="ends within 45 seconds")
    parser.add_argument("--json", action="store_true", help="print only the JSON line")
    parser.add_argument("--seeds", type=int, help="try the seeds 1 to SEEDS")
    parser.add_argument("--seed", type=int, help="try this one and tell of it")
    parser.add_argument(
        "--aimed", action="store_true", help="cut files just before a push"
    )
    given = parser.parse_args(words)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # stops what was started
    logging.disable(logging.INFO)
    options = Options(given.quick, given.seeds, given.seed, given.aimed)
    report = run(options)
    if not given.json:
        sys.stdout.writelines(f"{line}\n" for line in report.lines())
    sys.stdout.write(report.as_json() + "\n")
    return 1 if report.about["seeds_failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
