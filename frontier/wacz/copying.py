"""Copying files into one, and reading back what was written.

The index is made at the same time, so copying has threads of its own. They leave
Python's lock to the others while they read, write and hash, a large block at a time.

What always holds:

1.  Of what was copied the SHA-256 is that of the bytes as they were read back, next to
    their CRC-32 is that of the bytes as they were read from the source.
2.  No thread outlives the `with` block of what began it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import threading
from dataclasses import dataclass
from io import FileIO
from queue import SimpleQueue
from typing import TYPE_CHECKING

from isal import isal_zlib

from frontier.errors import BadWacz
from frontier.files import descriptor_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import IO, Self

    Write = Callable[[int, memoryview, int], int]

BLOCK = 4 << 20
"""Bytes that are copied at a time. With fewer, more time is spent waiting for Python's
lock. The buffers are made once: to have memory mapped again takes longer still."""
FLUSH = 16 << 20
"""Bytes after which the disk is set to work, so that it is not idle until the end."""


@dataclass(frozen=True, slots=True)
class Copied:
    """What was copied of one file."""

    size: int
    crc_read: int
    """CRC-32 of what was read from it."""
    crc: int
    """CRC-32 of what was read back."""
    sha256: str
    """In hex, of what was read back."""


class Copier:
    """Copies to one file; a second thread reads back, a third waits for the disk."""

    def __init__(self, descriptor: int, write: Write = os.pwrite) -> None:
        """Write to *descriptor*, with *write*."""
        self._descriptor = descriptor
        self._write = write
        self._buffer = memoryview(bytearray(BLOCK))
        self._second = memoryview(bytearray(BLOCK))
        self._unflushed = 0
        self._error: OSError | None = None
        self._due: SimpleQueue[bool] = SimpleQueue()
        self._flusher = threading.Thread(target=self._flush, name="frontier-wacz-sync")
        self._flusher.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the threads.

        Raises:
            OSError: Something could not be forced to disk.
        """
        self._due.put(False)
        self._flusher.join()
        if self._error is not None:
            raise self._error

    def copy(
        self, source: IO[bytes], at: int, size: int, told: Callable[[int], object]
    ) -> Copied:
        """Copy *size* bytes of *source*, or what it has, to *at* of the file.

        *told* is called with the size of each piece; what it raises ends this.

        Raises:
            OSError: Something cannot be read or written.
        """
        back = _ReadBack(self._descriptor, at, self._second)
        back.start()
        crc, left = 0, size
        try:
            while left:
                block = self._buffer[: min(left, BLOCK)]
                count = source.readinto(block)  # type: ignore[attr-defined]
                if not count:
                    break
                block = block[:count]
                done = 0
                while done < count:
                    done += self._write(self._descriptor, block[done:], at + done)
                back.written.put(count)
                crc = isal_zlib.crc32(block, crc)
                at += count
                left -= count
                self._unflushed += count
                if self._unflushed >= FLUSH:
                    self._due.put(True)
                    self._unflushed = 0
                told(count)
        finally:
            back.written.put(0)
            back.join()
        if back.error is not None:
            raise back.error
        return Copied(size - left, crc, back.crc, back.digest.hexdigest())

    def _flush(self) -> None:
        while self._due.get():
            try:
                os.fdatasync(self._descriptor)
            except OSError as error:
                self._error = error


class _ReadBack(threading.Thread):
    """Reads what another thread writes, shortly after it."""

    def __init__(self, descriptor: int, at: int, buffer: memoryview) -> None:
        super().__init__(name="frontier-wacz-back")
        self.written: SimpleQueue[int] = SimpleQueue()
        """Sizes of blocks that are in the file now; 0 after the last."""
        self.digest, self.crc = hashlib.sha256(), 0
        self.error: OSError | None = None
        self._descriptor = descriptor
        self._at = at
        self._buffer = buffer

    def run(self) -> None:
        while left := self.written.get():
            try:
                self._read(left)
            except OSError as error:
                self.error = self.error or error

    def _read(self, left: int) -> None:
        while left:
            block = self._buffer[:left]
            count = os.preadv(self._descriptor, [block], self._at)
            if not count:
                raise OSError(errno.EIO, "the file is shorter than what was written")
            self.digest.update(block[:count])
            self.crc = isal_zlib.crc32(block[:count], self.crc)
            self._at += count
            left -= count


class _Stopped(Exception):  # of no concern to anybody: the block has ended
    pass


class Copying:
    """Copies files into another while its `with` block does something else."""

    def __init__(
        self,
        descriptor: int,
        jobs: Sequence[tuple[Path, int, int]],
        progress: Callable[[int], object],
    ) -> None:
        """Begin to copy: of each path so many bytes to that place of *descriptor*.

        *progress* is told in another thread how many bytes were copied.
        """
        self._descriptor = descriptor
        self._jobs = jobs
        self._progress = progress
        self._stop = False
        self._made: list[Copied] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="frontier-wacz-copy")
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop = True
        self._thread.join()

    def check(self) -> None:
        """Raise what has gone wrong, if something has."""
        if self._error is not None:
            raise self._error

    def wait(self) -> list[Copied]:
        """What was copied of each file, when all are.

        Raises:
            OSError: One cannot be read, or the other not written.
            BadWacz: One has grown or shrunk meanwhile.
        """
        self._thread.join()
        self.check()
        return self._made

    def _run(self) -> None:
        try:
            with Copier(self._descriptor) as copier:
                for path, at, size in self._jobs:
                    self._made.append(self._copy(copier, path, at, size))
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self._error = error

    def _copy(self, copier: Copier, path: Path, at: int, size: int) -> Copied:
        with FileIO(descriptor_of(path, os.O_RDONLY, follow=True)) as source:
            made = copier.copy(source, at, size, self._told)
            if made.size != size or source.read(1):
                raise BadWacz(str(path), "its size changes while it is copied")
        return made

    def _told(self, count: int) -> None:
        if self._stop:
            raise _Stopped
        self._progress(count)
