"""Revisit records become responses again, with the payload of their original.

What always holds:

1.  A revisit gets a body only from a capture whose payload has the digest that the
    revisit states: one that it names by URL and second or by record id; if there is
    none, one with that digest; or what another revisit names that it refers to. Any
    other stays, and is named.
2.  The HTTP head is that of the revisit, byte for byte; of one without, that of its
    original, which replay tools show. What `frontier.postcrawl.apply`
    has made a revisit of is the block that it was, and has the id that it had; any
    other revisit keeps its own, since other records may name it.

A revisit that a server's 304 has led to stays as well: its head is not that of a
response with a body (WARC 1.1, section 6.7.3).
"""

from __future__ import annotations

import base64
import hashlib
import mmap
import os
import tempfile
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa

from frontier.dedupe.digest import labelled, parse
from frontier.errors import BadWarc, StaleManifest
from frontier.files import FILE_MODE
from frontier.postcrawl.apply import REPLACES, made_of
from frontier.postcrawl.engines import duckdb_of_manifests
from frontier.postcrawl.manifest import payload_of
from frontier.postcrawl.originals import RemoteOriginals, Servers
from frontier.postcrawl.payload import hashing, parsed, spelled
from frontier.postcrawl.remote_files import open_file
from frontier.postcrawl.rewriting import Job, Opened, record_at, rewrite
from frontier.postcrawl.selection import ALL
from frontier.warc.reader import body_start, stored_body
from frontier.warc.records import NOT_MODIFIED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from frontier.dedupe.digest import PayloadDigest
    from frontier.model import Body
    from frontier.postcrawl.engines import Engine
    from frontier.postcrawl.rewriting import Rewritten
    from frontier.postcrawl.selection import Selection
    from frontier.warc.reader import Found
    from frontier.warc.records import Record

QUERY = """
WITH r AS (
  SELECT * FROM manifest WHERE type = 'revisit' AND file = (SELECT file FROM asked)
), originals AS (
  SELECT url, date, file, record_offset, record_id FROM manifest
  WHERE type IN ('response', 'resource') AND payload_digest IS NOT NULL
), named AS (
  SELECT r.record_offset AS at, o.date <> r.refers_to_date AS is_near, o.*
  FROM r JOIN originals o
    ON r.refers_to_url = o.url AND left(r.refers_to_date, 19) = left(o.date, 19)
  UNION
  SELECT r.record_offset, FALSE, o.*
  FROM r JOIN originals o ON r.refers_to_id = o.record_id
)
SELECT r.file, r.record_offset, r.record_length, r.record_id,
  r.url, r.date, r.claimed_digest,
  o.file, o.record_offset, o.record_id
FROM r LEFT JOIN named o ON r.record_offset = o.at
ORDER BY r.record_offset, o.is_near, o.file, o.record_offset
"""
FURTHER = """
WITH r AS (
  SELECT manifest.*, root FROM manifest JOIN linked
    ON manifest.file = linked.file AND manifest.record_offset = linked.record_offset
), captures AS (
  SELECT url, date, file, record_offset, record_id, type FROM manifest
  WHERE type = 'revisit'
    OR type IN ('response', 'resource') AND payload_digest IS NOT NULL
)
SELECT root, o.file, o.record_offset, o.record_id, o.type = 'revisit'
FROM r JOIN captures o
  ON r.refers_to_url = o.url AND left(r.refers_to_date, 19) = left(o.date, 19)
UNION
SELECT root, o.file, o.record_offset, o.record_id, o.type = 'revisit'
FROM r JOIN captures o ON r.refers_to_id = o.record_id
"""
"""What revisits name, other revisits too."""
BY_DIGEST = """
WITH captures AS (
  SELECT file, record_offset, record_id, payload_digest,
    lower(rtrim(regexp_replace(claimed_digest, '^.*:', ''), '=')) AS value
  FROM manifest WHERE type IN ('response', 'resource') AND payload_digest IS NOT NULL
)
SELECT claimed, file, record_offset, record_id
FROM captures JOIN spelled ON captures.value = spelled.value
UNION
SELECT claimed, file, record_offset, record_id
FROM captures JOIN spelled ON payload_digest = named
ORDER BY file, record_offset
"""
_REVISITS = frozenset(
    {
        "warc-type",
        "warc-record-id",
        "warc-profile",
        "warc-truncated",
        "warc-refers-to",
        "warc-refers-to-target-uri",
        "warc-refers-to-date",
        "warc-block-digest",
        "content-length",
        REPLACES.lower(),
    }
)
"""Headers that only a revisit has, or that are made again."""
NO_SERVERS = Servers()
_LINKED = ("file", "record_offset", "root")
_IN_MEMORY = 1 << 24
"""Bytes of a body that are held in memory; a larger one is on disk."""


