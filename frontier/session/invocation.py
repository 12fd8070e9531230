"""How this process came to crawl: by a command of Scrapy's, or by a program.

Scrapy tells its components neither. But whoever starts a crawler is on the stack
when its settings are made, and the reactor runs below it: the object of the command,
and the `CrawlerProcess`. Settings would not do: ``scrapy fetch`` leaves no mark in
them, and those of ``scrapy shell`` are overridden by the project's.

What always holds:

1.  A command that a developer looks at pages with starts no crawl: `developing` is
    its name. It is so for classes derived from it, and in no program that makes a
    `CrawlerProcess` of its own.
2.  A `CrawlerProcess` whose crawl cannot begin, or cannot go on, ends with an exit
    code that is not 0. ``scrapy crawl`` sees to that itself; a program that only
    calls ``start()`` would not.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

from scrapy.commands import ScrapyCommand
from scrapy.crawler import CrawlerProcess

from frontier.scrapy_internals import AsyncCrawlerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

DEVELOPING = {
    f"scrapy.commands.{name}" for name in ("bench", "check", "fetch", "parse", "shell")
}
"""Modules of commands that fetch pages and do not crawl; ``view`` is a ``fetch``."""
FAILED = 1
"""The exit code of a program whose crawl has failed, as of ``scrapy crawl``."""


def developing() -> str:
    """The name of the developer's command that runs; empty if there is none."""
    command = _command()
    if command is None:
        return ""
    modules = {cls.__module__ for cls in type(command).__mro__}
    name = type(command).__module__.rpartition(".")[2]
    return name if modules & DEVELOPING else ""


def fail_program() -> None:
    """Have the program that called `CrawlerProcess` end with `FAILED`.

    Nothing is done where a command runs, or where there is but a `CrawlerRunner`, of
    which the program has the Deferred, or the task.
    """
    started = any(
        isinstance(owner, CrawlerProcess | AsyncCrawlerProcess)
        for owner in _owners("crawl", "start")
    )
    if started and _command() is None:
        atexit.unregister(_exit)
        atexit.register(_exit)


def _command() -> ScrapyCommand | None:
    found = (owner for owner in _owners("run") if isinstance(owner, ScrapyCommand))
    return next(found, None)


def _owners(*methods: str) -> Iterator[Any]:
    """The objects of which one of *methods* runs, in this thread or in the main one.

    ``scrapy shell`` runs in the main thread, and its reactor in another.
    """
    frames = sys._current_frames()
    for thread in (threading.current_thread(), threading.main_thread()):
        frame = frames.get(thread.ident or 0)
        while frame is not None:
            if frame.f_code.co_name in methods:
                yield frame.f_locals.get("self")
            frame = frame.f_back


def _exit() -> None:
    """Do what else is to be done at the end, and end with `FAILED`.

    An exit code cannot be changed any more when this is called, only replaced.
    """
    atexit.unregister(_exit)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(FAILED)
