"""WARC files, written again with a revisit record in place of each copy.

What always holds:

1.  Before a record loses its payload, it and its original are read, and the SHA-256 of
    their stored bodies compared. One that cannot be read or differs stays as it is, and
    is named.
2.  Every other record is copied as the bytes that it was.
3.  A file gets its name after its last byte, and its index, are on disk; what was there
    under that name is there until then. To apply a plan twice gives the same bytes.
4.  A file that has changed since its manifest was made is left alone.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING

from frontier.dedupe.digest import labelled
from frontier.errors import BadWarc, FileTaken, StaleManifest
from frontier.files import FILE_MODE, creating, make_directory, open_input
from frontier.postcrawl.manifest import (
    Options,
    body_digest,
    hashing,
    labelled as spelled,
    payload_of,
    place_of,
    require_current,
    stored_manifest,
)
from frontier.postcrawl.plan import copies_of
from frontier.warc.cdxj_sidecar import Listing
from frontier.warc.file_rotation import OPEN, compress, sync_directory
from frontier.warc.reader import GZIP, records_in
from frontier.warc.records import NAMESPACE, PROFILE, Record, escaped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from frontier.postcrawl.plan import Copy
    from frontier.warc.reader import Found

REPLACES = "X-Frontier-Replaces"
"""The header of a revisit that names the record whose payload it has lost."""
_ANEW = frozenset(
    {
        "warc-type",
        "warc-record-id",
        "warc-profile",
        "warc-truncated",
        "warc-refers-to",
        "warc-refers-to-target-uri",
        "warc-refers-to-date",
        "warc-payload-digest",
        "warc-block-digest",
        "content-type",
        "content-length",
    }
)
"""Headers that a revisit does not take over from the record that it was."""
_END = 4
"""Bytes of the two line ends behind a record."""
_CHUNK = 1 << 26


@dataclass(slots=True)
class Applied:
    """What became of one file."""

    file: str
    made: str = ""
    """Where it is now; empty if it was left as it is."""
    revisits: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    unresolved: list[str] = field(default_factory=list)
    """Records that the plan has as copies and that stay, and why."""


class Originals:
    """Digests of the stored bodies of originals, each read once."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], str] = {}

    def digest(self, file: str, offset: int, record_id: str) -> str:
        """Of the record with *record_id* at *offset* of *file*.

        Raises:
            BadWarc: There is no such record.
            OSError: The file cannot be read.
            ValueError: Its payload cannot be read.
        """
        at = file, offset
        if at not in self._known:
            with open_input(file) as stream:
                found = record_at(stream, file, offset, record_id)
                self._known[at] = stored_digest(stream, found)[0]
        return self._known[at]


def record_at(stream: IO[bytes], name: str, offset: int, record_id: str) -> Found:
    """The record at *offset* of *stream*, which has to have *record_id*.

    Raises:
        BadWarc: There is no such record.
    """
    with closing(records_in(stream, name, offset)) as there:
        found = next(there, None)
    if found is None or found.headers.get("warc-record-id") != record_id:
        raise BadWarc(name, offset, f"not the record {record_id}")
    return found


def stored_digest(stream: IO[bytes], found: Found) -> tuple[str, str]:
    """SHA-256 of the body of *found* as it is stored, and that of its payload.

    Raises:
        ValueError: It cannot be told from its headers.
    """
    computed = hashing("sha256")
    for part in payload_of(stream, found):
        computed.update(part)
    payload = spelled("sha256", computed)
    return body_digest(stream, found, "sha256") or payload, payload


def apply(
    path: Path,
    directory: Path,
    out: Path,
    originals: Originals,
    progress: Callable[[int], None] = lambda _: None,
    mode: int = FILE_MODE,
) -> Applied:
    """Write *path* to *out* as the plan in *directory* has it.

    *out* may be *path*: then the old file is there until the new one is whole.

    Raises:
        StaleManifest: The file has changed since.
        FileTaken: *out* is another file, and there.
        OSError: One cannot be read or written. *path* is as it was.
    """
    manifest = stored_manifest(place_of(path, directory))
    if manifest is None:
        raise StaleManifest(str(path))
    require_current(manifest, Options(manifest.algorithm, manifest.every))
    if out.exists() and not out.samefile(path):
        raise FileTaken(str(out))
    done = Applied(os.fspath(path), bytes_before=manifest.size)
    make_directory(out.parent, mode)
    scratch = out.with_name(out.name + OPEN)
    try:
        with (
            open_input(path) as source,
            open(scratch, "wb", opener=creating(mode)) as target,
        ):
            _Rewriting(source, target, originals, done).run(
                copies_of(directory, os.fspath(path.absolute())), progress
            )
            target.flush()
            os.fsync(target.fileno())
            done.bytes_after = target.tell()
        Listing(mode=mode).write(scratch)
        scratch.replace(out)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
    sync_directory(out.parent)
    done.made = os.fspath(out)
    return done


