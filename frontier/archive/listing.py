"""An index beside each WARC file: CDXJ lines, written when the file is closed.

What always holds:

1.  A ``<name>.cdxj`` lists every response and revisit of its file, sorted; it gets
    its name after its last byte is on disk.
2.  It is there before its file gets its final name, so that no kill leaves a
    closed file without one (only an index that could not be written does).
3.  What was rolled back is not listed. A file may be closed in the middle of a
    batch, so lines are noted as captures are appended.

The lines are made as captures are written. A file whose node has died is read
once, when it is repaired.
"""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from frontier.archive.records import target_uri
from frontier.archive.selection import mime_of
from frontier.archive.writer import OPEN
from frontier.cdx.declared import meta_line
from frontier.cdx.keys import key_under, sort_key
from frontier.cdx.lines import REVISIT, Line, line_of
from frontier.cdx.reader import records

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from frontier.canon.rulesets import RuleSet
    from frontier.model import Exchange, Stored

SUFFIX = ".cdxj"
BLOCK = 1 << 20


class Listing:
    """Collects the lines of open files; belongs to the writer's thread."""

    def __init__(self, rules: RuleSet | None = None) -> None:
        """Keys are by *rules*, which the index then says; without, they are pywb's."""
        self._rules = rules
        self._lines: dict[str, list[bytes]] = defaultdict(list)

    def note(self, exchange: Exchange, stored: Stored) -> None:
        """Remember a capture that was appended."""
        if not stored.file:
            return
        url = target_uri(exchange.url)
        mime = mime_of(exchange.response_head) or "unk"
        line = Line(
            key=self._key(url),
            timestamp="".join(filter(str.isdigit, stored.date))[:14],
            url=url,
            mime=REVISIT if stored.original is not None else mime,
            status=str(exchange.status),
            digest=stored.payload_digest,
            length=stored.length,
            offset=stored.offset,
            filename=stored.file,
        )
        self._lines[stored.file].append(line.encode())

    def forget(self, stored: Stored) -> None:
        """Leave the last capture out, because it was rolled back."""
        if stored.file:
            self._lines[stored.file].pop()

    def write(self, path: Path) -> None:
        """Write the index of *path*, a whole file that is still called ``.open``.

        Raises:
            OSError: It cannot be written, or *path* not read.
            BadWarc: *path* was not written here, and is damaged.
        """
        final = path.with_name(path.name.removesuffix(OPEN))
        lines = self._lines.get(final.name)
        made = sorted(lines if lines is not None else self._read(path, final.name))
        if self._rules is not None:
            made.insert(0, meta_line(self._rules) + b"\n")
        beside = beside_of(final)
        unfinished = beside.with_name(beside.name + OPEN)
        with unfinished.open("wb") as file:
            file.writelines(made)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(beside)

    def drop(self, path: Path) -> None:
        """Forget the lines of *path*, which has its final name and its index."""
        self._lines.pop(path.name, None)

    def _key(self, url: str) -> str:
        return sort_key(url) if self._rules is None else key_under(self._rules, url)

    def _read(self, path: Path, name: str) -> Iterator[bytes]:
        with path.open("rb") as file:
            blocks = iter(lambda: file.read(BLOCK), b"")
            for found in records(name, blocks):
                line = line_of(found, name)
                if line is not None:
                    yield replace(line, key=self._key(line.url)).encode()


def beside_of(path: Path) -> Path:
    """Where the index of the WARC file *path* is."""
    return path.with_name(path.name.removesuffix(".gz").removesuffix(".warc") + SUFFIX)
