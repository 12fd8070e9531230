"""``frontier node``: take a node out of a crawl."""

from __future__ import annotations

from typing import Annotated

import typer

from frontier.cli.options import Commands, CrawlOptions
from frontier.cli.output import say

NodeId = Annotated[str, typer.Argument(metavar="NODE_ID")]

app = Commands("Take a node out of a crawl; crawl status --nodes lists them.")


@app.command()
def drain(
    options: CrawlOptions,
    node_id: NodeId,
) -> None:
    """Tell a node to finish what it has started, hand over the rest, and exit."""
    from frontier.cluster.membership import drain

    with options.connected() as store:
        drain(store, options.crawl(store).keys, node_id)
    say(f"{node_id} will stop; frontier crawl status --nodes shows it")


@app.command()
def remove(
    options: CrawlOptions,
    node_id: NodeId,
    force: Annotated[
        bool,
        typer.Option("--force", help="Remove it even if it is alive; it will stop."),
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
