"""Tables and lists of a crawl, as something to print. No I/O, no clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from frontier.cli.output import Rows, facts, table
from frontier.model import frozen
from frontier.status.sections import INFO, Row, Section, alerts, sections
from frontier.status.text import duration, local_moment as when, size

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from rich.console import RenderableType
    from rich.table import Table

    from frontier.status.views import CrawlSnapshot
    from frontier.status.watch import Watched

MAX_FILES = 6
"""WARC files that are listed; the others are counted."""

NARROW = 7
"""Columns of a table that fit a narrow terminal; the others are in a second one."""


@frozen
class WarcFiles:
    """The WARC files of a crawl on this machine."""

    directory: Path
    sizes: tuple[tuple[str, int], ...]
    """Name and bytes of each, by name."""

    @classmethod
    def of(cls, directory: Path, crawl_id: str) -> WarcFiles:
        """Those of *crawl_id* in *directory*, finished or not."""
        found: list[tuple[str, int]] = []
        if directory.is_dir():
            found = sorted(
                (path.name, path.stat().st_size)
                for path in directory.glob("*.warc.gz*")
                if path.name.startswith(f"{crawl_id}-") and path.is_file()
            )
        return cls(directory, tuple(found))


def crawl_report(
    watched: Watched, files: WarcFiles, *, hosts: bool = False
) -> Iterator[RenderableType]:
    """The whole report of a crawl.

    Its WARC files are *files*; with *hosts*, its hosts are listed, too.
    """
    seen = watched.crawl
    if seen.kind == "dupefilter":
        yield from alone(seen)
        return
    lasted = f"{'in' if seen.finished_ms else 'for'} {duration(seen.seconds)}"
    yield Text(f"Crawl {seen.crawl_id}, spider {seen.spider}: {seen.state} {lasted}")
    yield from alert_lines(watched)
    yield Text()
    parts = sections(watched, when)
    tables = {part.name: _table(part)[: 1 + hosts] for part in parts}
    yield from tables.pop("nodes")[:1]
    if seen.gone:
        yield Text(f"{seen.gone:,} gone before; the sums have what was done there")
    yield Text()
    yield facts(said(row for part in parts if part.name != "log" for row in part.rows))
    if hosts:
        yield Text()
        yield from tables["hosts"]
    yield from warc_files(files, has_ended=seen.state != "open")


def nodes_report(watched: Watched) -> Iterator[RenderableType]:
    """The nodes: what they did, how they are, where they run, who came and went."""
    for part in sections(watched, when):
        if part.name == "nodes":
            yield from _table(part)
            yield from alert_lines(watched)
        if part.name == "log" and part.rows:
            yield Text()
            yield facts(said(part.rows))


def alert_lines(watched: Watched) -> Iterator[Text]:
    """What a person should know first, a line for each."""
    for one in alerts(watched, when):
        text = f"{one.text}: {one.command}" if one.command else one.text
        if one.level == INFO:
            yield Text(text)
        else:
            yield Text(f"WARNING: {text}", style="bold")


def _table(part: Section) -> list[Table]:
    """The table of *part*; columns that do not fit are a second one, notes a third."""
    wide = [[_cell(cell) for cell in row] for row in part.table]
    first, rest = part.columns[:NARROW], part.columns[NARROW:]
    made = [table(*first, rows=[row[:NARROW] for row in wide])]
    if rest:
        more = [(row[0], *row[NARROW:]) for row in wide]
        made.append(table(first[0], *rest, rows=more))
        heads = [row[0] for row in part.table]
        made.append(facts([(o.text, o.note) for o in heads if isinstance(o, Row)]))
    return made


def _cell(cell: Row | str) -> str:
    return cell if isinstance(cell, str) else cell.text


def alone(seen: CrawlSnapshot) -> Iterator[RenderableType]:
    """The report on what a duplicate filter alone has seen."""
    yield Text(f"Crawl {seen.crawl_id}, spider {seen.spider}: a duplicate filter's")
    yield Text()
    yield facts(
        [
            ("begun", f"{duration(seen.seconds)} ago; it has no end"),
            ("nodes, queue", "none: its processes use another scheduler"),
            ("in the set", f"{seen.queue.seen:,} URLs"),
        ]
    )


def said(rows: Iterable[Row]) -> Rows:
    """*rows* as `facts` takes them."""
    return [
        (row.name, ": ".join(filter(None, (row.text, row.note, row.command))))
        for row in rows
    ]


def warc_files(files: WarcFiles, *, has_ended: bool) -> Iterator[RenderableType]:
    """The first of *files*, and what to do about those that were left open."""
    yield Text()
    if not files.sizes:
        yield Text(f"No WARC files of this crawl in {files.directory}")
        return
    total = size(sum(volume for _, volume in files.sizes))
    yield Text(f"WARC files in {files.directory} ({len(files.sizes):,}, {total}):")
    for name, volume in files.sizes[:MAX_FILES]:
        yield Text(f"  {name}  {size(volume)}")
    if len(files.sizes) > MAX_FILES:
        yield Text(f"  and {len(files.sizes) - MAX_FILES:,} more")
    left = sum(name.endswith(".open") for name, _ in files.sizes)
    if left and has_ended:
        yield Text(
            f"{left:,} of these were left open by nodes that were killed: frontier "
            f"warc repair {files.directory} closes them"
        )
