"""What commands over many WARC files share: which they read, how, and what is left."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.text import Text

from frontier.cli.options import Output
from frontier.cli.output import ExitCode, complain, messages, say
from frontier.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rich.console import RenderableType

    from frontier.postcrawl.actions import Pass
    from frontier.postcrawl.many_files import Work
    from frontier.postcrawl.rewriting import Rewritten
    from frontier.postcrawl.wacz_files import Unpacked

Files = Annotated[list[str], typer.Argument(metavar="FILE|DIRECTORY|URL")]


Out = Annotated[
    Path, typer.Option("--out", "-o", metavar="DIR", help="Where the files go.")
]


Originals = Annotated[
    list[str] | None,
    typer.Option(
        "--originals",
        metavar="FILE|DIRECTORY",
        help="Where originals are, beside the files.",
    ),
]


@dataclass(frozen=True, slots=True)
class Running:
    """How many files at a time."""

    workers: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, help="Processes (default: one for each core)."
        ),
    ] = 0

    engine: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="'duckdb' on this machine, or 'spark' at --master."
        ),
    ] = "duckdb"
    master: Annotated[
        str,
        typer.Option(metavar="URL", help="Spark's: spark://HOST:PORT, yarn, local[2]."),
    ] = ""

    def work(self, directory: Path, progress: Callable[[int], None]) -> Work:
        """The work in *directory*.

        Raises:
            ConfigurationError: There is no such engine.
        """
        from frontier.files import mode_of_environment
        from frontier.postcrawl.many_files import Work

        mode = mode_of_environment()
        return Work(directory, self._processes(), mode, self._master(), progress)

    def performed(
        self,
        todo: Pass,
        paths: Sequence[Path],
        outs: Sequence[Path],
        trouble: Trouble,
        bar: Bar | None = None,
        done: Callable[[Path, Rewritten], None] = lambda _, __: None,
    ) -> dict[str, Any]:
        """Do *todo* with each of *paths*; what that comes to, and *done* which were."""
        from frontier.postcrawl.many_files import performed

        with bar or Bar("comparing" if todo.dry else "writing", paths) as progress:
            work = self.work(todo.directory, progress)
            outcomes = performed(todo, paths, outs, work)
            return collected(outcomes, trouble, done=done)

    def _processes(self) -> int:
        return self.workers or len(os.sched_getaffinity(0))

    def _master(self) -> str:
        if self.engine not in {"duckdb", "spark"}:
            raise ConfigurationError(f"--engine {self.engine!r}: 'duckdb' or 'spark'")
        if (self.engine == "spark") is not bool(self.master):
            raise ConfigurationError("--engine spark and --master URL go together")
        return self.master


def require_extra() -> None:
    """Say which packages are missing.

    Raises:
        ConfigurationError: One is.
    """
    if not (find_spec("duckdb") and find_spec("pyarrow")):
        raise ConfigurationError(
            "this needs duckdb and pyarrow; install them with: "
            "pip install 'frontier-crawl[postcrawl]'"
        )


class Trouble:
    """What could not be used, told at once; at the end it is the exit code.

    It is made before anything of `frontier.postcrawl` is imported: it names the extra.
    """

    def __init__(self) -> None:
        require_extra()
        self.files: list[str] = []
        self.records: list[str] = []
        self.is_unclosed = False

    def file(self, reason: str) -> None:
        """Note that a file is left, and why."""
        self.files.append(reason)
        complain(f"left as it is: {reason}")

    def unclosed(self, reason: str) -> None:
        """Note that a file is left which is not closed, and why."""
        self.is_unclosed = True
        self.file(reason)

    def record(self, reason: str) -> None:
        """Note that a record is left, and why."""
        self.records.append(reason)
        complain(reason)

    def end(
        self,
        output: Output,
        facts: dict[str, Any],
        lines: Iterable[RenderableType],
        code: ExitCode = ExitCode.OK,
    ) -> None:
        """Print *facts* with what was left, or *lines*; exit if there was any.

        Raises:
            Exit: There was, or *code* is to be the exit code.
        """
        left = {"files_left": self.files, "records_left": self.records}
        text = (Text(one) if isinstance(one, str) else one for one in lines)
        output.result(facts | left, text)
        if code or self.files or self.records:
            raise typer.Exit(code or ExitCode.INCOMPLETE)


class Bar:
    """A bar of the bytes of *paths*, on a terminal; of all, if it has several *parts*.

    Each part is what the bar is entered for, one after the other.
    """

    def __init__(self, what: str, paths: Sequence[Path], parts: int = 1) -> None:
        console = messages()
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
        )
        self._bar = Progress(
            *columns, console=console, transient=True, disable=not console.is_terminal
        )
        self._size = sum(path.stat().st_size for path in paths if path.exists())
        self._task = self._bar.add_task(what, total=self._size * parts)
        self._before = -self._size

    def __enter__(self) -> Callable[[int], None]:
        self._bar.start()
        self._before += self._size
        before = self._before
        return lambda done: self._bar.update(self._task, completed=before + done)

    def __exit__(self, *_: object) -> None:
        self._bar.stop()


def hold(context: typer.Context, directory: Path, *, is_made: bool = False) -> None:
    """Have no other command work on the manifests in *directory* until this one ends.

    Raises:
        DirectoryInUse: One does.
        NoManifest: There are to be some, and there are none.
    """
    from frontier.errors import NoManifest
    from frontier.files import mode_of_environment
    from frontier.postcrawl.manifest import SUFFIX
    from frontier.postcrawl.working_directory import held

    if is_made and not any(directory.glob(f"*{SUFFIX}")):
        raise NoManifest(str(directory))
    command = f"frontier warc {context.info_name}"
    context.with_resource(held(directory, command, mode_of_environment()))


def files_given(
    given: Iterable[str],
    trouble: Trouble,
    *,
    waczs: bool = False,
    without: Path | None = None,
) -> list[Path]:
    """The WARC files that *given* stands for, and with *waczs* the WACZ files.

    What is in *without* is not read where a directory above it is given.

    Raises:
        Exit: One is not there, or there are none.
    """
    from frontier.postcrawl.files import ENDINGS, WACZ, files_in, spelled
    from frontier.postcrawl.remote_files import path_of

    named = [path_of(each) for each in given]
    for path in named:
        if not path.exists():
            complain(f"{spelled(path)}: there is no such file or directory")
            raise typer.Exit(ExitCode.NOT_FOUND)
    endings = (*ENDINGS, WACZ) if waczs else ENDINGS
    paths = files_in(named, say, trouble.file, endings, without, trouble.unclosed)
    if not (paths or trouble.is_unclosed):
        complain("there are no WARC files in what was given")
        raise typer.Exit(ExitCode.NOT_FOUND)
    return paths


def require_closed(trouble: Trouble, output: Output) -> None:
    """End the command before it does anything, if a file that was given is not closed.

    What it has may be the original of others, or refer to what they have.

    Raises:
        Exit: One is not.
    """
    if trouble.is_unclosed:
        complain("nothing is done: close it, or leave it out")
        trouble.end(output, {}, [])


def unpacked_of(
    paths: Sequence[Path], directory: Path, trouble: Trouble, suffix: str = ""
) -> tuple[list[Unpacked], list[Path]]:
    """The WACZ files of *paths*, and the WARC files: those in a WACZ in *directory*."""
    from frontier.files import mode_of_environment
    from frontier.postcrawl.files import WACZ, ends_with
    from frontier.postcrawl.many_files import Failure, caught
    from frontier.postcrawl.wacz_files import Unpacked, unpack

    waczs, warcs, mode = [], [], mode_of_environment()
    for path in paths:
        if not ends_with(path.name, WACZ):
            warcs.append(path)
            continue
        found = caught(unpack, (path, directory, mode, suffix))
        if isinstance(found, Failure):
            trouble.file(found.reason)
        elif isinstance(found, Unpacked):
            waczs.append(found)
            warcs += found.warcs.values()
    return waczs, warcs


def originals_of(
    given: list[str] | None, directory: Path, trouble: Trouble
) -> list[Path]:
    """The WARC files of ``--originals``; those in a WACZ are taken out first."""
    if not given:
        return []
    from frontier.postcrawl.files import FROM_WACZ

    paths = files_given(given, trouble, waczs=True)
    return unpacked_of(paths, directory / "waczs", trouble, FROM_WACZ)[1]


def manifests_of(
    paths: Sequence[Path],
    out: Path,
    running: Running,
    options: Any,
    trouble: Trouble,
    bar: Bar | None = None,
) -> dict[str, Any]:
    """Make the manifests of *paths* in *out*; what they come to.

    Their faults, and records without a date, are for the caller to tell.
    """
    from frontier.postcrawl.manifest import Manifest, Options
    from frontier.postcrawl.many_files import Failure, manifests

    facts: dict[str, Any] = {"files": 0, "records": 0, "payload_bytes": 0}
    faults = facts["faults"] = list[str]()
    undated = facts["undated"] = list[str]()
    with bar or Bar("reading", paths) as progress:
        work = running.work(out, progress)
        for _, outcome in manifests(paths, work, options or Options()):
            if isinstance(outcome, Failure):
                trouble.file(outcome.reason)
            elif isinstance(outcome, Manifest):
                faults += outcome.faults
                undated += outcome.undated_named
                if (more := outcome.undated - len(outcome.undated_named)) > 0:
                    undated.append(f"{outcome.file}: {more:,} more without such a date")
                facts["files"] += 1
                facts["records"] += outcome.records
                facts["payload_bytes"] += outcome.payload_bytes
    return facts


def collected(
    outcomes: Iterator[tuple[Path, object]],
    trouble: Trouble,
    counted: str = "replaced",
    done: Callable[[Path, Rewritten], None] = lambda _, __: None,
) -> dict[str, Any]:
    """What *outcomes*, of files that were written, come to, with their *counted*."""
    from frontier.postcrawl.convert import Converted
    from frontier.postcrawl.many_files import Failure
    from frontier.postcrawl.rewriting import Rewritten

    facts = {"written": 0, counted: 0, "bytes_before": 0, "bytes_after": 0}
    for path, outcome in outcomes:
        if isinstance(outcome, Failure):
            trouble.file(outcome.reason)
        elif isinstance(outcome, Rewritten | Converted):
            facts["written"] += 1
            for name in (counted, "bytes_before", "bytes_after"):
                facts[name] += getattr(outcome, name)
            for reason in (*getattr(outcome, "kept", ()), *outcome.unlisted):
                trouble.record(reason)
            if isinstance(outcome, Rewritten):
                done(path, outcome)
    return facts


def statuses_named(text: str) -> frozenset[int]:
    """The statuses that ``--status`` says; none if that is empty.

    Raises:
        ConfigurationError: One is none.
    """
    from frontier.node.archiving import statuses_of
    from frontier.settings.values import listed, statuses

    try:
        return statuses_of(listed(statuses)(text)) if text else frozenset()
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"--status {text!r}: {error}") from None


def rewritten(facts: dict[str, Any], what: str) -> str:
    """What `collected` found, in a line; *what* are the new records."""
    return (
        f"{facts['written']:,} files written, with {facts['replaced']:,} new {what}: "
        f"{facts['bytes_before']:,} bytes before, {facts['bytes_after']:,} after"
    )
