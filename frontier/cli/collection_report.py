"""The reports on a collection, as something to print. No I/O, no clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from frontier.cli.report import facts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from frontier.cli.report import Rows
    from frontier.collection.check import Findings
    from frontier.collection.import_ import Imported
    from frontier.collection.purge import Plan
    from frontier.collection.summary import CollectionView

MAX_SHOWN = 10
"""Names that are shown in one line; the others are counted."""


def imported_rows(done: Imported, others: dict[str, int]) -> Rows:
    """What an import did; *others* are the sources under other rules."""
    return [
        ("sources imported", f"{done.sources:,}"),
        ("in the index before", f"{done.known:,}"),
        ("left out", f"{len(done.broken):,}"),
        ("originals", f"{done.originals:,}"),
        ("revisits", f"{done.revisits:,}"),
        ("lines skipped", f"{done.wrong_lines:,}"),
        ("under other rules", f"{sum(others.values()):,}"),
    ]


def collections_table(found: Sequence[CollectionView]) -> Table:
    """One row for each collection."""
    rows = [
        [
            view.name or "(default)",
            f"{view.digests:,}",
            f"{sum(crawl.state == 'committed' for crawl in view.crawls):,}",
            f"{sum(crawl.state != 'committed' for crawl in view.crawls):,}",
            decimal(view.counts.get("conservedSize", 0)),
        ]
        for view in found
    ]
    heads = ("collection", "payloads", "committed", "uncommitted", "conserved")
    return _table(heads, rows)


def collection_report(seen: CollectionView) -> Iterator[RenderableType]:
    """The whole report of *seen*."""
    counts = seen.counts
    urls, revisits = counts.get("totalUrls", 0), counts.get("dupeUrls", 0)
    yield facts(
        [
            ("collection", seen.name or "(default)"),
            ("payloads", f"{seen.digests:,} that all crawls see"),
            ("captures", f"{urls:,}, {revisits:,} of them revisits"),
            ("conserved", decimal(counts.get("conservedSize", 0))),
            ("files", f"{seen.sources:,}, {decimal(counts.get('totalCrawlSize', 0))}"),
            ("redundant", decimal(counts.get("estimatedRedundantSize", 0))),
            ("removed crawls", f"{counts.get('removedCrawls', 0):,}"),
            ("waiting imports", _some(seen.waiting)),
            ("updated", seen.updated or "-"),
        ]
    )
    if seen.crawls:
        yield Text()
        heads = ("crawl", "state", "payloads", "files", "captures", "revisits", "bytes")
        rows = [
            [
                crawl.crawl_id,
                crawl.state,
                f"{crawl.digests:,}",
                f"{crawl.files:,}",
                f"{crawl.urls:,}",
                f"{crawl.revisits:,}",
                decimal(crawl.bytes),
            ]
            for crawl in seen.crawls
        ]
        yield _table(heads, rows)


def purge_rows(planned: Plan) -> Rows:
    """What a purge would do."""
    return [
        ("crawls that stay", _some(planned.kept)),
        ("crawls that go", _some(planned.removed)),
        ("to keep, but not there", _some(planned.unknown)),
        ("digests now", f"{planned.digests:,}"),
    ]


def findings_report(found: Findings) -> Iterator[RenderableType]:
    """What a check has found."""
    yield Text(f"{found.digests:,} entries were looked at")
    for fault, count in found.faults.items():
        repaired = found.repaired[fault]
        mended = f", {repaired:,} repaired" if repaired else ""
        yield Text(f"{count:,} {fault}{mended}")
        for example in found.examples[fault]:
            yield Text(f"  {example}")
    if found.waiting:
        yield Text(f"the revisits of {found.waiting:,} digests wait for their original")
    for text in found.unfinished:
        yield Text(text)
    if not found.faults:
        yield Text("nothing is wrong")


def _some(names: Sequence[str]) -> str:
    shown = " ".join(names[:MAX_SHOWN])
    more = len(names) - MAX_SHOWN
    return f"{shown} and {more:,} more" if more > 0 else shown or "-"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for number, head in enumerate(heads):
        table.add_column(head, justify="left" if number < 1 else "right")
    for row in rows:
        table.add_row(*row)
    return table
