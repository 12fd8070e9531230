"""The options that several commands share, and the connection they lead to."""

from __future__ import annotations

import functools
import inspect
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from frontier.errors import NoStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from frontier.seen.seen_set import StoredCrawl
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
Crawl = Annotated[
    str, typer.Option("--crawl", metavar="CRAWL_ID", help="Default: the newest.")
]
CrawlId = Annotated[
    str, typer.Option("--crawl", metavar="CRAWL_ID", help="Which crawl.")
]
"""Of a command that changes one crawl: it has to be named."""
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


@dataclass(frozen=True, slots=True)
class Place:
    """The store, and the crawl in it, that a command was asked to look at."""

    redis_url: str = ""
    """A server; empty for the embedded store."""
    store_dir: Path = STORE_DIR
    namespace: str = NAMESPACE
    given: str = ""
    """What `--crawl` said; empty for the newest crawl."""

    @contextmanager
    def connected(self, *, create: bool = False) -> Iterator[BlockingStore]:
        """The store; see `connected`."""
        with connected(self.redis_url, self.store_dir, create=create) as store:
            yield store

    def crawl_id(self, store: BlockingStore) -> str:
        """The id that was given, or that of the newest crawl.

        Raises:
            UnknownCrawl: There is no crawl.
        """
        from frontier.status.snapshot import newest_crawl

        return self.given or newest_crawl(store, self.namespace)

    def crawl(self, store: BlockingStore) -> StoredCrawl:
        """The crawl that was given, or the newest.

        Raises:
            UnknownCrawl: It is not there.
        """
        from frontier.seen.seen_set import stored_crawl

        return stored_crawl(store, self.namespace, self.crawl_id(store))


_STORE = {"redis_url": (RedisUrl, ""), "store_dir": (StoreDir, STORE_DIR)}
_NAMESPACE = {**_STORE, "namespace": (Namespace, NAMESPACE)}
_CRAWL = {"given": (Crawl, ""), **_NAMESPACE}


def with_store(command: Callable[..., None]) -> Callable[..., None]:
    """Give *command*, which takes a `Place`, the options for where the store is."""
    return _with(command, _STORE)


def with_namespace(command: Callable[..., None]) -> Callable[..., None]:
    """The same, and the option for the prefix of the crawls' keys."""
    return _with(command, _NAMESPACE)


def with_crawl(command: Callable[..., None]) -> Callable[..., None]:
    """The same, and the option that names one crawl, or else the newest."""
    return _with(command, _CRAWL)


def _with(
    command: Callable[..., None], shared: Mapping[str, tuple[Any, Any]]
) -> Callable[..., None]:
    @functools.wraps(command)
    def run(**given: Any) -> None:
        place = Place(**{name: given.pop(name) for name in shared})
        command(place=place, **given)

    parameters = dict(inspect.signature(command, eval_str=True).parameters)
    del parameters["place"]
    kind = inspect.Parameter.KEYWORD_ONLY
    both = [each.replace(kind=kind) for each in parameters.values()]
    both += [
        inspect.Parameter(name, kind, default=default, annotation=option)
        for name, (option, default) in shared.items()
    ]
    run.__signature__ = inspect.Signature(both)  # type: ignore[attr-defined]
    run.__annotations__ = {}  # the signature has them
    return run


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
