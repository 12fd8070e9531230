"""The command line: ``frontier <noun> <verb>``.

A command parses its options, asks one service, prints what it says, and ends
with an `ExitCode`. Nothing here is an API.
"""

from __future__ import annotations

import io
import os
import sys
from importlib import metadata
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from frontier.cli.canon import app as canon
from frontier.cli.collection import app as collection
from frontier.cli.crawl import app as crawl
from frontier.cli.demo import demo
from frontier.cli.node import app as node
from frontier.cli.output import ExitCode, complain, exit_code_of
from frontier.cli.seen import app as seen
from frontier.cli.store import app as store
from frontier.cli.wacz import app as wacz
from frontier.cli.warc import app as warc
from frontier.errors import FrontierError


class _Commands(TyperGroup):
    """The commands. Click ends one whose reader has gone, as ``| head``, with 1."""

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
app.command()(demo)
app.add_typer(crawl, name="crawl")
app.add_typer(node, name="node")
app.add_typer(store, name="store")
app.add_typer(seen, name="seen")
app.add_typer(collection, name="collection")
app.add_typer(warc, name="warc")
app.add_typer(wacz, name="wacz")
app.add_typer(canon, name="canon")


@app.callback(invoke_without_command=True)
def frontier(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.")
    ] = False,
) -> None:
    """A distributed crawl frontier for Scrapy: many nodes, one crawl, one archive."""
    if version:
        print(f"frontier {metadata.version('frontier-crawl')}")
        raise typer.Exit


def main() -> None:
    """Run the command in ``sys.argv``; an error of ours is one line on stderr.

    So is one of the system about a file. What a stream cannot encode is escaped.
    """
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
