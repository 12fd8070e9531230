"""The options that several commands share, and the connection they lead to."""

from __future__ import annotations

import functools
import inspect
import sys
from contextlib import contextmanager
from dataclasses import MISSING, asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer
from typer.models import ArgumentInfo, OptionInfo

from frontier.cli.output import facts, rows_of, show, show_json
from frontier.errors import ConfigurationError, NoStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rich.console import RenderableType

    from frontier.seen.seen_set import StoredCrawl
    from frontier.store.client import BlockingStore

Command = TypeVar("Command", bound="Callable[..., None]")
STORE = "Store"
"""Under this heading the help lists where the store is; few need to say so."""

RedisUrl = Annotated[
    str,
    typer.Option(
        "--redis-url",
        "--redis",
        envvar="REDIS_URL",
        metavar="URL",
        rich_help_panel=STORE,
        help="Use this server instead of the embedded store.",
    ),
]
StoreDir = Annotated[
    Path,
    typer.Option(
        "--store-dir",
        envvar="FRONTIER_STORE_DIR",
        metavar="DIR",
        rich_help_panel=STORE,
        help="Directory of the embedded store.",
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
        rich_help_panel=STORE,
        help="Prefix of the crawls' keys in the store.",
    ),
]
Crawl = Annotated[
    str,
    typer.Option(
        "--crawl", metavar="CRAWL_ID", help="The crawl (default: the newest)."
    ),
]
CrawlId = Annotated[str, typer.Option("--crawl", metavar="CRAWL_ID", help="The crawl.")]
"""Of a command that changes one crawl: it has to be named."""
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object instead of text.")
]
Force = Annotated[
    bool, typer.Option("--force", help="Overwrite the file if it exists.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Do it without asking.")]
ScrapySettings = Annotated[
    list[str] | None,
    typer.Option(
        "-s",
        "--set",
        metavar="NAME=VALUE",
        help="A Scrapy setting; may be repeated.",
    ),
]
Compat = Annotated[
    str,
    typer.Option(
        metavar="TOOL",
        help="browsertrix: use index 0 for every WACZ, and its spelling.",
    ),
]
Root = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Directory that paths may not leave (default: the manifest's).",
    ),
]

STORE_DIR = Path(".frontier")
WARC_DIR = Path("warcs")
NAMESPACE = "frontier"


@dataclass(frozen=True, slots=True)
class Output:
    """How a command prints its result."""

    as_json: Json = False

    def result(self, said: dict[str, Any], text: Iterable[RenderableType]) -> None:
        """Print *said* as one JSON object, or else *text*."""
        if self.as_json:
            show_json(said)
        else:
            show(text)

    def rows(self, said: dict[str, Any]) -> None:
        """Print *said* as one JSON object, or else a row for each of it."""
        self.result(said, [facts(rows_of(said))])

    def value(self, value: Any) -> None:
        """Print the dataclass *value*: all of it as JSON, or a row for each number."""
        said = asdict(value)
        plain = {n: one for n, one in said.items() if isinstance(one, str | int)}
        self.result(said, [facts(rows_of(plain))])

    def require_consent(
        self, plan: dict[str, Any], question: str, refusal: str, *, yes: bool
    ) -> None:
        """Return if *plan* is wanted: by ``--yes``, or by an answer on a terminal.

        Raises:
            ConfigurationError: It is not; the plan was printed, and *refusal* says
                what to add.
        """
        if yes:
            return
        self.rows(plan)
        is_asked = sys.stdin.isatty() and sys.stderr.isatty() and not self.as_json
        if is_asked and typer.confirm(question, err=True):
            return
        raise ConfigurationError(refusal)


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """Which store a command looks at."""

    redis_url: RedisUrl = ""
    """A server; empty for the embedded store."""
    store_dir: StoreDir = STORE_DIR

    @contextmanager
    def connected(self, *, create: bool = False) -> Iterator[BlockingStore]:
        """The store; see `connected`."""
        with connected(self.redis_url, self.store_dir, create=create) as store:
            yield store


@dataclass(frozen=True, slots=True)
class CrawlsOptions(StoreOptions):
    """The same, and the prefix of the crawls' keys there."""

    namespace: Namespace = NAMESPACE


@dataclass(frozen=True, slots=True)
class CrawlOptions(CrawlsOptions):
    """The same, and one crawl there, by default the newest."""

    given: Crawl = ""
    """What `--crawl` said."""

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


def say_version(asked: bool) -> None:
    """Print the version and end, if that was *asked* for."""
    if asked:
        from importlib.metadata import version

        print(f"frontier {version('frontier-crawl')}")
        raise typer.Exit


