"""Turns copies in a WARC file into revisit records, each after it was compared.

Before a record loses its payload, it and its original are read, and their stored bodies
are compared, byte for byte. A record that cannot be read, or differs, stays as it is,
and is named. `frontier.postcrawl.rewriting` writes the files.
"""

from __future__ import annotations

import os
from itertools import chain
from typing import IO, TYPE_CHECKING

from frontier.dedupe.digest import digest_of_block
from frontier.errors import BadWarc
from frontier.model import Body, FileBody
from frontier.postcrawl.originals import Originals, record_at
from frontier.warc.reader import BLOCK, Found, Source, body_start
from frontier.warc.records import PROFILE, Record, escaped, identify

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frontier.postcrawl.actions import Action

REPLACES = "X-Frontier-Replaces"
"""The header of a revisit that names the record whose payload it has lost."""
IN_MEMORY = 1 << 24
"""Most bytes of a body that is held in memory; a larger one is on disk."""
HELD = 64
"""Originals of at most `frontier.warc.reader.HEAD_LIMIT` bytes that are held."""
ANEW = frozenset(
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
"""Headers that a revisit does not take over from the record that it replaces."""


class Revisits:
    """Makes revisits; the last originals are held, for the next copies of them."""

    def __init__(self, originals: Originals) -> None:
        self._originals = originals
        self._held: dict[tuple[str, int], Found] = {}

    def of(self, source: IO[bytes], action: Action) -> Record:
        """The revisit record that replaces the copy that *action* names.

        Raises:
            BadWarc: There is no such record, or no such original.
            ValueError: The two differ, or the body of one cannot be read.
            OSError: The original's file cannot be read.
        """
        found = record_at(source, action.file, action.record_offset, action.record_id)
        is_same = _have_same_body(found, self._original(action))
        found.require_whole()
        if found.length != action.record_length:
            raise BadWarc(action.file, action.record_offset, "not the response planned")
        if not is_same:
            where = f"{action.original_file} at byte {action.original_offset:,}"
            raise ValueError(f"its payload is not that of {where}")
        return revisit_of(found, action)

    def _original(self, action: Action) -> Found:
        at = action.original_file, action.original_offset
        found = self._held.get(at)
        if found is None:
            found = self._originals.record(action)
            if not found.missing:
                found.require_whole()
                if len(self._held) == HELD:
                    del self._held[next(iter(self._held))]
                self._held[at] = found
        return found


def _have_same_body(one: Found, other: Found) -> bool:
    """Whether two responses have the same stored body, byte for byte.

    Raises:
        BadWarc: A file is cut off or damaged there, or the length of *other* is a lie.
        ValueError: One is no response, or has no HTTP head.
    """
    bodies = []
    for found in (one, other):
        if found.kind != "response":
            raise ValueError("it is no longer a response")
        start = body_start(found.block)[0]
        bodies.append(Source("", chain([found.block[start:]], found.rest())))
    body, copy = bodies
    while (part := body.some(BLOCK)) and copy.take(len(part)) == part:
        pass
    is_same = not part and not copy.some(1)
    other.require_whole()
    return is_same


def revisit_of(found: Found, action: Action) -> Record:
    """The revisit record that replaces the response *found*.

    It is as our crawls write them, with the other headers of *found*, and its HTTP head
    byte for byte.

    Raises:
        ValueError: It has a header that cannot be written again, or no HTTP head.
    """
    headers = found.headers
    name = os.path.basename(action.file)  # noqa: PTH119 - of each copy
    at = str(action.record_offset)
    identifier = identify("revisit", action.record_id, name, at)
    block = found.block[: body_start(found.block)[0]]
    kept = [(n, v) for n, v in headers.pairs() if n.lower() not in ANEW]
    claimed = headers.get("warc-payload-digest")
    lines = [
        ("WARC-Type", "revisit"),
        ("WARC-Record-ID", identifier),
        *kept,
        ("WARC-Payload-Digest", claimed or action.payload_digest),
        ("WARC-Profile", PROFILE),
        ("WARC-Truncated", "length"),
        ("WARC-Refers-To-Target-URI", escaped(action.original_url)),
        ("WARC-Refers-To-Date", action.original_date),
        ("WARC-Refers-To", action.original_id),
        (REPLACES, action.record_id),
        ("Content-Type", headers.get("content-type")),
        ("WARC-Block-Digest", digest_of_block(block)),
    ]
    return made_of(identifier, lines, block)


def made_of(identifier: str, lines: Sequence[tuple[str, str]], *block: Body) -> Record:
    """A record with *block* and the headers *lines*, some of them from another record.

    Raises:
        ValueError: A header would become two, or cannot be written.
    """
    top = "".join([f"{name}: {value}\r\n" for name, value in lines])
    if not len(lines) == top.count("\n") == top.count("\r"):
        raise ValueError("a header has a line break in it")
    head = f"WARC/1.1\r\n{top}Content-Length: {sum(map(len, block))}\r\n\r\n"
    return Record(identifier, (head.encode("latin-1"), *block, b"\r\n\r\n"))


def held(spool: IO[bytes]) -> Body:
    """All of *spool*, which is at its end: in memory, or in its file if it is large."""
    if spool.tell() > IN_MEMORY:
        return FileBody(spool)
    spool.seek(0)
    return spool.read()
