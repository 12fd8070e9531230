"""The zip file of a WACZ while it is written.

What always holds:

1.  A member's SHA-256 is that of its bytes as they were read back from the file,
    and their CRC-32 is that of what was read from the source.
2.  The file is written in one place at a time, by this thread or by those that
    copy (`frontier.wacz.copying`).

Nothing here knows what is in a member.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import zipfile
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING

from isal import isal_zlib

from frontier.errors import BadWacz
from frontier.wacz import layout
from frontier.wacz.copying import Copier, Copying

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import BinaryIO, Self

    from frontier.wacz.copying import Copied, Write

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
