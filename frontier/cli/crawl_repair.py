"""``frontier crawl repair``: the damaged keys of a crawl that no node runs, mended.

``frontier crawl rebuild``: a crawl whose store was lost, from its journals.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from frontier.cli.options import CrawlId, CrawlsOptions, Output
from frontier.cli.output import MAX_NAMED, bar, end_with, say
from frontier.cli.report import facts
from frontier.status.validate import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from frontier.cli.report import Rows
    from frontier.node.journal.entries import Bad
    from frontier.node.journal.rebuild import Outcome
    from frontier.node.repair import Repaired


def repair(output: Output, options: CrawlsOptions, crawl_id: CrawlId) -> None:
    """Mend the damaged keys of a crawl that no node runs.

    Removes keys of a type that the frontier never writes, and entries that cannot be
    read; names what is lost; counts all queues again.
    """
    from frontier.node.repair import Repair

    with options.connected() as store:
        made = Repair(store, options.namespace, crawl_id)
        with bar("partitions", made.partitions) as progress:
            done = made.run(progress)
    if not output.as_json:
        for line in _removed(done):
            say(line)
    output.result(asdict(done), [facts(_repaired_rows(done))])
    end_with([*done.lost, *done.anew])


def _removed(done: Repaired) -> Iterator[str]:
    for fault in done.removed[:MAX_NAMED]:
        yield printable(f"removed {fault.key}: {fault.reason}")
    if len(done.removed) > MAX_NAMED:
        yield f"removed {len(done.removed) - MAX_NAMED:,} more"


def _repaired_rows(done: Repaired) -> Rows:
    rows = [
        (f"partition {number}", printable(f"{faults[0].key}: {faults[0].reason}"))
        for number, faults in list(done.partitions.items())[:MAX_NAMED]
    ]
    rows += [
        ("repaired", f"{len(done.partitions):,} partitions"),
        ("ready", f"{done.ready:,}, and {done.reserved:,} reserved"),
        ("waiting", f"{done.waiting:,}"),
    ]
    return rows


Journals = Annotated[
    list[Path],
    typer.Option(
        metavar="DIR",
        help="A directory of journals; repeat it for each.",
    ),
]
Born = Annotated[
    str,
    typer.Option(
        metavar="MARK",
        help="Which crawl, if the journals are of several of that name.",
    ),
]


def rebuild(
    output: Output,
    options: CrawlsOptions,
    crawl_id: CrawlId,
    journal: Journals,
    born: Born = "",
) -> None:
    """Restore a crawl from its nodes' journals after its store was lost.

    Queues what was pushed and not acked; everything counts as seen. Nodes that are
    started afterwards go on with the crawl.
    """
    from frontier.node.journal.rebuild import Rebuild

    with options.connected(create=True) as store:
        made = Rebuild(store, options.namespace, crawl_id, journal, born)
        with bar("journals", 3 * made.outcome.journals) as progress:
            outcome = made.run(progress)
    _tell(outcome, output)


def _tell(outcome: Outcome, output: Output) -> None:
    _tell_skipped(outcome.bad)
    for torn in outcome.torn:
        where = f"{torn.file}: the last {torn.length:,} bytes"
        say(printable(f"{where} are cut off; their node was killed as it wrote them"))
    output.result(asdict(outcome), [facts(_rows(outcome))])
    for line in outcome.anew:
        say(printable(line))
    if outcome.bad:
        skipped = f"{len(outcome.bad):,} entries of journals were skipped"
        end_with([f"{skipped}, and what they say is not restored"])


def _tell_skipped(every: Sequence[Bad]) -> None:
    for bad in every[:MAX_NAMED]:
        where = f"{bad.file}: {bad.length:,} bytes at {bad.offset:,}"
        say(printable(f"skipped {where}: {bad.reason}"))
    if len(every) > MAX_NAMED:
        say(f"skipped {len(every) - MAX_NAMED:,} more")


def _rows(outcome: Outcome) -> Rows:
    entries = f"{outcome.pushed:,} pushes, {outcome.acked:,} acks"
    return [
        ("crawl", f"{outcome.crawl_id}, born {outcome.born}"),
        ("journals", f"{outcome.journals:,} of {outcome.nodes:,} nodes"),
        ("entries", f"{entries}, {len(outcome.bad):,} skipped"),
        ("done", f"{outcome.done:,}"),
        ("ready", f"{outcome.ready:,}"),
        ("waiting", f"{outcome.waiting:,}"),
        ("seen", f"{outcome.seen:,}"),
    ]
