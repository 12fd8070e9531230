"""``frontier node``: the nodes of a crawl."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from frontier.cli.crawl_report import alert_lines, room_table
from frontier.cli.options import Commands, CrawlOptions, Output
from frontier.cli.output import say
from frontier.cli.report import busy_nodes, node_table
from frontier.cli.watch import LiveView, watch

if TYPE_CHECKING:
    from rich.console import RenderableType

    from frontier.status.views import CrawlSnapshot

NodeId = Annotated[str, typer.Argument(metavar="NODE_ID")]
PAUSE = 1.0
"""Seconds between two looks."""

app = Commands("List the nodes of a crawl, or take one out.")


@app.command("list", examples=("node list", "node list --watch"))
def list_nodes(
    options: CrawlOptions,
    output: Output,
    again: Annotated[
        bool, typer.Option("--watch", help="Repeat every second, until Ctrl-C.")
    ] = False,
) -> None:
    """List the nodes of a crawl: live, leaving, silent, lost or left.

    With --watch and --json it prints one object a line.
    """
    from frontier.status.snapshot import snapshot

    with options.connected() as store:
        chosen = options.crawl_id(store)

        def look() -> CrawlSnapshot:
            return snapshot(store, options.namespace, chosen)

        if again:
            view = LiveView(_listed, _listed, _object)
            watch(look, view, as_json=output.as_json, every=PAUSE)
            return
        seen = look()
    output.result(_object(seen), _listed(seen))


def _listed(seen: CrawlSnapshot) -> list[RenderableType]:
    parts: list[RenderableType] = [node_table(seen, ring=True)]
    parts += [*busy_nodes(seen), *alert_lines(seen)]
    table = room_table(seen)
    return [*parts, Text(), table] if table.row_count else parts


@app.command()
def drain(
    options: CrawlOptions,
    node_id: NodeId,
) -> None:
    """Tell a node to finish what it has started, hand over the rest, and exit."""
    from frontier.cluster.membership import drain

    with options.connected() as store:
        drain(store, options.crawl(store).keys, node_id)
    say(f"{node_id} will stop; frontier node list --watch shows it")


@app.command()
def remove(
    options: CrawlOptions,
    node_id: NodeId,
    force: Annotated[
        bool, typer.Option("--force", help="Even if it is alive; it will stop.")
    ] = False,
) -> None:
    """Remove a dead node, so that others take its partitions at once."""
    from frontier.cluster.membership import crawl_ttl, remove

    with options.connected() as store:
        crawl = options.crawl(store)
        ended = remove(
            store,
            crawl.keys,
            node_id,
            partitions=crawl.config.partitions,
            ttl=crawl_ttl(store, crawl.keys),
            force=force,
        )
    say(f"{node_id} is removed; its {ended:,} partitions are free")


def _object(seen: CrawlSnapshot) -> dict[str, Any]:
    nodes = [asdict(node) for node in seen.nodes]
    return {"crawl_id": seen.crawl_id, "nodes": nodes}
