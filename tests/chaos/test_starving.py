import os
import subprocess
import sys
import time

import pytest

from tests.chaos.starving import Starving, waited


def test_who_waits_for_half_of_a_window_starves_and_is_told_of_once():
    now, wait = 0.0, {1: 0.0, 2: 5.0}
    starving = Starving(2.0, clock=lambda: now, waited=wait.get)
    found = []
    for now in range(1, 9):
        wait[1] += 0.9 if now in (3, 4) else 0.1
        found.append(starving.look([1, 2, 3]))  # there is no 3

    assert found == [False, False, False, True, False, False, False, False]


def test_the_kernel_tells_who_waits():
    """On one CPU with a child that is busy."""
    before = waited(os.getpid())
    if before is None:
        pytest.skip("the kernel does not tell")
    mine = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(mine)})
    try:
        with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as child:
            limit = time.monotonic() + 30
            while waited(os.getpid()) < before + 0.02:
                assert time.monotonic() < limit
            child.kill()
    finally:
        os.sched_setaffinity(0, mine)

    assert waited(child.pid) is None
