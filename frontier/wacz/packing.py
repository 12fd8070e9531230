"""The zip file of a WACZ while it is written.

What always holds:

1.  A member's SHA-256 is that of its bytes as they were read back from the file,
    and their CRC-32 is that of what was read from the source.
2.  One member is written at a time, by one thread. A second thread reads it
    back, a third has it forced to disk meanwhile, so that the disk is not idle
    until the end.
3.  Memory does not grow with the members: two blocks are kept.

Nothing here knows what is in a member.
"""

from __future__ import annotations

import hashlib
import os
import re
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import TYPE_CHECKING

from isal import isal_zlib

from frontier.errors import BadWacz
from frontier.wacz import layout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Future
    from io import FileIO
    from typing import BinaryIO, Self

BLOCK = 1 << 20
"""Bytes that are copied at a time. The buffers for them are made once: to have
memory mapped anew for each costs more than to copy them."""
FLUSH = 16 << 20
"""Bytes after which the disk is set to work."""
_UNNAMEABLE = re.compile(r"[^a-z0-9._-]")


class Pack:
    """Writes members, and knows their sizes and hashes in the end."""

    def __init__(self, file: BinaryIO, name: str, date: tuple[int, ...]) -> None:
        """Begin a zip in *file*, which is empty; *date* is that of all members."""
        self.resources: list[dict[str, object]] = []
        self._file = file
        self._name = name
        self._date = date
        self._zip = zipfile.ZipFile(file, "w", allowZip64=True)
        self._buffer = memoryview(bytearray(BLOCK))
        self._second = memoryview(bytearray(BLOCK))
        self._flusher = ThreadPoolExecutor(1, "frontier-wacz-sync")
        self._flushed: Future[None] | None = None
        self._unflushed = 0
        self._given_up = False
        self._names: set[str] = set()

    def copy(
        self,
        name: str,
        source: FileIO | BinaryIO,
        progress: Callable[[int], object] = lambda _: None,
    ) -> None:
        """Put the rest of *source* into the file as *name*, as it is.

        Raises:
            BadWacz: What is in the file is not what was read, or *name* is there.
            OSError: Something cannot be read or written.
        """
        info = self._info(name)
        if name in self._zip.NameToInfo:
            raise BadWacz(self._name, f"{name} would be there twice")
        info.CRC = 0
        info.header_offset = self._file.tell()
        self._file.write(info.FileHeader(zip64=True))  # again when all is known
        start = self._file.tell()
        size = crc = 0
        with ThreadPoolExecutor(1, "frontier-wacz-back") as pool:
            back = _ReadBack(self._file.fileno(), start, self._second)
            reading = pool.submit(back.run)
            try:
                while count := source.readinto(self._buffer):  # type: ignore[union-attr]
                    if self._given_up:
                        raise BadWacz(self._name, "was given up")
                    block = self._buffer[:count]
                    self._file.write(block)
                    self._file.flush()
                    back.written.put(count)
                    crc = isal_zlib.crc32(block, crc)
                    size += count
                    self._flush(count)
                    progress(count)
            finally:
                back.written.put(0)
            digest, found = reading.result()
        if found != crc:
            raise BadWacz(self._name, f"{name}: what was written is not what was read")
        info.CRC, info.file_size, info.compress_size = crc, size, size
        self._file.seek(info.header_offset)
        self._file.write(info.FileHeader(zip64=True))
        self._file.seek(start + size)
        # Not with `ZipFile.open`: its CRC-32 takes three times as long.
        self._zip.filelist.append(info)
        self._zip.NameToInfo[name] = info
        self._zip.start_dir = start + size
        self._list(name, digest, size)

    def give_up(self) -> None:
        """Have `copy`, in another thread, raise `BadWacz` soon."""
        self._given_up = True

    def add(self, name: str, blocks: Iterable[bytes]) -> None:
        """Put *blocks* into the file as *name*, compressed."""
        info, digest = self._info(name, deflate=True), hashlib.sha256()
        with self._zip.open(info, "w", force_zip64=True) as to:
            for block in blocks:
                to.write(block)
                digest.update(block)
        if name not in {layout.PACKAGE, layout.DIGEST}:
            self._list(name, digest.hexdigest(), info.file_size)

    def finish(self) -> None:
        """Write the zip's directory and wait until everything is on disk."""
        self._zip.close()
        self._file.flush()
        self._flusher.shutdown()
        if self._flushed is not None:
            self._flushed.result()
        os.fsync(self._file.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._flusher.shutdown()
        self._zip.close()

    def _flush(self, count: int) -> None:
        self._unflushed += count
        if self._unflushed < FLUSH or not (
            self._flushed is None or self._flushed.done()
        ):
            return
        if self._flushed is not None:
            self._flushed.result()
        self._unflushed = 0
        self._flushed = self._flusher.submit(os.fdatasync, self._file.fileno())

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


class _ReadBack:
    """Reads what another thread writes, shortly after it."""

    def __init__(self, descriptor: int, start: int, buffer: memoryview) -> None:
        self.written: Queue[int] = Queue()
        """Sizes of blocks that are in the file now; 0 after the last."""
        self._descriptor = descriptor
        self._at = start
        self._buffer = buffer

    def run(self) -> tuple[str, int]:
        """The SHA-256 and the CRC-32 of what is in the file."""
        digest, crc = hashlib.sha256(), 0
        buffer = self._buffer
        while left := self.written.get():
            while left:
                count = os.preadv(self._descriptor, [buffer[:left]], self._at)
                if not count:
                    raise OSError("the file is shorter than what was written")
                digest.update(buffer[:count])
                crc = isal_zlib.crc32(buffer[:count], crc)
                self._at += count
                left -= count
        return digest.hexdigest(), crc
