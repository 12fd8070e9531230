"""What is in WARC files, a row for each record, as Parquet.

What always holds:

1.  A manifest gets its name after its last byte is on disk. A run that was killed goes
    on with the files that have none.
2.  It says which bytes it is of: the size, the time and both ends of the file. One of
    a file that has changed since is made again, and never used.
3.  Digests are computed from the bytes. What a header claims is noted beside them.
4.  A record whose payload cannot be read has a row that says why. A file that is
    damaged has the rows up to there, and the fault is in its manifest.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from frontier.cdx.methods import paired
from frontier.dedupe.digest import parse
from frontier.errors import BadWarc, StaleManifest
from frontier.files import FILE_MODE, creating, open_input
from frontier.warc.file_rotation import sync_directory
from frontier.warc.reader import (
    block_of,
    body_of,
    http,
    records_in,
    stored_body,
    whole_record,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from frontier.cdx.methods import Asked
    from frontier.dedupe.digest import PayloadDigest
    from frontier.warc.reader import Found

SCHEMA = pa.schema(
    [
        ("file", pa.string()),
        ("seq", pa.int64()),
        ("record_offset", pa.int64()),
        ("record_length", pa.int64()),
        ("type", pa.string()),
        ("record_id", pa.string()),
        ("url", pa.string()),
        ("date", pa.string()),
        ("captured_us", pa.int64()),
        ("mime", pa.string()),
        ("status", pa.int32()),
        ("method", pa.string()),
        ("truncated", pa.string()),
        ("payload_length", pa.int64()),
        ("payload_digest", pa.string()),
        ("body_digest", pa.string()),
        ("claimed_digest", pa.string()),
        ("agrees", pa.bool_()),
        ("refers_to_url", pa.string()),
        ("refers_to_date", pa.string()),
        ("head_digest", pa.string()),
        ("whole_digest", pa.string()),
        ("fault", pa.string()),
    ]
)
"""Columns. *record_offset* and *record_length* are of the gzip member, in bytes; *seq*
counts the file's records. *payload_digest* is of the entity body without its transfer
coding, *body_digest* of the bytes that are stored; *agrees* says whether the former is
what the record claims."""
KINDS = frozenset({"response", "resource", "revisit", "conversion"})
"""Records with a payload, or with that of another."""
SUFFIX = ".manifest.parquet"
OPEN = ".open"
ALGORITHMS = ("sha256", "sha1", "md5", "sha512", "blake3")
ROWS = 20_000
"""Rows that are written at a time."""
ENDS = 1 << 16
"""Bytes of each end of a file that are hashed to know it again."""
_PART = 1 << 18
_KEY = b"frontier"
_DATE = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?Z")


@dataclass(frozen=True, slots=True)
class Options:
    """What is computed."""

    algorithm: str = "sha256"
    every: bool = False
    """Also records without a payload, and digests of each record's head and of all of
    its bytes: to compare two files (`frontier.postcrawl.verify`)."""


@dataclass(slots=True)
class Manifest:
    """What a manifest says of its file, beside its rows."""

    file: str
    size: int
    mtime_ns: int
    ends: str
    """Digest of the first and the last `ENDS` bytes."""
    algorithm: str
    every: bool
    records: int = 0
    """Rows."""
    payload_bytes: int = 0
    faults: list[str] = field(default_factory=list)
    """Why the file is not read to its end; at most one."""

    def is_of(self, other: Manifest) -> bool:
        """Whether both are of the same bytes, read in the same way."""
        names = ("file", "size", "mtime_ns", "ends", "algorithm", "every")
        return all(getattr(self, name) == getattr(other, name) for name in names)


def manifest_of(path: Path, options: Options) -> Manifest:
    """A manifest of *path* without rows.

    Raises:
        OSError: The file cannot be read.
    """
    with open_input(path) as file:
        mtime = os.fstat(file.fileno()).st_mtime_ns
        size, ends = identity(file)
    name = os.fspath(path.absolute())
    return Manifest(name, size, mtime, ends, options.algorithm, options.every)


def identity(file: IO[bytes]) -> tuple[int, str]:
    """Size of *file*, and the digest of its ends; its position is another then."""
    size = os.fstat(file.fileno()).st_size
    file.seek(0)
    ends = hashlib.sha256(file.read(ENDS))
    file.seek(max(0, size - ENDS))
    ends.update(file.read(ENDS))
    return size, ends.hexdigest()


def publish(place: Path, data: bytes, mode: int = FILE_MODE) -> None:
    """Write *data* to *place*, which gets its name when all of it is on disk.

    Raises:
        OSError: It cannot be written.
    """
    scratch = place.with_name(place.name + OPEN)
    with open(scratch, "wb", opener=creating(mode)) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(place)
    sync_directory(place.parent)


def place_of(path: Path, directory: Path) -> Path:
    """Where the manifest of *path* is in *directory*."""
    where = hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:12]
    return directory / f"{path.name}.{where}{SUFFIX}"


def stored_manifest(place: Path) -> Manifest | None:
    """What the manifest at *place* says; ``None`` if there is none that we made."""
    try:
        said = (pq.read_metadata(place).metadata or {}).get(_KEY)
        return Manifest(**json.loads(said)) if said else None
    except (OSError, ValueError, TypeError, pa.ArrowInvalid):
        return None


def require_current(manifest: Manifest, options: Options) -> None:
    """Refuse to use *manifest* if its file has changed.

    Raises:
        StaleManifest: It has.
        OSError: The file cannot be read.
    """
    if not manifest.is_of(manifest_of(Path(manifest.file), options)):
        raise StaleManifest(manifest.file)


def make(
    path: Path,
    directory: Path,
    options: Options,
    progress: Callable[[int], None] = lambda _: None,
    mode: int = FILE_MODE,
) -> Manifest:
    """Make the manifest of *path* in *directory*, unless it is there.

    *progress* is told how many bytes of the file were read.

    Raises:
        OSError: The file cannot be read, or the manifest not be written.
    """
    made, place = manifest_of(path, options), place_of(path, directory)
    stored = stored_manifest(place)
    if stored is not None and stored.is_of(made):
        progress(made.size)
        return stored
    scratch = place.with_name(place.name + OPEN)
    with open(scratch, "wb", opener=creating(mode)) as file:
        _write(path, made, options, file, progress)
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(place)
    sync_directory(directory)
    return made


def _write(
    path: Path,
    made: Manifest,
    options: Options,
    file: IO[bytes],
    progress: Callable[[int], None],
) -> None:
    with pq.ParquetWriter(file, SCHEMA, compression="zstd") as writer:
        waiting: list[dict[str, Any]] = []
        for row in rows(path, options, made.faults.append):
            made.records += 1
            made.payload_bytes += row["payload_length"] or 0
            waiting.append(row)
            if len(waiting) == ROWS:
                writer.write_table(pa.Table.from_pylist(waiting, SCHEMA))
                waiting = []
            progress(row["record_offset"] + row["record_length"])
        writer.write_table(pa.Table.from_pylist(waiting, SCHEMA))
        writer.add_key_value_metadata({_KEY: json.dumps(asdict(made)).encode()})


def rows(
    path: Path, options: Options, fault: Callable[[str], None] = lambda _: None
) -> Iterator[dict[str, Any]]:
    """The rows of *path*, by the names of `SCHEMA`; *fault* is told why it ends early.

    Raises:
        OSError: The file cannot be read.
    """
    name = os.fspath(path.absolute())
    with open_input(path) as file:
        try:
            for seq, (found, how) in enumerate(paired(records_in(file, name))):
                if options.every or found.kind in KINDS:
                    yield _row(file, name, seq, found, how, options)
        except BadWarc as error:
            fault(str(error))


def _row(
    file: IO[bytes], name: str, seq: int, found: Found, how: Asked, options: Options
) -> dict[str, Any]:
    headers = found.headers
    is_http = found.is_http and found.kind != "request"
    status, head, _ = http(found.block) if is_http else ("", headers, b"")
    date = headers.get("warc-date")
    row: dict[str, Any] = dict.fromkeys(SCHEMA.names) | {
        "file": name,
        "seq": seq,
        "record_offset": found.offset,
        "record_length": found.length,
        "type": found.kind,
        "record_id": headers.get("warc-record-id"),
        "url": headers.get("warc-target-uri").strip("<>"),
        "date": date,
        "captured_us": microseconds(date),
        "mime": head.get("content-type").partition(";")[0].strip().lower()[:100],
        "status": int(status) if status and len(status) < 5 else None,
        "method": how.method or "GET",
        "truncated": headers.get("warc-truncated") or None,
        "claimed_digest": headers.get("warc-payload-digest")[:200] or None,
        "refers_to_url": headers.get("warc-refers-to-target-uri").strip("<>") or None,
        "refers_to_date": headers.get("warc-refers-to-date") or None,
    }
    try:
        if options.every:
            row |= _compared(file, found)
        row |= _payload(file, found, options, row["claimed_digest"] or "")
    except ValueError as error:
        row["fault"] = str(error)
    return row


def _payload(
    file: IO[bytes], found: Found, options: Options, claimed: str
) -> dict[str, Any]:
    """Length and digests of the payload.

    Raises:
        ValueError: It cannot be told from its headers.
    """
    if found.kind == "revisit":
        return {}
    said = _parsed(claimed)
    algorithms = dict.fromkeys([options.algorithm, said.algorithm if said else ""])
    size, of_payload = _digests(payload_of(file, found), algorithms)
    stored = stored_body(file, found) if found.is_http else None
    of_body = _digests(stored, algorithms)[1] if stored is not None else of_payload
    row = {
        "payload_length": size,
        "payload_digest": spelled(options.algorithm, of_payload[options.algorithm]),
        "body_digest": spelled(options.algorithm, of_body[options.algorithm]),
    }
    if said is not None:  # some tools take the digest of the chunks: warcio, wget
        both = of_payload[said.algorithm], of_body[said.algorithm]
        row["agrees"] = said.value in both
    elif claimed:
        row["agrees"] = False
    return row


def _digests(
    parts: Iterator[bytes], algorithms: Iterable[str]
) -> tuple[int, dict[str, bytes]]:
    """How long *parts* are, and their digests."""
    computed = {name: hashing(name) for name in algorithms if name}
    every, size = list(computed.values()), 0
    for part in parts:
        size += len(part)
        for one in every:
            one.update(part)
    return size, {name: one.digest() for name, one in computed.items()}


def payload_of(file: IO[bytes], found: Found) -> Iterator[bytes]:
    """The payload of *found*, in parts.

    Raises:
        ValueError: It is HTTP, and its head or its chunks are wrong.
    """
    block = block_of(file, found)
    if found.is_http:
        return body_of(block)
    return iter(lambda: block.read(_PART), b"")


def stored_digest(file: IO[bytes], found: Found) -> tuple[str, str]:
    """SHA-256 of the body of *found* as it is stored, and that of its payload, in hex.

    Raises:
        ValueError: It cannot be told from its headers.
    """
    _, payload = _digests(payload_of(file, found), ["sha256"])
    stored = stored_body(file, found) if found.is_http else None
    body = _digests(stored, ["sha256"])[1] if stored is not None else payload
    return body["sha256"].hex(), payload["sha256"].hex()


def _compared(file: IO[bytes], found: Found) -> dict[str, Any]:
    """Digests of the HTTP head, and of all of the record."""
    whole = hashlib.sha256()
    for part in whole_record(file, found.offset, found.length):
        whole.update(part)
    head = b""
    if found.is_http:
        top, gap, _ = found.block.partition(b"\r\n\r\n")
        head = top + gap
    return {
        "head_digest": hashlib.sha256(head).hexdigest(),
        "whole_digest": whole.hexdigest(),
    }


def hashing(algorithm: str) -> Any:
    """A digest of nothing yet, of one of `ALGORITHMS`.

    Raises:
        ImportError: *algorithm* is ``blake3``, and that package is not installed.
    """
    if algorithm == "blake3":
        from blake3 import blake3

        return blake3()
    return hashlib.new(algorithm, usedforsecurity=False)


def spelled(algorithm: str, value: bytes) -> str:
    """How a manifest spells a digest: one spelling for all algorithms."""
    return f"{algorithm}:{value.hex()}"


def _parsed(claimed: str) -> PayloadDigest | None:
    try:
        return parse(claimed)
    except ValueError:
        return None


def microseconds(date: str) -> int | None:
    """A WARC-Date in microseconds since the Unix epoch; ``None`` if it is none."""
    found = _DATE.fullmatch(date)
    if not found:
        return None
    try:
        moment = datetime.fromisoformat(found[1]).replace(tzinfo=UTC)
    except ValueError:
        return None
    return int(moment.timestamp()) * 1_000_000 + int(
        (found[2] or "0")[:6].ljust(6, "0")
    )
