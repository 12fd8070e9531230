"""The options that several commands share, and the connection they lead to."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from frontier.errors import NoStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from frontier.store.client import BlockingStore

RedisUrl = Annotated[
    str,
    typer.Option(
        "--redis-url",
        "--redis",
        envvar="REDIS_URL",
        metavar="URL",
        help="Use this server instead of the embedded store.",
    ),
]
StoreDir = Annotated[
    Path,
    typer.Option(
        "--store-dir",
        envvar="FRONTIER_STORE_DIR",
        metavar="DIR",
        help="Home of the embedded store.",
    ),
]
WarcDir = Annotated[
    Path,
    typer.Option("--warc-dir", metavar="DIR", help="Where the WARC files are."),
]
Namespace = Annotated[
    str,
    typer.Option(
        "--namespace",
        envvar="FRONTIER_NAMESPACE",
        metavar="NAME",
        help="Prefix of the crawls' keys in the store.",
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object instead of text.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Do it, without asking whether to.")]
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

STORE_DIR = Path(".frontier")
WARC_DIR = Path("warcs")
NAMESPACE = "frontier"


@contextmanager
def connected(
    server: str | Mapping[str, Any], store_dir: Path, *, create: bool = False
) -> Iterator[BlockingStore]:
    """The store that the nodes use; an embedded one runs while this lasts.

    *server* is a URL, or the ``REDIS_*`` settings of a project. With *create* an
    embedded store is made if there is none yet.

    Raises:
        NoStore: There is no embedded store, and none is to be made.
        StoreUnavailable: It cannot be started.
        ConfigurationError: *server* does not name one.
    """
    from frontier.store.address import given
    from frontier.store.client import BlockingStore
    from frontier.store.embedded import EmbeddedStore

    settings = {"REDIS_URL": server} if isinstance(server, str) else server
    if given(settings):
        store = BlockingStore.from_settings(settings)
        try:
            yield store
        finally:
            store.close()
        return
    if not create and not (store_dir / "store").is_dir():
        raise NoStore(str(store_dir.absolute()))
    embedded = EmbeddedStore.join(store_dir)
    try:
        store = BlockingStore.from_settings({"REDIS_URL": embedded.url})
        try:
            yield store
        finally:
            store.close()
    finally:
        embedded.leave()
