"""``frontier crawl rebuild``: a crawl whose store was lost, from its journals."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path  # noqa: TC003 (typer asks for it)
from typing import TYPE_CHECKING, Annotated

import typer

from frontier.cli.options import (
    NAMESPACE,
    STORE_DIR,
    Json,
    Namespace,
    RedisUrl,
    StoreDir,
    connected,
)
from frontier.cli.output import say, show, show_json
from frontier.cli.progress import bar
from frontier.cli.report import facts
from frontier.inspection.untrusted import printable

if TYPE_CHECKING:
    from frontier.rebuild import Outcome

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
    redis_url: RedisUrl = "",
    store_dir: StoreDir = STORE_DIR,
    namespace: Namespace = NAMESPACE,
    as_json: Json = False,
) -> None:
    """Restore the frontier of a crawl whose store was lost, from its journals.

    What was pushed and not acked is queued, everything counts as seen. Nodes that
    are started afterwards go on with the crawl.
    """
    from frontier.rebuild import Rebuild

    with connected(redis_url, store_dir, create=True) as store:
        made = Rebuild(store, namespace, crawl_id, journal, warc)
        with bar("journals", 3 * made.outcome.journals) as progress:
            outcome = made.run(progress)
    for bad in outcome.bad[:MAX_NAMED]:
        where = f"{bad.file}: {bad.length:,} bytes at {bad.offset:,}"
        say(printable(f"skipped {where}: {bad.reason}"))
    if len(outcome.bad) > MAX_NAMED:
        say(f"skipped {len(outcome.bad) - MAX_NAMED:,} more")
    if as_json:
        show_json(asdict(outcome))
    else:
        show([facts(_rows(outcome))])


def _rows(outcome: Outcome) -> list[tuple[str, str]]:
    entries = f"{outcome.pushed:,} pushes, {outcome.acked:,} acks"
    return [
        ("crawl", outcome.crawl_id),
        ("journals", f"{outcome.journals:,} of {outcome.nodes:,} nodes"),
        ("entries", f"{entries}, {len(outcome.bad):,} skipped"),
        ("done", f"{outcome.done:,}, {outcome.stored:,} of them by WARC files alone"),
        ("ready", f"{outcome.ready:,}"),
        ("seen", f"{outcome.seen:,}"),
    ]
