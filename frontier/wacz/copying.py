"""Copying files into one, and reading back what was written.

`main` is a process of its own (`frontier.wacz.copyist` starts it): the index is made
at the same time, and two threads of one process would wait for each other to have
Python's lock. So nothing is imported here that takes time.

What always holds:

1.  Of what was copied the SHA-256 is that of the bytes as they were read back, next to
    their CRC-32 is that of the bytes as they were read from the source.
2.  The process ends when its standard input does: when the one that started it ends.
    Until then it shares that one's lock on the file, so nobody else writes to it.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import signal
import sys
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING, NamedTuple

from isal import isal_zlib

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO, Self

    Write = Callable[[int, memoryview, int], int]

BLOCK = 1 << 20
"""Bytes that are copied at a time; with more, Linux takes twice as long to find memory
for them. The buffers are made once: to have memory mapped anew takes longer still."""
FLUSH = 16 << 20
"""Bytes after which the disk is set to work, so that it is not idle until the end."""


class Copied(NamedTuple):
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

        *told* is called with the size of each piece.

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


def main() -> None:
    """Copy what the first line of standard input tells, and tell what was done.

    That line is a list of paths, places and sizes; the argument is the descriptor of
    the file. The answer is a line for each piece, its size; for each file, a `Copied`;
    and for an `OSError`, its facts, which is the last.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other one tells when to end
    jobs = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with, args=(sys.stdin.buffer,), daemon=True).start()
    try:
        with Copier(int(sys.argv[1])) as copier:
            for path, at, size in jobs:
                with open(path, "rb", buffering=0) as source:  # noqa: PTH123 (imports)
                    made = copier.copy(source, at, size, _say)
                    if made.size != size or os.fstat(source.fileno()).st_size != size:
                        reason = "its size changes while it is copied"
                        raise OSError(errno.EIO, reason, path)  # noqa: TRY301
                _say(made)
    except OSError as error:
        _say({"errno": error.errno, "text": error.strerror, "path": error.filename})


def _say(what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def _end_with(stream: IO[bytes]) -> None:
    stream.read()
    os._exit(1)
