"""Many trials, two at a time, and their sums."""

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass

from tests.chaos.aim import draw_aimed
from tests.chaos.nodes import ROOT
from tests.chaos.oracle import Wrong
from tests.chaos.outcome import Outcome
from tests.chaos.plan import Kind, StoreKind
from tests.chaos.stage import LEASE, VARIABLE

BUSY, LONG_LEASE = 2.0, 6.0
"""With more than so much load per CPU, leases last for so many seconds: nodes
that get no processor for as long as a lease lose it, and fetch again what they had."""
LANES = 2
"""Trials at a time."""
SEEDS, PEER_SEEDS = 20, 6
AIMED_SEEDS, QUICK_AIMED = 30, 4
QUICK_SEEDS = 4
QUICK_PEER_SEED = 2
"""It kills twice: one trial has to suffice."""
AT_LEAST = 3
"""Trials of a quick run on a slow machine: two of ours, one of the peer."""
QUICK_SECONDS = 27.0
"""After which a quick run starts no further trial."""
PACE = 0.05

Trials = list[tuple[int, bool]]
"""Seed, and whether it is the peer's."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line asked for."""

    quick: bool = False
    seeds: object = None
    """How many plans to draw: the seeds from 1 to this one."""
    seed: object = None
    """The only one to draw."""
    aimed: bool = False
    """Whether the files of stores are cut just before a push."""


@dataclass(frozen=True, slots=True)
class Report:
    """What all trials came to."""

    about: object
    results: object
    """Sums, of ours and of the peer's."""
    ratios: object
    """What is judged."""

    def as_json(self):
        """One line."""
        environment = {"cpus": os.cpu_count(), **self.about}
        return json.dumps(
            {
                "benchmark": "chaos",
                "environment": environment,
                "results": self.results,
                "ratios": self.ratios,
            }
        )

    def lines(self):
        """The same for people."""
        for part in (*self.results.items(), ("judged", self.ratios)):
            yield f"{part[0]}:"
            yield from (f"  {name}: {value:g}" for name, value in part[1].items())


def run(options):
    """Try the seeds that *options* ask for; tell on stderr of each that failed."""
    if options.aimed:
        return _aimed(options)
    trials = _trials(options)
    lease = lease_seconds()
    ours = []
    theirs = []
    limit = QUICK_SECONDS if options.quick else None
    for (_, peer), outcome in outcomes(trials, limit=limit):
        (theirs if peer else ours).append(outcome)
        if not peer and (outcome.faults or options.seed is not None):
            sys.stderr.write("\n".join(outcome.lines()) + "\n")
    return Report(
        {
            "lease_seconds": lease,
            "seeds": sorted(outcome.seed for outcome in ours),
            "seeds_scrapy_redis": sorted(outcome.seed for outcome in theirs),
            "seeds_failed": sorted(o.seed for o in ours if o.faults),
        },
        {"frontier": _sums(ours), "scrapy_redis": _sums(theirs)},
        _ratios(ours, theirs),
    )


def _aimed(options):
    """Cut files just before a push; tell on stderr of each trial and of its losses."""
    count = options.seeds or (QUICK_AIMED if options.quick else AIMED_SEEDS)
    seeds = [options.seed] if options.seed is not None else range(1, count + 1)
    lease = lease_seconds()
    done = []
    for _, outcome in outcomes([(seed, False) for seed in seeds], aimed=True):
        done.append(outcome)
        sys.stderr.write("\n".join(outcome.lines()) + "\n")
    plans = [draw_aimed(outcome.seed) for outcome in done]
    sums = {
        "seeds": float(len(done)),
        "cuts": float(sum(outcome.aimed for outcome in done)),
        "pushers_killed": float(sum(outcome.kills for outcome in done)),
        "pages": float(sum(outcome.pages for outcome in done)),
        "pages_lost": float(sum(outcome.count(Wrong.LOST) for outcome in done)),
        "seeds_not_safe": float(sum(not plan.safe for plan in plans)),
        "pages_lost_not_safe": float(sum(outcome.expected_losses for outcome in done)),
        "fetched_again": float(sum(outcome.refetched for outcome in done)),
        "faults": float(sum(len(outcome.faults) for outcome in done)),
        "seconds_max": _rounded(max((o.seconds for o in done), default=0.0)),
    }
    failed = [outcome.seed for outcome in done if outcome.faults]
    return Report(
        {
            "lease_seconds": lease,
            "seeds": sorted(outcome.seed for outcome in done),
            "seeds_failed": sorted(failed),
        },
        {"aimed": sums},
        {
            "pages_lost": sums["pages_lost"],
            "pages_lost_not_safe": sums["pages_lost_not_safe"],
            "seeds": len(done),
            "seeds_failed": len(failed),
        },
    )


