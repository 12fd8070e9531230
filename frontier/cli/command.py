"""What the options of a command are declared with, and the store they lead to.

A command is a function from one dataclass of options to what it has to say. The help
lists the options of the class itself before those of its bases.
"""

from __future__ import annotations

import inspect
import sys
from contextlib import contextmanager
from dataclasses import MISSING, Field, dataclass, field, fields
from importlib import import_module
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    TypeVar,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import click
from typing_extensions import dataclass_transform, override

from frontier.cli.output import show_result
from frontier.errors import ConfigurationError, NoStore
from frontier.store.keys import CrawlKeys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from frontier.seen.seen_set import StoredCrawl
    from frontier.store.client import BlockingStore

T = TypeVar("T")
OPTIONS = "Options"
STORE = "Store"
"""The heading in the help of options that say where the store is; few need them."""
STORE_DIR = Path(".frontier")
WARC_DIR = Path("warcs")
NAMESPACE = "frontier"
ANSWER_TIME = 10.0
"""Seconds that a server has to answer a command, unless its settings give others."""
CRAWL_ID, OPTIONAL_ID = "CRAWL_ID", "[CRAWL_ID]"


@dataclass_transform(kw_only_default=True, eq_default=False)
def options(cls: type[T]) -> type[T]:
    """Make *cls* a dataclass of options, with few methods, as there are many of them.

    Each method of a dataclass makes every command start more slowly.
    """
    return dataclass(kw_only=True, eq=False, repr=False)(cls)


def option(
    default: Any,
    metavar: str | None,
    about: str,
    *names: str,
    within: tuple[float, float | None] | None = None,
    section: str = OPTIONS,
    **more: Any,
) -> Any:
    """A field that is an option; it has to be given if *default* is ``...``.

    A number must be *within* these bounds, inclusive. The help lists the option below
    the heading *section*. *more* is for `click.Option`.
    """
    more |= {"metavar": metavar, "help": about}
    return _field(default, names=names, within=within, section=section, more=more)


def flag(about: str, *names: str) -> Any:
    """A field that is an option without a value, ``--NAME`` if it has no *names*."""
    return option(False, None, about, *names)


def parsed(option: str, parser: str) -> Callable[[str], str]:
    """The type of *option*: what the *parser* of a setting takes.

    Another value is reported in one line.
    """

    def parse(text: str) -> str:
        from frontier.settings import values

        try:
            return str(getattr(values, parser)(text))
        except ValueError as error:
            raise ConfigurationError(f"{option} {text[:200]!r}: {error}") from None

    return parse


COLLECTION = parsed("--collection", "collection")
"""The type of the name of a collection."""


def argument(metavar: str, about: str | None = None, default: Any = ...) -> Any:
    """A field that is an argument; it has to be given if *default* is ``...``.

    The help lists the arguments of a command if it has something to say *about* one.
    """
    return _field(default, names=None, more={"metavar": metavar, "help": about})


def _field(default: Any, **declared: Any) -> Any:
    """A field, with what `_parameter` reads in its metadata."""
    return field(default=MISSING if default is ... else default, metadata=declared)


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
    if not (is_asked and click.confirm(question, err=True)):
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
        section=STORE,
    )
    """A server; empty for the embedded store."""
    store_dir: Path = option(
        STORE_DIR,
        "DIR",
        "Directory of the embedded store.",
        envvar="FRONTIER_STORE_DIR",
        section=STORE,
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
        section=STORE,
        type=parsed("--namespace", "name"),
    )


@options
class OneCrawl(CrawlsOptions):
    """The same, and one crawl there, which must be named: the command changes it."""

    crawl: str = option(..., CRAWL_ID, "The crawl.", "--crawl")


@options
class CrawlOptions(CrawlsOptions):
    """The same, and one crawl there, by default the newest."""

    crawl: str = option("", CRAWL_ID, "The crawl (default: the newest).", "--crawl")
    """The value of ``--crawl``."""

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


@options
class ListOptions(Output, CrawlsOptions):
    """Which store, and how the result is printed."""


@options
class ReportOptions(Output, CrawlOptions):
    """Which crawl, and how the result is printed."""


class Option(click.Option):
    """An option, and the heading below which the help lists it."""

    section = OPTIONS