OWN_VERSION = "version_"
"""The parameter by which each command has `--version`; its help does not list it."""


def _of_a_noun(
    version_: Annotated[
        bool,
        typer.Option(
            "--version",
            is_eager=True,
            callback=say_version,
            hidden=True,
            help="Print the version and exit.",
        ),
    ] = False,
) -> None:
    """What a noun takes before its verb."""


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """*command*, which takes each option of its groups by itself, and `--version`."""
    own = inspect.signature(command, eval_str=True).parameters
    groups: dict[str, Any] = {
        name: parameter.annotation
        for name, parameter in own.items()
        if is_dataclass(parameter.annotation)
    }
    kind = inspect.Parameter.KEYWORD_ONLY
    each = [own[name].replace(kind=kind) for name in own if name not in groups]
    for group in groups.values():
        types = get_type_hints(group, include_extras=True)
        each += [
            inspect.Parameter(
                field.name,
                kind,
                default=inspect.Parameter.empty
                if field.default is MISSING
                else field.default,
                annotation=types[field.name],
            )
            for field in fields(group)
        ]

    each.append(inspect.signature(_of_a_noun, eval_str=True).parameters[OWN_VERSION])
    each[-1] = each[-1].replace(kind=kind)
    # typer fills in one parameter of this type only.
    held = next((one.name for one in each if one.annotation is typer.Context), None)
    if held is None:
        each.append(inspect.Parameter(CONTEXT, kind, annotation=typer.Context))
    crawl = _crawl_option(each)
    is_needed = False
    if crawl is not None:
        is_needed = each[crawl].default is inspect.Parameter.empty
        each[crawl] = each[crawl].replace(default="")
        each.append(
            inspect.Parameter(POSITIONAL, kind, default="", annotation=_CrawlArgument)
        )

    @functools.wraps(command)
    def run(**given: Any) -> None:
        given.pop(OWN_VERSION)
        if crawl is not None:
            name = each[crawl].name
            given[name] = _one_crawl(given[name], given.pop(POSITIONAL), is_needed)
        _heed_store_dir(given, given[held] if held else given.pop(CONTEXT))
        for name, group in groups.items():
            given[name] = group(
                **{one.name: given.pop(one.name) for one in fields(group)}
            )
        command(**given)

    run.__signature__ = inspect.Signature(each)  # type: ignore[attr-defined]
    run.__annotations__ = {}  # the signature has them
    return run


CONTEXT = "context_"
"""The parameter by which a command knows what stood on the command line."""
POSITIONAL = "crawl_argument"
"""The parameter that takes a crawl's id without ``--crawl``."""
_CrawlArgument = Annotated[
    str,
    typer.Argument(
        metavar="CRAWL_ID", show_default=False, help="The crawl, as --crawl names it."
    ),
]


def _crawl_option(each: Sequence[inspect.Parameter]) -> int | None:
    """Where ``--crawl`` is in *each*; `None` if another argument stands by itself."""
    found = None
    for at, parameter in enumerate(each):
        for about in getattr(parameter.annotation, "__metadata__", ()):
            if isinstance(about, ArgumentInfo):
                return None
            # In an annotation, typer has the first name where a default would be.
            if isinstance(about, OptionInfo) and about.default == "--crawl":
                found = at
    return found


def _one_crawl(option: str, argument: str, is_needed: bool) -> str:
    """The crawl that either of both names.

    Raises:
        BadParameter: Both name one, or none does and one is needed.
    """
    if option and argument:
        raise typer.BadParameter(
            f"Two crawls were named: {argument} and --crawl {option}."
        )
    if is_needed and not (option or argument):
        raise typer.BadParameter("No crawl was named: give CRAWL_ID or --crawl.")
    return option or argument


def _heed_store_dir(given: dict[str, Any], context: typer.Context) -> None:
    """Have ``--store-dir`` on the command line beat ``REDIS_URL`` of the environment.

    Raises:
        BadParameter: The command line names two stores.
    """
    if not {"redis_url", "store_dir"} <= given.keys():
        return

    def is_typed(name: str) -> bool:
        source = context.get_parameter_source(name)
        return source is not None and source.name == "COMMANDLINE"

    if not is_typed("store_dir"):
        return
    if is_typed("redis_url") and given["redis_url"]:
        raise typer.BadParameter(
            "--redis-url and --store-dir name two stores; give only one."
        )
    given["redis_url"] = ""


def is_made(store_dir: Path) -> bool:
    """Whether there is an embedded store in *store_dir*, running or not."""
    return (store_dir / "store").is_dir()


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
    if not create and not is_made(store_dir):
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
