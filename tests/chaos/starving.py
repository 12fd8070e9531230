"""Whether the machine is too busy for a trial: who waits for a CPU.

A node that gets none for as long as a lease loses it, as one that is frozen does,
and what it had in flight is fetched again. The kernel tells how long a process was
ready to run and did not (``/proc/PID/schedstat``); where it does not, nobody starves.
"""

from __future__ import annotations

import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SHARE = 0.5
"""Of the time: who waited for longer is starved."""


def waited(pid: int) -> float | None:
    """Seconds for which the first thread of *pid* has waited for a CPU."""
    try:
        text = Path(f"/proc/{pid}/schedstat").read_text("ascii")
    except OSError:  # it has ended, or this is no Linux
        return None
    return int(text.split()[1]) / 1e9


class Starving:
    """Looks whether a process was starved over *window* seconds."""

    def __init__(
        self,
        window: float,
        clock: Callable[[], float] = time.monotonic,
        waited: Callable[[int], float | None] = waited,
    ) -> None:
        self._window = window
        self._clock = clock
        self._waited = waited
        self._looks: dict[int, deque[tuple[float, float]]] = {}
        self._looked_at = float("-inf")

    def look(self, pids: Iterable[int]) -> bool:
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
