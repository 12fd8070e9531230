"""The command line: ``frontier <noun> <verb>``.

A command parses its options, asks one service, prints what it says, and ends
with an `ExitCode`. Nothing here is an API.
"""

from __future__ import annotations

import sys

import typer

from frontier.cli.canon import app as canon
from frontier.cli.collection import app as collection
from frontier.cli.crawl import app as crawl
from frontier.cli.demo import demo
from frontier.cli.exits import exit_code_of
from frontier.cli.node import app as node
from frontier.cli.output import complain
from frontier.cli.seen import app as seen
from frontier.cli.store import app as store
from frontier.cli.wacz import app as wacz
from frontier.cli.warc import app as warc
from frontier.errors import FrontierError

app = typer.Typer(
    name="frontier",
    help="A distributed crawl frontier for Scrapy: many nodes, one crawl, one archive.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(demo)
app.add_typer(canon, name="canon")
app.add_typer(collection, name="collection")
app.add_typer(crawl, name="crawl")
app.add_typer(node, name="node")
app.add_typer(seen, name="seen")
app.add_typer(store, name="store")
app.add_typer(warc, name="warc")
app.add_typer(wacz, name="wacz")


def main() -> None:
    """Run the command in ``sys.argv``; an error of ours is one line on stderr."""
    try:
        app()
    except FrontierError as error:
        complain(str(error))
        sys.exit(exit_code_of(error))
