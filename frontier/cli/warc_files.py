"""What commands over many WARC files share: what they read, how, and what they skip."""

from __future__ import annotations

import os
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from frontier.cli.command import Output, argument, option, options
from frontier.cli.output import (
    ExitCode,
    Shown,
    bar,
    complain,
    end_with,
    show_result,
)
from frontier.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rich.console import RenderableType

    from frontier.postcrawl.actions import Pass
    from frontier.postcrawl.many_files import Work
    from frontier.postcrawl.wacz_files import Unpacked


@options
class Files(Output):
    """Which files are read."""

    given: list[str] = argument("FILE|DIRECTORY|URL")


@options
class Out:
    """Where files are written."""

    out: Path = option(
        ..., "DIR", "Directory for the files that this makes.", "--out", "-o"
    )


@options
class Originals:
    """Where else originals are."""

    originals: list[str] = option(
        (),
        "FILE|DIRECTORY|URL",
        "WARC or WACZ files that originals are in; they are only read.",
    )


@options
class Running(Output):
    """How many files are worked on at a time, and where."""

    workers: int = option(
        0, "N", "Processes (default: one for each core).", within=(0, None)
    )
    engine: str = option(
        "duckdb", "NAME", "'duckdb' on this machine, or 'spark' at --master."
    )
    master: str = option("", "URL", "Spark's: spark://HOST:PORT, yarn, local[2].")

    def work(self, progress: Callable[[int], None]) -> Work:
        """How files are worked on; *progress* is told how much is done.

        Raises:
            ConfigurationError: There is no such engine.
        """
        from frontier.postcrawl.many_files import Work

        return Work(self.processes(), self.spark(), progress)

    def performed(
        self, todo: Pass, paths: Sequence[Path], outs: Sequence[Path], trouble: Trouble
    ) -> dict[str, Any]:
        """Do *todo* with each of *paths*; return the sums."""
        from functools import partial

        from frontier.postcrawl.rewriting import perform

        return self.written(partial(perform, todo), paths, outs, trouble)

    def written(
        self,
        step: Callable[..., Any],
        paths: Sequence[Path],
        outs: Sequence[Path],
        trouble: Trouble,
    ) -> dict[str, Any]:
        """Do *step* with each of *paths* and *outs*; return the sums."""
        from frontier.postcrawl.many_files import Failure, each

        facts: dict[str, Any] = {"written": 0, "kept_at": {}}
        counted = ("replaced", "bytes_before", "bytes_after")
        facts |= dict.fromkeys(counted, 0)
        with bar("writing", bytes_of(paths), bytes_=True) as progress:
            given = list(zip(paths, outs, strict=True))
            for path, done in each(step, given, self.work(progress)):
                if isinstance(done, Failure):
                    trouble.file(done.reason)
                    continue
                facts["written"] += 1
                for name in counted:
                    facts[name] += getattr(done, name)
                for reason in getattr(done, "kept", ()):
                    trouble.record(reason)
                facts["kept_at"][path] = getattr(done, "kept_at", ())
        return facts

    def processes(self) -> int:
        """How many processes are used."""
        return self.workers or len(os.sched_getaffinity(0))

    def spark(self) -> str:
        """The address of Spark's master; empty if Spark does not do the work.

        Raises:
            ConfigurationError: There is no such engine.
        """
        if self.engine not in {"duckdb", "spark"}:
            raise ConfigurationError(f"--engine {self.engine!r}: 'duckdb' or 'spark'")
        if (self.engine == "spark") is not bool(self.master):
            raise ConfigurationError("--engine spark and --master URL go together")
        return self.master


def require_extra() -> None:
    """Require the packages of the extra.

    Raises:
        ConfigurationError: One is missing.
    """
    if not (find_spec("duckdb") and find_spec("pyarrow")):
        raise ConfigurationError(
            "this needs duckdb and pyarrow; install them with: "
            "pip install 'frontier-crawl[postcrawl]'"
        )


class Trouble:
    """What could not be used: reported at once, and in the exit code at the end.

    Make it before anything of `frontier.postcrawl` is imported: it raises an error that
    names the extra if that is missing.
    """

    def __init__(self) -> None:
        require_extra()
        self.files: list[str] = []
        self.records: list[str] = []
        self.is_unclosed = False

    def file(self, reason: str) -> None:
        """Note that a file is left as it is, and why."""
        self.files.append(reason)
        complain(f"unchanged: {reason}")

    def unclosed(self, reason: str) -> None:
        """Note that a file is left as it is because it is not closed."""
        self.is_unclosed = True
        self.file(reason)

    def record(self, reason: str) -> None:
        """Note that a record is left as it is, and why."""
        self.records.append(reason)
        complain(reason)

    def shown(
        self,
        said: dict[str, Any],
        lines: Iterable[RenderableType] | Mapping[str, Any] | None = None,
        code: ExitCode = ExitCode.OK,
    ) -> Shown:
        """*said* and what was left; *lines* are for people, and *code* how it ends."""
        said.pop("kept_at", None)
        left = {"files_left": self.files, "records_left": self.records}
        if self.files or self.records:
            code = code or ExitCode.INCOMPLETE
        return Shown(said | left, lines, code=code)

    def require_closed(self, output: Output) -> None:
        """End the command before it does anything, if a file is not closed.

        Its records may be originals of other files' revisits, or refer to theirs.

        Raises:
            Exit: A file is not closed.
        """
        if self.is_unclosed:
            complain("nothing was done: close the file, or leave it out")
            show_result(self.shown({}, []), as_json=output.as_json)


