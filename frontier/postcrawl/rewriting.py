"""Rewrites a WARC file with other records in some places.

What always holds:

1.  What is not replaced is copied byte for byte, by the kernel.
2.  A file gets its name after its last byte, its index, and a note of what was done are
    on disk; until then the name is that of the old file. After a kill, the next run
    goes on with the files that have no note, and they end up with the same bytes.
3.  A note tells where a record of the old file is in the new one: an original may be in
    a file that was rewritten in place.
4.  The index is the one that reading the file would give, byte for byte. The lines of
    what was copied are from the manifest: to read the file once more would take longer
    than all the rest.
"""

from __future__ import annotations

import bisect
import json
import os
from dataclasses import dataclass, field
from itertools import chain
from typing import IO, TYPE_CHECKING

import pyarrow.parquet as pq

from frontier.cdx.lines import GET, INDEXED, Capture, capture_of, parse
from frontier.errors import BadWarc, FileTaken, StaleManifest, Unwritable
from frontier.files import (
    OPEN,
    make_directory,
    mode_of_environment,
    open_input,
    publish,
    published,
    rewriting,
    sync_directory,
)
from frontier.model import slices_of
from frontier.postcrawl.actions import Action, Pass, actions_of
from frontier.postcrawl.manifest import (
    identity,
    place_of,
    require_current,
    stored_manifest,
)
from frontier.warc.cdxj_sidecar import beside_of
from frontier.warc.file_rotation import compress
from frontier.warc.reader import (
    GZIP,
    HEAD_LIMIT,
    Found,
    Head,
    Source,
    blocks_of,
    line_ends_at,
    pulled_from,
)
from frontier.warc.remote_files import (
    State,
    is_here,
    is_url,
    open_file,
    path_of,
    state_of,
)
from frontier.warc.zstd import FRAME, frames_of, is_zstd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from io import FileIO
    from pathlib import Path

    from frontier.warc.records import Record

SUFFIX = ".done.json"
ORIGINALS = "originals"
"""The subdirectory of the manifests of files that are only read."""
_END = b"\r\n\r\n"
"""What follows a record of ours that is not compressed."""
_CHUNK = 1 << 26


@dataclass
class Rewritten:
    """What became of one file; its note has the same."""

    file: str
    made: str
    """Where it is now."""
    wanted: str = ""
    """`Pass.wanted` of its pass."""
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


def note_of(path: Path, directory: Path) -> Rewritten | None:
    """The note of *path* in *directory*, if there is one."""
    try:
        facts = json.loads(_note_place(path, directory).read_bytes())
        facts["moved"] = [tuple(each) for each in facts["moved"]]
        return Rewritten(**facts)
    except (OSError, ValueError, TypeError, KeyError):
        return None


def is_made(note: Rewritten) -> bool:
    """Whether the file of *note* is there and unchanged."""
    try:
        with open_input(note.made) as file:
            return identity(file) == (note.bytes_after, note.ends)
    except OSError:
        return False


def rewrite(
    todo: Pass,
    path: Path,
    out: Path,
    make: Callable[[IO[bytes], list[Action]], Record | None],
    progress: Callable[[int], None],
) -> Rewritten:
    """Write *path* to *out*, which may be *path*, unless that was done already.

    *make* makes the new record that actions ask for, or none; if it cannot read what it
    needs, the old record stays.

    Raises:
        StaleManifest: The file has changed since its manifest was made.
        Unwritable: Other records cannot be put into it, or it is damaged.
        FileTaken: Another file has the new name.
        FileInUse: Another process is writing it.
        OSError: One cannot be read or written; the old file is as it was.
    """
    if is_url(os.fspath(out)):
        raise Unwritable(f"{out}: a file elsewhere is only read; name a directory")
    mode = mode_of_environment()
    make_directory(out.parent, mode)
    with rewriting(out, mode) as new:
        made = note_of(path, todo.directory)
        where = os.fspath(out), todo.wanted
        is_done = (
            made is not None and (made.made, made.wanted) == where and is_made(made)
        )
        is_in_place = out.resolve() == path.resolve()
        if made is not None and is_done and (not made.kept or is_in_place):
            progress(made.bytes_before)
            return made
        manifest = stored_manifest(place_of(path, todo.directory))
        if manifest is None:
            raise StaleManifest(str(path))
        require_current(manifest)
        if manifest.left_because:
            raise Unwritable(manifest.left_because[0])
        if out.exists() and not is_done and not is_in_place:
            raise FileTaken(str(out))
        done = Rewritten(os.fspath(path), os.fspath(out), todo.wanted)
        done.bytes_before = manifest.size
        lines = _fill(todo, path, new, done, make, progress)
        beside = beside_of(out, None if is_url(os.fspath(path)) else path)
        with published(beside, mode) as file:
            file.writelines(lines)
        note = json.dumps(vars(done)).encode()
        publish(_note_place(path, todo.directory), note, mode)
        out.with_name(out.name + OPEN).replace(out)
    sync_directory(out.parent)
    return done


def _packing(
    source: IO[bytes], path: Path
) -> tuple[Callable[[Record], Iterable[bytes]], bool]:
    """How to pack a record for the file *source* at *path*, and whether it is plain."""
    source.seek(0)
    begin = source.read(len(FRAME))
    if is_zstd(begin):
        frames = frames_of(source, os.fspath(path))
        return lambda record: frames.compressed(record.parts), False
    if begin.startswith(GZIP):
        return compress, False
    return lambda record: chain.from_iterable(map(slices_of, record.parts)), True


