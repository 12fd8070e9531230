"""``frontier crawl rebuild``: a crawl whose store was lost, from its journals."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path  # noqa: TC003 (typer asks for it)
from typing import TYPE_CHECKING, Annotated

import typer

from frontier.cli.exits import ExitCode
from frontier.cli.options import (
    NAMESPACE,
    STORE_DIR,
    Json,
    Namespace,
    RedisUrl,
    StoreDir,
    connected,
)
from frontier.cli.output import complain, say, show, show_json
from frontier.cli.progress import bar
from frontier.cli.report import facts
from frontier.status.validate import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frontier.node.journal.entries import Bad
    from frontier.node.journal.rebuild import Outcome
    from frontier.store.client import BlockingStore

MAX_NAMED = 20
"""Bad entries that are named; the rest are counted."""


def rebuild(
    crawl_id: Annotated[
        str, typer.Option("--crawl", metavar="CRAWL_ID", help="The crawl to restore.")
    ],
    journal: Annotated[
        list[Path],
        typer.Option(metavar="DIR", help="Journals of nodes; give those of all."),
    ],
    warc: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="WARC files of nodes whose journals are lost."
        ),
    ] = None,
    missing: Annotated[
        bool,
        typer.Option(
            "--missing",
            help="The crawl is there: only push what the store lacks of nodes that "
            "are gone. Others may run.",
        ),
    ] = False,
    redis_url: RedisUrl = "",
    store_dir: StoreDir = STORE_DIR,
    namespace: Namespace = NAMESPACE,
    as_json: Json = False,
) -> None:
    """Restore the frontier of a crawl whose store was lost, from its journals.

    What was pushed and not acked is queued, everything counts as seen. Nodes that
    are started afterwards go on with the crawl.
    """
    from frontier.node.journal.rebuild import Rebuild

    if missing:
        if warc is not None:
            raise typer.BadParameter("--warc does not go with --missing")
        with connected(redis_url, store_dir) as store:
            _push_missing(store, namespace, crawl_id, journal, as_json=as_json)
        return
    with connected(redis_url, store_dir, create=True) as store:
        made = Rebuild(store, namespace, crawl_id, journal, warc)
        with bar("journals", 3 * made.outcome.journals) as progress:
            outcome = made.run(progress)
    _tell_skipped(outcome.bad)
    for torn in outcome.torn:
        where = f"{torn.file}: the last {torn.length:,} bytes"
        say(printable(f"{where} are cut off; their node was killed as it wrote them"))
    if as_json:
        show_json(asdict(outcome))
    else:
        show([facts(_rows(outcome))])
    for line in outcome.aside:
        complain(line)
    if outcome.bad:
        complain(
            f"{len(outcome.bad):,} entries of journals were skipped, and what they say "
            "is not restored"
        )
    if outcome.bad or outcome.aside:
        raise typer.Exit(ExitCode.INCOMPLETE)


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
    *,
    as_json: bool,
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
    said = {
        "crawl_id": crawl_id,
        "journals": len(found),
        "pushed": sum(journal.pushed for journal in found),
        "left_out": sum(journal.unsure + len(journal.bad) for journal in found)
        + len(unread),
    }
    if as_json:
        show_json(said)
    else:
        rows = [(key.replace("_", " "), f"{said[key]:,}") for key in list(said)[1:]]
        show([facts([("crawl", crawl_id), *rows])])
    for line in aside:
        complain(line)
    if said["left_out"] or aside:
        raise typer.Exit(ExitCode.INCOMPLETE)


def _rows(outcome: Outcome) -> list[tuple[str, str]]:
    entries = f"{outcome.pushed:,} pushes, {outcome.acked:,} acks"
    return [
        ("crawl", outcome.crawl_id),
        ("journals", f"{outcome.journals:,} of {outcome.nodes:,} nodes"),
        ("entries", f"{entries}, {len(outcome.bad):,} skipped"),
        ("done", f"{outcome.done:,}, {outcome.stored:,} of them by WARC files alone"),
        ("ready", f"{outcome.ready:,}, and {outcome.held:,} held"),
        ("seen", f"{outcome.seen:,}"),
    ]
