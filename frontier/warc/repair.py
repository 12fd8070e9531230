"""Closing the files of writers that died.

A record is whole if its gzip member is: it inflates to its end, its checksum
and size are right, and what comes out begins like a WARC record. Nothing is
believed about lengths, and a file is read in blocks, however large a record is.

A file ends with a whole exchange. A response at its end that lacks its request is
cut off, too: it was never acked, and readers would take it for the answer to a GET.

An ``.open`` file whose writer lives is locked (`frontier.warc.file_rotation`) and
left alone, so a node may repair the files of others at any time. So are files
that are not called as ours are: other tools use the suffix with other locks.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import re
import zlib
from dataclasses import dataclass
from io import FileIO
from typing import TYPE_CHECKING

from frontier.files import descriptor_of
from frontier.warc.file_rotation import OPEN, safe_name, sync_directory, tell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import BinaryIO

logger = logging.getLogger(__name__)

_BLOCK_SIZE = 1 << 16
_GZIP = 31  # zlib: expect gzip framing
_MAGIC = b"WARC/1."
_START = 64
"""Bytes of a record that are looked at."""
_KIND = re.compile(rb"WARC/[^\r\n]*\r\nWARC-Type: ([a-z]+)\r\n")
_ANSWERS = frozenset({b"response", b"revisit", b"resource"})
_EXCHANGED = _ANSWERS | {b"request"}
_NAME = re.compile(r".+-[0-9]{17}-[0-9]{5,}-(?P<node>.+)\.warc\.gz\.open")


@dataclass(frozen=True, slots=True)
class Repaired:
    """What became of one ``.open`` file."""

    file: str
    """Its name without ``.open``."""
    records: int
    """How many whole records it has, the warcinfo record included."""
    kept_bytes: int
    cut_bytes: int
    """How many bytes after the last whole record were cut off."""
    removed: bool
    """Whether it had no whole record and was deleted."""


def repair(
    directory: Path,
    node_id: str | None,
    ready: Callable[[Path], None] | None = None,
    refused: Callable[[Path, str], None] | None = None,
) -> list[Repaired]:
    """Close every ``.open`` file in *directory* that has lost its writer.

    Each is cut back to its last whole record. Only the files of *node_id* are
    looked at, or all if it is ``None``. *ready* is called with the ``.open`` path
    of each file that was cut, before it gets its final name, while it is locked;
    what it raises is logged. What has such a name and is not a regular file, a link
    included, is left alone: *refused* is told, and the log without it.

    Raises:
        OSError: A file or the directory cannot be read or changed.
    """
    if not directory.is_dir():
        return []
    node_id = None if node_id is None else safe_name(node_id)
    repaired = []
    for path in sorted(directory.glob(f"*{OPEN}")):
        named = _NAME.fullmatch(path.name)
        if named and node_id in {None, named["node"]}:
            outcome = _repair_file(path, ready, refused or _log)
            if outcome is not None:
                repaired.append(outcome)
    if repaired:
        sync_directory(directory)
    return repaired


def whole_members(stream: BinaryIO | FileIO, magic: bytes = _MAGIC) -> Iterator[int]:
    """Yield the offset at which each whole record of *stream* ends.

    It stops at the first byte that does not belong to a whole record, each of
    which begins with *magic*.
    """
    return (end for end, _, _ in members(stream, magic))


def members(
    stream: BinaryIO | FileIO,
    magic: bytes = _MAGIC,
    check: Callable[[int, int], None] = lambda _, __: None,
) -> Iterator[tuple[int, int, bytes]]:
    """The same, with how many bytes each record inflates to, and its kind.

    *check* is called with what came out of the whole file so far and what went in;
    what it raises ends this.
    """
    end = inflated = 0
    rest = b""
    while True:
        member = _Member(magic)
        before = (inflated, end)

        def grown(text: int, size: int, before: tuple[int, int] = before) -> None:
            check(before[0] + text, before[1] + size)

        size, rest = member.consume(stream, rest, grown)
        inflated += member.inflated
        if not member.whole:
            return
        end += size
        yield end, member.inflated, member.kind


class _Member:
    """One gzip member, inflated block by block and thrown away."""

    def __init__(self, magic: bytes) -> None:
        self._inflate = zlib.decompressobj(_GZIP)
        self._magic = magic
        self._start = b""
        self.inflated = 0
        """Bytes that came out of it."""

    @property
    def whole(self) -> bool:
        """Whether the member ended as it should, and is a WARC record."""
        return self._inflate.eof and self._start.startswith(self._magic)

    @property
    def kind(self) -> bytes:
        """The value of WARC-Type, where our writer puts it."""
        found = _KIND.match(self._start)
        return found[1] if found else b""

    def consume(
        self,
        stream: BinaryIO | FileIO,
        block: bytes,
        grown: Callable[[int, int], None],
    ) -> tuple[int, bytes]:
        """Read the member; return its size and the bytes read beyond it.

        *grown* is told again and again how much came out of how much.
        """
        size = 0
        while not self._inflate.eof:
            block = block or stream.read(_BLOCK_SIZE) or b""
            if not block:
                break
            try:
                data = self._inflate.decompress(block, _BLOCK_SIZE)
            except zlib.error:
                break
            self.inflated += len(data)
            self._start += data[: _START - len(self._start)]
            beyond = self._inflate.unconsumed_tail or self._inflate.unused_data
            size += len(block) - len(beyond)
            block = beyond
            grown(self.inflated, size)
        return size, block


def _log(path: Path, reason: str) -> None:
    logger.error("%s is left alone: %s", path, reason)


def _repair_file(
    path: Path,
    ready: Callable[[Path], None] | None,
    refused: Callable[[Path, str], None],
) -> Repaired | None:
    try:
        file = FileIO(descriptor_of(path, os.O_RDWR), "r+")
    except FileNotFoundError:
        return None  # closed or repaired by somebody else since it was listed
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        refused(path, str(error.strerror))
        return None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            logger.debug("%s is being written; left alone", path)
            return None
        if not _is_at(path, file):
            return None
        return _close(path, file, ready)


def _kept(file: FileIO) -> tuple[int, int]:
    """How many whole records *file* begins with, and where they end.

    Without a response that is the last of them, if requests come after responses:
    those of older files come before.
    """
    records = kept = before = 0
    kind = first = b""
    for end, _, kind in members(file):
        if kind in _EXCHANGED:
            first = first or kind
        records, before, kept = records + 1, kept, end
    if kind in _ANSWERS and first != b"request":
        return records - 1, before
    return records, kept


def _is_at(path: Path, file: FileIO) -> bool:
    """Whether *file* still has the name *path*, now that it is locked."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _close(
    path: Path, file: FileIO, ready: Callable[[Path], None] | None
) -> Repaired | None:
    final = path.with_name(path.name.removesuffix(OPEN))
    if final.exists():
        logger.error("%s cannot be closed: %s exists", path, final.name)
        return None
    records, kept = _kept(file)
    cut = os.fstat(file.fileno()).st_size - kept
    if records == 0:
        path.unlink()
        logger.warning("%s had no whole record (%d bytes); removed", path, cut)
    else:
        os.ftruncate(file.fileno(), kept)
        os.fsync(file.fileno())
        tell([ready] if ready else [], path)
        path.rename(final)
        logger.warning(
            "%s was left open; closed with %d records, %d bytes cut off",
            path,
            records,
            cut,
        )
    return Repaired(final.name, records, kept, cut, removed=records == 0)
