"""A WARC file, written again with other records in some places.

What always holds:

1.  What is not replaced is copied as the bytes that it was, by the kernel.
2.  A file gets its name after its last byte, its index, and a note of what was done are
    on disk; what was there under that name is there until then. A run that was killed
    goes on with the files that have no note, and its files end as the same bytes.
3.  A note tells where a record of the old file is in the new one: an original may stand
    in a file that was written again in its place.
"""

from __future__ import annotations

import bisect
import functools
import json
import os
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import IO, TYPE_CHECKING

from frontier.errors import BadWarc, FileTaken, StaleManifest, Unwritable
from frontier.files import (
    FILE_MODE,
    OPEN,
    make_directory,
    open_input,
    publish,
    rewriting,
    sync_directory,
)
from frontier.model import slices_of
from frontier.postcrawl.actions import actions_of
from frontier.postcrawl.index_lines import Lines
from frontier.postcrawl.manifest import (
    identity,
    place_of,
    require_current,
    stored_manifest,
)
from frontier.postcrawl.remote_files import (
    is_here,
    is_url,
    open_file,
    path_of,
    state_of,
)
from frontier.warc.cdxj_sidecar import Listing
from frontier.warc.file_rotation import compress
from frontier.warc.reader import GZIP, blocks_of, line_ends_at, pulled_from
from frontier.warc.zstd import FRAME, frames_of, is_zstd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from io import FileIO
    from pathlib import Path

    from frontier.postcrawl.actions import Action, Pass
    from frontier.postcrawl.manifest import Manifest
    from frontier.postcrawl.remote_files import State
    from frontier.warc.reader import Found
    from frontier.warc.records import Record

SUFFIX = ".done.json"
ORIGINALS = "originals"
"""The directory, in that of the manifests, of those of files that are only read."""
_END = b"\r\n\r\n"
"""What is behind a record of ours that is not compressed."""
_CHUNK = 1 << 26


@dataclass(slots=True)
class Rewritten:
    """What became of one file, as its note has it."""

    file: str
    made: str
    """Where it is now."""
    wanted: str = ""
    """Of its `Job`."""
    replaced: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    ends: str = ""
    """Digest of the first and the last bytes of the new file."""
    kept: list[str] = field(default_factory=list)
    """Records that should have been replaced and are not, and why."""
    kept_at: list[int] = field(default_factory=list)
    """Where these are in the old file."""
    unlisted: list[str] = field(default_factory=list)
    """Records that are in the file, and not in its index, and why."""
    moved: list[tuple[int, int]] = field(default_factory=list)
    """Offsets in the old file, and by how much what is from there on has moved."""

    def offset(self, old: int) -> int:
        """Where the record at *old* of the old file is in the new one."""
        index = bisect.bisect_right(self.moved, (old, 1 << 62)) - 1
        return old + (self.moved[index][1] if index >= 0 else 0)


def note_of(path: Path, directory: Path) -> Rewritten | None:
    """The note of *path* in *directory*, if there is one."""
    place = _note_place(path, directory)
    try:
        facts = json.loads(place.read_bytes())
        facts["moved"] = [tuple(each) for each in facts["moved"]]
        return Rewritten(**facts)
    except (OSError, ValueError, TypeError, KeyError):
        return None


def is_made(note: Rewritten) -> bool:
    """Whether the file of *note* is there, as it was made."""
    try:
        with open_input(note.made) as file:
            return identity(file) == (note.bytes_after, note.ends)
    except OSError:
        return False


@dataclass(frozen=True, slots=True)
class Job:
    """One file to be written again."""

    path: Path
    out: Path
    """Where to; may be *path*."""
    todo: Pass
    make: Callable[[IO[bytes], list[Action]], Record | None]
    """The new record, or none; an error of reading leaves the old one."""