def _fill(
    todo: Pass,
    path: Path,
    new: FileIO,
    done: Rewritten,
    make: Callable[[IO[bytes], list[Action]], Record | None],
    progress: Callable[[int], None],
) -> list[bytes]:
    """Write the records to *new*; return the lines of its index."""
    captures: dict[int, Capture | None] = {}
    with (
        open_file(path) as source,
        open(new.fileno(), "w+b", closefd=False) as target,
    ):
        pack, is_plain = _packing(source, path)
        at = end = 0  # of the old file, and of the new one
        for actions in actions_of(todo.actions, os.fspath(path.absolute())):
            place = actions[0]
            offset = place.record_offset
            try:
                record = make(source, actions)
            except (BadWarc, StaleManifest, OSError, ValueError) as error:
                where = f"{place.file}: the record at byte {offset:,}"
                done.kept.append(f"{where} stays as it is: {error}")
                done.kept_at.append(offset)
                continue
            _copy(source, target, at, offset)
            start = end = end + offset - at
            at = offset + place.record_length
            for part in pack(record) if record is not None else ():
                target.write(part)
                end += len(part)
            length = end - start
            if is_plain:  # its length is without line ends: two, or others if not ours
                length -= len(_END)
                at += len(line_ends_at(source, at))
            captures[offset] = _capture(record, start, length, done.made)
            done.moved.append((at, end - at))
            done.replaced += 1
            progress(at)
        _copy(source, target, at, done.bytes_before)
        target.flush()
        os.fsync(target.fileno())
        done.bytes_after, done.ends = identity(target)
        progress(done.bytes_before)
    return sorted(_lines(place_of(path, todo.directory), done, captures))


def _capture(
    record: Record | None, start: int, length: int, made: str
) -> Capture | None:
    """What an index says of the new *record*."""
    if record is None:
        return None
    head, *block, _ = record.parts
    begin = b"".join(part[:HEAD_LIMIT] for part in block)[:HEAD_LIMIT]
    found = Found(start, Head(bytes(head)[:-4], len(begin)), Source("", [begin]))
    found.length = length
    name = os.path.basename(made)  # noqa: PTH119 - of each record
    return capture_of(found, name) if found.kind in INDEXED else None


def _lines(
    manifest: Path, done: Rewritten, captures: dict[int, Capture | None]
) -> Iterator[bytes]:
    was, now = json.dumps(path_of(done.file).name), json.dumps(path_of(done.made).name)
    with pq.ParquetFile(manifest) as file:
        for batch in file.iter_batches(columns=["record_offset", "cdxj"]):
            for old, line in zip(*(c.to_pylist() for c in batch.columns), strict=True):
                if line is None:
                    continue
                if old not in captures:
                    is_at = f'"offset": "{old}", "filename": {was}'
                    at = f'"offset": "{done.offset(old)}", "filename": {now}'
                    yield line.replace(is_at, at, 1).encode()
                elif (capture := captures[old]) is not None:
                    is_get = '"requestBody": ' not in line
                    asked = GET if is_get else parse(line.encode()).asked
                    title = None if asked.method else capture.title
                    yield capture._replace(asked=asked, title=title).encode()


def _copy(source: IO[bytes], target: IO[bytes], start: int, end: int) -> None:
    """Copy bytes of *source*, by the kernel if it is a file on this machine."""
    target.flush()
    if not is_here(source):
        target.writelines(blocks_of(source, start, end - start))
        return
    while start < end:
        size = min(end - start, _CHUNK)
        count = os.sendfile(target.fileno(), source.fileno(), start, size)
        if not count:
            raise OSError(f"a file has become shorter, at byte {start:,}")
        start += count
    target.seek(0, os.SEEK_END)


def _note_place(path: Path, directory: Path) -> Path:
    place = place_of(path, directory)
    return place.with_name(place.name.partition(".manifest")[0] + SUFFIX)


class Originals:
    """Opens the files of originals, even those that are rewritten meanwhile.

    The last one stays open: mostly the next original is there, too.
    """

    def __init__(self, directory: Path) -> None:
        """*directory* has the manifests, and the notes of what was done."""
        self._directory = directory
        self._looked: dict[str, tuple[State, Rewritten | None]] = {}
        """For each file, its i-node, size and time when it was last checked, and its
        note."""
        self._last: tuple[str, IO[bytes]] | None = None

    def close(self) -> None:
        """Close the last file."""
        if self._last is not None:
            self._last[1].close()
            self._last = None

    def record(self, action: Action) -> Found:
        """The original of *action*.

        Raises:
            StaleManifest: The file is neither as it was nor as it was rewritten.
            BadWarc: There is no such record.
            OSError: The file cannot be read.
        """
        file, offset = action.original_file, action.original_offset
        if self._last is None or self._last[0] != file:
            self.close()
            self._last = file, open_file(file)
        stream = self._last[1]
        state = state_of(stream)
        looked = self._looked.get(file)
        if looked is None or looked[0] != state:
            looked = self._looked[file] = state, self._note(stream, path_of(file))
        if looked[1] is not None:
            offset = looked[1].offset(offset)
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
