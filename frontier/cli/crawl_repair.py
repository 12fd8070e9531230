"""``frontier crawl repair``: the damaged keys of a crawl that no node runs, mended.

``frontier crawl rebuild``: a crawl whose store was lost, from its journals.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from frontier.cli.command import OneCrawl, Output, option, options
from frontier.cli.output import Shown, bar, say_some


@options
class RepairOptions(Output, OneCrawl):
    """Which crawl is mended."""


def repair(given: RepairOptions) -> Shown:
    """Mend the damaged keys of a crawl that no node runs.

    Removes keys of a type that the frontier never writes, and entries that cannot be
    read; names what is lost; counts all queues again.
    """
    from frontier.node.repair import Repair

    with given.connected() as store:
        made = Repair(store, given.namespace, given.crawl)
        with bar("partitions", made.partitions) as progress:
            done = made.run(progress)
    say_some("removed", [f"{one.key}: {one.reason}" for one in done.removed])
    return Shown(asdict(done), faults=done.lost)


@options
class RebuildOptions(Output, OneCrawl):
    """Which crawl is restored, and from what."""

    journal: list[Path] = option(
        ..., "DIR", "A directory of journals; repeat it for each."
    )
    born: str = option(
        "", "MARK", "Which crawl, if the journals hold several of that name."
    )


def rebuild(given: RebuildOptions) -> Shown:
    """Restore a crawl whose store was lost, from its nodes' journals.

    Queues what was pushed and not acked; everything counts as seen. Start nodes
    afterwards: they go on with the crawl.

    Examples:
        frontier crawl rebuild --crawl news-7 --journal journals
    """
    from frontier.node.journal.rebuild import Rebuild

    with given.connected(create=True) as store:
        made = Rebuild(store, given.namespace, given.crawl, given.journal, given.born)
        with bar("journals", 3 * made.outcome.journals) as progress:
            outcome = made.run(progress)
    skipped = [f"{o.file}: {o.length:,} bytes at {o.offset:,}" for o in outcome.bad]
    say_some("skipped", skipped)
    cut = [f"{one.file}, the last {one.length:,} bytes" for one in outcome.torn]
    say_some("cut off, as their node was killed:", cut)
    say_some("", outcome.anew)
    said = f"{len(outcome.bad):,} entries of journals were skipped"
    lost = [f"{said}, and what they say is not restored"] * bool(outcome.bad)
    return Shown(asdict(outcome), faults=lost)