def bytes_of(paths: Iterable[Path]) -> int:
    """How many bytes those of *paths* have that exist."""
    return sum(path.stat().st_size for path in paths if path.exists())


@contextmanager
def hold(directory: Path, *, is_made: bool = False) -> Iterator[None]:
    """Keep other commands from working on the manifests in *directory* meanwhile.

    Raises:
        DirectoryInUse: Another command works on them.
        NoManifest: *is_made*, but there are none.
    """
    from frontier.errors import NoManifest
    from frontier.postcrawl.manifest import SUFFIX
    from frontier.postcrawl.working_directory import held

    if is_made and not any(directory.glob(f"*{SUFFIX}")):
        raise NoManifest(str(directory))
    with held(directory):
        yield


def files_given(
    given: Iterable[str],
    trouble: Trouble,
    *,
    waczs: bool = False,
    without: Path | None = None,
) -> list[Path]:
    """The WARC files that *given* stands for, and with *waczs* the WACZ files.

    Files in *without* are not read if a directory above it is given.

    Raises:
        Exit: One does not exist, or there are none.
    """
    from frontier.postcrawl.files import ENDINGS, WACZ, files_in, spelled
    from frontier.warc.remote_files import path_of

    named = [path_of(each) for each in given]
    for path in named:
        if not path.exists():
            missing = f"{spelled(path)}: there is no such file or directory"
            end_with([missing], ExitCode.NOT_FOUND)
    endings = (*ENDINGS, WACZ) if waczs else ENDINGS
    paths = files_in(named, trouble.file, trouble.unclosed, endings, without)
    if not (paths or trouble.is_unclosed):
        code = ExitCode.INCOMPLETE if trouble.files else ExitCode.NOT_FOUND
        end_with(["no WARC files were given"], code)
    return paths


def unpacked_of(
    paths: Sequence[Path], directory: Path, trouble: Trouble, suffix: str = ""
) -> tuple[list[Unpacked], list[Path]]:
    """The WACZ files of *paths*, and all WARC files: a WACZ's go to *directory*."""
    from frontier.postcrawl.files import WACZ, ends_with
    from frontier.postcrawl.many_files import Failure, caught
    from frontier.postcrawl.wacz_files import Unpacked, unpack

    waczs, warcs = [], []
    for path in paths:
        if not ends_with(path.name, WACZ):
            warcs.append(path)
            continue
        found = caught(unpack, (path, directory, suffix))
        if isinstance(found, Failure):
            trouble.file(found.reason)
        elif isinstance(found, Unpacked):
            waczs.append(found)
            warcs += found.warcs.values()
    return waczs, warcs


def originals_of(given: Sequence[str], directory: Path, trouble: Trouble) -> list[Path]:
    """The WARC files of ``--originals``; those in a WACZ are unpacked first."""
    if not given:
        return []
    from frontier.postcrawl.files import FROM_WACZ

    paths = files_given(given, trouble, waczs=True)
    return unpacked_of(paths, directory / "waczs", trouble, FROM_WACZ)[1]


def manifests_of(
    paths: Sequence[Path],
    out: Path,
    running: Running,
    trouble: Trouble,
    options: Any = None,
) -> dict[str, Any]:
    """Make the manifests of *paths* in *out*; return the sums.

    The caller has to report their faults, and records without a date.
    """
    from frontier.postcrawl.manifest import Manifest, Options
    from frontier.postcrawl.many_files import Failure, manifests

    facts: dict[str, Any] = {"files": 0, "records": 0, "payload_bytes": 0}
    facts |= {"faults": [], "undated": []}
    with bar("reading", bytes_of(paths), bytes_=True) as progress:
        work = running.work(progress)
        for _, made in manifests(paths, out, work, options or Options()):
            if isinstance(made, Failure):
                trouble.file(made.reason)
            elif isinstance(made, Manifest):
                facts["faults"] += made.faults
                facts["undated"] += made.without_date
                facts["files"] += 1
                facts["records"] += made.records
                facts["payload_bytes"] += made.payload_bytes
    return facts


def statuses_named(text: str) -> frozenset[int]:
    """The statuses in ``--status``; none if that is empty.

    Raises:
        ConfigurationError: One of them is not a status.
    """
    from frontier.node.archiving import statuses_of
    from frontier.settings.values import each, statuses

    try:
        return statuses_of(each(statuses)(text)) if text else frozenset()
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"--status {text!r}: {error}") from None


def rewritten(facts: dict[str, Any], what: str) -> str:
    """The sums of `Running.written`, in a line; *what* are the new records."""
    return (
        f"{facts['written']:,} files written, with {facts['replaced']:,} new {what}: "
        f"{facts['bytes_before']:,} bytes before, {facts['bytes_after']:,} after"
    )
