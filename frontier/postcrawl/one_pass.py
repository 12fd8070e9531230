"""Rewrites files, each in one pass, as the table of actions says.

`frontier.postcrawl.actions` has the rows, and `frontier.postcrawl.rewriting` writes the
file; this module chooses what makes the record that an action asks for.
"""

from __future__ import annotations

from contextlib import closing
from typing import IO, TYPE_CHECKING

from frontier.postcrawl.apply import Compared
from frontier.postcrawl.removal import tombstone
from frontier.postcrawl.restore import response
from frontier.postcrawl.rewriting import Originals, Rewritten, rewrite

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from frontier.postcrawl.actions import Action, Pass
    from frontier.warc.records import Record


def perform(
    todo: Pass,
    path: Path,
    out: Path,
    progress: Callable[[int], None] = lambda _: None,
) -> Rewritten:
    """Write *path* to *out* as *todo* says; see `rewrite`."""
    with closing(Originals(todo.directory)) as originals:
        compared = Compared(originals)

        def make(source: IO[bytes], actions: list[Action]) -> Record | None:
            """The record that *actions* ask for; ``None`` to drop the old one."""
            one = actions[0]
            if one.do == "revisit":
                return compared.revisit(source, one)
            if one.do == "restore":
                return response(source, actions, originals)
            if one.do == "tombstone":
                return tombstone(source, one, todo.reason)
            return None

        return rewrite(todo, path, out, make, progress)