def rewrite(
    job: Job,
    progress: Callable[[int], None] = lambda _: None,
    mode: int = FILE_MODE,
) -> Rewritten:
    """Do *job*, unless it is done.

    Raises:
        StaleManifest: The file has changed since its manifest was made.
        Unwritable: Other records cannot be put into it.
        FileTaken: The new name is that of another file.
        FileInUse: Another process writes it.
        OSError: One cannot be read or written; the old file is as it was.
    """
    if is_url(os.fspath(job.out)):
        raise Unwritable(f"{job.out}: a file elsewhere is only read; name a directory")
    made = note_of(job.path, job.todo.directory)
    where = os.fspath(job.out), job.todo.wanted
    is_done = made is not None and (made.made, made.wanted) == where and is_made(made)
    is_in_place = job.out.resolve() == job.path.resolve()
    if made is not None and is_done and (not made.kept or is_in_place):
        progress(made.bytes_before)
        return made
    make_directory(job.out.parent, mode)
    with rewriting(job.out, mode) as scratch:
        return _rewrite(job, scratch, is_done=is_done, progress=progress, mode=mode)


def _rewrite(
    job: Job,
    new: FileIO,
    *,
    is_done: bool,
    progress: Callable[[int], None],
    mode: int,
) -> Rewritten:
    """Write *job* to *new*, and give that its name."""
    manifest = _current(job)
    is_in_place = job.out.resolve() == job.path.resolve()
    if job.out.exists() and not is_done and not is_in_place:
        raise FileTaken(str(job.out))
    done = Rewritten(os.fspath(job.path), os.fspath(job.out), job.todo.wanted)
    done.bytes_before = manifest.size
    scratch = job.out.with_name(job.out.name + OPEN)
    lines = Lines(job.out.name)
    _fill(job, new, done, lines, progress)
    known = None
    if job.todo.pairs and manifest.indexed and not manifest.faults:
        known = lines.of(place_of(job.path, job.todo.directory), done.offset)
    near = None if is_url(os.fspath(job.path)) else job.path
    unlisted = functools.partial(note_unlisted, done.unlisted, done.made)
    Listing(mode=mode).write(scratch, known, near, unlisted)
    note = json.dumps(asdict(done)).encode()
    publish(_note_place(job.path, job.todo.directory), note, mode)
    scratch.replace(job.out)
    sync_directory(job.out.parent)
    return done


def note_unlisted(unlisted: list[str], file: str, error: BadWarc) -> None:
    """Add to *unlisted* why a record of *file* is not in its index."""
    where = f"{file}: the record at byte {error.offset:,}"
    unlisted.append(f"{where} is not in the index: {error.reason}")


def dry_run(job: Job, progress: Callable[[int], None] = lambda _: None) -> Rewritten:
    """Make all new records of *job*, and tell what `rewrite` would write.

    Raises:
        StaleManifest: The file has changed since its manifest was made.
        OSError: It cannot be read.
    """
    done = Rewritten(os.fspath(job.path), "")
    done.bytes_before = done.bytes_after = _current(job).size
    with open_file(job.path) as source:
        form = _form_of(source, job.path)
        for place, record in _made(job, source, done):
            parts = form.parts(record)
            end = form.end(place)
            done.bytes_after += sum(map(len, parts)) - (end - place.record_offset)
            done.replaced += 1
            progress(end)
    progress(done.bytes_before)
    return done


def _current(job: Job) -> Manifest:
    """The manifest of the file of *job*.

    Raises:
        StaleManifest: It is of another file.
        BadWarc: Its records have no places of their own.
    """
    manifest = stored_manifest(place_of(job.path, job.todo.directory))
    if manifest is None:
        raise StaleManifest(str(job.path))
    require_current(manifest)
    if manifest.unwritable:
        raise Unwritable(manifest.unwritable)
    return manifest


def _made(
    job: Job, source: IO[bytes], done: Rewritten
) -> Iterator[tuple[Action, Record | None]]:
    """The new records; what cannot be replaced is noted in *done*."""
    file = os.fspath(job.path.absolute())
    for actions in actions_of(job.todo.actions, file):
        place = actions[0]
        try:
            record = job.make(source, actions)
        except (BadWarc, StaleManifest, OSError, ValueError) as error:
            where = f"{place.file}: the record at byte {place.record_offset:,}"
            done.kept.append(f"{where} stays as it is: {error}")
            done.kept_at.append(place.record_offset)
            continue
        yield place, record


