"""What the options of a command are declared with, and the store they lead to.

A command is a function from one dataclass of options to what it has to say. The help
lists the options of the class itself before those of its bases.
"""

from __future__ import annotations

import functools
import inspect
import sys
from contextlib import contextmanager
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer
from typer.models import ArgumentInfo
from typing_extensions import dataclass_transform, override

from frontier.cli.output import show_result
from frontier.errors import ConfigurationError, NoStore
from frontier.store.keys import CrawlKeys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from frontier.seen.seen_set import StoredCrawl
    from frontier.store.client import BlockingStore

T = TypeVar("T")
DECLARED = "typer"
"""The key of a field's metadata that has what typer is told of it."""
Command = TypeVar("Command", bound="Callable[[Any], Any]")
STORE = "Store"
"""Under this heading the help lists where the store is; few need to say so."""
STORE_DIR = Path(".frontier")
WARC_DIR = Path("warcs")
NAMESPACE = "frontier"
CRAWL_ID = "CRAWL_ID"


@dataclass_transform(kw_only_default=True, eq_default=False)
def options(cls: type[T]) -> type[T]:
    """Make *cls* a dataclass of options: with what is needed of one, as many are made.

    Each method that a dataclass has costs every command a part of its start.
    """
    return dataclass(kw_only=True, eq=False, repr=False)(cls)


def option(
    default: Any, metavar: str | None, about: str, *names: str, **more: Any
) -> Any:
    """A field that is an option; it has to be given if *default* is ``...``."""
    return _declared(typer.Option(*names, metavar=metavar, help=about, **more), default)


def flag(about: str, *names: str) -> Any:
    """A field that is an option without a value, ``--NAME`` if it has no *names*."""
    return option(False, None, about, *names)


def argument(metavar: str, about: str | None = None, default: Any = ...) -> Any:
    """A field that is an argument; it has to be given if *default* is ``...``."""
    made = typer.Argument(metavar=metavar, help=about, show_default=False)
    return _declared(made, default)


def _declared(made: Any, default: Any) -> Any:
    default = MISSING if default is ... else default
    return field(default=default, metadata={DECLARED: made})


@options
class Output:
    """How a command prints its result."""

    as_json: bool = flag("Print one JSON object instead of text.", "--json")


@options
class Consent(Output):
    """Whether a command that takes something away may do so."""

    yes: bool = flag("Do it without asking.")


def confirm(given: Consent, plan: Any, question: str, refusal: str) -> None:
    """Return if *plan* is wanted: by ``--yes``, or by an answer on a terminal.

    Raises:
        ConfigurationError: It is not; the plan was printed, and *refusal* says what
            to add.
    """
    if given.yes:
        return
    show_result(plan, as_json=given.as_json)
    is_asked = sys.stdin.isatty() and sys.stderr.isatty() and not given.as_json
    if not (is_asked and typer.confirm(question, err=True)):
        raise ConfigurationError(refusal)


@options
class Scrapy:
    """Settings of a Scrapy project."""

    setting: list[str] = option(
        (), "NAME=VALUE", "A Scrapy setting; may be repeated.", "-s", "--set"
    )


@options
class Overwriting:
    """Whether a file may be overwritten."""

    force: bool = flag("Overwrite the file if it exists.")


@options
class Archive:
    """Where WARC files are."""

    warc_dir: Path = option(WARC_DIR, "DIR", "Where the WARC files are.")


@options
class StoreOptions:
    """Which store a command looks at."""

    redis_url: str = option(
        "",
        "URL",
        "Use this server instead of the embedded store.",
        "--redis-url",
        "--redis",
        envvar="REDIS_URL",
        rich_help_panel=STORE,
    )
    """A server; empty for the embedded store."""
    store_dir: Path = option(
        STORE_DIR,
        "DIR",
        "Directory of the embedded store.",
        envvar="FRONTIER_STORE_DIR",
        rich_help_panel=STORE,
    )

    @contextmanager
    def connected(self, *, create: bool = False) -> Iterator[BlockingStore]:
        """The store; see `connected`."""
        with connected(self.redis_url, self.store_dir, create=create) as store:
            yield store


@options
class CrawlsOptions(StoreOptions):
    """The same, and the prefix of the crawls' keys there."""

    namespace: str = option(
        NAMESPACE,
        "NAME",
        "Prefix of the crawls' keys in the store.",
        envvar="FRONTIER_NAMESPACE",
        rich_help_panel=STORE,
    )


@options
class OneCrawl(CrawlsOptions):
    """The same, and one crawl there: a command that changes it has to be told which."""

    crawl: str = option(..., CRAWL_ID, "The crawl.", "--crawl")


