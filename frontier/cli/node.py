"""``frontier node``: the nodes of a crawl."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

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
from frontier.cli.output import show, show_json
from frontier.cli.report import node_table

app = typer.Typer(help="The nodes of a crawl.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """The nodes of a crawl."""


@app.command("list")
def list_nodes(
    crawl_id: Annotated[
        str, typer.Option("--crawl", metavar="CRAWL_ID", help="Default: the newest.")
    ] = "",
    redis_url: RedisUrl = "",
    store_dir: StoreDir = STORE_DIR,
    namespace: Namespace = NAMESPACE,
    as_json: Json = False,
) -> None:
    """List the nodes of a crawl: live, silent, or gone."""
    from frontier.inspection.snapshot import newest_crawl, snapshot

    with connected(redis_url, store_dir) as store:
        chosen = crawl_id or newest_crawl(store, namespace)
        seen = snapshot(store, namespace, chosen)
    if as_json:
        nodes = [asdict(node) for node in seen.nodes]
        show_json({"crawl_id": seen.crawl_id, "nodes": nodes})
    else:
        show([node_table(seen)])
