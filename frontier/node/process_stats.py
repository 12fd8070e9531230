"""Figures of a node's process: memory, CPU, disk, how late its loop is, and its pace.

What always holds:

1.  The loop reads no file and asks no disk: what needs that is measured in a thread,
    once every `EVERY` seconds. While a disk hangs, the report has the last figures.
2.  Nothing here fails a node. What cannot be measured is 0, which means that it is not
    known; a limit of 0 means that there is none.
3.  All sizes are in bytes, and what is reported is of bounded size.
"""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from frontier.status.text import ranges_of

TURN = 0.25
"""Seconds between two looks at the clock."""
EVERY = 1.0
"""Seconds between two measurements in a thread."""
WINDOW = 20
"""The last looks at the clock, over five seconds; the lag is the worst of them."""
PACE_S = 60.0
"""Seconds over which the pace is measured: the last minute."""
PACE_EVERY_S = 5.0
"""Seconds between two marks of the pace, at least."""
MAX_HOLDS = 4_000
"""The most characters for the partitions that a report names."""
CUT = "..."
"""The end of a list of partitions that is longer than that."""
STATM = Path("/proc/self/statm")
CGROUP = Path("/proc/self/cgroup")
CGROUPS = Path("/sys/fs/cgroup")


class ProcessStats:
    """Measures the process of one node."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        directory: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._directory = directory
        self._settings = settings
        self._clock = clock
        self._late: deque[float] = deque(maxlen=WINDOW)
        self._paces: deque[tuple[float, dict[str, int]]] = deque()
        self._memory = self._limit = 0
        self._disk = (0, 0)
        self._limit_known = False
        self._measuring: asyncio.Task[None] | None = None
        self.metrics = {"metrics_port": 0, "metrics_host": ""}
        """Where this node serves its metrics; the port is 0 if it does not."""

    async def run(self) -> None:
        """Measure until cancelled."""
        measured = -EVERY
        while True:
            if self._clock() - measured >= EVERY and not self._is_measuring():
                measured = self._clock()
                self._measuring = asyncio.create_task(asyncio.to_thread(self.measure))
            due = self._clock() + TURN
            await asyncio.sleep(TURN)
            self.note_turn(self._clock() - due)

    def _is_measuring(self) -> bool:
        """Whether a measurement is under way: at most one waits for a disk."""
        return self._measuring is not None and not self._measuring.done()

    def note_turn(self, late: float) -> None:
        """Note that the loop came back *late* by so many seconds."""
        self._late.append(max(0.0, late))

    def measure(self) -> None:
        """Measure what may take time; in a thread."""
        self._memory = resident_bytes()
        if not self._limit_known:
            self._limit, self._limit_known = memory_limit(self._settings), True
        if self._directory is not None:
            self._disk = disk_bytes(self._directory)

    def pace(self, counts: Mapping[str, int]) -> dict[str, Any]:
        """How much *counts* have grown per second in the last `PACE_S` seconds.

        In a node that has not run for so long: since it first asked.
        """
        now, marks = self._clock(), self._paces
        if not marks or now - marks[-1][0] >= PACE_EVERY_S:
            marks.append((now, dict(counts)))
        while len(marks) > 2 and marks[1][0] <= now - PACE_S:
            marks.popleft()
        begin, before = marks[0]
        seconds = now - begin
        paces = {
            name: round(max(0, count - before[name]) / seconds, 3) if seconds else 0.0
            for name, count in counts.items()
        }
        return {"lately": paces, "lately_seconds": round(seconds, 1)}

    def report(self, held: Iterable[int]) -> dict[str, Any]:
        """The figures to report, of a node that holds the partitions *held*."""
        free, total = self._disk
        return {
            "memory_bytes": self._memory,
            "memory_limit_bytes": self._limit,
            "disk_free_bytes": free,
            "disk_total_bytes": total,
            "cpu_seconds": round(time.process_time(), 2),
            "lag_ms": round(max(self._late, default=0.0) * 1000),
            "machine": socket.gethostname()[:255],
            "pid": os.getpid(),
            "holds": ranges(held),
            **self.metrics,
        }


def ranges(numbers: Iterable[int]) -> str:
    """*numbers* as text, such as ``0-41,77``, ending with `CUT` if it is too long."""
    text = ",".join(ranges_of(sorted(set(numbers))))
    if len(text) <= MAX_HOLDS:
        return text
    return text[: MAX_HOLDS - len(CUT)].rpartition(",")[0] + f",{CUT}"


def resident_bytes() -> int:
    """The bytes of this process that are in the machine's memory."""
    try:
        pages = int(STATM.read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):  # not Linux: the most that it ever was
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
    return pages * os.sysconf("SC_PAGE_SIZE")


def disk_bytes(directory: Path) -> tuple[int, int]:
    """The bytes of the disk of *directory*: free for this user, and in all."""
    try:
        disk = os.statvfs(directory)
    except OSError:
        return 0, 0
    return disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize


def memory_limit(settings: Mapping[str, Any]) -> int:
    """The least memory at which something ends this process; 0 if nothing does.

    Scrapy does at ``MEMUSAGE_LIMIT_MB``, the kernel at the limit of a control group.
    """
    limits = [_scrapys_limit(settings), *cgroup_limits()]
    return min((limit for limit in limits if limit > 0), default=0)


def _scrapys_limit(settings: Mapping[str, Any]) -> int:
    enabled = str(settings.get("MEMUSAGE_ENABLED", True)).lower()
    if enabled in {"false", "0", "no", "none", ""}:
        return 0
    try:
        return int(float(settings.get("MEMUSAGE_LIMIT_MB") or 0) * 1024 * 1024)
    except (TypeError, ValueError, OverflowError):
        return 0


def cgroup_limits(table: Path = CGROUP, root: Path = CGROUPS) -> list[int]:
    """The limits of this process's control group and of the groups above it.

    *table* has the form of ``/proc/self/cgroup`` (cgroups(7)).
    """
    try:
        lines = table.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    found = []
    for line in lines[:100]:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:  # of version 2
            place = root / path.strip("/")
            above = [each for each in place.parents if each.is_relative_to(root)]
            found += [_limit_in(each / "memory.max") for each in (place, *above)]
    return [limit for limit in found if limit]


def _limit_in(path: Path) -> int:
    """The limit in the file *path*; 0 if it says ``max``, or there is none."""
    try:
        limit = int(path.read_text(encoding="ascii")[:32])
    except (OSError, ValueError):
        return 0
    return max(0, limit)
