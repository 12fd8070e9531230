"""Files of other formats, written as WARC with a gzip member for each record.

What always holds:

1.  Each block is the bytes that it was. Records of ARC get the headers that
    `frontier.warc.containers` says; those of WARC keep theirs, byte for byte.
2.  A file gets its name after what was written has been read again, and has the
    records, payloads and HTTP heads that the old one has.
3.  A second run makes the same bytes. What is there already is only compared.
"""

from __future__ import annotations

import functools
import hashlib
import os
import tempfile
import uuid
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from frontier.dedupe.digest import digest_of, labelled
from frontier.errors import BadWarc, FileTaken
from frontier.files import (
    FILE_MODE,
    OPEN,
    creating,
    make_directory,
    sync_directory,
)
from frontier.postcrawl.apply import IN_MEMORY, held
from frontier.postcrawl.manifest import KEPT, Options, rows
from frontier.postcrawl.payload import Payload
from frontier.postcrawl.remote_files import open_file
from frontier.postcrawl.rewriting import note_unlisted
from frontier.warc.cdxj_sidecar import Listing
from frontier.warc.containers import every_record, packing_of
from frontier.warc.file_rotation import compress
from frontier.warc.reader import Found, Source, parts_of
from frontier.warc.records import NAMESPACE, Record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from frontier.model import Body

_SAME = (
    "type",
    "record_id",
    "url",
    "date",
    "mime",
    "status",
    "payload_length",
    "payload_digest",
    "body_digest",
    "head_digest",
    "fault",
)
"""What both files say of a record, by the names of a manifest."""
_END = b"\r\n\r\n"


@dataclass(slots=True)
class Converted:
    """What became of one file."""

    file: str
    made: str
    records: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    unlisted: list[str] = field(default_factory=list)
    """Records that are in the file, and not in its index, and why."""


def name_of(path: Path) -> str:
    """The name of the file that *path* becomes."""
    name = path.name
    for ending in (".gz", ".zst", ".arc", ".warc"):
        if name.lower().endswith(ending):  # some write it in capitals
            name = name[: -len(ending)]
    return f"{name}.warc.gz"


def convert(path: Path, out: Path, mode: int = FILE_MODE) -> Converted:
    """Write *path*, an ARC or WARC file, to *out*, and its CDXJ index beside it.

    Raises:
        BadWarc: It is cut off or damaged, or has been written wrong.
        FileTaken: *out* is there, and is another file.
        OSError: One cannot be read or written.
    """
    done = Converted(os.fspath(path), os.fspath(out))
    done.bytes_before = path.stat().st_size
    make_directory(out.parent, mode)
    if out.exists():
        try:
            done.records = _compare(path, out)
        except BadWarc:
            raise FileTaken(str(out)) from None
        done.bytes_after = out.stat().st_size
        return done
    scratch = out.with_name(out.name + OPEN)
    try:
        with open(scratch, "w+b", opener=creating(mode)) as target:
            for record in _records(path, out):
                target.writelines(compress(record))
            target.flush()
            os.fsync(target.fileno())
        done.records = _compare(path, scratch)
        unlisted = functools.partial(note_unlisted, done.unlisted, done.made)
        Listing(mode=mode).write(scratch, unlisted=unlisted)
        scratch.replace(out)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
    sync_directory(out.parent)
    done.bytes_after = out.stat().st_size
    return done


def _records(path: Path, out: Path) -> Iterator[Record]:
    """The records of *path* as WARC has them."""
    with open_file(path, ahead=True) as file:
        is_arc = packing_of(file).is_arc
        read = every_record(file, os.fspath(path), is_lenient=True)
        for number, found in enumerate(read):
            if is_arc and not number:
                yield _warcinfo(found, path.name, out.name)
            with tempfile.SpooledTemporaryFile(IN_MEMORY, dir=str(out.parent)) as spool:
                for part in parts_of(found):
                    spool.write(part)
                found.finish()
                if found.fault is not None:
                    raise found.fault
                block = held(spool)
                top = _headers_of_arc(found, block) if is_arc else found.headers.top
                name = found.headers.get("warc-record-id")
                yield Record(name, (top + _END, block, _END))


def _headers_of_arc(found: Found, all_of_it: Body) -> bytes:
    """The WARC headers of an ARC record, whose block is *all_of_it*, with digests."""
    block = digest_of(all_of_it)
    starts = range(0, len(all_of_it), KEPT)
    source = Source("", (all_of_it[start : start + KEPT] for start in starts))
    again = Found.begin(0, found.headers, source, lambda _: None)
    payload = Payload(again, "sha256")
    top = b"WARC/1.1" + found.headers.top[len(b"ARC/1") :]
    top, _, last = top.rpartition(b"\r\n")
    digests = f"\r\nWARC-Block-Digest: {labelled(block)}"
    columns = payload.columns()
    digest = columns.get("payload_digest")
    if digest and digest == columns["body_digest"]:  # of chunks readers disagree
        digests += f"\r\nWARC-Payload-Digest: {digest}"
    return top + digests.encode() + b"\r\n" + last


def _warcinfo(first: Found, old: str, new: str) -> Record:
    """The record that says where the others are from."""
    fact = f"arc {old} {first.headers.get('warc-record-id')} warcinfo"
    name = f"<{uuid.uuid5(NAMESPACE, fact).urn}>"
    block = (
        "software: frontier warc convert\r\nformat: WARC File Format 1.1\r\n"
        f"description: converted from the ARC file {ascii(old)[1:-1]}\r\n"
    ).encode()
    lines = (
        "WARC/1.1",
        "WARC-Type: warcinfo",
        f"WARC-Record-ID: {name}",
        f"WARC-Date: {first.headers.get('warc-date')}",
        f"WARC-Filename: {ascii(new)[1:-1]}",
        f"WARC-Block-Digest: {labelled(hashlib.sha256(block).hexdigest())}",
        "Content-Type: application/warc-fields",
        f"Content-Length: {len(block)}",
    )
    return Record(name, ("\r\n".join(lines).encode() + _END, block, _END))


def _compare(path: Path, made: Path) -> int:
    """How many records of *path* are in *made*, which has no others.

    Raises:
        BadWarc: They differ, or one of the files is damaged.
    """
    faults: list[str] = []
    options = Options(every=True)
    old = rows(path, options, faults.append, is_lenient=True)
    new = rows(made, options, faults.append)
    with open_file(path) as file:
        if packing_of(file).is_arc:
            next(new, None)  # our warcinfo record
    count = 0
    for one, other in zip_longest(old, new):
        _require_same(path, made, one, other)
        count += 1
    if faults:
        raise BadWarc(os.fspath(path), 0, f"it cannot be read whole ({faults[0]}),")
    return count


def _require_same(
    path: Path, made: Path, one: dict[str, Any] | None, other: dict[str, Any] | None
) -> None:
    if one is None or other is None:
        raise BadWarc(os.fspath(path), 0, f"{made} has more or fewer records,")
    for name in _SAME:
        if one[name] != other[name]:
            reason = f"{made} has another {name} for the record"
            raise BadWarc(os.fspath(path), one["record_offset"], reason)
