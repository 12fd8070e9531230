"""The command line: ``frontier <noun> <verb>``.

A command parses its options, asks one service, prints what it says, and ends
with an `ExitCode`. Nothing here is an API.
"""

from __future__ import annotations

import gc
import io
import os
import sys
from typing import Any

import click
from typing_extensions import override

from frontier.cli.command import Commands, version_option
from frontier.cli.output import (
    ExitCode,
    complain,
    forget_what_was_told,
    say,
    show_refusal,
)
from frontier.errors import FrontierError

NOUNS = (
    "crawl",
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
ALONE = ("demo", "dashboard", "explain")
"""Commands that have no noun, each in a module of its name."""

GONE = {
    "version": "use --version",
    "warc stats": "duckdb counts what is in the Parquet files of warc manifest",
    "run": "use frontier crawl run",
    "store": "the embedded store stops with its last user; of a server, valkey-cli "
    "info tells",
    "metrics": "Prometheus finds the nodes at /targets of frontier dashboard",
    "recrawl status": "use frontier crawl status",
    "recrawl plan": "docs/recrawl.md has what schedules cost and gain",
    "canon check": "cdxj-indexer writes an index again from its WARC files",
    "canon compare": "frontier canon explain URL --rules NAME shows one set at work",
    "canon rules": "docs/urls.md lists the rule sets",
    "seen check": "frontier explain URL says which tiers have it",
    "url": "use frontier explain URL",
    "node list": "use frontier crawl status --nodes",
    "crawl log": "use frontier crawl status --log",
    "crawl close": "use frontier crawl end",
    "crawl cancel": "use frontier crawl end --discard",
    "feeds report": "use frontier feeds status",
}
"""Commands that people may look for, and what replaces them."""


GARBAGE = 50_000
"""New objects after which the collector looks for garbage."""


class _All(Commands):
    """All commands. One whose reader has gone, as with ``| head``, ends with 0."""

    @override
    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        for words in (args[:1], args[:2]):
            if (name := " ".join(words)) in GONE:
                ctx.fail(f"No such command {name!r}: {GONE[name]}.")
        return super().resolve_command(ctx, args)

    @override
    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            _discard_output()
            ctx.exit(ExitCode.OK)


app = _All(
    "A distributed crawl frontier for Scrapy: many nodes, one crawl, one archive.",
    {name: f"{name}.app" for name in (*ALONE, *NOUNS)},
)
app.name = "frontier"
app.context_settings = {"help_option_names": ["-h", "--help"]}
app.params = [version_option(hidden=False)]


def main() -> None:
    """Run the command in ``sys.argv``; an error of ours is one line on stderr.

    So is a system error about a file. What a stream cannot encode is escaped.
    """
    # A short command makes little garbage, and its modules stay to the end: looking
    # through them again and again would be a twentieth of its time.
    gc.set_threshold(GARBAGE)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # it was closed, as by `>&-`
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
    forget_what_was_told()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.encoding != "utf-8":
            stream.reconfigure(errors="backslashreplace")
    code = _run()
    show_refusal(code)
    sys.exit(code)


def _run() -> int:
    try:
        try:
            return int(app(standalone_mode=False) or 0)
        finally:
            sys.stdout.flush()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        say(error.format_message())
        return ExitCode.USAGE
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else app.name
        complain(f"{error.format_message()} ({command} -h)")
        return ExitCode.USAGE
    except click.Abort:
        return ExitCode.INTERRUPTED
    except FrontierError as error:
        complain(str(error))
        return error.code
    except ModuleNotFoundError as error:
        if error.name != "redis.asyncio":
            raise
        complain("the package redis is too old here: pip install 'redis>=6.2'")
        return ExitCode.USAGE
    except UnicodeEncodeError as error:  # a name that the system took as bytes
        complain(f"{error.object[:200]!r} is not UTF-8")
        return ExitCode.USAGE
    except OSError as error:
        _discard_output()
        if isinstance(error, BrokenPipeError):  # `| head` has read enough
            return ExitCode.OK
        where = error.filename or "the output"
        complain(f"{where}: {error.strerror or error}")
        return ExitCode.UNWRITABLE


def _discard_output() -> None:
    """Drop what is not written yet: Python would try again, and report that as well."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
