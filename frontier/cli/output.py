"""What commands print: results on stdout, everything else on stderr.

Nothing that a terminal would obey gets through from a name, a URL or another's
message.

Commands end with one exit code for each thing that a caller may act on.

Live lines show a running crawl or a long command, if stderr is a terminal.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typing_extensions import override

from frontier.model import frozen
from frontier.status.validate import printable

if TYPE_CHECKING:
    from rich.console import RenderableType


Rows = list[tuple[str, str]]
UNBROKEN = 100_000
"""Columns in which no table breaks a line."""


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
    """Some of what was given could not be used; the rest was."""
    FAULTY = 7
    """What was read or checked, such as a key of the store, has faults, or the rules
    refuse the URL. A node that met a damaged key ends with it, too."""
    UNWRITABLE = 8
    """A file, or the output, could not be read or written; the message names it."""
    INTERRUPTED = 130
    """A signal ended it; the crawl is still open and can be resumed."""


class _Results(Console):
    @override
    def on_broken_pipe(self) -> None:
        """Let whoever runs the command know: Rich would end the process with 1."""
        raise BrokenPipeError


def results() -> Console:
    """The console for results; if it is a terminal, with its colours and width."""
    return _Results(highlight=False, markup=False, emoji=False)


def messages() -> Console:
    """The console for messages and progress."""
    return Console(stderr=True, highlight=False, markup=False, emoji=False)


@frozen
class Shown:
    """What a command has to say, and how it ends."""

    said: Mapping[str, Any]
    """The object of ``--json``."""
    text: Iterable[RenderableType] | Mapping[str, Any] | None = None
    """The same for people: lines and tables, or a row for each item of a mapping; if
    `None`, of *said*."""
    notes: Sequence[str] = ()
    """What a person should know in addition, on stderr."""
    faults: Sequence[str] = ()
    """Complaints; if there are any, the command does not end with `ExitCode.OK`."""
    code: ExitCode = ExitCode.OK
    """How it ends; `ExitCode.INCOMPLETE` if there are *faults* and it is OK."""


def show_result(found: Any, *, as_json: bool) -> None:
    """Print what a command has *found*, `Shown` or facts alone; end as it says.

    Raises:
        Exit: It does not end with `ExitCode.OK`.
    """
    if found is None:
        return
    if not isinstance(found, Shown):
        found = Shown(found if isinstance(found, dict) else asdict(found))
    if as_json:
        show_json(found.said)
    else:
        text = found.said if found.text is None else found.text
        show([facts(rows_of(text))] if isinstance(text, Mapping) else text)
    for line in found.notes:
        say(line)
    end_with(found.faults, found.code or ExitCode.INCOMPLETE)
    if found.code:
        raise click.exceptions.Exit(found.code)


def show(renderables: Iterable[RenderableType]) -> None:
    """Print *renderables*; lines of text are not broken, so that paths stay whole.

    Nor are names in tables, except on a terminal: they are searched, or cut at spaces.
    """
    console, wide = results(), results()
    if not wide.is_terminal:
        wide.width = UNBROKEN
    for each in renderables:
        renderable = Text(each) if isinstance(each, str) else each
        if isinstance(renderable, Text):
            renderable.plain = _harmless(renderable.plain)  # same length: styles stay
        is_list = isinstance(renderable, Table) and renderable.show_header
        chosen = wide if is_list else console
        chosen.print(renderable, soft_wrap=isinstance(renderable, Text))


def table(*headings: str, rows: Iterable[Sequence[str]]) -> Table:
    """A row for each of *rows*.

    A column whose heading begins with > has numbers, which are not broken.
    """
    gap = 2 if len(headings) < 8 else 1  # the table has to fit 80 columns
    made = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0))
    for heading in headings:
        if heading.startswith(">"):
            made.add_column(heading[1:], justify="right", no_wrap=True)
        else:
            made.add_column(heading, overflow="fold")
    for row in rows:
        made.add_row(*map(Text, row))
    return made


def facts(rows: Rows) -> Table:
    """Names, and what is said about each."""
    made = table("", "", rows=rows)
    made.show_header = False
    made.columns[0].no_wrap = True
    return made


def rows_of(said: Mapping[str, Any]) -> Rows:
    """Names and values of *said*, for people; the length for a list."""
    names = {"crawl_id": "crawl", "urls": "URLs"}
    return [
        (names.get(name, name.replace("_", " ")), _shown(value))
        for name, value in said.items()
        if value is not None
    ]


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple | dict):
        value = len(value)
    return f"{value:,}" if isinstance(value, int) else printable(str(value))


class _Told:
    """What this command has said so far, for readers of its JSON alone."""

    complaint = ""
    has_object = False


def forget_what_was_told() -> None:
    """Forget what was said before: a command begins."""
    _Told.complaint, _Told.has_object = "", False


def begin_object() -> None:
    """Note that an object is printed, perhaps bit by bit, as it may be long."""
    _Told.has_object = True


def show_json(value: dict[str, Any], indent: int | None = 2) -> None:
    """Print *value* as the only thing on stdout, or as a line of it."""
    begin_object()
    json.dump(value, sys.stdout, indent=indent)
    sys.stdout.write("\n")


def show_refusal(code: int) -> None:
    """With ``--json``, say as an object why the command ends with *code*.

    Say nothing if it succeeded, or has printed an object already.
    """
    if code and "--json" in sys.argv and not _Told.has_object:
        show_json({"error": _Told.complaint, "exit_code": int(code)})


def say(message: str) -> None:
    """Print *message* on stderr."""
    print(_harmless(message), file=sys.stderr, flush=True)


def say_some(what: str, lines: Sequence[str]) -> None:
    """Say the first of *lines*, each after *what*; the rest are counted."""
    for line in _first(lines):
        say(f"{what} {line}".strip())


def _first(lines: Sequence[str]) -> list[str]:
    """The first of *lines*, and how many more there are."""
    more = len(lines) - MAX_NAMED
    return [*lines[:MAX_NAMED], *([f"and {more:,} more"] if more > 0 else [])]


def complain(message: str) -> None:
    """Print *message* as one line on stderr."""
    note(message)
    say(f"frontier: {_Told.complaint}")


def note(complaint: str) -> None:
    """Keep *complaint*, which somebody else prints, for `show_refusal`."""
    _Told.complaint = " ".join(complaint.split())


def end_with(lines: Sequence[str], code: ExitCode = ExitCode.INCOMPLETE) -> None:
    """Complain of each of *lines*, and end the command with *code*; if there are any.

    Raises:
        Exit: There are.
    """
    for line in _first(lines):
        complain(line)
    if lines:
        raise click.exceptions.Exit(code)


def _harmless(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in text)


MAX_NAMED = 20
"""Complaints of one kind that are printed; the rest are counted."""
INTERVAL = 1.0
"""Seconds between two looks at the crawl."""


@contextmanager
def bar(
    what: str, total: int | None, *, bytes_: bool = False
) -> Iterator[Callable[[int], None]]:
    """A bar for *total* steps, or bytes; call what it yields with how many are done.

    *total* is ``None`` if it is not known.
    """
    console = messages()
    if not console.is_terminal:
        yield lambda _: None
        return
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn() if bytes_ else MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=done)


@contextmanager
def live_line(look: Callable[[], tuple[str, str]]) -> Iterator[Callable[[], None]]:
    """Show what *look* returns, how it goes on; call what this yields often.

    Say the second thing that it returns, what is waited for, when a wait begins; and
    when it ends. Elsewhere than on a terminal, say that alone.
    """
    from rich.live import Live

    console, due, waits = messages(), 0.0, ""
    live = Live(console=console, transient=True, auto_refresh=False)

    def tick() -> None:
        nonlocal due, waits
        if time.monotonic() < due:
            return
        due, before = time.monotonic() + INTERVAL, waits
        line, waits = look()
        if console.is_terminal:
            live.update(Text(line), refresh=True)
        if bool(waits) is not bool(before):
            say(waits or f"it goes on: {line}")

    with live if console.is_terminal else nullcontext():
        yield tick
