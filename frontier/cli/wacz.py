"""``frontier wacz``: WARC files into one WACZ, and what is wrong with one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import Progress
from rich.text import Text

from frontier.cli.command import Commands
from frontier.cli.options import Force, Output
from frontier.cli.output import ExitCode, complain, messages
from frontier.errors import ConfigurationError
from frontier.files import mode_of_environment
from frontier.status.validate import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frontier.wacz.create import Made, Options

app = Commands("Create and check WACZ files.")

UNRESOLVED = "unresolved revisit"
"""What complaints of revisits without an original begin with."""
ELSEWHERE = (
    "{} of {} faults are revisits whose originals are not in it, nor in a WACZ that it "
    "requires; make it again, with --against for those of the earlier crawls"
)

Against = Annotated[
    list[Path] | None,
    typer.Option(
        "--against",
        metavar="WACZ",
        help="A WACZ that may hold originals of revisits; may be repeated.",
    ),
]


@dataclass(frozen=True, slots=True)
class CreateOptions:
    """What goes into a WACZ, and how it is made."""

    against: Against = None
    seed: Annotated[
        list[str] | None,
        typer.Option(
            "--seed", metavar="URL", help="Mark this page as a seed; may be repeated."
        ),
    ] = None
    log: Annotated[
        list[Path] | None,
        typer.Option(
            "--log", metavar="FILE", help="Put this log file into it; may be repeated."
        ),
    ] = None
    title: Annotated[
        str,
        typer.Option(
            "--title", metavar="TEXT", help="Title of the collection, for readers."
        ),
    ] = ""
    crawl: Annotated[
        str,
        typer.Option("--crawl", metavar="ID", help="Only this crawl's WARC files."),
    ] = ""
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Decompress and check every record, too."),
    ] = False
    force: Force = False


@app.command()
def create(
    how: CreateOptions,
    output: Output,
    out: Annotated[Path, typer.Argument(metavar="OUT.wacz")],
    given: Annotated[list[Path], typer.Argument(metavar="WARC|DIRECTORY")],
) -> None:
    """Make a WACZ from WARC files."""
    from frontier.wacz.create import create as make
    from frontier.wacz.create import warc_files
    from frontier.wacz.layout import SUFFIX

    if out.suffix != SUFFIX:
        raise ConfigurationError(f"{out}: its name has to end in {SUFFIX}")
    if out.exists() and not how.force:
        raise ConfigurationError(f"{out} exists; add --force to overwrite it")
    for path in given:
        if not path.exists():
            complain(f"{path}: there is no such file or directory")
            raise typer.Exit(ExitCode.NOT_FOUND)
    left_out: list[str] = []
    warcs = warc_files(given, crawl_id=how.crawl or None, refused=left_out.append)
    for line in left_out:
        complain(line)
    console = messages()
    shown = console.is_terminal  # else it leaves an empty line
    with Progress(console=console, transient=True, disable=not shown) as bar:
        total = sum(path.stat().st_size for path in warcs)
        task = bar.add_task("WARC files", total=total)
        made = make(out, warcs, _options(given, how), lambda n: bar.advance(task, n))
    facts = {
        "file": str(out),
        "captures": made.captures,
        "pages": made.pages,
        "requires": [each.facts() for each in made.requires],
        "missing": made.missing,
    }
    output.result(facts, map(Text, _told(out, made)))
    if made.missing or left_out:
        raise typer.Exit(ExitCode.INCOMPLETE)


def _options(given: list[Path], how: CreateOptions) -> Options:
    from frontier.wacz.create import Options
    from frontier.warc.crawl_log import logs_of

    beside = [
        log for path in given if path.is_dir() for log in logs_of(path, how.crawl)
    ]
    return Options(
        how.title,
        frozenset(how.seed or ()),
        (*(how.log or ()), *beside),
        tuple(how.against or ()),
        replace=how.force,
        strict=how.strict,
        mode=mode_of_environment(),
    )


def _told(out: Path, made: Made) -> Iterator[str]:
    yield f"{out}: {made.captures:,} captures, {made.pages:,} pages"
    for each in made.requires:
        yield f"needs {each.facts()['filename']}"
    if made.read:
        yield f"{made.read:,} files had no index that fits, and were read"
    if made.missing:
        yield (
            f"{made.missing:,} payloads of revisits are in no WACZ given; "
            "name those of the earlier crawls with --against"
        )


@app.command()
def check(
    output: Output,
    files: Annotated[list[Path], typer.Argument(metavar="FILE")],
    against: Against = None,
) -> None:
    """Show what is wrong with WACZ files. WACZ they require are sought beside them."""
    from frontier.wacz.check import check as judge

    found, notes = {}, dict[str, list[str]]()
    for path in files:
        beside = sorted(p for p in path.parent.glob("*.wacz") if p != path)
        told = notes[str(path)] = []
        others = [*(against or ()), *beside]
        found[str(path)] = judge(path, others, note=told.append)
    output.result(found, map(Text, _judged(found, notes)))
    if any(found.values()):
        raise typer.Exit(ExitCode.FAULTY)


def _judged(found: dict[str, list[str]], notes: dict[str, list[str]]) -> Iterator[str]:
    """A line for each complaint of each file, or that there is none, and its notes."""
    for name, complaints in found.items():
        for text in (*(complaints or ["sound"]), *notes[name]):
            yield f"{name}: {printable(text)}"
        unresolved = sum(text.startswith(UNRESOLVED) for text in complaints)
        if unresolved:
            yield f"{name}: {ELSEWHERE.format(unresolved, len(complaints))}"
