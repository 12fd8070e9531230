"""Copying files into one, and reading back what was written.

`main` is a process of its own (`frontier.wacz.copyist` starts it): the index is made
at the same time, and two threads of one process would wait for each other to have
Python's lock. What takes long to import is not imported here: half of the rest is
`json` and `typing`.

What always holds:

1.  Of what was copied the SHA-256 is that of the bytes as they were read back, next to
    their CRC-32 is that of the bytes as they were read from the source.
2.  The process ends when its standard input does: when the one that started it ends.
    Until then it shares that one's lock on the file, so nobody else writes to it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import sys
import threading
from io import FileIO
from queue import SimpleQueue

from isal import isal_zlib

from frontier.files import descriptor_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO, Self

    Write = Callable[[int, memoryview, int], int]

BLOCK = 1 << 20
"""Bytes that are copied at a time; with more, Linux takes twice as long to find memory
for them. The buffers are made once: to have memory mapped anew takes longer still."""
TOLD = 8 << 20
"""Bytes after which progress is told."""
FLUSH = 16 << 20
"""Bytes after which the disk is set to work, so that it is not idle until the end."""


class Copied:
    """What was copied of one file."""

    __slots__ = ("crc", "crc_read", "sha256", "size")

    def __init__(self, size: int, crc_read: int, crc: int, sha256: str) -> None:
        self.size = size
        self.crc_read = crc_read
        """CRC-32 of what was read from it."""
        self.crc = crc
        """CRC-32 of what was read back."""
        self.sha256 = sha256
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
    """Copy what standard input tells, and tell what was done.

    The argument is the descriptor of the file. The input is a line with the size of
    the rest, which is of each file its place, its size and its path, with a NUL after
    each. The answer has a line for each `TOLD` bytes, ``n`` and how many; for each
    file, ``f`` and what a `Copied` has, with a byte more if the file has more; and at
    the end ``d``, or of an `OSError` ``e``, its number, and the number of the file that
    cannot be opened, or -1.
    """
    stream = sys.stdin.buffer
    words = stream.read(int(stream.readline())).split(b"\0")
    threading.Thread(target=_end_with_input, daemon=True).start()
    number, copied = -1, 0

    def told(count: int) -> None:
        nonlocal copied
        copied += count
        if copied >= TOLD:
            _say("n", copied)
            copied = 0

    try:
        with Copier(int(sys.argv[1])) as copier:
            for number in range(len(words) // 3):
                at, size = map(int, words[3 * number : 3 * number + 2])
                path = os.fsdecode(words[3 * number + 2])
                with FileIO(descriptor_of(path, os.O_RDONLY, follow=True)) as source:
                    made = copier.copy(source, at, size, told)
                    more = len(source.read(1))
                _say("f", made.size + more, made.crc_read, made.crc, made.sha256)
    except OSError as error:
        _say("e", error.errno or errno.EIO, number if error.filename else -1)
    else:
        _say("n", copied)
        _say("d")
    os._exit(0)  # what is left to be tidied up takes longer than to begin anew


def _say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def _end_with_input() -> None:
    while os.read(0, BLOCK):  # not with `sys.stdin`, which it would lock for good
        pass
    os._exit(1)
