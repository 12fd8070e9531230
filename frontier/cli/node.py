"""``frontier node``: the nodes of a crawl."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import asdict
from itertools import count
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.live import Live

from frontier.cli.options import Json, Place, with_crawl
from frontier.cli.output import results, say, show, show_json
from frontier.cli.report import busy_nodes, node_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frontier.status.views import CrawlSnapshot

NodeId = Annotated[str, typer.Argument(metavar="NODE_ID")]
PAUSE = 1.0
"""Seconds between two looks."""

app = typer.Typer(help="The nodes of a crawl.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """The nodes of a crawl."""


@app.command("list")
@with_crawl
def list_nodes(
    place: Place,
    watch: Annotated[
        bool, typer.Option("--watch", help="Look again every second, until Ctrl-C.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List the nodes of a crawl: live, leaving, silent, lost, or left.

    With --watch and --json there is one object on each line.
    """
    from frontier.status.snapshot import snapshot

    with place.connected() as store:
        chosen = place.crawl_id(store)
        looks = (snapshot(store, place.namespace, chosen) for _ in count())
        if watch:
            _watch(looks, as_json=as_json)
            return
        seen = next(looks)
    if as_json:
        show_json(_object(seen))
    else:
        show([node_table(seen, ring=True), *busy_nodes(seen)])


@app.command()
@with_crawl
def drain(
    place: Place,
    node_id: NodeId,
) -> None:
    """Have a node finish what it has started, hand over the rest, and exit."""
    from frontier.cluster.membership import drain

    with place.connected() as store:
        drain(store, place.crawl(store).keys, node_id)
    say(f"{node_id} will stop; frontier node list --watch shows it")


@app.command()
@with_crawl
def remove(
    place: Place,
    node_id: NodeId,
    force: Annotated[
        bool, typer.Option("--force", help="Also if it is alive; it will stop.")
    ] = False,
) -> None:
    """Take out a node that is dead, so that others have its partitions at once."""
    from frontier.cluster.membership import remove
    from frontier.settings.config import Config

    with place.connected() as store:
        crawl = place.crawl(store)
        ended = remove(
            store,
            crawl.keys,
            node_id,
            partitions=crawl.config.partitions,
            ttl=Config().lease_ttl,
            force=force,
        )
    say(f"{node_id} is removed; its {ended:,} partitions are free")


def _object(seen: CrawlSnapshot) -> dict[str, Any]:
    nodes = [asdict(node) for node in seen.nodes]
    return {"crawl_id": seen.crawl_id, "nodes": nodes}


def _watch(looks: Iterator[CrawlSnapshot], *, as_json: bool) -> None:
    """Show each of *looks*, a second apart, until Ctrl-C."""
    console = results()
    with suppress(KeyboardInterrupt):
        if as_json or not console.is_terminal:
            for seen in looks:
                text = json.dumps(_object(seen)) if as_json else None
                console.print(text or node_table(seen, ring=True), soft_wrap=as_json)
                console.file.flush()
                time.sleep(PAUSE)
        with Live(console=console, auto_refresh=False) as live:
            for seen in looks:
                live.update(node_table(seen, ring=True), refresh=True)
                time.sleep(PAUSE)
