"""``frontier warc stats``: how much of a collection is there more than once."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from frontier.cli.options import Output
from frontier.cli.warc_dedupe import Directory, Running, require_extra

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from frontier.postcrawl.duplication import Duplication, Share

TITLES = {
    "mime": "by media type",
    "host": "by host",
    "year": "by year",
    "size": "by size",
}


def stats(
    directory: Directory,
    output: Output,
    running: Running,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE.png", help="Draw the bytes that are in copies."),
    ] = None,
) -> None:
    """Show which captures have the payload of an earlier one, from manifests alone."""
    require_extra()
    from frontier.postcrawl.duplication import duplication

    with tempfile.TemporaryDirectory(prefix="frontier-stats-") as scratch:
        found = duplication(directory, Path(scratch), running.planned_by())
    if plot is not None:
        _draw(plot, found)
    output.result(found.facts(), _report(found))


def _draw(path: Path, found: Duplication) -> None:
    from frontier.cli.plots import draw_saved_bytes

    panels = {
        TITLES[kind]: {
            name: (share.copied_bytes, share.payload_bytes)
            for name, share in names.items()
        }
        for kind, names in found.by.items()
    }
    draw_saved_bytes(path, panels, "in copies")


def _report(found: Duplication) -> Iterator[RenderableType]:
    total = found.total
    yield Text(
        f"{found.files:,} files: {total.copies:,} of {total.captures:,} captures have "
        f"the payload of an earlier one, {total.copied_bytes:,} of "
        f"{total.payload_bytes:,} bytes"
    )
    for kind, names in found.by.items():
        yield Text("")
        yield _table(kind, names)
        if left := found.names.get(kind, 0) - len(names):
            yield Text(f"and {left:,} more, with fewer bytes in copies")


def _table(kind: str, names: dict[str, Share]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(TITLES[kind])
    for title in ("captures", "copies", "bytes", "in copies", "share"):
        table.add_column(title, justify="right", no_wrap=True)
    for name, share in names.items():
        part = share.copied_bytes / share.payload_bytes if share.payload_bytes else 0
        table.add_row(
            Text("".join(c if c.isprintable() else "\ufffd" for c in name[:80])),
            f"{share.captures:,}",
            f"{share.copies:,}",
            f"{share.payload_bytes:,}",
            f"{share.copied_bytes:,}",
            f"{part:.0%}",
        )
    return table
