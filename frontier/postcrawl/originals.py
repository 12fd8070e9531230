"""Finds the records that actions name, even in files that are rewritten meanwhile."""

from __future__ import annotations

import bisect
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING

from frontier.errors import BadWarc, StaleManifest
from frontier.postcrawl.manifest import identity, place_of, stored_manifest
from frontier.warc.reader import Found, pulled_from
from frontier.warc.remote_files import open_file, path_of

if TYPE_CHECKING:
    from frontier.postcrawl.actions import Action

SUFFIX = ".done.json"
ORIGINALS = "originals"
"""The subdirectory of the manifests of files that are only read."""
MOST_OPEN = 32
"""Files of originals that are open at a time."""


@dataclass
class Rewritten:
    """What became of one file; its note has the same."""

    file: str
    made: str
    """Where it is now."""
    wanted: str = ""
    """A digest of all that was to be done with it, and of what the file was."""
    replaced: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    ends: str = ""
    """Digest of the first and the last bytes of the new file."""
    kept: list[str] = field(default_factory=list)
    """Records that should have been replaced but are not, and why."""
    kept_at: list[int] = field(default_factory=list)
    """Offsets of these in the old file."""
    moved: list[tuple[int, int]] = field(default_factory=list)
    """Offsets in the old file, and by how many bytes all from there on has moved."""

    def offset(self, old: int) -> int:
        """Where the record at *old* of the old file is in the new one."""
        index = bisect.bisect_right(self.moved, (old, 1 << 62)) - 1
        return old + (self.moved[index][1] if index >= 0 else 0)


def place_of_note(path: Path, directory: Path) -> Path:
    """Where the note of *path* is in *directory*."""
    place = place_of(path, directory)
    return place.with_name(place.name.partition(".manifest")[0] + SUFFIX)


def note_of(path: Path, directory: Path) -> Rewritten | None:
    """The note of *path* in *directory*, if there is one."""
    try:
        facts = json.loads(place_of_note(path, directory).read_bytes())
        facts["moved"] = [tuple(each) for each in facts["moved"]]
        return Rewritten(**facts)
    except (OSError, ValueError, TypeError, KeyError):
        return None


class Originals:
    """Opens the files of originals; each is what it was when it was opened."""

    def __init__(self, directory: Path) -> None:
        """*directory* has the manifests, and the notes of what was done."""
        self._directory = directory
        self._open: dict[str, tuple[IO[bytes], Rewritten | None]] = {}

    def close(self) -> None:
        """Close all files."""
        for stream, _ in self._open.values():
            stream.close()
        self._open.clear()

    def record(self, action: Action) -> Found:
        """The original of *action*.

        Raises:
            StaleManifest: The file is neither as it was nor as it was rewritten.
            BadWarc: There is no such record.
            OSError: The file cannot be read.
        """
        file, offset = action.original_file, action.original_offset
        if file not in self._open:
            if len(self._open) == MOST_OPEN:
                self.close()
            stream = open_file(file)
            try:
                self._open[file] = stream, self._note(stream, path_of(file))
            except BaseException:
                stream.close()
                raise
        stream, note = self._open[file]
        if note is not None:
            offset = note.offset(offset)
        return record_at(stream, file, offset, action.original_id)

    def _note(self, stream: IO[bytes], path: Path) -> Rewritten | None:
        """The note of *path*, or ``None`` if the file is still as it was."""
        found = identity(stream)
        for directory in (self._directory, self._directory / ORIGINALS):
            manifest = stored_manifest(place_of(path, directory))
            if manifest is not None and (manifest.size, manifest.ends) == found:
                return None
        note = note_of(path, self._directory)
        if note is None or (note.bytes_after, note.ends) != found:
            raise StaleManifest(os.fspath(path))
        return note


def record_at(stream: IO[bytes], name: str, offset: int, record_id: str) -> Found:
    """The record at *offset* of *stream*, with its block to be read.

    Raises:
        BadWarc: There is none, or it does not have *record_id*.
    """
    found = next(pulled_from(stream, name, offset), None)
    if found is None or found.headers.get("warc-record-id") != record_id:
        raise BadWarc(name, offset, f"not the record {record_id}")
    return found