class _Rewriting:
    """One file, on its way into another."""

    def __init__(
        self, source: IO[bytes], target: IO[bytes], originals: Originals, done: Applied
    ) -> None:
        self._source = source
        self._target = target
        self._originals = originals
        self._done = done
        self._packed = source.read(len(GZIP)) == GZIP

    def run(self, copies: Iterator[Copy], progress: Callable[[int], None]) -> None:
        at = 0
        for copy in copies:
            try:
                revisit = self._revisit(copy)
            except (BadWarc, OSError, ValueError) as error:
                where = f"{copy.file}: the record at byte {copy.record_offset:,} stays"
                self._done.unresolved.append(f"{where}: {error}")
                continue
            self._copy(at, copy.record_offset)
            self._write(revisit)
            at = copy.record_offset + copy.record_length
            at += 0 if self._packed else _END
            self._done.revisits += 1
            progress(at)
        self._copy(at, self._done.bytes_before)
        progress(self._done.bytes_before)

    def _revisit(self, copy: Copy) -> Record:
        """The revisit record of *copy*, once it is proven to be one."""
        found = record_at(
            self._source, copy.file, copy.record_offset, copy.record_id
        )
        if found.length != copy.record_length or found.kind != "response":
            raise BadWarc(copy.file, copy.record_offset, "not the response planned")
        body, payload = stored_digest(self._source, found)
        original = self._originals.digest(
            copy.original_file, copy.original_offset, copy.original_id
        )
        if body != original:
            raise ValueError(
                f"its payload is not that of {copy.original_file} at byte "
                f"{copy.original_offset:,}"
            )
        if b"\r\n\r\n" not in found.block:
            raise ValueError("its HTTP head is too long, or has no end")
        return revisit_of(found, copy, payload.partition(":")[2])

    def _write(self, record: Record) -> None:
        for part in compress(record) if self._packed else record.parts:
            self._target.write(part)

    def _copy(self, start: int, end: int) -> None:
        """Copy bytes of the source, by the kernel."""
        self._target.flush()
        while start < end:
            size = min(end - start, _CHUNK)
            done = os.sendfile(
                self._target.fileno(), self._source.fileno(), start, size
            )
            if not done:
                raise OSError(f"{self._done.file} has become shorter")
            start += done
        self._target.seek(0, os.SEEK_END)


def revisit_of(found: Found, copy: Copy, payload_hex: str) -> Record:
    """The revisit record in place of the response *found*.

    As a crawl of ours writes them, with the headers that *found* has beside those, and
    its HTTP head byte for byte.
    """
    headers = found.headers
    identifier = f"<{uuid.uuid5(NAMESPACE, _fact(copy)).urn}>"
    head = found.block.partition(b"\r\n\r\n")
    block = head[0] + head[1]
    kept = [(n, v) for n, v in headers.pairs() if n.lower() not in _ANEW]
    claimed = headers.get("warc-payload-digest")
    lines = [
        ("WARC-Type", "revisit"),
        ("WARC-Record-ID", identifier),
        *kept,
        ("WARC-Payload-Digest", claimed or labelled(payload_hex)),
        ("WARC-Profile", PROFILE),
        ("WARC-Truncated", "length"),
        ("WARC-Refers-To-Target-URI", escaped(copy.original_url)),
        ("WARC-Refers-To-Date", copy.original_date),
        ("WARC-Refers-To", copy.original_id),
        (REPLACES, copy.record_id),
        ("Content-Type", headers.get("content-type")),
        ("WARC-Block-Digest", labelled(hashlib.sha256(block).hexdigest())),
    ]
    top = "".join(f"{name}: {value}\r\n" for name, value in lines)
    begin = f"WARC/1.1\r\n{top}Content-Length: {len(block)}\r\n\r\n"
    return Record(identifier, (begin.encode("latin-1"), block, b"\r\n\r\n"))


def _fact(copy: Copy) -> str:
    """What the id of a revisit follows from: whoever applies the plan again has it."""
    return f"revisit {copy.record_id} {Path(copy.file).name} {copy.record_offset}"
