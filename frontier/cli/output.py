"""What commands print: results on stdout, everything else on stderr.

Nothing that a terminal obeys gets through from a name, a URL or another's message.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType


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