def outcomes(trials, *, limit=None, aimed=False):
    """Run *trials*, `LANES` at a time, each in a process of its own.

    After *limit* seconds no further one is started, but the first `AT_LEAST`.
    """
    lease_seconds()
    begin, begun = time.monotonic(), 0
    waiting = list(trials)
    running = []
    try:
        while waiting or running:
            if limit is not None and time.monotonic() - begin > limit:
                del waiting[max(0, AT_LEAST - begun) :]
            while waiting and len(running) < LANES:
                trial = waiting.pop(0)
                begun += 1
                running.append((trial, _start(*trial, aimed=aimed)))
            for trial, process in list(running):
                if process.poll() is not None:
                    running.remove((trial, process))
                    said = process.communicate()[0]
                    if process.returncode != 0:
                        raise RuntimeError(f"the trial of seed {trial[0]} broke down")
                    yield trial, Outcome(**json.loads(said.splitlines()[-1]))
            time.sleep(PACE)
    finally:
        for _, process in running:
            process.terminate()
        for _, process in running:
            process.wait()


def lease_seconds():
    """How long leases last in trials that begin now; ``CHAOS_LEASE`` says otherwise."""
    busy = os.getloadavg()[0] > BUSY * (os.cpu_count() or 1)
    if busy and LEASE < LONG_LEASE and VARIABLE not in os.environ:
        os.environ[VARIABLE] = str(LONG_LEASE)
    return float(os.environ.get(VARIABLE, LEASE))


def _trials(options):
    if options.seed is not None:
        return [(options.seed, False)]
    if options.quick:
        count, peers = options.seeds or QUICK_SEEDS, [QUICK_PEER_SEED]
    else:
        count = options.seeds or SEEDS
        peers = list(range(min(PEER_SEEDS, count), 0, -1))
    ours = [(seed, False) for seed in range(1, count + 1)]
    theirs = [(seed, True) for seed in peers]
    return [*ours[:2], *theirs[:1], *ours[2:], *theirs[1:]]


def _start(seed, peer, *, aimed):
    words = [str(seed), *(["--peer"] if peer else []), *(["--aimed"] if aimed else [])]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.chaos.one_trial", *words],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )


def _rounded(seconds):
    return float(f"{seconds:.4g}")


def _sums(done):
    return {
        "seeds": float(len(done)),
        "kills": float(sum(outcome.kills for outcome in done)),
        "pages": float(sum(outcome.pages for outcome in done)),
        "pages_lost": float(sum(outcome.count(Wrong.LOST) for outcome in done)),
        "fetched_again": float(sum(outcome.refetched for outcome in done)),
        "seconds_max": _rounded(max((o.seconds for o in done), default=0.0)),
        "end_seconds_max": _rounded(max((o.ending for o in done), default=0.0)),
        "faults": float(sum(len(outcome.faults) for outcome in done)),
        "starved": float(sum(outcome.starved for outcome in done)),
        "slots_moved": float(sum(outcome.slots_moved for outcome in done)),
        **{
            f"seeds_on_{kind}": float(sum(o.store == kind for o in done))
            for kind in StoreKind
        },
        **{
            f"events_{kind}": float(sum(o.events.get(kind, 0) for o in done))
            for kind in Kind
        },
    }


def _ratios(ours, theirs):
    def count(*wrongs):
        return sum(outcome.count(*wrongs) for outcome in ours)

    return {
        "pages_lost": count(Wrong.LOST),
        "extra_fetches_beyond_inflight": count(Wrong.EXTRA),
        "host_overlaps": count(Wrong.OVERLAP, Wrong.HASTE),
        "dangling_revisits": count(Wrong.DANGLING),
        "recovery_seconds_max": _rounded(max((o.recovery for o in ours), default=0.0)),
        "end_seconds_max": _rounded(max((o.ending for o in ours), default=0.0)),
        "early_ends": count(Wrong.EARLY),
        "seeds": len(ours),
        "seeds_failed": sum(bool(outcome.faults) for outcome in ours),
        "scrapy_redis_pages_lost": sum(o.count(Wrong.LOST) for o in theirs),
    }
