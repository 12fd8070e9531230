"""Turns copies in a WARC file into revisit records, each after it was compared.

Before a record loses its payload, it and its original are read, and the SHA-256 of
their stored bodies are compared. A record that cannot be read, or differs, stays as it
is, and is named. `frontier.postcrawl.rewriting` writes the files.
"""

from __future__ import annotations

import os
from typing import IO, TYPE_CHECKING

from frontier.dedupe.digest import digest_of_block
from frontier.errors import BadWarc
from frontier.model import Body, FileBody
from frontier.postcrawl.payload import payload_in
from frontier.postcrawl.rewriting import Originals, record_at
from frontier.warc.reader import Found, body_start
from frontier.warc.records import PROFILE, Record, escaped, identify

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frontier.postcrawl.actions import Action

REPLACES = "X-Frontier-Replaces"
"""The header of a revisit that names the record whose payload it has lost."""
IN_MEMORY = 1 << 24
"""Most bytes of a body that is held in memory; a larger one is on disk."""
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


class Compared:
    """Makes revisits; each of *originals* is read once, and its digest kept."""

    def __init__(self, originals: Originals) -> None:
        self._originals = originals
        self._known: dict[tuple[str, int], str] = {}

    def revisit(self, source: IO[bytes], action: Action) -> Record:
        """The revisit record that replaces the copy that *action* names.

        Raises:
            BadWarc: There is no such record, or no such original.
            ValueError: The two differ, or the payload of one cannot be read.
            OSError: The original's file cannot be read.
        """
        found = record_at(source, action.file, action.record_offset, action.record_id)
        body, payload = _digests(found)
        if found.length != action.record_length:
            raise BadWarc(action.file, action.record_offset, "not the response planned")
        if body != self._original(action):
            where = f"{action.original_file} at byte {action.original_offset:,}"
            raise ValueError(f"its payload is not that of {where}")
        return revisit_of(found, action, payload)

    def _original(self, action: Action) -> str:
        at = action.original_file, action.original_offset
        if at not in self._known:
            self._known[at] = _digests(self._originals.record(action))[0]
        return self._known[at]


def _digests(found: Found) -> tuple[str, str]:
    """SHA-256 of the stored body of the response *found*, and of its payload.

    Raises:
        BadWarc: The file is cut off or damaged there, or the record's length is a lie.
        ValueError: It is no response, or its payload cannot be read.
    """
    if found.kind != "response":
        raise ValueError("it is no longer a response")
    payload = payload_in(found)
    found.require_whole()
    if payload.body is None or payload.digest is None:
        raise ValueError(payload.fault)
    return payload.body, payload.digest


def revisit_of(found: Found, action: Action, payload: str) -> Record:
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
        ("WARC-Payload-Digest", claimed or payload),
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
