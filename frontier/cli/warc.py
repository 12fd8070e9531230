"""``frontier warc``: WARC files."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 (typer reads it)
from typing import Annotated

import typer
from rich.text import Text

from frontier.cli.exits import ExitCode
from frontier.cli.output import complain, show

app = typer.Typer(help="WARC files.", no_args_is_help=True)


@app.callback()
def warc() -> None:
    """WARC files."""


@app.command()
def repair(
    directory: Annotated[Path, typer.Argument(help="Directory of WARC files.")],
) -> None:
    """Close the files of nodes that died, each cut back to its last whole record.

    Each gets its index of CDXJ lines. Files of live nodes are locked and left
    alone. The start of a node on the directory does the same.
    """
    from frontier.archive.listing import Listing
    from frontier.archive.repair import repair as repair_all

    if not directory.is_dir():
        complain(f"{directory} is not a directory")
        raise typer.Exit(ExitCode.NOT_FOUND)
    try:
        repaired = repair_all(directory, None, Listing().write)
    except OSError as error:
        complain(f"{directory} cannot be repaired: {error}")
        raise typer.Exit(ExitCode.INCOMPLETE) from None
    lines = [
        f"{one.file}: removed, it had no whole record"
        if one.removed
        else f"{one.file}: {one.records} records, {one.cut_bytes} bytes cut off"
        for one in repaired
    ]
    show(Text(line) for line in lines or [f"nothing to repair in {directory}"])
