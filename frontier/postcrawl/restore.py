"""Turns revisit records into responses again, with the payload of their original.

What always holds:

1.  A revisit gets a body only from a capture whose payload has the digest that the
    revisit states: one that it names by URL and second or by record id; if there is
    none, any with that digest, or one that is named by the revisits that it refers to.
    A revisit without such a capture stays, and is named.
2.  The HTTP head is that of the revisit, byte for byte, or, if it has none, that of its
    original, which replay tools show. A revisit that `frontier.postcrawl.apply` made
    gets back the block and the id that the response had; any other revisit keeps its
    id, since other records may name it.

A revisit that is due to a server's 304 stays as well: its head is not that of a
response with a body (WARC 1.1, section 6.7.3).
"""

from __future__ import annotations

import os
import tempfile
from typing import IO, TYPE_CHECKING

from frontier.dedupe.digest import PayloadDigest, digest_of_block, hashing, parse
from frontier.errors import BadWarc, StaleManifest
from frontier.postcrawl.actions import PLACE, Action, Pass
from frontier.postcrawl.apply import ANEW, IN_MEMORY, REPLACES, held, made_of
from frontier.postcrawl.engines import duckdb_of_manifests, query, texts
from frontier.postcrawl.originals import Originals, record_at
from frontier.warc.reader import Found, body_start, payload_of
from frontier.warc.records import NOT_MODIFIED, Record

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from frontier.model import Body
    from frontier.postcrawl.selection import Selection

_REVISITS = ANEW - {"warc-payload-digest", "content-type"} | {REPLACES.lower()}
"""Headers that only a revisit has, or that are computed anew."""
CANDIDATES = 8
"""Most captures that are read for a revisit that names only a digest, no capture."""

_NOT_MODIFIED = NOT_MODIFIED[NOT_MODIFIED.index("/revisit/") :]


def restoring(
    directory: Path,
    files: Iterable[Path],
    selection: Selection,
) -> Pass:
    """The pass that restores the revisits in *files* that *selection* takes.

    Originals are looked for in all files that have a manifest in *directory*.
    """
    place = directory / PLACE
    with duckdb_of_manifests(directory) as engine:
        names = [os.fspath(file.absolute()) for file in files]
        engine.table("asked", texts(file=names))
        selected = selection.condition(engine)
        text = query("restore").format(selected=selected, most=CANDIDATES)
        engine.write_by_file(text, place)
    return Pass(directory, place)


def response(
    source: IO[bytes],
    actions: list[Action],
    originals: Originals,
) -> Record:
    """The response that replaces the revisit of *actions*, each with one candidate.

    Raises:
        BadWarc: There is no such record.
        ValueError: It has no original, or no original has its payload.
    """
    revisit = actions[0]
    found = record_at(source, revisit.file, revisit.record_offset, revisit.record_id)
    found.require_whole()
    if found.headers.get("warc-profile").endswith(_NOT_MODIFIED):  # of any version
        raise ValueError("it is of a 304, which has no body")
    wanted = parse(found.headers.get("warc-payload-digest"))
    why = "no capture has the URL and the date that it refers to, or its digest"
    for one in actions:
        if not one.original_file:
            continue
        try:
            original = originals.record(one)
            head = _head(found, original)
            is_chunked = _is_chunked(head)
            if found.headers.get(REPLACES.lower()):  # with the very same stored body
                is_chunked = is_chunked and _is_chunked(original.block)
            body = _body(original, wanted, is_chunked=is_chunked)
        except (BadWarc, OSError, ValueError, StaleManifest) as error:
            why = str(error)
            continue
        return _made(found, head, body)
    raise ValueError(why)


def _is_chunked(head: bytes) -> bool:
    try:
        return body_start(head)[1]
    except ValueError:  # no HTTP
        return False


def _body(original: Found, wanted: PayloadDigest, *, is_chunked: bool) -> Body:
    """The stored body of *original*, if its payload is *wanted*.

    Unless the head that it gets *is_chunked*, its chunks are undone: no reader would
    undo them.

    Raises:
        ValueError: It has another payload, or none that can be read; or the head
            *is_chunked* and the body is not; or the head is not, and the digest is that
            of the chunks.
    """
    of_chunks, of_payload = hashing(wanted.algorithm), hashing(wanted.algorithm)
    has_chunks = False
    with tempfile.SpooledTemporaryFile(max_size=IN_MEMORY) as spool:

        def chunk(part: bytes) -> None:
            nonlocal has_chunks
            has_chunks = True
            of_chunks.update(part)
            if is_chunked:
                spool.write(part)

        for part in payload_of(original, chunk):
            of_payload.update(part)
            if not is_chunked:
                spool.write(part)
        if is_chunked and not has_chunks:
            raise ValueError(
                "the capture that it refers to has no chunks, as its head has"
            )
        if of_payload.digest() != wanted.value:
            if not has_chunks or of_chunks.digest() != wanted.value:
                raise ValueError("the capture that it refers to has another payload")
            if not is_chunked:
                raise ValueError("its digest is of chunks, and its head says none")
        return held(spool)


def _head(found: Found, original: Found) -> bytes:
    """The HTTP head of the revisit *found*, or that of *original* if it has none.

    Raises:
        ValueError: Neither has one that is whole.
    """
    block = found.block
    if not block and found.is_http and original.is_http:
        block = original.block
    return block[: body_start(block)[0]]


def _made(found: Found, block: bytes, body: Body) -> Record:
    headers = found.headers
    identifier = headers.get(REPLACES.lower()) or headers.get("warc-record-id")
    kept = [(n, v) for n, v in headers.pairs() if n.lower() not in _REVISITS]
    lines = [
        ("WARC-Type", "response"),
        ("WARC-Record-ID", identifier),
        *kept,
        ("WARC-Block-Digest", digest_of_block(block, body)),
    ]
    return made_of(identifier, lines, block, body)
