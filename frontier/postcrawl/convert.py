"""Converts files of other formats to WARC with a gzip member for each record.

What always holds:

1.  Each block keeps its bytes. Records of ARC get the headers that
    `frontier.warc.containers` makes; those of WARC keep theirs, byte for byte.
2.  A file gets its name after it was read back for its index.
3.  A second run makes the same bytes. A file that is there already is only compared.
"""

from __future__ import annotations

import filecmp
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from frontier.cdx.lines import captures_in
from frontier.dedupe.digest import digest_of_block
from frontier.errors import BadWarc, FileTaken
from frontier.files import (
    OPEN,
    make_directory,
    mode_of_environment,
    rewriting,
    sync_directory,
)
from frontier.model import Body, slices_of
from frontier.postcrawl.apply import IN_MEMORY, held
from frontier.postcrawl.originals import Rewritten
from frontier.postcrawl.payload import payload_in
from frontier.warc.cdxj_sidecar import Listing
from frontier.warc.containers import every_record, packing_of
from frontier.warc.file_rotation import compress
from frontier.warc.reader import Found, Source, parts_of, records_in
from frontier.warc.records import Record, warcinfo
from frontier.warc.remote_files import open_file

_END = b"\r\n\r\n"


def name_of(path: Path) -> str:
    """The name of the file that *path* becomes."""
    name = path.name
    for ending in (".gz", ".zst", ".arc", ".warc"):
        if name.lower().endswith(ending):  # some write it in capitals
            name = name[: -len(ending)]
    return f"{name}.warc.gz"


def convert(path: Path, out: Path) -> Rewritten:
    """Write *path*, an ARC or WARC file, to *out*, and its CDXJ index beside it.

    The result counts all records as replaced; its `kept` are in the file but not in its
    index.

    Raises:
        BadWarc: It is cut off or damaged.
        FileTaken: *out* exists, and is not made from *path*.
        OSError: One cannot be read or written.
    """
    done = Rewritten(os.fspath(path), os.fspath(out))
    done.bytes_before = path.stat().st_size
    mode = mode_of_environment()
    make_directory(out.parent, mode)
    made = out.with_name(out.name + OPEN)

    def unlisted(error: BadWarc) -> None:
        where = f"{out}: the record at byte {error.offset:,}"
        done.kept.append(f"{where} is not in the index: {error.reason}")

    with rewriting(out, mode) as new:
        with open(new.fileno(), "wb", closefd=False) as target:
            for record in _records(path, out, done):
                target.writelines(compress(record))
        os.fsync(new.fileno())
        with open_file(made, ahead=True) as file:
            found = captures_in(records_in(file, os.fspath(out)), out.name, unlisted)
            lines = [capture.encode() for capture in found]
        if not out.exists():
            Listing(mode=mode).write(made, lines)
            made.replace(out)
            sync_directory(out.parent)
        elif not filecmp.cmp(made, out, shallow=False):
            raise FileTaken(str(out))
    done.bytes_after = out.stat().st_size
    return done


def _records(path: Path, out: Path, done: Rewritten) -> Iterator[Record]:
    """The records of *path* as WARC records; *done* counts them."""
    with open_file(path, ahead=True) as file:
        packing = packing_of(file)
        is_arc = packing.is_arc
        for found in every_record(file, os.fspath(path), packing, is_lenient=True):
            if is_arc and not done.replaced:
                yield _warcinfo(found, path.name, out.name)
            with tempfile.SpooledTemporaryFile(IN_MEMORY, dir=str(out.parent)) as spool:
                spool.writelines(parts_of(found))
                found.require_whole()
                block = held(spool)
                top = _headers_of_arc(found, block) if is_arc else found.headers.top
                name = found.headers.get("warc-record-id")
                yield Record(name, (top + _END, block, _END))
                done.replaced += 1


def _headers_of_arc(found: Found, all_of_it: Body) -> bytes:
    """The WARC headers, with digests, of an ARC record with the block *all_of_it*."""
    payload = payload_in(Found(0, found.headers, Source("", slices_of(all_of_it))))
    top = b"WARC/1.1" + found.headers.top[len(b"ARC/1") :]
    top, _, last = top.rpartition(b"\r\n")
    digests = f"\r\nWARC-Block-Digest: {digest_of_block(all_of_it)}"
    if payload.digest and payload.digest == payload.body:  # readers disagree on chunks
        digests += f"\r\nWARC-Payload-Digest: {payload.digest}"
    return top + digests.encode() + b"\r\n" + last


def _warcinfo(first: Found, old: str, new: str) -> Record:
    """The record that says what file the others are from."""
    of = f"converted from the ARC file {ascii(old)[1:-1]}"
    fields = {"software": "frontier warc convert", "description": of}
    return warcinfo(ascii(new)[1:-1], first.headers.get("warc-date"), fields)
