"""Tables and lists of a crawl, as something to print. No I/O, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from frontier.status.text import duration, percent, size
from frontier.status.text import local_moment as when
from frontier.status.validate import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from rich.console import RenderableType

    from frontier.status.figures import Figures
    from frontier.status.sections import Row
    from frontier.status.views import CrawlSnapshot, NodeView

MAX_FILES = 6
"""WARC files that are listed; the others are counted."""

PACE = "pages/s"
COLUMNS = (
    "node",
    "state",
    "share",
    "pages",
    PACE,
    "bytes",
    "new URLs",
    "errors",
)
ERRORS = "errors: requests without an answer, and answers 429 and 5xx; each try counts"
MAX_LEFT_ALONE = 10
"""Hosts that are left alone and named."""

Rows = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
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


def table(*headings: str, rows: Iterable[Sequence[str]]) -> Table:
    """A row for each of *rows*.

    Below a heading that begins with > are numbers, which are not broken.
    """
    gap = 2 if len(headings) < 8 else 1  # all of them have to fit 80 columns
    made = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0))
    for heading in headings:
        if heading.startswith(">"):
            made.add_column(heading[1:], justify="right", no_wrap=True)
        else:
            made.add_column(heading, overflow="fold")
    for row in rows:
        made.add_row(*map(Text, row))
    return made


def rows_of(said: Mapping[str, Any]) -> Rows:
    """Names and values of *said*, for people; what is `None` is left out."""
    names = {"crawl_id": "crawl", "urls": "URLs"}
    return [
        (
            names.get(name, name.replace("_", " ")),
            _shown(value),
        )
        for name, value in said.items()
        if value is not None
    ]


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else printable(str(value))


def alone(seen: CrawlSnapshot) -> Iterator[RenderableType]:
    """What there is to say of what a duplicate filter alone has seen."""
    yield Text(f"Crawl {seen.crawl_id}, spider {seen.spider}: a duplicate filter's")
    yield Text()
    yield facts(
        [
            ("begun", f"{duration(seen.seconds)} ago; it has no end"),
            ("nodes, queue", "none: its processes use another scheduler"),
            ("in the set", f"{seen.queue.seen:,} URLs"),
        ]
    )


def node_table(seen: CrawlSnapshot, *, ring: bool = False) -> Table:
    """A row for each node, and their sum. Names may be cut, numbers are not.

    The share is that of the pages, or with *ring* of the partitions.
    """
    share = _share_of_ring if ring else _share
    lately = seen.state == "open"
    rows = [
        (
            node.node_id,
            node.state,
            share(node, seen),
            *_columns(node.figures, _pace(node.figures, node.state, lately=lately)),
        )
        for node in seen.nodes
    ]
    pace = _pace(seen.totals, "live", lately=lately)
    total = ("together", "", "", *_columns(seen.totals, pace))
    if len(rows) != 1 or seen.gone:
        rows.append(total)
    made = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for place, name in enumerate(COLUMNS):
        heading = f"{name} (1 min)" if lately and name == PACE else name
        words = [*heading.split(), *(row[place] for row in rows)]
        made.add_column(
            heading,
            justify="left" if place < 2 else "right",
            overflow="ellipsis",
            min_width=max(map(len, words)) if place else len(total[0]),
        )
    for row in rows:
        made.add_row(*row)
    return made


def busy_nodes(seen: CrawlSnapshot) -> Iterator[Text]:
    """A line for each live node that a callback blocks, as its watchdog says."""
    for node in seen.nodes:
        figures = node.figures
        if node.state == "live" and figures is not None and figures.busy_seconds:
            what = figures.busy_url or "something that is not a callback"
            lasts = duration(figures.busy_seconds)
            yield Text(f"{node.node_id} has been busy for {lasts} with {what}")


def said(rows: Iterable[Row]) -> Rows:
    """*rows* as `facts` takes them."""
    return [(row.name, row.text) for row in rows]


def facts(rows: Rows) -> Table:
    """Names and what there is to say about them."""
    made = table("", "", rows=rows)
    made.show_header = False
    made.columns[0].no_wrap = True
    return made


def _share(node: NodeView, seen: CrawlSnapshot) -> str:
    """The part of the crawl's pages that the node fetched."""
    pages = 0 if node.figures is None else node.figures.pages
    return percent(pages, seen.totals.pages)


def _share_of_ring(node: NodeView, seen: CrawlSnapshot) -> str:
    """The part of the partitions that are a live node's now."""
    return percent(node.owned, seen.partitions) if node.state == "live" else "-"


def _pace(figures: Figures | None, state: str, *, lately: bool) -> str:
    """Pages per second: in the last minute, or else from the start to the end."""
    if figures is None:
        return "-"
    if not lately:
        return f"{figures.rate:,.1f}"
    is_there = state in {"live", "leaving"} and figures.lately_seconds
    return f"{figures.lately.pages:,.1f}" if is_there else "-"


def _columns(figures: Figures | None, pace: str) -> list[str]:
    if figures is None:
        return ["-"] * 5
    return [
        f"{figures.pages:,}",
        pace,
        size(figures.bytes),
        f"{figures.new:,}",
        f"{figures.errors:,}",
    ]


def back_offs(seen: CrawlSnapshot) -> Iterator[RenderableType]:
    """The hosts that are left alone."""
    told = seen.back_offs
    if not told.hosts:
        return
    yield Text()
    yield Text(
        f"Hosts left alone ({told.hosts:,}, {told.unreachable:,} cannot be reached):"
    )
    yield table(
        "host",
        "until",
        "why",
        "in a row",
        rows=[
            (one.host, when(one.until_ms), one.why, f"{one.failures:,}")
            for one in told.named[:MAX_LEFT_ALONE]
        ],
    )
    more = told.hosts - min(len(told.named), MAX_LEFT_ALONE)
    if more:
        yield Text(f"and {more:,} more")


def dead_letters(seen: CrawlSnapshot) -> Iterator[RenderableType]:
    """The first requests that were given up, each with its reason."""
    if not seen.dead_letters:
        return
    yield Text()
    yield Text(f"Given up ({seen.queue.dead:,}):")
    for letter in seen.dead_letters:
        yield Text(f"  {letter.url or '(unreadable request)'}: {letter.reason}")
    if seen.queue.dead > len(seen.dead_letters):
        yield Text(f"  and {seen.queue.dead - len(seen.dead_letters):,} more")


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
