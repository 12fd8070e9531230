"""Lists the content of WARC files as Parquet, a row for each record.

What always holds:

1.  A manifest gets its name after its last byte is on disk. After a kill, the next run
    goes on with the files that have none.
2.  It says which bytes it describes: the size, the time and both ends of the file. If
    the file has changed since, the manifest is made again, and the old one never used.
3.  Digests are computed from the bytes. What a header claims is noted beside them.
4.  A record whose payload cannot be read has a row that says why. What is wrong with a
    record is in its file's manifest, and the next records follow; where no further
    record can be found, as in a file that is cut off, the rows end.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import IO, Any
from zlib import crc32

import pyarrow as pa
import pyarrow.parquet as pq

from frontier.cdx.lines import Asked, capture_of, listed, media_type, paired
from frontier.errors import BadWarc, StaleManifest
from frontier.files import mode_of_environment, published
from frontier.model import frozen
from frontier.postcrawl.payload import Payload, payload_in
from frontier.warc.containers import every_record, packing_of
from frontier.warc.reader import Found, whole
from frontier.warc.records import dated, escaped
from frontier.warc.remote_files import open_file, path_of, state_of

SCHEMA = pa.schema(
    {
        "file": "string",
        "seq": "int64",
        "record_offset": "int64",
        "record_length": "int64",
        "type": "string",
        "record_id": "string",
        "url": "string",
        "date": "string",
        "captured_us": "int64",
        "mime": "string",
        "status": "int32",
        "method": "string",
        "truncated": "string",
        "refers_to_url": "string",
        "refers_to_date": "string",
        "refers_to_id": "string",
        "cdxj": "string",
        "payload_length": "int64",
        "payload_digest": "string",
        "body_digest": "string",
        "claim": "string",
        "agrees": "bool",
        "head_digest": "string",
        "whole_digest": "string",
        "fault": "string",
        "payload_key": "int64",
        "name_key": "int64",
    }
)
"""Columns. *record_offset* and *record_length* are those of the gzip member, in bytes;
where records have none of their own, those in the unpacked file. *seq* counts the
file's records. *cdxj* is the line of the record in an index of the file.
*payload_digest* is that of the entity body without its transfer coding, *body_digest*
that of the stored bytes; *agrees* says whether one of the two is what the record
claims, which is *claim*, in the same spelling. Records with the same payload digest
have the same *payload_key*, those with the same URL and second the same *name_key*;
others may share them by chance. Queries group by these first: they are an eighth as
long.