@options
class CrawlOptions(CrawlsOptions):
    """The same, and one crawl there, by default the newest."""

    crawl: str = option("", CRAWL_ID, "The crawl (default: the newest).", "--crawl")
    """What `--crawl` said."""

    def crawl_id(self, store: BlockingStore) -> str:
        """The id that was given, or that of the newest crawl.

        Raises:
            UnknownCrawl: There is no crawl.
        """
        from frontier.status.snapshot import newest_crawl

        return self.crawl or newest_crawl(store, self.namespace)

    def keys(self, store: BlockingStore) -> CrawlKeys:
        """The keys of that crawl.

        Raises:
            UnknownCrawl: There is no crawl.
        """
        return CrawlKeys(self.namespace, self.crawl_id(store))

    def stored(self, store: BlockingStore) -> StoredCrawl:
        """That crawl, read.

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


Version = Annotated[
    bool,
    typer.Option(
        "--version",
        is_eager=True,
        callback=say_version,
        hidden=True,
        help="Print the version and exit.",
    ),
]
"""The type of a parameter by which each command has `--version`; no help lists it."""


class Commands(typer.Typer):
    """The commands of one noun."""

    def __init__(self, about: str) -> None:
        super().__init__(help=about, no_args_is_help=True, callback=_of_a_noun)

    def in_order(self, *names: str) -> None:
        """List the commands in the order of *names*, which has all: that of use.

        Raises:
            ValueError: It lacks one.
        """
        self.registered_commands.sort(key=lambda one: names.index(_name_of(one)))

    @override
    def command(
        self, name: str | None = None, *, examples: Sequence[str] = (), **more: Any
    ) -> Callable[[Command], Command]:
        """Add the decorated function, as *name* or its own.

        The help ends with *examples*, each what follows ``frontier``.
        """
        if examples:
            lines = [f"frontier {each}" for each in examples]
            more["epilog"] = "\n\n".join(["Examples:", *lines])

        def declare(command: Command) -> Command:
            text = inspect.getdoc(command) or ""
            # Lines of a docstring are as long as the code's, not as the terminal's.
            about = "\n\n".join(" ".join(p.split()) for p in text.split("\n\n"))
            super(Commands, self).command(name, help=about, **more)(
                with_options(command)
            )
            return command

        return declare


def alone(command: Callable[[Any], Any]) -> typer.Typer:
    """A command that has no noun."""
    app = typer.Typer(add_completion=False)
    app.command()(with_options(command))
    return app


def _of_a_noun(version_: Version = False) -> None:
    """What a noun takes before its verb."""


def _name_of(command: Any) -> str:
    return str(command.name or command.callback.__name__)


def with_options(command: Callable[[Any], Any]) -> Callable[..., None]:
    """*command*, which takes each of its options by itself, and `--version`.

    What it returns is printed, and says how it ends.
    """
    signature = inspect.signature(command, eval_str=True)
    (group,) = (each.annotation for each in signature.parameters.values())
    takes_crawl, kinds = _takes_crawl(group), get_type_hints(group)
    each = [
        _parameter(one, kinds[one.name], takes_crawl=takes_crawl)
        for one in _own_first(group)
    ]
    each += [_bare("version_", Version, False), _bare(CONTEXT, typer.Context)]
    needs_crawl = any(o.name == "crawl" and o.default is MISSING for o in fields(group))
    if takes_crawl:
        each.append(_bare(POSITIONAL, _CrawlArgument, ""))

    @functools.wraps(command)
    def run(**given: Any) -> None:
        given.pop("version_")
        if takes_crawl:
            named = given["crawl"], given.pop(POSITIONAL)
            given["crawl"] = _one_crawl(*named, is_needed=needs_crawl)
        _heed_store_dir(given, given.pop(CONTEXT))
        made = group(**given)
        show_result(command(made), as_json=getattr(made, "as_json", False))

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
        metavar=CRAWL_ID, show_default=False, help="The crawl, as --crawl names it."
    ),
]


def _own_first(group: type) -> list[Field[Any]]:
    """The fields of *group*: its own, and then those of its bases."""
    order = [name for cls in group.__mro__ for name in inspect.get_annotations(cls)]
    return sorted(fields(group), key=lambda one: order.index(one.name))


def _parameter(one: Field[Any], kind: Any, *, takes_crawl: bool) -> inspect.Parameter:
    made = one.metadata[DECLARED]
    is_flag = one.default is False and made.default is ...
    if is_flag:  # typer would add a --no-NAME
        made.default = f"--{one.name.replace('_', '-')}"
    default = inspect.Parameter.empty if one.default is MISSING else one.default
    if one.name == "crawl" and takes_crawl:
        default = ""
    return _bare(one.name, Annotated[kind, made], default)


def _bare(
    name: str, kind: Any, default: Any = inspect.Parameter.empty
) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind
    )


def _takes_crawl(group: type) -> bool:
    """Whether a crawl's id may stand by itself: no other argument does."""
    made = {each.name: each.metadata[DECLARED] for each in fields(group)}
    if any(isinstance(each, ArgumentInfo) for each in made.values()):
        return False
    # In an annotation, typer has the first name where a default would be.
    return "crawl" in made and made["crawl"].default == "--crawl"


def _one_crawl(option: str, argument: str, *, is_needed: bool) -> str:
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
