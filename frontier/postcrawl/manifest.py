"""What is in WARC files, a row for each record, as Parquet.

What always holds:

1.  A manifest gets its name after its last byte is on disk. A run that was killed goes
    on with the files that have none.
2.  It says which bytes it is of: the size, the time and both ends of the file. One of
    a file that has changed since is made again, and never used.
3.  Digests are computed from the bytes. What a header claims is noted beside them.
4.  A record whose payload cannot be read has a row that says why. What is wrong with a
    record is in its file's manifest, and the next records follow; where that cannot be
    told, as of a file that is cut off, the rows end there.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any
from zlib import crc32

import pyarrow as pa
import pyarrow.parquet as pq

from frontier.cdx.lines import INDEXED, paired
from frontier.dedupe.digest import in_hex
from frontier.errors import BadWarc, StaleManifest
from frontier.files import FILE_MODE, published
from frontier.postcrawl import index_lines
from frontier.postcrawl.index_lines import CLAIM, Noted, dated
from frontier.postcrawl.payload import Payload
from frontier.postcrawl.remote_files import open_file, path_of, state_of
from frontier.warc.containers import (
    BY_OFFSET,
    PLAIN,
    ZSTD_WHOLE,
    every_record,
    packing_of,
)
from frontier.warc.reader import (
    Head,
    http_head,
    payload_of,
    whole,
)
from frontier.warc.records import escaped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from frontier.cdx.lines import Asked
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
        ("claim", pa.string()),
        ("agrees", pa.bool_()),
        ("refers_to_url", pa.string()),
        ("refers_to_date", pa.string()),
        ("refers_to_id", pa.string()),
        ("head_digest", pa.string()),
        ("whole_digest", pa.string()),
        ("fault", pa.string()),
        ("index_type", pa.string()),
        ("title", pa.string()),
        ("request_body", pa.string()),
        ("payload_key", pa.int64()),
        ("name_key", pa.int64()),
    ]
)
"""Columns. *record_offset* and *record_length* are of the gzip member, in bytes; where
records have none of their own, of the unpacked file (`Manifest.container`). *seq*
counts the file's records. *payload_digest* is of the entity body without its transfer
coding, *body_digest* of the bytes that are stored; *agrees* says whether the former is
what the record claims, which *claim* has in the same spelling. *index_type*, *title*
and *request_body* are for a CDXJ index (`frontier.postcrawl.index_lines`): the media
type as it writes it, if that is not *mime*, the title of a page, and what a form was
sent with. What has one payload digest has one *payload_key*, and what has one URL and
second one *name_key*; others may have them, too. A query groups by those first: they
are an eighth as long.

