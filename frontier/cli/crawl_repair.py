"""``frontier crawl repair``: partitions that are set aside, put right.

``frontier crawl rebuild``: a crawl whose store was lost, from its journals.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from frontier.cli.options import CrawlId, CrawlsOptions, Output
from frontier.cli.output import ExitCode, bar, complain, say
from frontier.cli.report import facts
from frontier.errors import ConfigurationError
from frontier.status.validate import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from frontier.cli.report import Rows
    from frontier.node.journal.entries import Bad
    from frontier.node.journal.rebuild import Outcome
    from frontier.node.repair import Repaired
    from frontier.store.client import BlockingStore


MAX_NAMED = 20
"""Partitions, keys or losses that are named; the rest are counted."""


def repair(
    output: Output,
    options: CrawlsOptions,
    crawl_id: CrawlId,
    partition: Annotated[
        list[int] | None,
        typer.Option(metavar="N", help="Only this partition; may be repeated."),
    ] = None,
) -> None:
    """Repair the partitions that were set aside, whether nodes run or not.

    Counts their lists again, and queues what was held for them. Removes keys of a
    type that the frontier never writes, and names what is lost.
    """
    from frontier.node.repair import Repair

    with options.connected() as store:
        made = Repair(store, options.namespace, crawl_id)
        chosen = sorted(set(partition or ()))
        if chosen and not 0 <= chosen[0] <= chosen[-1] < made.partitions:
            raise ConfigurationError(
                f"--partition: {crawl_id} has the partitions 0 to {made.partitions - 1}"
            )
        with bar("partitions", made.partitions) as progress:
            done = made.run(chosen, progress)
    if not output.as_json:
        for line in _removed(done):
            say(line)
    output.result(asdict(done), [facts(_repaired_rows(done))])
    _complain([*done.lost, *done.anew])
    if done.lost or done.anew:
        raise typer.Exit(ExitCode.INCOMPLETE)


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
        ("ready there", f"{done.ready:,}, and {done.reserved:,} reserved"),
        ("waiting there", f"{done.waiting:,}"),
        ("queued", f"{done.queued:,} that were held for them"),
    ]
    return rows


def _complain(lost: list[str]) -> None:
    for line in lost[:MAX_NAMED]:
        complain(printable(line))
    if len(lost) > MAX_NAMED:
        complain(f"and {len(lost) - MAX_NAMED:,} more")


Journals = Annotated[
    list[Path],
    typer.Option(
        metavar="DIR",
        help="Directory of journals; repeat it until all nodes' are given.",
    ),
]
WarcsWithoutJournal = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="WARC files of nodes whose journals are lost."),
]
Missing = Annotated[
    bool,
    typer.Option(
        "--missing",
        help="The crawl exists: push only what the store lacks of nodes that are "
        "gone. Other nodes may run.",
    ),
]


def rebuild(
    output: Output,
    options: CrawlsOptions,
    crawl_id: CrawlId,
    journal: Journals,
    warc: WarcsWithoutJournal = None,
    missing: Missing = False,
) -> None:
    """Restore a crawl from its nodes' journals after its store was lost.

    Queues what was pushed and not acked; everything counts as seen. Nodes that are
    started afterwards go on with the crawl.
    """
    from frontier.node.journal.rebuild import Rebuild

    if missing:
        if warc is not None:
            raise typer.BadParameter("--warc does not go with --missing")
        with options.connected() as store:
            _push_missing(store, options.namespace, crawl_id, journal, output)
        return
    with options.connected(create=True) as store:
        made = Rebuild(store, options.namespace, crawl_id, journal, warc)
        with bar("journals", 3 * made.outcome.journals) as progress:
            outcome = made.run(progress)
    _tell(outcome, output)
    if outcome.bad or outcome.aside:
        raise typer.Exit(ExitCode.INCOMPLETE)


def _tell(outcome: Outcome, output: Output) -> None:
    _tell_skipped(outcome.bad)
    for torn in outcome.torn:
        where = f"{torn.file}: the last {torn.length:,} bytes"
        say(printable(f"{where} are cut off; their node was killed as it wrote them"))
    output.result(asdict(outcome), [facts(_rows(outcome))])
    for line in outcome.anew:
        say(printable(line))
    for line in outcome.aside:
        complain(line)
    if outcome.bad:
        complain(
            f"{len(outcome.bad):,} entries of journals were skipped, and what they say "
            "is not restored"
        )


def _tell_skipped(every: Sequence[Bad]) -> None:
    for bad in every[:MAX_NAMED]:
        where = f"{bad.file}: {bad.length:,} bytes at {bad.offset:,}"
        say(printable(f"skipped {where}: {bad.reason}"))
    if len(every) > MAX_NAMED:
        say(f"skipped {len(every) - MAX_NAMED:,} more")


def _push_missing(
    store: BlockingStore,
    namespace: str,
    crawl_id: str,
    directories: list[Path],
    output: Output,
) -> None:
    from frontier.node.journal.entries import without_header
    from frontier.node.journal.restoring import restore
    from frontier.seen.seen_set import stored_crawl

    found, aside = restore(store, stored_crawl(store, namespace, crawl_id), directories)
    unread = without_header(directories)
    _tell_skipped(unread)
    for journal in found:
        for line in journal.told():
            say(printable(line))
    said: dict[str, Any] = {
        "crawl_id": crawl_id,
        "journals": len(found),
        "pushed": sum(journal.pushed for journal in found),
        "left_out": sum(journal.unsure + len(journal.bad) for journal in found)
        + len(unread),
    }
    rows = [(key.replace("_", " "), f"{said[key]:,}") for key in list(said)[1:]]
    output.result(said, [facts([("crawl", crawl_id), *rows])])
    for line in aside:
        complain(line)
    if said["left_out"] or aside:
        raise typer.Exit(ExitCode.INCOMPLETE)


def _rows(outcome: Outcome) -> Rows:
    entries = f"{outcome.pushed:,} pushes, {outcome.acked:,} acks"
    return [
        ("crawl", outcome.crawl_id),
        ("journals", f"{outcome.journals:,} of {outcome.nodes:,} nodes"),
        ("entries", f"{entries}, {len(outcome.bad):,} skipped"),
        ("done", f"{outcome.done:,}, {outcome.stored:,} of them by WARC files alone"),
        ("ready", f"{outcome.ready:,}, and {outcome.held:,} held"),
        ("waiting", f"{outcome.waiting:,}"),
        ("seen", f"{outcome.seen:,}"),
    ]
