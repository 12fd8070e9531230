"""Whether work grows with its input and no faster, on a machine that is busy or not.

A limit of seconds does not say so: it is too short on a busy machine, and too long for
an input that is not huge. An input `TIMES` as long may take not much more than `TIMES`
the work: the thread's CPU time, the least of all runs.
"""

import gc
import math
import time

TIMES = 4
"""How much longer the longer text is: with twice, what a large text misses in the
processor's caches looks like a square on a busy machine."""
GROWTH = 8
"""The longer text may take so many times the work: a square takes 16."""
RUNS = 2
LEAST = 0.002
"""Seconds that the smaller text takes, at least, where it can be made as long."""
MOST = 1 << 21
"""Characters of the longer text."""
ATTEMPTS = 16
"""Until a busy machine has left each of the two alone once."""


def seconds(work, text):
    """The thread's CPU time of *work* on *text*: the least of a few runs."""
    found = []
    for _ in range(RUNS):
        begin = time.thread_time()
        work(text)
        found.append(time.thread_time() - begin)
    return min(found)


def grows_with(work, make, size, attempts=ATTEMPTS, times=TIMES):
    """Whether *times* as long a text of *make* costs less than `GROWTH` the time."""
    while seconds(work, make(size)) < LEAST and times * size < MOST:
        size *= 2
    small, large = make(size), make(times * size)
    short = long = math.inf
    for _ in range(attempts):
        gc.collect()
        short = min(short, seconds(work, small))
        long = min(long, seconds(work, large))
        if long <= GROWTH * max(short, 1e-6):
            return True
    return False


def repeated(text, before=None, after=None):
    """A maker of *text*, a string or bytes, so often as there is room."""
    nothing = text[:0]
    return lambda size: (
        (before or nothing) + text * (size // len(text)) + (after or nothing)
    )