_NOT_MODIFIED = NOT_MODIFIED[NOT_MODIFIED.index("/revisit/") :]


@dataclass(frozen=True, slots=True)
class _Row:
    file: str
    record_offset: int
    record_length: int
    record_id: str
    url: str
    date: str
    claimed_digest: str | None
    original_file: str | None
    original_offset: int | None
    original_id: str | None


@dataclass(frozen=True, slots=True)
class Revisit:
    """A revisit, and the captures that it may mean."""

    file: str
    record_offset: int
    record_length: int
    record_id: str
    originals: tuple[tuple[str, int, str], ...]
    """File, offset and record id of each."""


def revisits_of(
    directory: Path, file: str, selection: Selection = ALL
) -> Iterator[Revisit]:
    """The revisits in *file* that *selection* takes, in its order.

    Originals are looked for in all files that have a manifest in *directory*.
    """
    with duckdb_of_manifests(directory) as engine:
        engine.table("asked", pa.table({"file": [file]}))
        found = (_Row(*row) for row in engine.rows(QUERY))
        takes = selection.takes_revisit
        rows = [row for row in found if takes(row.url, row.date, row.record_id)]
        left = [row for row in rows if row.original_file is None]
        alike = _by_digest(engine, {row.claimed_digest or "" for row in left})
        left = [row for row in left if row.claimed_digest not in alike]
        linked = _linked(engine, file, [row.record_offset for row in left])
    for _, group in groupby(rows, key=attrgetter("record_offset")):
        some_of_it = list(group)
        one = some_of_it[0]
        further = alike.get(one.claimed_digest) or linked.get(one.record_offset, [])
        yield _revisit(some_of_it, further)


def _linked(
    engine: Engine, file: str, offsets: Sequence[int]
) -> dict[int, list[tuple[str, int, str]]]:
    """The captures that the revisits at *offsets* of *file* lead to, by way of others.

    It looks at all manifests once for each link of the longest chain.
    """
    found: dict[int, list[tuple[str, int, str]]] = {}
    linked = {(file, offset, offset) for offset in offsets}
    seen = set(linked)
    while linked:
        columns = dict(zip(_LINKED, zip(*linked, strict=True), strict=True))
        engine.table("linked", pa.table(columns))
        linked = set()
        for root, *place, is_revisit in engine.rows(FURTHER):
            if is_revisit:
                linked.add((place[0], place[1], root))
            else:
                found.setdefault(root, []).append((place[0], place[1], place[2]))
        linked -= seen
        seen |= linked
    return {root: sorted(some) for root, some in found.items()}


def _by_digest(
    engine: Engine, claims: Iterable[str]
) -> dict[str | None, list[tuple[str, int, str]]]:
    """The captures that have the digests *claims*.

    Each is read before it is used, so that it only has to be likely here.
    """
    rows = []
    for claimed in sorted(claims):
        if (digest := parsed(claimed)) is not None:
            base32 = base64.b32encode(digest.value).decode().lower().rstrip("=")
            named = spelled(digest.algorithm, digest.value)
            rows += [(claimed, text, named) for text in (digest.value.hex(), base32)]
    found: dict[str | None, list[tuple[str, int, str]]] = {}
    if rows:
        names = ("claimed", "value", "named")
        columns = dict(zip(names, zip(*rows, strict=True), strict=True))
        engine.table("spelled", pa.table(columns))
        for claimed, *place in engine.rows(BY_DIGEST):
            found.setdefault(claimed, []).append((place[0], place[1], place[2]))
    return found


def _revisit(rows: Sequence[_Row], further: Sequence[tuple[str, int, str]]) -> Revisit:
    first = rows[0]
    originals = tuple(
        (row.original_file, row.original_offset, row.original_id)
        for row in rows
        if row.original_file is not None
        and row.original_offset is not None
        and row.original_id is not None
    )
    return Revisit(
        first.file,
        first.record_offset,
        first.record_length,
        first.record_id,
        originals or tuple(further),
    )