*url*, *date*, and what a revisit refers to are as a header of ours may have them,
whatever the record says: one name has one spelling. *truncated* is `SEGMENT` for a part
of a record."""
SEGMENT = "segment"
"""The record has `WARC-Segment-Number`: the payload is in several."""
KINDS = frozenset({"response", "resource", "revisit", "conversion"})
"""Records with a payload, or with that of another."""
SUFFIX = ".manifest.parquet"
ROWS = 20_000
"""Rows that are written at a time."""
ENDS = 1 << 16
"""Bytes of each end of a file that are hashed to know it again."""
NAMED = 100
"""Records without a date that are named; all are counted."""
KEPT = 1 << 20
"""Bytes of a record that are kept; of a longer one the rest is hashed as it comes."""
_OFFSET = SCHEMA.names.index("record_offset")
_LENGTH = SCHEMA.names.index("payload_length")
_DIGEST = SCHEMA.names.index("payload_digest")
_URL = SCHEMA.names.index("url")
_MOMENT = SCHEMA.names.index("captured_us")
_NO_HTTP = "", Head(), 0
_KEY = b"frontier"
_DATE = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?Z")


@dataclass(frozen=True, slots=True)
class Options:
    """What is computed."""

    algorithm: str = "sha256"
    every: bool = False
    """Also records without a payload, and digests of each record's head and of all of
    its bytes: to compare two files (`frontier.postcrawl.verify`)."""
    trust_header: bool = False
    """What a record claims is taken for its digest, and not computed. Of a body in
    chunks it is: some tools claim the digest with them."""
    skip_empty: bool = False
    """No rows of records whose payload is empty."""


@dataclass(slots=True)
class Manifest:
    """What a manifest says of its file, beside its rows."""

    file: str
    size: int
    mtime_ns: int
    """Of a file that is elsewhere, what stands for it (`State.changed`)."""
    ends: str
    """Digest of the first and the last `ENDS` bytes."""
    algorithm: str
    every: bool
    records: int = 0
    """Rows."""
    payload_bytes: int = 0
    faults: list[str] = field(default_factory=list)
    """What is wrong with records, and why the file is not read to its end."""
    trust_header: bool = False
    skip_empty: bool = False
    algorithms: list[str] = field(default_factory=list)
    """Those of the digests in its rows: with *trust_header* not only *algorithm*."""
    container: str = PLAIN
    """How the records are packed; see `frontier.warc.containers`."""
    format: str = ""
    """The first line of the first record up to a space: ``WARC/1.0``, or ``ARC/1``."""
    indexed: bool = False
    """Whether its rows have all that a CDXJ index of the file says."""
    undated: int = 0
    """Captures without a date to the second, in UTC: neither copies nor originals."""
    undated_named: list[str] = field(default_factory=list)
    """The first `NAMED` of them, and what is said as their date."""

    @property
    def unwritable(self) -> str:
        """Why no other records can be put into the file; empty if they can."""
        if self.format.startswith("ARC/"):
            return f"{self.file}: an ARC file (frontier warc convert makes it WARC)"
        if self.container not in BY_OFFSET:
            unit = "zstd frame" if self.container == ZSTD_WHOLE else "gzip member"
            reason = f"records share a {unit} (try frontier warc convert)"
            return f"{self.file}: {reason}"
        return ""

    @property
    def options(self) -> Options:
        """How it was read."""
        names = Options.__slots__
        return Options(**{name: getattr(self, name) for name in names})

    def is_of(self, other: Manifest) -> bool:
        """Whether both are of the same bytes."""
        names = ("file", "size", "mtime_ns", "ends")
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
    return Manifest(name, size, mtime, ends, **asdict(options))


def identity(file: IO[bytes]) -> tuple[int, str]:
    """Size of *file*, and the digest of its ends; its position is another then."""
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
        said = (facts.metadata or {}).get(_KEY)
        if not said or facts.schema.names != SCHEMA.names:  # of another version
            return None
        made = json.loads(said)
        return Manifest(**made) if "undated" in made else None
    except (OSError, ValueError, TypeError, pa.ArrowInvalid):
        return None


def require_current(manifest: Manifest) -> None:
    """Refuse to use *manifest* if its file has changed.

    Raises:
        StaleManifest: It has.
        OSError: The file cannot be read.
    """
    if not manifest.is_of(manifest_of(path_of(manifest.file), manifest.options)):
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
    if stored is not None and stored.is_of(made) and stored.options == options:
        progress(made.size)
        return stored
    with published(place, mode) as file:
        _write(path, made, options, file, progress)
    return made


def _write(
    path: Path,
    made: Manifest,
    options: Options,
    file: IO[bytes],
    progress: Callable[[int], None],
) -> None:
    with pq.ParquetWriter(file, SCHEMA, compression="zstd") as writer:
        waiting: list[tuple[Any, ...]] = []
        for row in _rows(path, options, made):
            made.records += 1
            made.payload_bytes += row[_LENGTH] or 0
            waiting.append(row)
            if len(waiting) == ROWS:
                writer.write_table(_table(waiting))
                waiting = []
            progress(row[_OFFSET])
        writer.write_table(_table(waiting))
        writer.add_key_value_metadata({_KEY: json.dumps(asdict(made)).encode()})


def _table(rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(SCHEMA)
    arrays = [
        pa.array(column, field.type)
        for column, field in zip(columns, SCHEMA, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def rows(
    path: Path,
    options: Options,
    fault: Callable[[str], None] = lambda _: None,
    *,
    is_lenient: bool = False,
) -> Iterator[dict[str, Any]]:
    """The rows of *path*, by the names of `SCHEMA`; *fault* is told what is wrong.

    For *is_lenient* see `every_record`.

    Raises:
        OSError: The file cannot be read.
    """
    made = manifest_of(path, options)
    for row in _rows(path, options, made, is_lenient=is_lenient):
        yield dict(zip(SCHEMA.names, row, strict=True))
    for reason in made.faults:
        fault(reason)


def _rows(
    path: Path, options: Options, made: Manifest, *, is_lenient: bool = False
) -> Iterator[tuple[Any, ...]]:
    computed: dict[int, Payload] = {}
    made.indexed = not options.skip_empty

    def all_of(records: Iterable[Found]) -> Iterator[Found]:
        for found in records:
            if not made.format:
                made.format = found.headers.top.split(b"\r\n", 1)[0].decode("latin-1")
            if options.every or found.kind in KINDS:
                computed[found.offset] = Payload(
                    found,
                    options.algorithm,
                    trusts=options.trust_header,
                    every=options.every,
                )
            yield found

    def wrong(error: BadWarc) -> None:
        made.faults.append(str(error))

    with open_file(path, ahead=True) as file:
        made.container = packing_of(file).container
        try:
            read = every_record(file, made.file, wrong, is_lenient=is_lenient)
            for seq, (found, how) in enumerate(paired(whole(all_of(read)))):
                payload = computed.pop(found.offset, None)
                if payload is None:
                    continue
                columns = payload.columns()
                name = columns.get("payload_digest", "").partition(":")[0]
                if name and name not in made.algorithms:
                    made.algorithms.append(name)
                if options.skip_empty and columns.get("payload_length") == 0:
                    continue
                row, noted = _row(made.file, seq, found, how, columns)
                made.indexed &= noted is not None
                if row[_MOMENT] is None and found.kind in KINDS:
                    _note_undated(made, found)
                yield row + (noted or Noted()) + _keys(row)
        except BadWarc as error:
            made.faults.append(str(error))


def _note_undated(made: Manifest, found: Found) -> None:
    made.undated += 1
    if made.undated <= NAMED:
        said = found.headers.get("warc-date")[:40]
        where = f"{made.file}: the record at byte {found.offset:,}"
        made.undated_named.append(f"{where} has no UTC date to the second: {said!r}")


def _row(
    name: str, seq: int, found: Found, how: Asked, columns: dict[str, Any]
) -> tuple[tuple[Any, ...], Noted | None]:
    """What `SCHEMA` names, in its order, up to *fault*, and what is noted beside."""
    get = found.headers.get
    kind = found.kind
    start, mime, status = _answered(found)
    noted: Noted | None = Noted()
    if kind in INDEXED:
        noted = index_lines.noted(found, how, start, mime, status)
    date = dated(get("warc-date"))
    row = (
        name,
        seq,
        found.offset,
        found.length,
        kind,
        get("warc-record-id"),
        escaped(get("warc-target-uri").strip("<>")),
        date,
        microseconds(date),
        mime,
        status,
        how.method or "GET",
        get("warc-truncated") or (SEGMENT if get("warc-segment-number") else None),
        columns.get("payload_length"),
        columns.get("payload_digest"),
        columns.get("body_digest"),
        get("warc-payload-digest")[:CLAIM] or None,
        _claim(get("warc-payload-digest"), columns.get("payload_digest")),
        columns.get("agrees"),
        escaped(get("warc-refers-to-target-uri").strip("<>")) or None,
        dated(get("warc-refers-to-date")) or None,
        (get("warc-refers-to") or None) if kind == "revisit" else None,
        columns.get("head_digest"),
        columns.get("whole_digest"),
        columns.get("fault"),
    )
    return row, noted


def _claim(claimed: str, computed: str | None) -> str | None:
    """What a record claims, spelled as *computed*; ``None`` if it is no digest."""
    if not claimed or claimed == computed:
        return computed if claimed else None
    return in_hex(claimed) or None


def _answered(found: Found) -> tuple[tuple[str, Head, int], str, int | None]:
    """The HTTP head that *found* begins with, its media type, and its status."""
    said, mime, start = "", found.headers.get("content-type"), _NO_HTTP
    if found.kind != "request":
        start = http_head(found.block)
        if found.is_http:
            said, mime = start[0], start[1].get("content-type")
    mime = mime.partition(";")[0].strip().lower()[:100]
    return start, mime, int(said) if said and len(said) < 5 else None


def _keys(row: tuple[Any, ...]) -> tuple[int | None, int | None]:
    digest, url, moment = row[_DIGEST], row[_URL], row[_MOMENT]
    payload = name = None
    if digest is not None:
        payload = int(digest.rpartition(":")[2][:15], 16)
    if moment is not None:
        second = moment // 1_000_000 & 0x7FFFFFFF
        name = second << 32 | crc32(url.encode())
    return payload, name


def stored_digest(found: Found) -> tuple[str, str]:
    """SHA-256 of the body of *found* as it is stored, and that of its payload, in hex.

    Raises:
        BadWarc: As `payload_of`.
        ValueError: It cannot be told from its headers.
    """
    stored: list[Any] = []
    payload = hashlib.sha256()

    def chunk(part: bytes) -> None:
        if not stored:
            stored.append(hashlib.sha256())
        stored[0].update(part)

    for part in payload_of(found, chunk):
        payload.update(part)
    digest = payload.hexdigest()
    return (stored[0].hexdigest() if stored else digest), digest


def microseconds(date: str) -> int | None:
    """A WARC-Date in microseconds since the Unix epoch; ``None`` if it is none."""
    found = _DATE.fullmatch(dated(date))
    if not found:
        return None
    try:
        moment = datetime.fromisoformat(found[1]).replace(tzinfo=UTC)
    except ValueError:
        return None
    return int(moment.timestamp()) * 1_000_000 + int(
        (found[2] or "0")[:6].ljust(6, "0")
    )


def to_second(date: str) -> str:
    """A WARC-Date without what is below a second: readers find captures by that."""
    return f"{date[:19]}Z"


def digits(date: str) -> str:
    """A WARC-Date as indexes have it: 14 digits."""
    return "".join(filter(str.isdigit, date))[:14]
