"""Whether the machine is too busy for a trial: who waits for a CPU.

A node that gets none for as long as a lease loses it, as one that is frozen does,
and what it had in flight is fetched again. The kernel tells how long a thread was
ready to run and did not (``/proc/PID/schedstat``); where it does not, nobody starves.
The nodes tell what they have lost.
"""

import re
import time
from collections import Counter, deque
from pathlib import Path

LOST = re.compile(r"; (\d+) requests? that were under way will be fetched again by")
"""What a node says that has lost leases."""
SHARE = 0.5
"""Of the time: who waited for longer is starved."""


def waited(pid):
    """Seconds for which the first thread of *pid* has waited for a CPU."""
    try:
        text = Path(f"/proc/{pid}/schedstat").read_text("ascii")
    except OSError:  # it has ended, or this is no Linux
        return None
    return int(text.split()[1]) / 1e9


def own_threads():
    """The ids of this process's threads, to be looked at like processes.

    The wires and the site are such: a lease is renewed through them.
    """
    tasks = Path("/proc/self/task")
    return [int(path.name) for path in tasks.iterdir()] if tasks.is_dir() else []


def refetched_for_lost_leases(texts, log, excused):
    """Fetches in *log* beyond *excused* that follow from leases that nodes have lost.

    *texts* is what each has logged: as many fetches as it says, of what it had
    fetched before.
    """
    left = {
        name: sum(map(int, LOST.findall(text))) for name, text in sorted(texts.items())
    }
    found = Counter()
    for url, count in sorted(log.repeated().items()):
        beyond = count - 1 - excused.get(url, 0)
        whole = [e for e in log.entries if e.url == url and not e.aborted]
        for entry in whole[:-1]:
            if found[url] < beyond and left.get(entry.node or "", 0):
                left[entry.node or ""] -= 1
                found[url] += 1
    return found


class Starving:
    """Looks whether a process was starved over *window* seconds."""

    def __init__(
        self,
        window,
        clock=time.monotonic,
        waited=waited,
    ):
        self._window = window
        self._clock = clock
        self._waited = waited
        self._looks = {}
        self._looked_at = float("-inf")

    def look(self, pids):
        """Whether one of *pids* was starved; told once per window.

        Some times per window suffice; it is called more often.
        """
        now = self._clock()
        if now - self._looked_at < self._window / 8:
            return False
        self._looked_at = now
        starved = False
        for pid in pids:
            total = self._waited(pid)
            if total is None:
                continue
            looks = self._looks.setdefault(pid, deque())
            while len(looks) > 1 and looks[1][0] <= now - self._window:
                looks.popleft()
            looks.append((now, total))
            starved |= total - looks[0][1] > SHARE * self._window
        if starved:
            self._looks.clear()
        return starved
