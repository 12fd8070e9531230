"""``frontier crawl repair``: partitions that are set aside, put right."""

from __future__ import annotations

from dataclasses import asdict
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
from frontier.errors import ConfigurationError
from frontier.status.validate import printable

if TYPE_CHECKING:
    from frontier.node.repair import Repaired

MAX_NAMED = 20
"""Partitions, keys or losses that are named; the rest are counted."""


def repair(
    crawl_id: Annotated[str, typer.Argument(metavar="CRAWL_ID")],
    partition: Annotated[
        list[int] | None,
        typer.Option(metavar="N", help="Only this partition; may be given again."),
    ] = None,
    redis_url: RedisUrl = "",
    store_dir: StoreDir = STORE_DIR,
    namespace: Namespace = NAMESPACE,
    as_json: Json = False,
) -> None:
    """Put right the partitions of a crawl that are set aside, whether nodes run or not.

    Their counts are made anew from their lists, and what was held for them is queued.
    Keys of a type that nobody here writes are removed; what is lost with them is told.
    """
    from frontier.node.repair import Repair

    with connected(redis_url, store_dir) as store:
        made = Repair(store, namespace, crawl_id)
        chosen = sorted(set(partition or ()))
        if chosen and not 0 <= chosen[0] <= chosen[-1] < made.partitions:
            raise ConfigurationError(
                f"--partition: {crawl_id} has the partitions 0 to {made.partitions - 1}"
            )
        with bar("partitions", made.partitions) as progress:
            done = made.run(chosen, progress)
    if as_json:
        show_json(asdict(done))
    else:
        _tell(done)
    _complain(done.lost)
    if done.lost:
        raise typer.Exit(ExitCode.INCOMPLETE)


def _tell(done: Repaired) -> None:
    for fault in done.removed[:MAX_NAMED]:
        say(printable(f"removed {fault.key}: {fault.reason}"))
    if len(done.removed) > MAX_NAMED:
        say(f"removed {len(done.removed) - MAX_NAMED:,} more")
    rows = [
        (f"partition {number}", printable(f"{faults[0].key}: {faults[0].reason}"))
        for number, faults in list(done.partitions.items())[:MAX_NAMED]
    ]
    rows += [
        ("repaired", f"{len(done.partitions):,} partitions"),
        ("ready there", f"{done.ready:,}, and {done.reserved:,} reserved"),
        ("queued", f"{done.queued:,} that were held for them"),
    ]
    show([facts(rows)])


def _complain(lost: list[str]) -> None:
    for line in lost[:MAX_NAMED]:
        complain(printable(line))
    if len(lost) > MAX_NAMED:
        complain(f"and {len(lost) - MAX_NAMED:,} more")
