"""The zip file of a WACZ while it is written.

Members stream into it: none is in memory as a whole. Each is hashed on its way, and
listed in the package at the end.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import zipfile
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import IO, Any, Self

from isal import isal_zlib

from frontier.errors import BadWacz
from frontier.wacz import layout
from frontier.warc.reader import blocks_of, telling

LEVEL = 1
"""zlib's level for what is compressed here: lists of pages and logs."""
ZIPNUM_LINES = 1024
"""Lines in a gzip member of the index."""
ZIPNUM_LEVEL = 2
"""ISA-L's level: some 3 % larger than zlib's at level 6, in an eighth of the time."""
_UNNAMEABLE = re.compile(r"[^a-z0-9._-]")


class Pack:
    """Writes members, their index, and at the end the package that lists them."""

    def __init__(self, file: IO[bytes], name: str, date: tuple[int, ...]) -> None:
        """Begin a zip in *file*, which is empty; all members get the date *date*."""
        self._resources: list[dict[str, object]] = []
        self._name = name
        self._date = date
        self._zip = zipfile.ZipFile(file, "w", compresslevel=LEVEL)
        self._short_names: set[str] = set()

    def copy(
        self,
        name: str,
        source: IO[bytes],
        progress: Callable[[int], object] = lambda _: None,
        packing: int = zipfile.ZIP_STORED,
    ) -> None:
        """Put all of *source* into the file as *name*, compressed if *packing* says so.

        *progress* is called with the size of each part.

        Raises:
            BadWacz: *name* is there already, or *source* grows or shrinks meanwhile.
            OSError: Something cannot be read or written.
        """
        size = source.seek(0, os.SEEK_END)
        parts = telling(blocks_of(source, 0, size), lambda part: progress(len(part)))
        count = self._put(name, parts, size, packing)
        is_log = packing != zipfile.ZIP_STORED  # which may grow
        if count != size or (source.read(1) and not is_log):
            reason = f"{name} changes its size while it is copied"
            raise BadWacz(self._name, reason)

    def add(self, name: str, blocks: Iterable[bytes], size: int = 0) -> None:
        """Put *blocks* into the file as *name*, compressed.

        If they may come to 2 GiB, *size* has to be their number of bytes.

        Raises:
            BadWacz: *name* is there already.
            OSError: The file cannot be written.
        """
        self._put(name, blocks, size, zipfile.ZIP_DEFLATED)

    def add_index(self, lines: Iterable[bytes]) -> int:
        """Put sorted *lines* into the file as its index; return their number.

        It is ZipNum: gzip members of some thousand lines, and an ``.idx`` with a line
        for each member that has the key of its first line, so that a reader inflates
        one member and not the whole index.

        Raises:
            OSError: Something cannot be read or written.
        """
        filename = Path(layout.INDEX).name
        meta = {"format": "cdxj-gzip-1.0", "filename": filename}
        leads, count = [f"!meta 0 {json.dumps(meta)}\n".encode()], 0
        rest = iter(lines)
        # In a file first: a member's size has to be known before; see `_put`.
        with tempfile.TemporaryFile(dir=Path(self._name).parent) as data:
            while chunk := list(islice(rest, ZIPNUM_LINES)):
                member = isal_zlib.compress(b"".join(chunk), ZIPNUM_LEVEL, 31)
                facts = {
                    "offset": data.tell(),
                    "length": len(member),
                    "digest": "sha256:" + hashlib.sha256(member).hexdigest(),
                    "filename": filename,
                }
                key = b" ".join(chunk[0].split(b" ", 2)[:2]).decode()
                leads.append(f"{key} {json.dumps(facts)}\n".encode())
                data.write(member)
                count += len(chunk)
            self.copy(layout.INDEX, data)
        self._put(layout.INDEX_INDEX, leads, 0, zipfile.ZIP_STORED)
        return count

    def finish(self, package: dict[str, Any]) -> None:
        """Add *package*, with all members as its resources, and end the zip."""
        data = json.dumps(package | {"resources": self._resources}, indent=2).encode()
        value = f"sha256:{hashlib.sha256(data).hexdigest()}"
        digest = json.dumps({"path": layout.PACKAGE, "hash": value})
        self.add(layout.PACKAGE, [data])
        self.add(layout.DIGEST, [digest.encode()])
        self._zip.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    def _put(self, name: str, blocks: Iterable[bytes], size: int, packing: int) -> int:
        """Write a member; return its number of bytes."""
        if name in self._zip.NameToInfo:
            raise BadWacz(self._name, f"{name} would be there twice")
        info = zipfile.ZipInfo(name, self._date)  # type: ignore[arg-type]
        info.compress_type = packing
        info.external_attr = 0o644 << 16
        # A ZIP64 field must be in both headers of a member or in none, or wabac looks
        # for its data in the wrong place. From some 5 % below the limit on, zipfile
        # would put it into only one of them.
        info.file_size = size if size > zipfile.ZIP64_LIMIT else 0
        digest, count = hashlib.sha256(), 0
        with self._zip.open(info, "w") as member:
            for block in blocks:
                member.write(block)
                digest.update(block)
                count += len(block)
        # A resource's name is unique and has no capitals (Data Package, "name").
        short = used = _UNNAMEABLE.sub("-", Path(name).name.lower())
        while used in self._short_names:
            used = f"{len(self._short_names)}-{short}"
        self._short_names.add(used)
        value = f"sha256:{digest.hexdigest()}"
        facts = {"name": used, "path": name, "hash": value, "bytes": count}
        self._resources.append(facts)
        return count
