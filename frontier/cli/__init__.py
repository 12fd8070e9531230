"""The command line: ``frontier <noun> <verb>``.

A command parses its options, asks one service, prints what it says, and ends
with an `ExitCode`. Nothing here is an API.
"""

from __future__ import annotations

import gc
import io
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_group
from typing_extensions import override

from frontier.cli.dashboard import dashboard
from frontier.cli.demo import demo
from frontier.cli.options import say_version, with_groups
from frontier.cli.output import ExitCode, complain, exit_code_of
from frontier.errors import FrontierError

if TYPE_CHECKING:
    from collections.abc import Iterator

NOUNS = (
    "crawl",
    "url",
    "node",
    "seen",
    "recrawl",
    "feeds",
    "collection",
    "warc",
    "wacz",
    "canon",
    "migrate",
)
"""Each is a module here, whose ``app`` has the commands, in the order of the help."""


GONE = {
    "version": "use --version",
    "store": "the embedded store stops with its last user; of a server, valkey-cli "
    "info tells",
    "metrics": "Prometheus finds the nodes at /targets of frontier dashboard",
    "recrawl plan": "docs/recrawl.md has what schedules cost and gain",
    "canon check": "cdxj-indexer writes an index again from its WARC files",
    "canon compare": "frontier canon explain URL --rules NAME shows one set at work",
    "canon rules": "docs/canonicalization.md lists the rule sets",
    "seen check": "frontier url explain URL says which tiers have it",
}
"""Commands that people may look for, and what there is in their place."""


class _ByName(Mapping[str, Any]):
    """The commands by name. A noun's module is imported when it is first asked for."""

    def __init__(self, made: Mapping[str, Any]) -> None:
        self._made = dict(made)

    @override
    def __getitem__(self, name: str) -> Any:
        if name in NOUNS and name not in self._made:
            group = get_group(import_module(f"frontier.cli.{name}").app)
            group.name = name
            self._made[name] = group
        return self._made[name]

    @override
    def __iter__(self) -> Iterator[str]:
        yield from dict.fromkeys((*self._made, *NOUNS))

    @override
    def __len__(self) -> int:
        return len({*self._made, *NOUNS})


class _Commands(TyperGroup):
    """The commands. Click ends one whose reader has gone, as ``| head``, with 1."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands: Any = _ByName(self.commands)

    @override
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        for words in (args[:1], args[:2]):
            if (name := " ".join(words)) in GONE:
                ctx.fail(f"No such command {name!r}: {GONE[name]}.")
        return super().resolve_command(ctx, args)

    @override
    def list_commands(self, ctx: Any) -> list[str]:
        return [*self.commands]

    @override
    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            _discard_output()
            raise typer.Exit(ExitCode.OK) from None


app = typer.Typer(
    name="frontier",
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(with_groups(demo))
app.command()(with_groups(dashboard))


@app.callback(invoke_without_command=True)
def frontier(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            is_eager=True,
            callback=say_version,
            help="Print the version and exit.",
        ),
    ] = False,
) -> None:
    """A distributed crawl frontier for Scrapy: many nodes, one crawl, one archive."""


def main() -> None:
    """Run the command in ``sys.argv``; an error of ours is one line on stderr.

    So is one of the system about a file. What a stream cannot encode is escaped.
    """
    gc.freeze()  # what is imported stays: nobody looks for garbage in it any more
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.encoding != "utf-8":
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except FrontierError as error:
        complain(str(error))
        sys.exit(exit_code_of(error))
    except UnicodeEncodeError as error:  # a name that the system took as bytes
        complain(f"{error.object[:200]!r} is not UTF-8")
        sys.exit(ExitCode.USAGE)
    except OSError as error:
        _discard_output()
        if isinstance(error, BrokenPipeError):  # `| head` has read enough
            sys.exit(ExitCode.OK)
        where = error.filename or "the output"
        complain(f"{where}: {error.strerror or error}")
        sys.exit(ExitCode.UNWRITABLE)


def _discard_output() -> None:
    """Else Python tries to write what is left, and reports that as well."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
