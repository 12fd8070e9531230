"""``instructions --trace``: what a link passes, from `enqueue_request` to its ack.

A few pages are crawled as `instructions` does. The modules and scripts that each of
their links has passed are printed: heartbeats and looks run beside some of them only.
"""

from __future__ import annotations

import logging
import sys
import tempfile
from pathlib import Path
from typing import Any

import frontier
from benchmarks.counted import PAGES, Parts
from benchmarks.crawl import served
from benchmarks.server import private_server
from frontier.node.deliveries import Deliveries
from frontier.scheduler import Scheduler
from frontier.store.calls import Call

HOME = f"{Path(frontier.__file__).parent}/"
BEGIN, END = Scheduler.enqueue_request.__code__, Deliveries.note_acked.__code__
SCRIPT: Any = Call.to.__code__


class Trace:
    """Sees each call of a function in this thread, as `sys.setprofile` wants it."""

    def __init__(self) -> None:
        self._open: dict[bytes, set[str]] = {}
        """What the links that are under way have passed, by the path of their URL."""
        self.passed: list[set[str]] = []

    def __call__(self, frame: Any, event: str, _: object) -> None:
        """Note a call."""
        code, given = frame.f_code, frame.f_locals
        if event != "call" or not code.co_filename.startswith(HOME):
            return
        if code is BEGIN:
            self._open[given["request"].url[-20:].encode()] = set()
        named = code.co_filename.removeprefix(HOME)
        for passed in self._open.values():
            passed.add(given["name"] if code is SCRIPT else named)
        for one in given["reservations"] if code is END else ():
            done = [path for path in self._open if path in one.item]
            self.passed += map(self._open.pop, done)


def main() -> int:
    """Crawl, and print what all links but the first, a start request, have passed."""
    logging.disable(logging.INFO)
    trace = Trace()
    with (
        tempfile.TemporaryDirectory() as home,
        private_server() as server,
        served("benchmarks.loading", "site") as port,
    ):
        parts = Parts(Path(home), server.url, port).all()
        sys.setprofile(trace)
        parts["page, tiny"][1](PAGES)
        sys.setprofile(None)
    common = set.intersection(*trace.passed[1:])
    modules = {name for name in common if name.endswith(".py")}
    for names in (modules, common - modules):
        sys.stdout.write(f"{len(names)}: {' '.join(sorted(names))}\n")
    return 0
