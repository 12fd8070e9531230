"""``frontier wacz``: WARC files into one WACZ, and what is wrong with one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from frontier.cli.options import Json  # noqa: TC001 - typer reads it
from frontier.cli.output import ExitCode, complain, messages, show, show_json
from frontier.files import mode_of_environment

app = typer.Typer(help="WACZ files.", no_args_is_help=True)

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


@app.command()
def create(
    out: Annotated[Path, typer.Argument(metavar="OUT.wacz")],
    given: Annotated[list[Path], typer.Argument(metavar="WARC|DIRECTORY...")],
    against: Against = None,
    seed: Annotated[
        list[str] | None,
        typer.Option("--seed", metavar="URL", help="Mark this page as a seed."),
    ] = None,
    log: Annotated[
        list[Path] | None,
        typer.Option("--log", metavar="FILE", help="Put this log file into it."),
    ] = None,
    title: Annotated[
        str, typer.Option("--title", metavar="TEXT", help="What the file is called.")
    ] = "",
    crawl: Annotated[
        str,
        typer.Option("--crawl", metavar="ID", help="Only this crawl's WARC files."),
    ] = "",
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Inflate and check every record before the end."),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite OUT.wacz if it is there.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Make a WACZ of WARC files, and verify it before it gets its name."""
    from rich.progress import Progress

    from frontier.errors import ConfigurationError
    from frontier.wacz.create import Options, warc_files
    from frontier.wacz.create import create as make
    from frontier.warc.crawl_log import logs_of

    if out.exists() and not force:
        raise ConfigurationError(f"{out} is there; add --force to overwrite it")
    left_out: list[Path] = []
    warcs = warc_files(given, crawl_id=crawl or None, refused=left_out.append)
    for path in left_out:
        complain(f"{path} is left out: it is not a regular file")
    beside = [each for path in given if path.is_dir() for each in logs_of(path, crawl)]
    options = Options(
        title,
        frozenset(seed or ()),
        (*(log or ()), *beside),
        tuple(against or ()),
        replace=force,
        strict=strict,
        mode=mode_of_environment(),
    )
    with Progress(console=messages(), transient=True) as bar:
        total = sum(path.stat().st_size for path in warcs)
        task = bar.add_task("WARC files", total=total)
        made = make(out, warcs, options, lambda count: bar.advance(task, count))
    needed = [each.facts() for each in made.requires]
    if as_json:
        facts = {"captures": made.captures, "pages": made.pages, "requires": needed}
        show_json({"file": str(out), **facts, "missing": made.missing})
    else:
        lines = [f"{out}: {made.captures:,} captures, {made.pages:,} pages"]
        lines += [f"needs {each['filename']}" for each in needed]
        if made.read:
            lines.append(f"{made.read:,} files had no index that fits, and were read")
        if made.missing:
            lines.append(
                f"{made.missing:,} payloads of revisits are in no WACZ given; "
                "name those of the earlier crawls with --against"
            )
        show(map(Text, lines))
    if made.missing or left_out:
        raise typer.Exit(ExitCode.INCOMPLETE)


@app.command()
def check(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...")],
    against: Against = None,
    as_json: Json = False,
) -> None:
    """Show what is wrong with WACZ files; what they require is looked for beside."""
    from frontier.status.validate import printable
    from frontier.wacz.check import check as judge

    found = {}
    for path in files:
        beside = sorted(p for p in path.parent.glob("*.wacz") if p != path)
        found[str(path)] = judge(path, [*(against or ()), *beside])
    if as_json:
        show_json(found)
    else:
        for name, complaints in found.items():
            show([Text(f"{name}: {printable(text)}") for text in complaints])
            unresolved = sum(text.startswith(UNRESOLVED) for text in complaints)
            if unresolved:
                show([Text(f"{name}: {ELSEWHERE.format(unresolved, len(complaints))}")])
            if not complaints:
                show([Text(f"{name}: sound")])
    if any(found.values()):
        raise typer.Exit(ExitCode.FAULTY)
