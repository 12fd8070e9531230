"""How long the frontier's own code holds the reactor at once.

A page takes a stretch of the reactor's time, most of it Scrapy's: the response
is parsed, links become requests. Here each turn of the event loop's callbacks
is timed by itself: all of it if it is the frontier's own task, and what is
spent in the scheduler if Scrapy called it. Times are seconds of the thread's
CPU time, so that other processes do not count, and without the garbage
collector, which stops whoever happens to make the next object.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import frontier
from frontier.scheduler import Scheduler

OWN = str(Path(frontier.__file__).parent)
CALLED = ("enqueue_request", "drop_seen", "next_request", "has_pending_requests")


class Holding:
    """Watches from now on, for the rest of the process."""

    def __init__(self) -> None:
        self.longest = 0.0
        """Seconds of the longest turn."""
        self._called = self._collected = 0.0
        gc.callbacks.append(self._on_collection)
        handles: Any = asyncio.Handle
        run = handles._run

        def timed(handle: Any) -> Any:
            self._called, begin = 0.0, self._now()
            try:
                return run(handle)
            finally:
                whole = self._now() - begin
                mine = whole if _is_own(handle) else self._called
                self.longest = max(self.longest, mine)

        handles._run = timed
        scheduler: Any = Scheduler
        for name in CALLED:
            setattr(scheduler, name, self._counted(getattr(scheduler, name)))

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def counted(*words: Any) -> Any:
            begin = self._now()
            try:
                return call(*words)
            finally:
                self._called += self._now() - begin

        return counted

    def _now(self) -> float:
        return time.thread_time() - self._collected

    def _on_collection(self, phase: str, _: dict[str, int]) -> None:
        self._collected += time.thread_time() * (1 if phase == "stop" else -1)


def _is_own(handle: Any) -> bool:
    """Whether *handle* runs a task or a function of the frontier's."""
    callback = handle._callback
    task = getattr(callback, "__self__", None)
    if isinstance(task, asyncio.Task):
        code = getattr(task.get_coro(), "cr_code", None)
    else:
        code = getattr(callback, "__code__", None)
    return code is not None and code.co_filename.startswith(OWN)
