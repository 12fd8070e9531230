"""Files are written again, each in one pass: the table of actions says what changes.

`frontier.postcrawl.actions` has the rows, `frontier.postcrawl.rewriting` writes the
file; here is who makes the record that an action asks for.
"""

from __future__ import annotations

from contextlib import closing
from typing import IO, TYPE_CHECKING

from frontier.files import FILE_MODE
from frontier.postcrawl.apply import Compared
from frontier.postcrawl.originals import RemoteOriginals
from frontier.postcrawl.removal import tombstone
from frontier.postcrawl.restore import response
from frontier.postcrawl.rewriting import Job, Originals, dry_run, rewrite

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from frontier.postcrawl.actions import Action, Pass
    from frontier.postcrawl.rewriting import Rewritten
    from frontier.warc.records import Record


def perform(
    todo: Pass,
    path: Path,
    out: Path,
    progress: Callable[[int], None] = lambda _: None,
    mode: int = FILE_MODE,
) -> Rewritten:
    """Write *path* to *out* as *todo* has it.

    *out* may be *path*: then the old file is there until the new one is whole.

    Raises:
        StaleManifest: The file has changed since.
        FileTaken: *out* is another file, and there.
        OSError: One cannot be read or written. *path* is as it was.
    """
    with closing(Originals(todo.directory)) as originals:
        job = Job(path, out, todo, _Maker(todo, originals).make)
        return dry_run(job, progress) if todo.dry else rewrite(job, progress, mode)


class _Maker:
    """Makes the records of one file."""

    def __init__(self, todo: Pass, originals: Originals) -> None:
        self._originals = originals
        self._compared = Compared(originals)
        self._remote = RemoteOriginals(todo.servers)
        self._reason = todo.reason

    def make(self, source: IO[bytes], actions: list[Action]) -> Record | None:
        """The record that *actions* ask for, of the file *source*; none to drop it."""
        one = actions[0]
        if one.do == "revisit":
            return self._compared.revisit(source, one)
        if one.do == "restore":
            return response(source, actions, self._originals, self._remote)
        if one.do == "tombstone":
            return tombstone(source, one, self._reason)
        return None
