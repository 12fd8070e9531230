"""What a node of a hostile crawl used, written where ``WATCHED`` says.

How long our code held the loop is CPU time of one turn of its callbacks: all of it if
it is a task of ours, and what is spent in the scheduler if Scrapy called it. Garbage
collection does not count.
"""

import asyncio
import functools
import gc
import json
import os
import resource
import time
from pathlib import Path

from scrapy import signals

import frontier
from frontier.scheduler import Scheduler

OWN = str(Path(frontier.__file__).parent)
CALLED = ("enqueue_request", "drop_seen", "next_request", "has_pending_requests")


class Watched:
    """An extension: how long our code held the loop, and the most of memory."""

    def __init__(self):
        self.longest = self.called = self.collected = 0.0
        gc.callbacks.append(self.on_collection)
        asyncio.Handle._run = self.turn(asyncio.Handle._run)
        for name in CALLED:
            setattr(Scheduler, name, self.counted(getattr(Scheduler, name)))

    @classmethod
    def from_crawler(cls, crawler):
        made = cls()
        crawler.signals.connect(made.closed, signal=signals.engine_stopped)
        return made

    def closed(self):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        figures = {"stall_s": round(self.longest, 3), "peak_mb": peak}
        path = Path(os.environ["WATCHED"]) / f"{os.getpid()}.json"
        path.write_text(json.dumps(figures))

    def turn(self, run):
        def timed(handle):
            self.called, begin = 0.0, self.now()
            try:
                return run(handle)
            finally:
                whole = self.now() - begin
                self.longest = max(
                    self.longest, whole if is_own(handle) else self.called
                )

        return timed

    def counted(self, call):
        @functools.wraps(call)
        def counted(*words):
            begin = self.now()
            try:
                return call(*words)
            finally:
                self.called += self.now() - begin

        return counted

    def now(self):
        return time.thread_time() - self.collected

    def on_collection(self, phase, _):
        self.collected += time.thread_time() * (1 if phase == "stop" else -1)


def is_own(handle):
    """Whether *handle* runs a task or a function of the frontier's."""
    callback = handle._callback
    task = getattr(callback, "__self__", None)
    if isinstance(task, asyncio.Task):
        code = getattr(task.get_coro(), "cr_code", None)
    else:
        code = getattr(callback, "__code__", None)
    return code is not None and code.co_filename.startswith(OWN)
