"""``frontier collection``: what crawls share, and what other crawls have."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from frontier.cli.exits import ExitCode
from frontier.cli.options import (
    STORE_DIR,
    Json,
    RedisUrl,
    StoreDir,
    connected,
)
from frontier.cli.output import say, show, show_json
from frontier.cli.progress import bar
from frontier.cli.report import facts
from frontier.errors import ConfigurationError

if TYPE_CHECKING:
    from frontier.collection.importing import Imported
    from frontier.collection.sources import Source

app = typer.Typer(
    help="Look after the index of payloads that crawls share.", no_args_is_help=True
)

Collection = Annotated[
    str,
    typer.Option(
        "--collection",
        envvar="FRONTIER_COLLECTION",
        metavar="NAME",
        help="The collection; the default one has no name.",
    ),
]
Compat = Annotated[
    str,
    typer.Option(
        metavar="TOOL",
        help="browsertrix: index 0 for every WACZ, and its spelling throughout.",
    ),
]
Root = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Directory that paths may lead to (default: the manifest's own).",
    ),
]


@app.command("import")
def import_sources(
    targets: Annotated[
        list[str] | None, typer.Argument(metavar="[TARGET]...", show_default=False)
    ] = None,
    crawl_id: Annotated[
        str,
        typer.Option(
            "--crawl",
            metavar="CRAWL_ID",
            help="Of sources that no manifest names a crawl for (default: the path).",
        ),
    ] = "",
    compat: Compat = "",
    root: Root = None,
    verify: Annotated[
        bool, typer.Option(help="Compare local files with their manifest's hash.")
    ] = True,
    collection: Collection = "",
    redis_url: RedisUrl = "",
    store_dir: StoreDir = STORE_DIR,
    as_json: Json = False,
) -> None:
    """Let crawls refer to the payloads of others: a WACZ, WARC, CDX, crawl.log.

    A TARGET is a path or a URL of one, or of a manifest that lists WACZ files.
    What is in the index already is passed over; an import that was cut off goes
    on where it was. Without a TARGET, with what is queued.
    """
    from frontier.collection.importing import Import
    from frontier.store.keys import CollectionKeys

    require_compat(compat)
    with connected(redis_url, store_dir, create=True) as store:
        keys = CollectionKeys(collection)
        run = Import(store, keys, compat=bool(compat), verify=verify, say=say, bar=bar)
        if targets:
            sources, whole = _sources(run, targets, crawl_id, root)
        else:
            sources, whole = run.queued(root or Path.cwd()), False
        done = run.run(sources, removal=whole)
    _show_imported(done, as_json=as_json)
    if not done.complete:
        raise typer.Exit(ExitCode.INCOMPLETE)


def require_compat(compat: str) -> None:
    """Raise unless *compat* is empty or names a tool that is known."""
    if compat not in {"", "browsertrix"}:
        raise ConfigurationError(f"--compat {compat}: only browsertrix is known")


def _sources(
    run: object, targets: list[str], crawl_id: str, root: Path | None
) -> tuple[list[Source], bool]:
    """What *targets* name, and whether they are one manifest, a whole collection."""
    from frontier.collection.importing import Import
    from frontier.collection.opening import read_manifest
    from frontier.collection.sources import Kind, kind_of, sources
    from frontier.errors import SourceBroken

    assert isinstance(run, Import)  # noqa: S101 (for the type checker)
    found: list[Source] = []
    for target in targets:
        try:
            found += sources(
                target, read_manifest, crawl_id=crawl_id, root=root, broken=run.broken
            )
        except SourceBroken as error:
            run.broken(error)
    manifests = [kind_of(target) for target in targets] == [Kind.MANIFEST]
    return found, manifests and not run.done.broken


def _show_imported(done: Imported, *, as_json: bool) -> None:
    if as_json:
        show_json({**asdict(done), "complete": done.complete})
        return
    rows = [
        ("sources imported", f"{done.sources:,}"),
        ("in the index before", f"{done.known:,}"),
        ("left out", f"{len(done.broken):,}"),
        ("originals", f"{done.originals:,}"),
        ("revisits", f"{done.revisits:,}"),
        ("lines skipped", f"{done.wrong_lines:,}"),
    ]
    show([facts(rows)])
