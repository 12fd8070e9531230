"""A file that grows: WARC files, crawl logs and journals.

What always holds:

1.  A file is called ``<name>.open`` until its last byte is on disk. A file without that
    suffix is whole and never changes again.
2.  While a process writes a file it holds an exclusive `fcntl.flock` on it. An
    ``.open`` file that can be locked has lost its writer.
3.  No file is ever overwritten: ``.open`` files are created exclusively, and only their
    creator, or `close_left` if the final name is free, may drop the suffix.
4.  Nothing is written to a file that somebody has moved or removed.
5.  After an `OSError`, `AppendFile.rollback` brings the file back to where the last
    `flush` or `sync` left it. Until the next one, the last bytes that were appended may
    wait in memory.

Nothing here is thread-safe: a file belongs to one thread at a time.
"""

from __future__ import annotations

import errno
import logging
import os
from typing import TYPE_CHECKING, NamedTuple

from frontier.files import (
    FILE_MODE,
    OPEN,
    create_locked,
    lock_left,
    require_at,
    sync_directory,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from io import FileIO
    from pathlib import Path

logger = logging.getLogger(__name__)

_WAITING = 1 << 17
"""Waiting bytes that are enough to write: more do not stay in the CPU's cache."""


class AppendFile:
    """One ``.open`` file, locked by this process."""

    def __init__(self, directory: Path, name: str, mode: int = FILE_MODE) -> None:
        """Create *name* in *directory*, locked and empty.

        Raises:
            FileExistsError: The name is taken, or a process that saw the file before
                it was locked has it, or has removed it.
            OSError: The directory cannot be written to.
        """
        self.name = name
        self.size = 0
        """Where the next byte goes."""
        self.kept = 0
        """Bytes that `rollback` leaves."""
        self.published = False
        """Whether the file has its final name; then nothing may be added to it."""
        self.final = directory / name
        self._path = directory / f"{name}{OPEN}"
        self._waiting: list[bytes] = []
        self._waiting_size = 0
        self._file = create_locked(self._path, mode)
        if self.final.exists():
            self.discard()
            raise FileExistsError(f"{self.final} exists")

    def append(self, block: bytes) -> None:
        """Append *block*; it may wait in memory until the next `flush` or `sync`."""
        self._waiting.append(block)
        self._waiting_size += len(block)
        self.size += len(block)
        if self._waiting_size >= _WAITING:
            self._hand_over()

    def flush(self) -> None:
        """Hand everything to the operating system; from now on `rollback` keeps it."""
        self._hand_over()
        self.kept = self.size

    def sync(self) -> None:
        """Wait until everything is on disk."""
        self._hand_over()
        os.fsync(self._file.fileno())
        self.kept = self.size

    def rollback(self) -> None:
        """Undo what was written since the last `flush` or `sync`."""
        self._waiting, self._waiting_size = [], 0
        os.ftruncate(self._file.fileno(), self.kept)
        self._file.seek(self.kept)
        self.size = self.kept

    def publish(self, ready: Callable[[Path], object] = lambda _: None) -> None:
        """Put everything on disk, then drop the suffix and the lock.

        In between, *ready* is called with the path that the file still has.
        """
        self.sync()
        if not self.published:  # a second call repeats what failed, not this
            ready(self._path)
            self._path.rename(self.final)
            self.published = True
        sync_directory(self.final.parent)
        self._file.close()

    def abandon(self) -> None:
        """Drop the lock, and leave the file to whoever finds it without a writer."""
        self._file.close()

    def discard(self) -> None:
        """Delete the file."""
        self._path.unlink(missing_ok=True)
        self._file.close()

    def _hand_over(self) -> None:
        """Write what waits; if that fails, the rest goes on waiting."""
        if self._waiting:
            require_at(self._path, self._file.fileno())
        view = memoryview(b"".join(self._waiting))
        try:
            while view:
                view = view[self._file.write(view) or 0 :]
        finally:
            self._waiting = [bytes(view)] if view else []
            self._waiting_size = len(view)


class Closed(NamedTuple):
    """A file that had lost its writer."""

    path: Path
    """Its final path."""
    kept: int
    """Bytes that it has now; if there were none to keep, it was removed."""
    cut: int
    """Bytes that came after those, and were cut off."""


def close_left(
    paths: Iterable[Path],
    whole: Callable[[Path, FileIO], int],
    ready: Callable[[Path], object] = lambda _: None,
    refused: Callable[[Path, str], object] | None = None,
) -> list[Closed]:
    """Close those of *paths*, ``.open`` files, that have lost their writers.

    Each is cut to the bytes that *whole* finds intact, and gets its final name. In
    between, *ready* is called with the path that it still has. A file without such
    bytes is removed, whether its final name is taken or not: a writer that was killed
    before it checked the name leaves such a file. A file that is not regular (a link,
    for example), or whose final name is taken, is left alone: *refused* is called, or
    the log names it.

    Raises:
        OSError: A file cannot be read or changed.
    """
    closed, refused = [], refused or _log_refusal
    for path in paths:
        final = path.with_name(path.name.removesuffix(OPEN))
        try:
            file = lock_left(path)
        except BlockingIOError:
            continue  # it is being written
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            refused(path, str(error.strerror))
            continue
        if file is None:
            continue  # closed by its writer, or by somebody else
        with file:
            end = whole(path, file)
            if end and final.exists():
                refused(path, f"{final.name} exists")
                continue
            size = os.fstat(file.fileno()).st_size
            if end:
                os.ftruncate(file.fileno(), end)
                os.fsync(file.fileno())
                ready(path)
                path.rename(final)
            else:
                path.unlink()
            sync_directory(path.parent)
        closed.append(Closed(final, end, size - end))
    return closed


def _log_refusal(path: Path, reason: str) -> None:
    logger.error("%s was not repaired: %s", path, reason)
