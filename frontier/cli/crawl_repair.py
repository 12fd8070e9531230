"""``frontier crawl repair``: the damaged keys of a crawl that no node runs, mended.

``frontier crawl rebuild``: a crawl whose store was lost, from its journals.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from frontier.cli.options import CrawlId, CrawlsOptions, Output
from frontier.cli.output import bar, end_with, say_some


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
    say_some("removed", [f"{one.key}: {one.reason}" for one in done.removed])
    for number, faults in done.partitions.items():
        say_some(f"partition {number}", [f"{one.key}: {one.reason}" for one in faults])
    output.value(done)
    end_with([*done.lost, *done.anew])


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
        help="Which crawl, if the journals hold several of that name.",
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
    skipped = [f"{o.file}: {o.length:,} bytes at {o.offset:,}" for o in outcome.bad]
    say_some("skipped", skipped)
    cut = [f"{one.file}, the last {one.length:,} bytes" for one in outcome.torn]
    say_some("cut off, as their node was killed:", cut)
    output.value(outcome)
    say_some("", outcome.anew)
    if outcome.bad:
        said = f"{len(outcome.bad):,} entries of journals were skipped"
        end_with([f"{said}, and what they say is not restored"])
