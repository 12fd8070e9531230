"""Runs a step of a deduplication for many files, several at a time, each on its own.

What always holds:

1.  A file that cannot be used is named, and left as it was; the others go on.
2.  Processes share nothing but files: one that is killed loses only its own.
3.  They end when the command that started them does, even if it is killed.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import islice
from pathlib import Path
from typing import Any

from frontier.errors import FrontierError
from frontier.files import make_directory, mode_of_environment
from frontier.model import frozen
from frontier.postcrawl.engines import spark_map
from frontier.postcrawl.manifest import Options, make

AHEAD = 4
"""Files that wait for each process: a petabyte has too many to submit at once."""


@frozen
class Work:
    """How a step is done."""

    workers: int = 1
    master: str = ""
    """The Spark master that runs it; empty if processes of this machine do."""
    progress: Callable[[int], None] = lambda _: None
    """Is told how many bytes of the input are done."""


@frozen
class Failure:
    """Why a file could not be used; the reason names it."""

    reason: str


def manifests(
    paths: Sequence[Path], directory: Path, work: Work, options: Options
) -> Iterator[tuple[Path, object]]:
    """Make the manifest of each of *paths* in *directory*; yield it, or a `Failure`."""
    make_directory(directory, mode_of_environment())
    step = functools.partial(make, directory=directory, options=options)
    yield from each(step, [(path,) for path in paths], work)


def each(
    step: Callable[..., object], given: Sequence[tuple[Any, ...]], work: Work
) -> Iterator[tuple[Path, object]]:
    """What *step* returns or raises for each of *given*, in the order they finish."""
    done = 0
    for path, outcome in _outcomes(step, given, work):
        done += path.stat().st_size if path.exists() else 0
        work.progress(done)
        yield path, outcome


def _outcomes(
    step: Callable[..., object], given: Sequence[tuple[Any, ...]], work: Work
) -> Iterator[tuple[Path, object]]:
    if work.master:
        one_step = functools.partial(caught, step)
        outcomes = spark_map(one_step, given, work.master)
        yield from zip((one[0] for one in given), outcomes, strict=True)
        return
    workers = work.workers
    if workers == 1 or len(given) < 2:
        for one in given:
            yield one[0], caught(step, one)
        return
    left = iter(given)
    context = multiprocessing.get_context("forkserver")  # imports once, not each
    context.set_forkserver_preload([__name__])
    count = min(workers, len(given))
    with ProcessPoolExecutor(count, context, _end_with_parent) as pool:
        running: dict[Future[object], Path] = {}
        while True:
            for one in islice(left, workers * AHEAD - len(running)):
                running[pool.submit(caught, step, one)] = one[0]
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(future), future.result()


def _end_with_parent() -> None:
    """End this process when its parent ends; else it would wait for work for ever."""
    parent: Any = multiprocessing.parent_process()

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def caught(step: Callable[..., object], one: tuple[Any, ...]) -> object:
    """What *step* returns for *one*, whose first item is a file, or a `Failure`."""
    try:
        return step(*one)
    except FrontierError as error:  # goes to another process as text
        return Failure(str(error))
    except OSError as error:
        named = list(dict.fromkeys([str(one[0]), str(error.filename or one[0])]))
        return Failure(f"{': '.join(named)}: {error.strerror or error}")
