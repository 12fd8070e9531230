"""``frontier metrics``: where Prometheus finds the nodes."""

from __future__ import annotations

import signal
import socket
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from frontier.cli.options import Commands, CrawlsOptions
from frontier.cli.output import ExitCode, complain, say
from frontier.errors import ConfigurationError, StoreUnavailable
from frontier.files import publish

if TYPE_CHECKING:
    from collections.abc import Callable

    from frontier.metrics.targets import Found

EVERY = 5.0
"""Seconds between two looks at the nodes."""
MODE = 0o644
"""Of the file: Prometheus is another user, mostly."""
NAMED = 5
"""Nodes that are named of those left out."""

OneCrawl = Annotated[
    str,
    typer.Option(
        "--crawl",
        metavar="CRAWL_ID",
        help="Only this crawl (default: all that are open).",
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Write this file, which is replaced, not stdout."
    ),
]
Watch = Annotated[
    bool,
    typer.Option(
        "--watch", help="Write it again when nodes come and go, until Ctrl-C."
    ),
]

app = Commands("Have Prometheus find the nodes.")


@app.command()
def targets(
    options: CrawlsOptions,
    crawl: OneCrawl = "",
    output: Output = None,
    watch: Watch = False,
) -> None:
    """Print where the nodes serve metrics, as a file_sd file of Prometheus.

    Nodes without metrics, or that cannot be reached from this machine, are left out and
    named on stderr.
    """
    from frontier.metrics.targets import find

    if watch and output is None:
        raise ConfigurationError("--watch needs --output FILE")
    machine = socket.gethostname()[:255]
    with options.connected() as store:

        def look() -> Found:
            return find(store, options.namespace, machine, crawl)

        if output is not None and watch:
            _TargetsFile(output).keep(look)
            return
        found = look()
    if output is None:
        sys.stdout.write(found.file_sd())
    else:
        publish(output, found.file_sd().encode(), MODE)
    _name(found.left_out)
    if not found.targets and not found.left_out:
        complain("no node takes part in an open crawl")
    if found.left_out:
        raise typer.Exit(ExitCode.INCOMPLETE)


class _TargetsFile:
    """A file that names the nodes there are, until a signal."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._written = ""
        self._left_out: tuple[str, ...] = ()
        self._silent = False
        self._stopped = threading.Event()

    def keep(self, look: Callable[[], Found]) -> None:
        """Look again and again; while the store does not answer, the file stays."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: self._stopped.set())
        while not self._stopped.is_set():
            try:
                self._write(look())
                self._silent = False
            except StoreUnavailable as error:
                if not self._silent:
                    complain(f"{error}; {self._place} stays as it is")
                self._silent = True
            self._stopped.wait(EVERY)

    def _write(self, found: Found) -> None:
        text = found.file_sd()
        if text != self._written:
            publish(self._place, text.encode(), MODE)
            self._written = text
            say(f"{self._place} has {len(found.targets)} nodes")
        if found.left_out != self._left_out:
            self._left_out = found.left_out
            _name(found.left_out)


def _name(left_out: tuple[str, ...]) -> None:
    for line in left_out[:NAMED]:
        complain(f"left out: {line}")
    if len(left_out) > NAMED:
        complain(f"left out: {len(left_out) - NAMED:,} more")
