"""What started a node, and with what: a command or a program, its run, its seeds.

A crawl that has ended looks the same to a second node of the job that began it, which
was only slower to start, as to somebody who starts the spider again. Only whoever
started them can tell them apart, by the *run*: what ``FRONTIER_RUN_ID`` says, as a
setting or in the environment; else what scrapyd says.

Scrapy does not tell its components whether a command or a program made them. But what
starts a crawler, the object of the command or the `CrawlerProcess`, is on the stack
when the crawler's settings are made, and as long as the reactor runs. Settings would
not do: ``scrapy fetch`` leaves nothing in them, and the project's override those of
``scrapy shell``.

What always holds:

1.  A person who starts a spider in a shell twice starts two runs: nothing that stays
    the same in a shell makes a run.
2.  Nodes of one run that were started with other seeds, or arguments, have another job
    (`frontier.cluster.job`), and so another crawl.
3.  A command with which a developer looks at pages starts no crawl: `developing` is
    its name. That holds for classes derived from it, too, but not in a program that
    makes a `CrawlerProcess` of its own.
4.  A `CrawlerProcess` whose crawl cannot begin, or cannot go on, ends with an exit
    code that is not 0. ``scrapy crawl`` sees to that itself; a program that only
    calls ``start()`` would not.
5.  A program that imports this package, or has a `CrawlerRunner`, keeps its garbage
    collection as it is (`spare_imports`).
"""

from __future__ import annotations

import atexit
import gc
import logging
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

from scrapy.commands import ScrapyCommand
from scrapy.crawler import AsyncCrawlerProcess, CrawlerProcess

from frontier.cluster.job import Job
from frontier.errors import ConfigurationError
from frontier.settings.values import PREFIX, boolean, nearest, run_id
from frontier.store.address import ENVIRONMENT, REDIS_SETTINGS, given, redacted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import FrameType

    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

VARIABLE = "FRONTIER_RUN_ID"
"""The environment variable, beside the setting of that name."""
JOIN_ONLY = "FRONTIER_JOIN_ONLY"
"""The same for a replacement: what restarts nodes may set it for those alone."""
VARIABLES = (VARIABLE, JOIN_ONLY, "FRONTIER_FEEDS")
"""Those of the environment that nodes read, beside the server's."""
SCRAPYD = "_job"
"""The spider argument in which scrapyd passes the id of a job, its ``jobid``."""


FROM_ENVIRONMENT = 35
"""Priority of a setting from the environment: above those of a project (20) and a
spider (30), below the command line's (40)."""


def run_of(spider: Spider, said: str) -> str:
    """The id of the run that *spider* belongs to; empty if nothing says what it is.

    *said* is what a setting or the environment says.
    """
    job = getattr(spider, SCRAPYD, None)
    if not said and job and isinstance(job, str):
        said = f"scrapyd {job}"[:200]
    return said


def job_of(spider: Spider, arguments: Mapping[str, Any]) -> Job:
    """What *spider* was started for, with *arguments*.

    Start URLs that can be read only once are left to it, like those of `start()`.
    """
    urls = getattr(spider, "start_urls", None)
    given = urls if isinstance(urls, list | tuple | set | frozenset) else ()
    left_out = {SCRAPYD, getattr(spider, "seeds_argument", "")}
    asked = {name: arguments[name] for name in arguments if name not in left_out}
    return Job.of(spider.name, asked, given)


def arguments_of(crawler: Crawler) -> dict[str, Any]:
    """The arguments that *crawler* was given for its spider, as they were given.

    Scrapy keeps them nowhere, and spiders change them; but our session is made while
    `Crawler.crawl`, which has them, is running.
    """
    for frame, owner in _running("crawl", "crawl_async"):
        if owner is crawler:
            named = {**frame.f_locals.get("kwargs", {})}
            plain = frame.f_locals.get("args", ())
            return {**{str(i): value for i, value in enumerate(plain)}, **named}
    return {}


def launched(environment: Mapping[str, str]) -> str:
    """The run that *environment* names; empty if it names none.

    Raises:
        ConfigurationError: ``FRONTIER_RUN_ID`` in it is not an id.
    """
    if chosen := environment.get(VARIABLE, ""):
        try:
            return run_id(chosen)
        except ValueError as error:
            raise ConfigurationError(f"{VARIABLE} = {chosen!r}: {error}") from None
    return ""


