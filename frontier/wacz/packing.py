"""The zip file of a WACZ while it is written.

Members stream into it: none is in memory as a whole. Each is hashed on its way, and
those that the package lists are in `Pack.resources` in the end.
"""

from __future__ import annotations

import hashlib
import os
import re
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from frontier.errors import BadWacz
from frontier.wacz import layout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import BinaryIO, Self

LEVEL = 1
"""Of zlib, for what is compressed here: lists of pages and logs."""
_UNNAMEABLE = re.compile(r"[^a-z0-9._-]")


class Pack:
    """Writes members, and knows their sizes and hashes in the end."""

    def __init__(self, file: BinaryIO, name: str, date: tuple[int, ...]) -> None:
        """Begin a zip in *file*, which is empty; *date* is that of all members."""
        self.resources: list[dict[str, object]] = []
        self._file = file
        self._name = name
        self._date = date
        self._zip = zipfile.ZipFile(file, "w", compresslevel=LEVEL)
        self._short_names: set[str] = set()

    def copy(
        self,
        name: str,
        source: BinaryIO,
        progress: Callable[[int], object] = lambda _: None,
    ) -> None:
        """Put all of *source* into the file as *name*, as it is.

        *progress* is called with the size of each part.

        Raises:
            BadWacz: *name* is there, or *source* grows or shrinks meanwhile.
            OSError: Something cannot be read or written.
        """
        size = source.seek(0, os.SEEK_END)
        source.seek(0)

        def parts() -> Iterator[bytes]:
            left = size
            while left and (part := source.read(min(layout.BLOCK, left))):
                left -= len(part)
                yield part
                progress(len(part))

        if self._put(name, parts(), size, zipfile.ZIP_STORED) != size or source.read(1):
            reason = f"{name} changes its size while it is copied"
            raise BadWacz(self._name, reason)

    def add(self, name: str, blocks: Iterable[bytes], size: int = 0) -> None:
        """Put *blocks* into the file as *name*, compressed.

        If they may come to 2 GiB, *size* has to say how many bytes they are.

        Raises:
            BadWacz: *name* is there.
            OSError: The file cannot be written.
        """
        self._put(name, blocks, size, zipfile.ZIP_DEFLATED)

    def finish(self) -> None:
        """Write the zip's directory and wait until everything is on disk."""
        self._zip.close()
        self._file.flush()
        os.fsync(self._file.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    def _put(self, name: str, blocks: Iterable[bytes], size: int, packing: int) -> int:
        """Write a member; return how many bytes it has."""
        if name in self._zip.NameToInfo:
            raise BadWacz(self._name, f"{name} would be there twice")
        info = zipfile.ZipInfo(name, self._date)  # type: ignore[arg-type]
        info.compress_type = packing
        info.external_attr = 0o644 << 16
        # A ZIP64 field must be in both headers of a member or in none, or wabac looks
        # for its data in the wrong place. From some 5 % below the limit on, zipfile
        # would have it in one of them.
        info.file_size = size if size > zipfile.ZIP64_LIMIT else 0
        digest, count = hashlib.sha256(), 0
        with self._zip.open(info, "w") as member:
            for block in blocks:
                member.write(block)
                digest.update(block)
                count += len(block)
        if name not in {layout.PACKAGE, layout.DIGEST}:
            self._list(name, digest.hexdigest(), count)
        return count

    def _list(self, name: str, digest: str, size: int) -> None:
        # A resource's name is unique and has no capitals (Data Package, "name").
        short = used = _UNNAMEABLE.sub("-", Path(name).name.lower())
        while used in self._short_names:
            used = f"{len(self._short_names)}-{short}"
        self._short_names.add(used)
        facts = {"name": used, "path": name, "hash": f"sha256:{digest}", "bytes": size}
        self.resources.append(facts)
