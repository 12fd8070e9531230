"""What commands print: results on stdout, everything else on stderr.

Nothing that a terminal obeys gets through from a name, a URL or another's message.

How a command ends: one exit code for each thing that a caller may act on.
"""

from __future__ import annotations

import json
import sys
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from frontier.errors import (
    BadWacz,
    BadWarc,
    CollectionInUse,
    CommitBegun,
    ConfigurationError,
    CrawlClosed,
    CrawlInUse,
    CrawlOpen,
    DirectoryInUse,
    FileTaken,
    FrontierError,
    FrontierRemoved,
    NodeLives,
    NotUncommitted,
    StoreError,
    UnknownCollection,
    UnknownCrawl,
    UnknownNode,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType


class ExitCode(IntEnum):
    """What the exit codes of ``frontier`` mean."""

    OK = 0
    """It was done."""
    CRAWL_FAILED = 1
    """A node failed, or the demo's crawl lost a URL or fetched one twice."""
    USAGE = 2
    """An option, a setting or a seed list is wrong; nothing was started."""
    STORE_UNAVAILABLE = 3
    """There is no store, or it does not answer, or it refuses."""
    NOT_FOUND = 4
    """The store does not have what was asked for."""
    IN_USE = 5
    """It was not stopped, removed or worked on, because it is in use."""
    INCOMPLETE = 6
    """Some of what was given could not be used, or partitions of the crawl are set
    aside; the rest was."""
    FAULTY = 7
    """What was read or checked has faults, or the rules refuse the URL."""
    UNWRITABLE = 8
    """A file, or the output, could not be read or written; the message names it."""
    INTERRUPTED = 130
    """A signal ended it; the crawl is still open and can be resumed."""


def exit_code_of(error: FrontierError) -> ExitCode:
    """The code with which a command ends that *error* has ended."""
    if isinstance(error, ConfigurationError | FileTaken):
        return ExitCode.USAGE
    if isinstance(error, BadWarc | BadWacz):
        return ExitCode.FAULTY
    if isinstance(error, StoreError):
        return ExitCode.STORE_UNAVAILABLE
    gone = UnknownCrawl | UnknownNode | CrawlClosed | NotUncommitted | FrontierRemoved
    if isinstance(error, gone | UnknownCollection):
        return ExitCode.NOT_FOUND
    in_use = NodeLives | CollectionInUse | CommitBegun | CrawlOpen | CrawlInUse
    if isinstance(error, in_use | DirectoryInUse):
        return ExitCode.IN_USE
    return ExitCode.CRAWL_FAILED


def results() -> Console:
    """The console for results. Colours and the width of a terminal if it is one."""
    return Console(highlight=False, markup=False, emoji=False)


def messages() -> Console:
    """The console for messages and progress."""
    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def show(renderables: Iterable[RenderableType]) -> None:
    """Print *renderables*; lines of text are not broken, so that paths stay whole."""
    console = results()
    for renderable in renderables:
        if isinstance(renderable, Text):
            renderable.plain = _harmless(renderable.plain)  # as long, so styles stay
        console.print(renderable, soft_wrap=isinstance(renderable, Text))


def show_json(value: dict[str, Any]) -> None:
    """Print *value* as the only thing on stdout."""
    json.dump(value, sys.stdout, indent=2)
    sys.stdout.write("\n")


def say(message: str) -> None:
    """Print *message* on stderr."""
    print(_harmless(message), file=sys.stderr, flush=True)


def complain(message: str) -> None:
    """Print *message* as one line on stderr."""
    say(f"frontier: {' '.join(message.split())}")


def _harmless(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in text)
