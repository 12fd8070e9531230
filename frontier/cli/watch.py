"""Looking at something again and again, on a terminal or as lines, until Ctrl-C.

What always holds:

1.  On a terminal the view is drawn in its place. Elsewhere each look is a line, or with
    ``--json`` an object a line: what reads them never waits for a look that is there.
2.  A store that does not answer is said, and asked again with the next look.
3.  Ctrl-C ends it with 0; so does what is looked at, if it comes to an end.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rich.console import Group
from rich.live import Live
from rich.text import Text

from frontier.cli.output import complain, results, show_json
from frontier.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console, RenderableType

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LiveView(Generic[T]):
    """How what was seen is shown."""

    whole: Callable[[T], list[RenderableType]]
    """On a terminal."""
    lines: Callable[[T], list[RenderableType]]
    """Elsewhere."""
    facts: Callable[[T], dict[str, Any]]
    """With ``--json``."""
    ended: Callable[[T], bool] = lambda _: False
    """Whether nothing new will be seen."""


def watch(
    look: Callable[[], T], view: LiveView[T], *, as_json: bool, every: float
) -> T | None:
    """Show each *look*, *every* so many seconds; return the last, if there was one."""
    console, seen = results(), None
    try:
        with _shown(console, view, as_json=as_json) as show:
            while seen is None or not view.ended(seen):
                due = time.monotonic() + every
                try:
                    seen = look()
                except StoreUnavailable as error:
                    show(seen, str(error))
                else:
                    show(seen, "")
                    if view.ended(seen):
                        break
                time.sleep(max(0.0, due - time.monotonic()))
    except KeyboardInterrupt:
        pass
    return seen


@contextmanager
def _shown(
    console: Console, view: LiveView[T], *, as_json: bool
) -> Iterator[Callable[[T | None, str], None]]:
    """What shows the last that was seen, and why nothing newer was."""

    def print_lines(seen: T | None, error: str) -> None:
        if error or seen is None:
            complain(error)
            return
        if as_json:
            show_json(view.facts(seen), indent=None)
        else:
            for one in view.lines(seen):
                console.print(one, soft_wrap=isinstance(one, Text))
        console.file.flush()

    if as_json or not console.is_terminal:
        yield print_lines
        return
    with Live(console=console, auto_refresh=False) as live:

        def draw(seen: T | None, error: str) -> None:
            parts = view.whole(seen) if seen is not None else []
            told = [Text(error, style="bold")] if error else []
            live.update(Group(*told, *parts), refresh=True)

        yield draw