*url*, *date*, and what a revisit refers to are spelled as in our headers, whatever the
record has: a name has a single spelling. *truncated* is `SEGMENT` for a part of a
record."""
SEGMENT = "segment"
"""The record has `WARC-Segment-Number`: the payload is in several records."""
KINDS = frozenset({"response", "resource", "revisit", "conversion"})
"""Types of records that have a payload, or refer to that of another."""
SUFFIX = ".manifest.parquet"
ROWS = 5_000
"""Rows that are written at a time."""
ENDS = 1 << 16
"""Bytes at each end of a file that are hashed to recognize it."""
_KEY = b"frontier"
_DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@frozen
class Options:
    """What is computed."""

    algorithm: str = "sha256"
    every: bool = False
    """Whether records without a payload, too, and digests of each record's head and of
    all its bytes: to compare two files (`frontier.postcrawl.verify`)."""


@dataclass(slots=True)
class Manifest:
    """What a manifest says of its file, besides its rows."""

    file: str
    size: int
    mtime_ns: int
    """For a file that is elsewhere, what stands for its time (`State.changed`)."""
    ends: str
    """Digest of the first and the last `ENDS` bytes."""
    algorithm: str
    every: bool
    records: int = 0
    """The number of rows."""
    payload_bytes: int = 0
    faults: list[str] = field(default_factory=list)
    """What is wrong with records, and why the file was not read to its end."""
    unwritable: str = ""
    """Why no other records can be put into the file; empty if they can."""
    undated: int = 0
    """Captures without a date to the second, in UTC: neither copies nor originals."""
    undated_first: str = ""
    """Where the first of them is, and what it states as its date."""

    @property
    def left_because(self) -> list[str]:
        """Why the file is left as it is; empty if it may be rewritten."""
        return self.faults + [self.unwritable] * bool(self.unwritable)

    @property
    def without_date(self) -> list[str]:
        """A line about the captures without a date, if there are any."""
        if not self.undated:
            return []
        said = f"{self.file}: captures without a UTC date to the second: "
        return [f"{said}{self.undated:,}, as at {self.undated_first}"]

    def is_of(self, other: Manifest) -> bool:
        """Whether both describe the same bytes, read with the same options."""
        names = ("file", "size", "mtime_ns", "ends", "algorithm", "every")
        return all(getattr(self, name) == getattr(other, name) for name in names)


def manifest_of(path: Path, options: Options) -> Manifest:
    """A manifest of *path* without rows.

    Raises:
        OSError: The file cannot be read.
    """
    with open_file(path) as file:
        mtime = state_of(file).changed
        size, ends = identity(file)
    name = os.fspath(path.absolute())
    return Manifest(name, size, mtime, ends, options.algorithm, options.every)


def identity(file: IO[bytes]) -> tuple[int, str]:
    """Size of *file*, and the digest of its ends; this moves its position."""
    size = state_of(file).size
    file.seek(0)
    ends = hashlib.sha256(file.read(ENDS))
    file.seek(max(0, size - ENDS))
    ends.update(file.read(ENDS))
    return size, ends.hexdigest()


def place_of(path: Path, directory: Path) -> Path:
    """Where the manifest of *path* is in *directory*."""
    where = hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:12]
    return directory / f"{path.name}.{where}{SUFFIX}"


def stored_manifest(place: Path) -> Manifest | None:
    """What the manifest at *place* says; ``None`` if there is none that we made."""
    try:
        facts = pq.read_metadata(place)
        if facts.schema.names != SCHEMA.names:  # of another version
            return None
        return Manifest(**json.loads((facts.metadata or {})[_KEY]))
    except (OSError, ValueError, TypeError, KeyError, pa.ArrowInvalid):
        return None


def require_current(manifest: Manifest) -> None:
    """Refuse to use *manifest* if its file has changed.

    Raises:
        StaleManifest: It has.
        OSError: The file cannot be read.
    """
    options = Options(manifest.algorithm, manifest.every)
    if not manifest.is_of(manifest_of(path_of(manifest.file), options)):
        raise StaleManifest(manifest.file)


def make(path: Path, directory: Path, options: Options) -> Manifest:
    """Make the manifest of *path* in *directory*, unless there is a current one.

    Raises:
        OSError: The file cannot be read, or the manifest cannot be written.
    """
    made, place = manifest_of(path, options), place_of(path, directory)
    stored = stored_manifest(place)
    if stored is not None and stored.is_of(made):
        return stored
    with (
        published(place, mode_of_environment()) as file,
        pq.ParquetWriter(file, SCHEMA, compression="zstd") as writer,
    ):
        rows = _rows(path, options, made)
        while some := list(islice(rows, ROWS)):
            columns = list(map(pa.array, zip(*some, strict=True), SCHEMA.types))
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=SCHEMA))
        writer.add_key_value_metadata({_KEY: json.dumps(asdict(made)).encode()})
    return made


def _rows(path: Path, options: Options, made: Manifest) -> Iterator[tuple[Any, ...]]:
    payloads: dict[int, Payload] = {}

    def read(records: Iterable[Found]) -> Iterator[Found]:
        for found in records:
            if options.every or found.kind in KINDS:
                claim = found.headers.get("warc-payload-digest")
                payloads[found.offset] = payload_in(
                    found, options.algorithm, claim, every=options.every
                )
            yield found

    def wrong(error: BadWarc) -> None:
        made.faults.append(str(error))

    with open_file(path, ahead=True) as file:
        packing = packing_of(file)
        if packing.is_arc or packing.shared:
            reason = f"records share a {packing.shared} (try frontier warc convert)"
            if packing.is_arc:
                reason = "an ARC file (frontier warc convert makes it WARC)"
            made.unwritable = f"{made.file}: {reason}"
        try:
            records = whole(read(every_record(file, made.file, packing, wrong)))
            for seq, (found, how) in enumerate(paired(records)):
                payload = payloads.pop(found.offset, None)
                if payload is None:
                    continue
                made.records += 1
                made.payload_bytes += payload.length or 0
                yield _row(path, made, seq, found, how, payload)
        except BadWarc as error:
            wrong(error)


def _row(
    path: Path, made: Manifest, seq: int, found: Found, how: Asked, payload: Payload
) -> tuple[Any, ...]:
    """The columns of `SCHEMA`, in its order."""
    get = found.headers.get
    capture = line = None
    with suppress(BadWarc):  # its date is invalid: it has no line
        capture = listed(found, path.name, how)
        line = capture.encode().decode() if capture is not None else None
    capture = capture or capture_of(found, path.name, how)
    date = dated(capture.date)
    moment = microseconds(date)
    if moment is None and found.kind in KINDS:
        made.undated += 1
        if not made.undated_first:
            made.undated_first = f"byte {found.offset:,}: {capture.date[:40]!r}"
    url, status = escaped(capture.url), capture.status
    refers: tuple[str | None, ...] = None, None, None
    if found.kind == "revisit":
        of = escaped(get("warc-refers-to-target-uri").strip("<>"))
        at = dated(get("warc-refers-to-date"))
        refers = of or None, at or None, get("warc-refers-to") or None
    payload_key = name_key = None
    if payload.digest is not None:
        payload_key = int(payload.digest.rpartition(":")[2][:15], 16)
    if moment is not None:
        second = moment // 1_000_000 & 0x7FFFFFFF
        name_key = second << 32 | crc32(url.encode())
    return (
        made.file,
        seq,
        found.offset,
        found.length,
        found.kind,
        capture.record_id,
        url,
        date,
        moment,
        media_type(capture.mime).lower()[:100],
        int(status) if status and len(status) < 5 else None,
        how.method or "GET",
        get("warc-truncated") or (SEGMENT if get("warc-segment-number") else None),
        *refers,
        line,
        *payload,
        payload_key,
        name_key,
    )


def microseconds(date: str) -> int | None:
    """A WARC-Date in microseconds since the Unix epoch; ``None`` if it is invalid."""
    if not _DATE.fullmatch(date):
        return None
    try:
        return (datetime.fromisoformat(date) - _EPOCH) // _MICROSECOND
    except ValueError:
        return None


def to_second(date: str) -> str:
    """A WARC-Date without its fraction of a second: readers find captures by that."""
    return f"{date[:19]}Z"