def joins_only(environment: Mapping[str, str]) -> bool:
    """Whether *environment* says that a node opens no crawl.

    Raises:
        ConfigurationError: It says neither yes nor no.
    """
    said = environment.get(JOIN_ONLY, "")
    try:
        return bool(said) and boolean(said)
    except ValueError as error:
        raise ConfigurationError(f"{JOIN_ONLY} = {said!r}: {error}") from None


DEVELOPING = {
    f"scrapy.commands.{name}" for name in ("bench", "check", "fetch", "parse", "shell")
}
"""Modules of commands that fetch pages and do not crawl; ``view`` is a ``fetch``."""
FAILED = 1
"""The exit code of a program whose crawl has failed, as with ``scrapy crawl``."""
FAULTY = 7
"""The exit code of one that met a damaged key: starting it again does not help."""


def developing() -> str:
    """The name of the developer's command that is running; empty if there is none."""
    command = _command()
    if command is None:
        return ""
    modules = {cls.__module__ for cls in type(command).__mro__}
    name = type(command).__module__.rpartition(".")[2]
    return name if modules & DEVELOPING else ""


def fail_program(code: int = FAILED) -> None:
    """Have the program that called `CrawlerProcess` end with *code*.

    Nothing is done if there is only a `CrawlerRunner`, whose Deferred or task the
    program has, nor if a command is running that ends with that code by itself.
    """
    if _has_process("crawl", "start") and (code != FAILED or _command() is None):
        _codes.append(code)
        atexit.unregister(_exit)
        atexit.register(_exit)


def spare_imports() -> None:
    """Exempt what is imported by now from garbage collection, for good.

    It stays as long as the process, and searching it again and again takes a tenth of
    the start. But only a process that Scrapy has to itself is ours to change: that of a
    command, or of a `CrawlerProcess`.
    """
    if _command() is not None or _has_process("__init__", "crawl", "start"):
        gc.freeze()


def _has_process(*methods: str) -> bool:
    """Whether one of *methods* of a `CrawlerProcess` is running."""
    return any(
        isinstance(owner, CrawlerProcess | AsyncCrawlerProcess)
        for owner in _owners(*methods)
    )


def _command() -> ScrapyCommand | None:
    found = (owner for owner in _owners("run") if isinstance(owner, ScrapyCommand))
    return next(found, None)


def _owners(*methods: str) -> Iterator[Any]:
    """The objects that have one of *methods* running; see `_running`."""
    return (owner for _, owner in _running(*methods))


def _running(*methods: str) -> Iterator[tuple[FrameType, Any]]:
    """The frames of *methods* that run in this thread or the main one, and the objects.

    ``scrapy shell`` runs in the main thread, and its reactor in another.
    """
    frames = sys._current_frames()
    for thread in (threading.current_thread(), threading.main_thread()):
        frame = frames.get(thread.ident or 0)
        while frame is not None:
            if frame.f_code.co_name in methods:
                yield frame, frame.f_locals.get("self")
            frame = frame.f_back


_codes: list[int] = []
"""The exit codes that `fail_program` was given."""


def _exit() -> None:
    """Do what else is to be done at the end, and end with the code that says most.

    When this is called, the exit code can no longer be changed, only replaced.
    """
    atexit.unregister(_exit)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(max(_codes))


def server_of(settings: BaseSettings, environment: Mapping[str, str]) -> str:
    """The server that *environment* names; empty if the command line names one."""
    priorities = [settings.getpriority(name) or 0 for name in REDIS_SETTINGS]
    chosen = max(priorities) > FROM_ENVIRONMENT
    return "" if chosen else environment.get(ENVIRONMENT, "")


def heed_environment(settings: BaseSettings, environment: Mapping[str, str]) -> None:
    """Use the server that *environment* names, whatever the project's settings say."""
    url = server_of(settings, environment)
    if not url:
        return
    if given(settings) and settings["REDIS_URL"] != url:
        logger.warning(
            "REDIS_URL in the environment overrides the settings: the store is %s",
            redacted(url),
        )
    settings.set("REDIS_URL", url, FROM_ENVIRONMENT)


def tell_unread(settings: BaseSettings, environment: Mapping[str, str]) -> None:
    """Warn of what looks like ours in *environment*, and no node or project reads."""
    for name in sorted(environment):
        if name.startswith(PREFIX) and name not in {*VARIABLES, *settings}:
            near = nearest(name, VARIABLES)
            hint = f"; did you mean {near}?" if near else ": give it as a setting"
            logger.warning("%s in the environment is not read%s", name, hint)
