"""An index beside each WARC file: CDXJ lines, written when the file is closed.

What always holds:

1.  A ``<name>.cdxj`` lists every response and revisit of its file, sorted; it gets
    its name after its last byte is on disk.
2.  It is there before its file gets its final name, so no kill leaves a closed file
    without one. Only an index that could not be written is missing.
3.  An index that could not be written, as on a full disk, is tried again with the
    next one; half an index is never left.
4.  A capture that was rolled back is not listed. A file may be closed in the middle
    of a batch, so lines are noted as captures are appended.

The lines are made as captures are written. Most wait on disk, in sorted runs in
nameless files: those of a file of 1 GB would take hundreds of MB of memory. The file
of a killed node is read once, when it is repaired.
"""

from __future__ import annotations

import contextlib
import heapq
import os
import tempfile
from collections import defaultdict
from typing import IO, TYPE_CHECKING

from frontier.cdx.lines import (
    capture_from,
    key_under,
    listed,
    meta_line,
    paired,
    sort_key,
)
from frontier.errors import BadWarc
from frontier.files import FILE_MODE, OPEN, creating, open_input
from frontier.warc.reader import records_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from frontier.model import Exchange, Stored
    from frontier.urls.canon.rulesets import RuleSet

SUFFIX = ".cdxj"
RUN = 20_000
"""Lines of a file that wait in memory before most of them go to disk."""
YOUNG = 1_000
"""The last of them, which stay: more than a batch that may be rolled back."""


class Listing:
    """Collects the lines of open files; belongs to the writer's thread."""

    def __init__(
        self,
        rules: RuleSet | None = None,
        *,
        directory: Path | None = None,
        run: int = RUN,
        mode: int = FILE_MODE,
    ) -> None:
        """Keys are by *rules*, which the index then says; without, they are pywb's.

        About *run* lines of a file wait in memory; the others are in *directory*.
        """
        self._rules = rules
        self._mode = mode
        self._directory = directory
        self._run = run
        self._lines: dict[str, list[bytes]] = defaultdict(list)
        self._runs: dict[str, list[IO[bytes]]] = defaultdict(list)
        self._owed: list[Path] = []
        """Closed files whose index could not be written yet."""

    def note(self, exchange: Exchange, stored: Stored) -> None:
        """Remember a capture that was appended."""
        line = capture_from(exchange, stored)
        line = line._replace(key=self._key(line.asked.filed(line.url)))
        lines = self._lines[stored.file]
        lines.append(line.encode())
        if len(lines) >= self._run + YOUNG:
            with contextlib.suppress(OSError):  # of a full disk; they stay here then
                self._runs[stored.file].append(self._on_disk(sorted(lines[:-YOUNG])))
                del lines[:-YOUNG]

    def forget(self, stored: Stored) -> None:
        """Leave the last capture out, because it was rolled back."""
        self._lines[stored.file].pop()

    def write(
        self,
        path: Path,
        made: Iterable[bytes] | None = None,
        of: Path | None = None,
        unlisted: Callable[[BadWarc], None] | None = None,
    ) -> None:
        """Write the index of *path*, a whole file that is still called ``.open``.

        *made* are its lines, if another knows them and the rules are pywb's. For *of*
        see `beside_of`. *unlisted* is told which records no line can be made of.

        Raises:
            OSError: It cannot be written, or *path* not read.
            BadWarc: *path* was not written here, and is damaged; or has a record of
                which no line can be made, and there is no *unlisted*.
        """
        for owed in self._owed[:]:
            self._write(owed)
            self._owed.remove(owed)
            self.drop(owed)
        self._write(path, made, of, unlisted)

    def _write(
        self,
        path: Path,
        made: Iterable[bytes] | None = None,
        of: Path | None = None,
        unlisted: Callable[[BadWarc], None] | None = None,
    ) -> None:
        final = path.with_name(path.name.removesuffix(OPEN))
        if made is None:
            made = self._lines.get(final.name)
        if made is None:
            made = self._read(path, final.name, unlisted)
        made = sorted(made)
        head = [] if self._rules is None else [meta_line(self._rules)]
        runs = self._runs.get(final.name, [])
        for run in runs:
            run.seek(0)
        beside = beside_of(final, of)
        unfinished = beside.with_name(beside.name + OPEN)
        try:
            with open(unfinished, "wb", opener=creating(self._mode)) as file:
                file.writelines(head)
                file.writelines(heapq.merge(*runs, made))
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(beside)
        except OSError:
            unfinished.unlink(missing_ok=True)  # half an index, on a full disk mostly
            raise

    def drop(self, path: Path) -> None:
        """Forget the lines of *path*, which has its final name, if it has its index."""
        if path.name in self._lines and not beside_of(path).exists():
            self._owed.append(path)
            return
        self._lines.pop(path.name, None)
        for run in self._runs.pop(path.name, ()):
            run.close()

    def _on_disk(self, lines: list[bytes]) -> IO[bytes]:
        file = tempfile.TemporaryFile(dir=self._directory)  # noqa: SIM115 (`drop` does)
        try:
            file.writelines(lines)
        except OSError:
            file.close()
            raise
        return file

    def _key(self, url: str) -> str:
        return sort_key(url) if self._rules is None else key_under(self._rules, url)

    def _read(
        self, path: Path, name: str, unlisted: Callable[[BadWarc], None] | None
    ) -> Iterator[bytes]:
        with open_input(path) as file:
            for found, how in paired(records_in(file, name)):
                try:
                    line = listed(found, name, how)
                except BadWarc as error:
                    if unlisted is None:
                        raise
                    unlisted(error)
                    continue
                if line is not None:
                    key = self._key(how.filed(line.url))
                    yield line._replace(key=key).encode()


_PACKED = (".warc", ".warc.gz", ".warc.zst")


def beside_of(path: Path, of: Path | None = None) -> Path:
    """Where the index of the WARC file *path* is.

    A file may be in its directory packed and not, as ``x.warc`` and ``x.warc.gz``: then
    each has an index by its whole name. Whether it is so is seen where the file *of* is
    from which *path* is made, since not all may be made yet.
    """
    name = path.name.removesuffix(".gz").removesuffix(".zst").removesuffix(".warc")
    near = path if of is None else of
    others = (near.with_name(name + ending) for ending in _PACKED)
    if any(other.name != near.name and other.exists() for other in others):
        name = path.name
    return path.with_name(name + SUFFIX)
