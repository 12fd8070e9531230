"""Work that is killed before each of its calls that others see, one after the other.

A kill between two of these calls leaves what a kill before the second one leaves.
"""

import itertools
import mmap
import os
import random
import signal
import socket
import sys
import threading
import traceback
from io import BufferedWriter, FileIO

import pytest

TOLD = {"write", "writelines", "send", "sendall", "truncate"}
NAMED = {"fsync", "ftruncate", "rename", "replace", "unlink", "open", "mkdir", "write"}
KILLS = pytest.mark.parametrize("kills", [1, pytest.param(0, marks=pytest.mark.chaos)])
"""How many moments are drawn; 0 for all."""


def _is_seen(function):
    owner = getattr(function, "__self__", None)
    if isinstance(owner, FileIO | BufferedWriter | socket.socket):
        return function.__name__ in TOLD
    return getattr(owner, "__name__", "") == "posix" and function.__name__ in NAMED


def calls_of(work, moment=0):
    """Do *work* in a fork; its calls, or `None` if it was killed before call *moment*.

    It has threads, and the last call of each may come after its end.
    """
    told = mmap.mmap(-1, 8)
    child = os.fork()
    if not child:
        calls = itertools.count(1)

        def count(frame, event, function):
            if event == "c_call" and _is_seen(function):
                number = next(calls)
                told[:] = number.to_bytes(8)
                if number == moment:
                    os.kill(os.getpid(), signal.SIGKILL)

        code = 1
        try:
            threading.setprofile(count)
            sys.setprofile(count)
            work()
            code = 0
        except BaseException:  # noqa: BLE001 - its process ends
            sys.setprofile(None)
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in {0, -signal.SIGKILL}
    return int.from_bytes(told[:]) if code == 0 else None


def check_kills(made, kills):
    """Kill what *made* makes of a name at *kills* of its calls, and run it again.

    It ends as one that was not killed, also if the second run was killed, too.
    """
    calm = made("calm")
    calls = calls_of(calm.run)
    wanted, killed = calm.end(), 0
    for moment in random.sample(range(1, calls + 1), calls):
        wild = made(str(moment))
        for again in (moment, moment, 0):
            if calls_of(wild.run, again) is not None:
                break
            killed += 1
            wild.after_kill()
        assert wild.end() == wanted, f"killed at call {moment}"
        if kills and killed:  # not all runs have as many calls: some moments never come
            return
    assert killed
