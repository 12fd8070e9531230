"""The zip file of a WACZ while it is written.

What always holds:

1.  A member's SHA-256 is that of its bytes as they were read back from the file,
    and their CRC-32 is that of what was read from the source.
2.  The file is written in one place at a time, by this thread or by those that
    copy. No thread outlives the `with` block of what began it.

The index is made while WARC files are copied, so copying has threads of its own. They
release Python's lock while they read, write and hash large blocks. Nothing here knows
what is in a member.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import threading
import zipfile
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from queue import SimpleQueue
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING

from isal import isal_zlib
from typing_extensions import override

from frontier.errors import BadWacz
from frontier.files import descriptor_of
from frontier.wacz import layout

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import IO, Self

    Write = Callable[[int, memoryview, int], int]
    from collections.abc import Callable, Iterable
    from typing import BinaryIO


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

    @override
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

        *progress* is called in another thread with how many bytes were copied.
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


LEVEL = 2
"""Of ISA-L, for what is compressed here."""
SPOOLED = 1 << 20
"""Bytes of a member that wait in memory while it is compressed; more wait on disk."""
_UNNAMEABLE = re.compile(r"[^a-z0-9._-]")


class Pack:
    """Writes members, and knows their sizes and hashes in the end."""

    def __init__(
        self,
        file: BinaryIO,
        name: str,
        date: tuple[int, ...],
        write: Write = os.pwrite,
    ) -> None:
        """Begin a zip in *file*, which is empty; *date* is that of all members."""
        self.resources: list[dict[str, object]] = []
        self._file = file
        self._name = name
        self._date = date
        self._write = write
        self._zip = zipfile.ZipFile(file, "w", allowZip64=True)
        self._begun: list[zipfile.ZipInfo] = []
        self._names: set[str] = set()

    def begin(
        self, files: Sequence[tuple[str, Path]], progress: Callable[[int], object]
    ) -> Copying:
        """Begin to put *files* into the file as they are, under names, before others.

        Other threads copy them; `settle` waits for it, and has to be next.

        Raises:
            BadWacz: A name is there.
            OSError: One is not there.
        """
        jobs, at = [], self._file.tell()
        for name, path in files:
            info, size = self._new(name), path.stat().st_size
            info.header_offset = at
            at += _room(info, size)
            jobs.append((path, at, size))
            at += size
            self._begun.append(info)
        return Copying(self._file.fileno(), jobs, progress)

    def settle(self, copying: Copying) -> None:
        """Wait until what was begun is in the file.

        Raises:
            BadWacz: What is in the file is not what was read.
            OSError: Something cannot be read or written.
        """
        for info, made in zip(self._begun, copying.wait(), strict=True):
            self._put(info, made)

    def copy(self, name: str, source: BinaryIO) -> None:
        """Put the rest of *source* into the file as *name*, as it is.

        Raises:
            BadWacz: What is in the file is not what was read, or *name* is there.
            OSError: Something cannot be read or written.
        """
        info = self._new(name)
        info.header_offset = self._file.tell()
        size = _rest(source)
        at = info.header_offset + _room(info, size)
        with Copier(self._file.fileno(), self._write) as copier:
            made = copier.copy(source, at, size, lambda _: None)
        self._put(info, made)

    def add(self, name: str, blocks: Iterable[bytes]) -> None:
        """Put *blocks* into the file as *name*, compressed.

        Raises:
            BadWacz: *name* is there.
            OSError: The file cannot be written.
        """
        info, digest, crc, size = self._new(name, deflate=True), hashlib.sha256(), 0, 0
        deflate = isal_zlib.compressobj(LEVEL, isal_zlib.DEFLATED, -15)
        with SpooledTemporaryFile(SPOOLED, dir=str(Path(self._name).parent)) as spool:
            for block in blocks:
                spool.write(deflate.compress(block))
                digest.update(block)
                crc = isal_zlib.crc32(block, crc)
                size += len(block)
            spool.write(deflate.flush())
            packed = spool.tell()
            spool.seek(0)
            info.header_offset = self._file.tell()
            self._file.seek(_room(info, size, packed), os.SEEK_CUR)
            shutil.copyfileobj(spool, self._file, layout.BLOCK)
        if name in {layout.PACKAGE, layout.DIGEST}:
            self._end(info, crc, size, packed)
        else:
            self._end(info, crc, size, packed, digest.hexdigest())

    def finish(self) -> None:
        """Write the zip's directory and wait until everything is on disk."""
        self._zip.close()
        self._file.flush()
        os.fsync(self._file.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    def _new(self, name: str, *, deflate: bool = False) -> zipfile.ZipInfo:
        info = self._info(name, deflate=deflate)
        if name in self._zip.NameToInfo:
            raise BadWacz(self._name, f"{name} would be there twice")
        # Not with `ZipFile.open`: its CRC-32 takes three times as long, DEFLATE ten.
        self._zip.NameToInfo[name] = info
        info.CRC = 0
        return info

    def _put(self, info: zipfile.ZipInfo, made: Copied) -> None:
        if made.crc != made.crc_read:
            reason = f"{info.filename}: what was written is not what was read"
            raise BadWacz(self._name, reason)
        self._end(info, made.crc, made.size, made.size, made.sha256)

    def _end(
        self, info: zipfile.ZipInfo, crc: int, size: int, packed: int, sha256: str = ""
    ) -> None:
        """Write the header of a member that is there; list it, if it has a SHA-256."""
        info.CRC, info.file_size, info.compress_size = crc, size, packed
        self._file.seek(info.header_offset)
        self._file.write(info.FileHeader())
        self._file.seek(packed, os.SEEK_CUR)
        self._zip.filelist.append(info)
        self._zip.start_dir = self._file.tell()
        if sha256:
            self._list(info.filename, sha256, size)

    def _list(self, name: str, digest: str, size: int) -> None:
        # A resource's name is unique and has no capitals (Data Package, "name").
        short = used = _UNNAMEABLE.sub("-", Path(name).name.lower())
        while used in self._names:
            used = f"{len(self._names)}-{short}"
        self._names.add(used)
        facts = {"name": used, "path": name, "hash": f"sha256:{digest}", "bytes": size}
        self.resources.append(facts)

    def _info(self, name: str, *, deflate: bool = False) -> zipfile.ZipInfo:
        info = zipfile.ZipInfo(name, self._date)  # type: ignore[arg-type]
        info.compress_type = zipfile.ZIP_DEFLATED if deflate else zipfile.ZIP_STORED
        info.external_attr = 0o644 << 16
        return info


def _room(info: zipfile.ZipInfo, size: int, packed: int | None = None) -> int:
    """The size of the local header of a member with *size* bytes."""
    info.file_size, info.compress_size = size, size if packed is None else packed
    return len(info.FileHeader())


def _rest(source: BinaryIO) -> int:
    """How many bytes *source* has left."""
    at = source.tell()
    size = source.seek(0, os.SEEK_END) - at
    source.seek(at)
    return size