def restore(
    path: Path,
    directory: Path,
    out: Path,
    selection: Selection = ALL,
    servers: Servers = NO_SERVERS,
    progress: Callable[[int], None] = lambda _: None,
    mode: int = FILE_MODE,
) -> Rewritten:
    """Write *path* to *out* with responses in place of the revisits of *selection*.

    *directory* has manifests of it, and of the files that originals are in; for those
    that are in none the CDX *servers* are asked.

    Raises:
        StaleManifest: The file has changed since.
        FileTaken: *out* is another file, and there.
        OSError: One cannot be read or written.
    """
    revisits = revisits_of(directory, str(path.absolute()), selection)
    opened, remote = Opened(directory), RemoteOriginals(servers)

    def make(source: IO[bytes], revisit: Revisit) -> Record:
        return _response(source, revisit, opened, remote)

    job = Job(path, out, directory, revisits, make, f"restore {selection.fact()}")
    return rewrite(job, progress, mode)


def _response(
    source: IO[bytes], revisit: Revisit, opened: Opened, remote: RemoteOriginals
) -> Record:
    """The response in place of *revisit*.

    Raises:
        BadWarc: There is no such record.
        ValueError: It has no original, or none of its payload.
    """
    found = record_at(source, revisit.file, revisit.record_offset, revisit.record_id)
    if found.headers.get("warc-profile").endswith(_NOT_MODIFIED):  # of any version
        raise ValueError("it is of a 304, which has no body")
    wanted = parse(found.headers.get("warc-payload-digest"))
    why = "no capture has the URL and the date that it refers to, or its digest"
    for file, offset, record_id in revisit.originals:
        try:
            with open_file(file) as stream:
                original = opened.record(stream, file, offset, record_id)
                head = _head(found, original)
                body = _body(stream, original, wanted, is_chunked=_is_chunked(head))
        except (BadWarc, OSError, ValueError, StaleManifest) as error:
            why = str(error)
            continue
        return _made(found, head, body)
    with tempfile.TemporaryFile() as stream:
        remote.write(found, why, stream)
        stream.seek(0, os.SEEK_END)
        return _made(found, _head(found, found), _held(stream))


def _is_chunked(head: bytes) -> bool:
    try:
        return body_start(head)[1]
    except ValueError:  # no HTTP
        return False


def _body(
    stream: IO[bytes], original: Found, wanted: PayloadDigest, *, is_chunked: bool
) -> Body:
    """The body of *original*, if its payload is *wanted*: as it is stored.

    Without its chunks, if the head that it gets is of a body without: no reader would
    take them off.

    Raises:
        ValueError: It has another payload, or none that can be read. It has no chunks
            for a head that says so, or only its chunks have the digest, for one that
            does not.
    """
    of_payload: Any = hashing(wanted.algorithm)
    for part in payload_of(stream, original):
        of_payload.update(part)
    stored = stored_body(stream, original) if original.is_http else None
    if is_chunked and stored is None:
        raise ValueError("the capture that it refers to has no chunks, as its head has")
    is_same = of_payload.digest() == wanted.value
    if is_same and not is_chunked:
        stored = None
    of_body: Any = hashing(wanted.algorithm)
    with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as spool:
        for part in stored or payload_of(stream, original):
            spool.write(part)
            of_body.update(part)
        if not is_same and of_body.digest() != wanted.value:
            raise ValueError("the capture that it refers to has another payload")
        if not is_same and not is_chunked:
            raise ValueError("its digest is of chunks, and its head says none")
        return _held(spool)


def _held(spool: IO[bytes]) -> Body:
    """All of *spool*, which is at its end: in memory, or mapped if it is large."""
    size = spool.tell()
    if size > _IN_MEMORY:
        spool.flush()
        return mmap.mmap(spool.fileno(), size, access=mmap.ACCESS_READ)
    spool.seek(0)
    return spool.read()


def _head(found: Found, original: Found) -> bytes:
    """The HTTP head of the revisit *found*.

    Raises:
        ValueError: There is none.
    """
    block = found.block
    if not block and found.is_http and original.is_http:
        block = original.block
    top, gap, _ = block.partition(b"\r\n\r\n")
    if not gap:
        raise ValueError("it has no HTTP head")
    return top + gap


def _made(found: Found, block: bytes, body: Body) -> Record:
    headers = found.headers
    computed = hashlib.sha256(block)
    computed.update(body)
    identifier = headers.get(REPLACES.lower()) or headers.get("warc-record-id")
    kept = [(n, v) for n, v in headers.pairs() if n.lower() not in _REVISITS]
    lines = [
        ("WARC-Type", "response"),
        ("WARC-Record-ID", identifier),
        *kept,
        ("WARC-Block-Digest", labelled(computed.hexdigest())),
    ]
    return made_of(identifier, lines, block, body)
