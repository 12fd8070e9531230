"""Converts files of other formats to WARC with a gzip member for each record.

What always holds:

1.  Each block keeps its bytes. Records of ARC get the headers that
    `frontier.warc.containers` makes; those of WARC keep theirs, byte for byte.
2.  A file gets its name after it was read back, and found to have the records that were
    made of the old one, byte for byte.
3.  A second run makes the same bytes. A file that is there already is only compared.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from itertools import chain
from pathlib import Path
from typing import Any

from frontier.cdx.lines import captures_in
from frontier.dedupe.digest import digest_of_block
from frontier.errors import BadWarc, FileTaken
from frontier.files import OPEN, make_directory, mode_of_environment, published
from frontier.model import Body, slices_of
from frontier.postcrawl.apply import IN_MEMORY, held
from frontier.postcrawl.originals import Rewritten
from frontier.postcrawl.payload import payload_in
from frontier.warc.cdxj_sidecar import Listing
from frontier.warc.containers import every_record, packing_of
from frontier.warc.file_rotation import compress
from frontier.warc.reader import Found, Source, parts_of
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
        BadWarc: It is cut off or damaged, or *out* was written wrong.
        FileTaken: *out* exists, and is not made from *path*.
        OSError: One cannot be read or written.
    """
    done = Rewritten(os.fspath(path), os.fspath(out))
    done.bytes_before = path.stat().st_size
    mode = mode_of_environment()
    make_directory(out.parent, mode)
    wanted, has = hashlib.sha256(), hashlib.sha256()
    lines: list[bytes] = []

    def unlisted(error: BadWarc) -> None:
        where = f"{out}: the record at byte {error.offset:,}"
        done.kept.append(f"{where} is not in the index: {error.reason}")

    is_there = out.exists()
    with nullcontext() if is_there else published(out, mode) as target:
        for record in _records(path, out, done):
            for part in chain.from_iterable(map(slices_of, record.parts)):
                wanted.update(part)
            if target is not None:
                target.writelines(compress(record))
        if target is not None:
            target.flush()
        made = out if is_there else out.with_name(out.name + OPEN)
        with suppress(BadWarc):  # then it does not have them all
            found = captures_in(_read(made, has), out.name, unlisted)
            lines.extend(capture.encode() for capture in found)
        if has.digest() != wanted.digest():
            if is_there:
                raise FileTaken(str(out))
            raise BadWarc(str(path), 0, f"{out} was written with other records,")
        if not is_there:
            Listing(mode=mode).write(made, lines)
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


def _read(made: Path, has: Any) -> Iterator[Found]:
    """The records of *made*, whose bytes, as they are read, the digest *has* gets."""
    with open_file(made, ahead=True) as file:
        for found in every_record(file, os.fspath(made), packing_of(file)):
            for part in chain([found.headers.top + _END], parts_of(found)):
                has.update(part)
            found.require_whole()
            has.update(_END)
            yield found


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
