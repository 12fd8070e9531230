"""Rewrites a WARC file with other records in some places, in one pass.

What always holds:

1.  What is not replaced is copied byte for byte.
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

import json
import os
from contextlib import closing
from functools import partial
from hashlib import sha256
from itertools import chain, groupby
from operator import attrgetter
from typing import IO, TYPE_CHECKING

import pyarrow.parquet as pq

from frontier.cdx.lines import GET, INDEXED, Capture, capture_of, parse
from frontier.errors import BadWarc, FileTaken, StaleManifest, Unwritable
from frontier.files import (
    LINK,
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
from frontier.postcrawl.apply import Revisits
from frontier.postcrawl.manifest import (
    identity,
    place_of,
    require_current,
    stored_manifest,
)
from frontier.postcrawl.originals import Originals, Rewritten, note_of, place_of_note
from frontier.postcrawl.removal import tombstone
from frontier.postcrawl.restore import response
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
)
from frontier.warc.remote_files import is_url, open_file, path_of
from frontier.warc.zstd import FRAME, frames_of, is_zstd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from io import FileIO
    from pathlib import Path

    from frontier.warc.records import Record

    Make = Callable[[IO[bytes], list[Action]], Record | None]

_END = b"\r\n\r\n"
"""What follows a record of ours that is not compressed."""


def perform(todo: Pass, path: Path, out: Path) -> Rewritten:
    """Write *path* to *out*, which may be *path*, unless that was done already.

    A record stays if what its new one needs cannot be read.

    Raises:
        StaleManifest: The file has changed since its manifest was made.
        Unwritable: Other records cannot be put into it, or it is damaged, or a link.
        FileTaken: Another file has the new name.
        FileInUse: Another process is writing it.
        OSError: One cannot be read or written; the old file is as it was.
    """
    if is_url(os.fspath(out)):
        raise Unwritable(f"{out}: a file elsewhere is only read; name a directory")
    mode = mode_of_environment()
    make_directory(out.parent, mode)
    actions = actions_of(todo.actions, os.fspath(path.absolute()))
    manifest = stored_manifest(place_of(path, todo.directory))
    if manifest is None:
        raise StaleManifest(str(path))
    is_in_place = out.resolve() == path.resolve()
    if is_in_place and path.is_symlink():
        raise Unwritable(f"{path}: {LINK}")
    # A file elsewhere is done only if it was made of the same bytes.
    source = None if is_in_place else (manifest.size, manifest.ends)
    facts = json.dumps([todo.reason, source, actions])
    wanted = sha256(facts.encode()).hexdigest()
    with rewriting(out, mode) as new:
        made = note_of(path, todo.directory)
        where = os.fspath(out), wanted
        is_done = (
            made is not None and (made.made, made.wanted) == where and _is_there(made)
        )
        if made is not None and is_done and (not made.kept or is_in_place):
            return made
        require_current(manifest)
        if manifest.left_because:
            raise Unwritable(manifest.left_because[0])
        if out.exists() and not is_done and not is_in_place:
            raise FileTaken(str(out))
        done = Rewritten(os.fspath(path), os.fspath(out), wanted)
        done.bytes_before = manifest.size
        with closing(Originals(todo.directory)) as originals:
            make = partial(_new_record, todo, originals, Revisits(originals))
            captures = _fill(actions, path, new, done, make)
        lines = sorted(_lines(place_of(path, todo.directory), done, captures))
        beside = beside_of(out, None if is_url(os.fspath(path)) else path)
        with published(beside, mode) as file:
            file.writelines(lines)
        note = json.dumps(vars(done)).encode()
        publish(place_of_note(path, todo.directory), note, mode)
        out.with_name(out.name + OPEN).replace(out)
    sync_directory(out.parent)
    return done


def _is_there(note: Rewritten) -> bool:
    """Whether the file of *note* is there and unchanged."""
    try:
        with open_input(note.made) as file:
            return identity(file) == (note.bytes_after, note.ends)
    except OSError:
        return False


def _new_record(
    todo: Pass,
    originals: Originals,
    revisits: Revisits,
    source: IO[bytes],
    actions: list[Action],
) -> Record | None:
    """The record that *actions* ask for; ``None`` to drop the old one."""
    one = actions[0]
    if one.do == "revisit":
        return revisits.of(source, one)
    if one.do == "restore":
        return response(source, actions, originals)
    if one.do == "tombstone":
        return tombstone(source, one, todo.reason)
    return None


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
    actions: list[Action],
    path: Path,
    new: FileIO,
    done: Rewritten,
    make: Make,
) -> dict[int, Capture | None]:
    """Write the records to *new*; return what an index says of those that are new."""
    captures: dict[int, Capture | None] = {}
    with open_file(path) as source, open(new.fileno(), "wb", closefd=False) as target:
        pack, is_plain = _packing(source, path)
        at = 0  # of the old file
        for offset, some in groupby(actions, attrgetter("record_offset")):
            of_record = list(some)
            try:
                record = make(source, of_record)
            except (BadWarc, StaleManifest, OSError, ValueError) as error:
                where = f"{done.file}: the record at byte {offset:,}"
                done.kept.append(f"{where} stays as it is: {error}")
                done.kept_at.append(offset)
                continue
            _copy(source, target, at, offset)
            start, at = target.tell(), offset + of_record[0].record_length
            if record is not None:
                target.writelines(pack(record))
            end = target.tell()
            length = end - start
            if is_plain:  # its length is without line ends: two, or others if not ours
                length -= len(_END)
                at += len(line_ends_at(source, at))
            captures[offset] = _capture(record, start, length, done.made)
            done.moved.append((at, end - at))
            done.replaced += 1
        _copy(source, target, at, done.bytes_before)
        target.flush()
        os.fsync(new.fileno())
        done.bytes_after, done.ends = identity(new)
    return captures


def _copy(source: IO[bytes], target: IO[bytes], start: int, end: int) -> None:
    """Copy bytes of *source*."""
    for block in blocks_of(source, start, end - start):
        target.write(block)
        start += len(block)
    if start < end:
        raise OSError(f"a file has become shorter, at byte {start:,}")


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
