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

from frontier.cli.options import Commands, CrawlOptions, Output
from frontier.cli.output import results, say
from frontier.cli.report import busy_nodes, node_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frontier.status.views import CrawlSnapshot

NodeId = Annotated[str, typer.Argument(metavar="NODE_ID")]
PAUSE = 1.0
"""Seconds between two looks."""

app = Commands("List the nodes of a crawl, or take one out.")


@app.command("list")
def list_nodes(
    options: CrawlOptions,
    output: Output,
    watch: Annotated[
        bool, typer.Option("--watch", help="Repeat every second, until Ctrl-C.")
    ] = False,
) -> None:
    """List the nodes of a crawl: live, leaving, silent, lost or left.

    With --watch and --json it prints one object a line.
    """
    from frontier.status.snapshot import snapshot

    with options.connected() as store:
        chosen = options.crawl_id(store)
        looks = (snapshot(store, options.namespace, chosen) for _ in count())
        if watch:
            _watch(looks, output)
            return
        seen = next(looks)
    output.result(_object(seen), [node_table(seen, ring=True), *busy_nodes(seen)])


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
    from frontier.cluster.membership import remove
    from frontier.settings.config import Config

    with options.connected() as store:
        crawl = options.crawl(store)
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


def _watch(looks: Iterator[CrawlSnapshot], output: Output) -> None:
    """Show each of *looks*, a second apart, until Ctrl-C."""
    console = results()
    with suppress(KeyboardInterrupt):
        if output.as_json or not console.is_terminal:
            for seen in looks:
                text = json.dumps(_object(seen)) if output.as_json else None
                console.print(
                    text or node_table(seen, ring=True), soft_wrap=output.as_json
                )
                console.file.flush()
                time.sleep(PAUSE)
        with Live(console=console, auto_refresh=False) as live:
            for seen in looks:
                live.update(node_table(seen, ring=True), refresh=True)
                time.sleep(PAUSE)
