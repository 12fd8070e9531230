"""Payloads of one digest, compared byte for byte: which of them are one content.

What always holds:

1.  Each capture is read once. The first of each content waits in a temporary file, in
    memory if it is small, until all captures of the digest are compared.
2.  Two captures have one content only if all of their stored bytes are the same. A
    digest only says which of the waiting ones to compare.
3.  A capture that cannot be read, or is one too many, is unresolved, and named.
"""

from __future__ import annotations

import hashlib
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import IO, TYPE_CHECKING

import pyarrow as pa

from frontier.errors import BadWarc
from frontier.postcrawl.manifest import payload_of
from frontier.postcrawl.remote_files import open_file
from frontier.postcrawl.rewriting import record_at
from frontier.warc.reader import stored_body

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

SCHEMA = pa.schema(
    [("file", pa.string()), ("record_offset", pa.int64()), ("content", pa.int32())]
)
"""*content* is 1, 2 and so on for each content of a digest; `UNRESOLVED` for none."""
UNRESOLVED = 0
CONTENTS = 64
"""Contents of one digest that are told from each other. More are nobody's accident:
they would take the disk's space and an hour for each digest."""
_IN_MEMORY = 1 << 20
_PART = 1 << 18


@dataclass(frozen=True, slots=True)
class Candidate:
    """A capture whose payload may be that of another."""

    file: str
    record_offset: int
    record_id: str
    payload_digest: str
    payload_length: int
    body_digest: str


@dataclass(slots=True)
class Compared:
    """What was read."""

    captures: int = 0
    bytes_read: int = 0
    """Of stored bodies."""
    unresolved: int = 0


@dataclass(slots=True)
class _Contents:
    """What the captures of one digest have been so far."""

    by_digest: dict[bytes, list[tuple[int, IO[bytes]]]] = field(default_factory=dict)
    count: int = 0

    def known(self, digest: bytes, body: IO[bytes]) -> int | None:
        for content, other in self.by_digest.get(digest, ()):
            if _is_same(body, other):
                return content
        return None

    def add(self, digest: bytes, body: IO[bytes]) -> int:
        self.count += 1
        self.by_digest.setdefault(digest, []).append((self.count, body))
        return self.count


def compare(
    candidates: Iterable[Candidate],
    done: Compared,
    unresolved: Callable[[str], None] = lambda _: None,
) -> Iterator[tuple[str, int, int]]:
    """Yield file, offset and content of each of *candidates*, as `SCHEMA` has it.

    The candidates of one digest come together. *unresolved* is told which cannot be
    compared, and why.
    """
    digest = attrgetter("payload_digest", "payload_length", "body_digest")
    for _, group in groupby(candidates, key=digest):
        contents = _Contents()
        with ExitStack() as stack:
            for one in group:
                try:
                    content = _content(one, contents, done, stack)
                except (BadWarc, OSError, ValueError) as error:
                    content = UNRESOLVED
                    done.unresolved += 1
                    where = f"{one.file}: the record at byte {one.record_offset:,}"
                    unresolved(f"{where} is no copy: it is not compared: {error}")
                yield one.file, one.record_offset, content


def _content(
    one: Candidate, contents: _Contents, done: Compared, stack: ExitStack
) -> int:
    with ExitStack() as own:
        body = own.enter_context(tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY))
        digest = _read(one, body)
        done.captures += 1
        done.bytes_read += body.tell()
        known = contents.known(digest, body)
        if known is not None:
            return known
        if contents.count == CONTENTS:
            raise ValueError(f"{CONTENTS} other payloads have its digest")
        stack.push(own.pop_all())
        return contents.add(digest, body)


def _read(one: Candidate, body: IO[bytes]) -> bytes:
    """Copy the stored body of *one*; return its SHA-256.

    Raises:
        BadWarc: There is no such record.
        ValueError: It has no body that can be read.
        OSError: Its file cannot be read.
    """
    computed = hashlib.sha256()
    with open_file(one.file) as stream:
        found = record_at(stream, one.file, one.record_offset, one.record_id)
        stored = stored_body(stream, found) if found.is_http else None
        for part in stored if stored is not None else payload_of(stream, found):
            body.write(part)
            computed.update(part)
    return computed.digest()


def _is_same(one: IO[bytes], other: IO[bytes]) -> bool:
    one.seek(0)
    other.seek(0)
    while True:
        part = one.read(_PART)
        if part != other.read(_PART):
            return False
        if not part:
            return True
