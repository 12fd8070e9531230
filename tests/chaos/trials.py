"""Many trials, two at a time, and their sums."""

import json
import os
import subprocess
import sys
import time
from collections import Counter

from tests.chaos.nodes import ROOT
from tests.chaos.oracle import Wrong
from tests.chaos.outcome import Outcome
from tests.chaos.stage import LEASE, VARIABLE

BUSY, LONG_LEASE = 2.0, 6.0
"""With more than so much load per CPU, leases last for so many seconds: nodes
that get no processor for as long as a lease lose it, and fetch again what they had."""
LANES = 2
"""Trials at a time."""
PACE = 0.05


def outcomes(seeds):
    """Run the trials of *seeds*, `LANES` at a time, each in a process of its own."""
    busy = os.getloadavg()[0] > BUSY * (os.cpu_count() or 1)
    if busy and LEASE < LONG_LEASE and VARIABLE not in os.environ:
        os.environ[VARIABLE] = str(LONG_LEASE)
    waiting, running = list(seeds), {}
    try:
        while waiting or running:
            while waiting and len(running) < LANES:
                seed = waiting.pop(0)
                running[seed] = subprocess.Popen(
                    [sys.executable, "-m", "tests.chaos.one_trial", str(seed)],
                    cwd=ROOT,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            for seed, process in list(running.items()):
                if process.poll() is not None:
                    del running[seed]
                    said = process.communicate()[0]
                    if process.returncode != 0:
                        raise RuntimeError(f"the trial of seed {seed} broke down")
                    yield Outcome(**json.loads(said.splitlines()[-1]))
            time.sleep(PACE)
    finally:
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.wait()


def sums(done):
    """What is judged, and what happened, over the outcomes *done*."""

    def count(*wrongs):
        return sum(outcome.count(*wrongs) for outcome in done)

    return {
        "pages_lost": count(Wrong.LOST),
        "extra_fetches_beyond_inflight": count(Wrong.EXTRA),
        "host_overlaps": count(Wrong.OVERLAP, Wrong.HASTE),
        "dangling_revisits": count(Wrong.DANGLING),
        "early_ends": count(Wrong.EARLY),
        "seeds_failed": sorted(outcome.seed for outcome in done if outcome.faults),
        "seeds": len(done),
        "stores": Counter(outcome.store for outcome in done),
        "events": sum((Counter(outcome.events) for outcome in done), Counter()),
        "kills": sum(outcome.kills for outcome in done),
        "starved": sum(outcome.starved for outcome in done),
        "slots_moved": sum(outcome.slots_moved for outcome in done),
        "end_seconds_max": max((outcome.ending for outcome in done), default=0.0),
    }