class Help:
    """The help of a command or a noun: options by section, and examples."""

    examples: Sequence[str] = ()
    """Command lines."""

    def format_options(
        self: Any, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """List the options below their headings, those of `STORE` last."""
        rows: dict[str, list[tuple[str, str]]] = {}
        for each in self.get_params(ctx):
            if isinstance(each, click.Option) and (row := each.get_help_record(ctx)):
                rows.setdefault(getattr(each, "section", OPTIONS), []).append(row)
        for heading in sorted(rows, key=STORE.__eq__):
            with formatter.section(heading):
                formatter.write_dl(rows[heading])
        if isinstance(self, click.Group):
            self.format_commands(ctx, formatter)

    def format_epilog(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        """Show the examples, each on a line of its own."""
        if self.examples:
            with formatter.section("Examples"):
                formatter.write("".join(f"{line}\n" for line in self.examples))


class Command(Help, click.Command):
    """A command."""


class Commands(Help, click.Group):
    """The commands of one noun, in the order of *verbs*: that of use.

    Each is a function, or ``module.name`` of a function or of commands in another
    module here. It is made, and its module imported, when it is asked for.
    """

    def __init__(
        self, about: str, verbs: Mapping[str, Callable[[Any], Any] | str]
    ) -> None:
        super().__init__(help=about, params=[version_option()])
        self.commands = cast("Any", {**verbs})

    @override
    def get_command(self, ctx: click.Context | None, cmd_name: str) -> Any:
        found: Any = self.commands.get(cmd_name)
        if isinstance(found, str):
            module, _, name = found.partition(".")
            found = getattr(import_module(f"frontier.cli.{module}"), name)
        if not isinstance(found, click.Command | None):
            found = command(found, cmd_name)
        return found

    @override
    def list_commands(self, ctx: click.Context | None) -> list[str]:
        return [*self.commands]


def version_option(*, hidden: bool = True) -> click.Option:
    """The option ``--version``, which each command has."""

    def say(context: click.Context, _: click.Parameter, asked: bool) -> None:
        if asked:
            from importlib.metadata import version

            print(f"frontier {version('frontier-crawl')}")
            context.exit()

    return click.Option(
        ["--version"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=say,
        hidden=hidden,
        help="Print the version and exit.",
    )


def command(function: Callable[[Any], Any], name: str) -> Command:
    """The command *name*: *function*, which takes one dataclass of options.

    What it returns is printed, and says how it ends. Its docstring is the help, with
    examples in a section at the end.
    """
    signature = inspect.signature(function, eval_str=True)
    (group,) = (each.annotation for each in signature.parameters.values())
    kinds = get_type_hints(group)
    order = [n for cls in group.__mro__ for n in inspect.get_annotations(cls)]
    every = sorted(fields(group), key=lambda one: order.index(one.name))
    crawl = next((one for one in every if one.name == "crawl"), None)
    # The id may be given without --crawl if the command has no other argument.
    takes_crawl = all(one.metadata["names"] is not None for one in every)
    params: list[click.Parameter] = [
        _parameter(one, kinds[one.name], is_required=one is not crawl) for one in every
    ]
    if crawl is not None and takes_crawl:
        about = "The crawl, as --crawl names it."
        params.append(
            click.Argument(
                [POSITIONAL], metavar=f"[{CRAWL_ID}]", default="", help=about
            )
        )

    def run(**given: Any) -> None:
        _heed_store_dir(given, click.get_current_context())
        if crawl is not None:
            both = [given["crawl"], given.pop(POSITIONAL, "")]
            given["crawl"] = _one_crawl(*both, is_needed=crawl.default is MISSING)
        made = group(**given)
        show_result(function(made), as_json=getattr(made, "as_json", False))

    params.append(version_option())
    text = inspect.getdoc(function) or ""
    about, _, examples = text.partition("\n\nExamples:\n")
    made = Command(name, callback=run, params=params, help=about)
    made.examples = examples.splitlines()
    return made


POSITIONAL = "crawl_argument"
"""The parameter that takes a crawl's id without ``--crawl``."""


def _parameter(one: Field[Any], kind: Any, *, is_required: bool) -> click.Parameter:
    """The parameter of click for the field *one*, of the type *kind*."""
    names, within = one.metadata["names"], one.metadata.get("within")
    given, is_list = dict(one.metadata["more"]), get_origin(kind) is list
    kind = (*get_args(kind), kind)[0]  # of `Path | None`, and of `list[Path]`
    if within:
        kind = {int: click.IntRange, float: click.FloatRange}[kind](*within)
        kind.name = kind.name.removesuffix(" range")  # it is in messages
    given.setdefault("type", click.Path(path_type=Path) if kind is Path else kind)
    if one.default is not MISSING:
        given["default"] = one.default
    elif is_required:
        given["required"] = True
    if names is None:
        if one.default is not MISSING and given["metavar"]:
            given["metavar"] = f"[{given['metavar']}]"
        return click.Argument([one.name], nargs=-1 if is_list else 1, **given)
    dashed = one.name.replace("_", "-")
    if one.default is True:
        names = [f"--{dashed}/--no-{dashed}"]
    given |= {"is_flag": kind is bool, "multiple": is_list, "show_envvar": True}
    given.setdefault("show_default", kind is not bool and bool(one.default))
    made = Option([one.name, *(names or [f"--{dashed}"])], **given)
    made.section = one.metadata["section"]
    return made


def _one_crawl(option: str, argument: str, *, is_needed: bool) -> str:
    """The crawl that one of the two names.

    Raises:
        BadParameter: Both name one, or none does and one is needed.
    """
    if option and argument:
        raise click.BadParameter(
            f"Two crawls were named: {argument} and --crawl {option}."
        )
    if is_needed and not (option or argument):
        raise click.BadParameter("No crawl was named: give CRAWL_ID or --crawl.")
    return option or argument


def _heed_store_dir(given: dict[str, Any], context: click.Context) -> None:
    """Let ``--store-dir``, if it is typed, override the environment's ``REDIS_URL``.

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
        raise click.BadParameter(
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

    settings = {"REDIS_URL": server} if isinstance(server, str) else server
    if given(settings):
        store = BlockingStore.from_settings(settings, ANSWER_TIME)
        try:
            yield store
        finally:
            store.close()
        return
    if not create and not is_made(store_dir):
        raise NoStore(str(store_dir.absolute()))
    from frontier.store.embedded import EmbeddedStore

    embedded = EmbeddedStore.join(store_dir)
    try:
        address = {"REDIS_URL": embedded.url}
        store = BlockingStore.from_settings(address, ANSWER_TIME)
        try:
            yield store
        finally:
            store.close()
    finally:
        embedded.leave()