class _Form:
    """How the records of a file are packed."""

    def __init__(
        self, pack: Callable[[Record], Iterable[bytes]], plain: IO[bytes] | None = None
    ) -> None:
        """In the file *plain*, line ends are behind each that are not in its length."""
        self._pack = pack
        self._plain = plain

    def parts(self, record: Record | None) -> Iterable[bytes]:
        """What *record* is in the file: nothing if it is left out."""
        return () if record is None else self._pack(record)

    def end(self, place: Action) -> int:
        """Where the record at *place* ends in its file."""
        end = place.record_offset + place.record_length
        if self._plain is not None:  # most have two line ends, and some other ones
            end += len(line_ends_at(self._plain, end))
        return end

    def length(self, size: int) -> int:
        """What is told as the length of a record of *size* bytes in the file."""
        return size if self._plain is None else size - len(_END)


def _form_of(source: IO[bytes], path: Path) -> _Form:
    """That of *source*, which is the file *path*.

    Raises:
        BadWarc: Its zstd dictionary cannot be used.
        OSError: It cannot be read.
    """
    source.seek(0)
    begin = source.read(len(FRAME))
    if is_zstd(begin):
        frames = frames_of(source, os.fspath(path))
        return _Form(lambda record: frames.compressed(record.parts))
    if begin.startswith(GZIP):
        return _Form(compress)
    return _Form(
        lambda record: chain.from_iterable(map(slices_of, record.parts)), source
    )


def _fill(
    job: Job,
    new: FileIO,
    done: Rewritten,
    lines: Lines,
    progress: Callable[[int], None],
) -> None:
    with (
        open_file(job.path) as source,
        open(new.fileno(), "w+b", closefd=False) as target,
    ):
        form = _form_of(source, job.path)
        at = 0
        for place, record in _made(job, source, done):
            _copy(source, target, at, place.record_offset)
            start = target.tell()
            target.writelines(form.parts(record))
            at = form.end(place)
            if job.todo.pairs and record is not None:
                length = form.length(target.tell() - start)
                lines.replaced(place.record_offset, record, start, length)
            done.moved.append((at, target.tell() - at))
            done.replaced += 1
            progress(at)
        _copy(source, target, at, done.bytes_before)
        target.flush()
        os.fsync(target.fileno())
        done.bytes_after, done.ends = identity(target)
        progress(done.bytes_before)


def _copy(source: IO[bytes], target: IO[bytes], start: int, end: int) -> None:
    """Copy bytes of *source*, by the kernel if both are files here."""
    target.flush()
    if not is_here(source):
        for block in blocks_of(source, start, end - start):
            target.write(block)
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
    """Opens the files of originals, also those that are written again meanwhile.

    The last one stays open: mostly the next original stands there, too.
    """

    def __init__(self, directory: Path) -> None:
        """*directory* has the manifests, and the notes of what was done."""
        self._directory = directory
        self._looked: dict[str, tuple[State, Rewritten | None]] = {}
        """Files by their i-node, size and time when they were looked at, and notes."""
        self._last: tuple[str, IO[bytes]] | None = None

    def close(self) -> None:
        """Close the last file."""
        if self._last is not None:
            self._last[1].close()
            self._last = None

    def record(self, action: Action) -> Found:
        """The original of *action*.

        Raises:
            StaleManifest: The file is neither what it was nor what it was made.
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
        """The note of *path*, or ``None`` if it is as it was before."""
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
    """The record at *offset* of *stream*, which has to have *record_id*, to be read.

    Raises:
        BadWarc: There is no such record.
    """
    found = next(pulled_from(stream, name, offset), None)
    if found is None or found.headers.get("warc-record-id") != record_id:
        raise BadWarc(name, offset, f"not the record {record_id}")
    return found
