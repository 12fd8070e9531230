"""Each step of a deduplication, for many files: several at a time, none for another.

What always holds:

1.  A file that cannot be used is named, and left as it was; the others go on.
2.  Processes share nothing but files: one that is killed loses only its own.

A file of BEFORE and what becomes of it have one name below their directories.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from frontier.errors import ConfigurationError, FrontierError
from frontier.files import FILE_MODE, make_directory
from frontier.postcrawl.convert import convert
from frontier.postcrawl.engines import spark_map
from frontier.postcrawl.manifest import Manifest, Options, make, place_of
from frontier.postcrawl.one_pass import perform
from frontier.postcrawl.remote_files import RemotePath
from frontier.postcrawl.verify import compare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from frontier.postcrawl.actions import Pass
    from frontier.postcrawl.verify import Verified

AHEAD = 4
"""Files that wait for each process: a petabyte has too many to submit at once."""


@dataclass(frozen=True, slots=True)
class Work:
    """How a step is done."""

    directory: Path
    """Of the manifests."""
    workers: int = 1
    mode: int = FILE_MODE
    master: str = ""
    """Of Spark, which does it; empty if processes of this machine do."""
    progress: Callable[[int], None] = lambda _: None
    """Told how many bytes of the input are done."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a file could not be used; the reason names it."""

    reason: str


def manifests(
    paths: Sequence[Path], work: Work, options: Options
) -> Iterator[tuple[Path, object]]:
    """Make the manifest of each of *paths*; yield it, or a `Failure`."""
    make_directory(work.directory, work.mode)
    step = functools.partial(
        make, directory=work.directory, options=options, mode=work.mode
    )
    yield from _each(step, [(path,) for path in paths], work)


def performed(
    todo: Pass, paths: Sequence[Path], outs: Sequence[Path], work: Work
) -> Iterator[tuple[Path, object]]:
    """Do *todo* with each of *paths*; yield what was done, or a `Failure`."""
    step = functools.partial(perform, todo, mode=work.mode)
    yield from _each(step, list(zip(paths, outs, strict=True)), work)


def verified(
    before: Sequence[Path],
    after: Sequence[Path],
    work: Work,
    failed: Callable[[str], None],
    originals: Sequence[Path],
    roots: tuple[Path, Path],
) -> Verified:
    """Compare all records of the files *before* with those *after*, below *roots*.

    Revisits may be of captures in the files *originals*, too. *failed* gets why a file
    cannot be read, or not to its end.
    """
    places: dict[str, list[Path]] = {"before": [], "after": [], "originals": []}
    given = zip(places, (before, after, originals), strict=True)
    for side, paths in given:
        directory = work.directory / side
        of_side = replace(work, directory=directory)
        for path, outcome in manifests(paths, of_side, Options(every=True)):
            if isinstance(outcome, Failure):
                failed(outcome.reason)
            elif isinstance(outcome, Manifest):
                for fault in outcome.faults:
                    failed(fault)
                places[side].append(place_of(path, directory))
    first, second = (os.fspath(root.absolute()) for root in roots)
    return compare(
        places["before"],
        places["after"],
        places["originals"],
        work.directory,
        (first, second),
    )


def converted(
    paths: Sequence[Path], outs: Sequence[Path], work: Work
) -> Iterator[tuple[Path, object]]:
    """Convert each of *paths*; yield what was done, or a `Failure`."""
    step = functools.partial(convert, mode=work.mode)
    yield from _each(step, list(zip(paths, outs, strict=True)), work)


def outs_of(paths: Sequence[Path], out: Path) -> list[Path]:
    """Where each of *paths* goes below *out*: as deep as below what they share.

    Raises:
        ConfigurationError: One would be written over.
    """
    if not paths:
        return []
    places = [
        PurePosixPath(path.place if isinstance(path, RemotePath) else path.absolute())
        for path in paths
    ]
    if len({place.is_absolute() for place in places}) > 1:
        raise ConfigurationError("give files of this machine or URLs, not both")
    shared = os.path.commonpath([place.parent for place in places])
    outs = [out / place.relative_to(shared) for place in places]
    given = {path.resolve() for path in paths}
    for made in outs:
        if made.resolve() in given:
            raise ConfigurationError(
                f"{made} is one of the files that are read; name another directory, "
                "or apply a plan with --in-place"
            )
    return outs


def _each(
    step: Callable[..., object], given: Sequence[tuple[Any, ...]], work: Work
) -> Iterator[tuple[Path, object]]:
    """What *step* returns or raises for each of *given*, in the order of their ends."""
    done = 0
    for path, outcome in _outcomes(step, given, work):
        done += path.stat().st_size if path.exists() else 0
        work.progress(done)
        yield path, outcome


def _outcomes(
    step: Callable[..., object], given: Sequence[tuple[Any, ...]], work: Work
) -> Iterator[tuple[Path, object]]:
    if work.master:
        each = functools.partial(caught, step)
        outcomes = spark_map(each, given, work.master)
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
    with ProcessPoolExecutor(min(workers, len(given)), context) as pool:
        running: dict[Future[object], Path] = {}
        while True:
            for one in islice(left, workers * AHEAD - len(running)):
                running[pool.submit(caught, step, one)] = one[0]
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(future), future.result()


def caught(step: Callable[..., object], one: tuple[Any, ...]) -> object:
    """What *step* returns of *one*, whose first is a file, or a `Failure`."""
    try:
        return step(*one)
    except FrontierError as error:  # goes to another process as text
        return Failure(str(error))
    except OSError as error:
        named = list(dict.fromkeys([str(one[0]), str(error.filename or one[0])]))
        return Failure(f"{': '.join(named)}: {error.strerror or error}")
