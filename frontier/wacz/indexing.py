"""The index, the pages and the needs of a set of WARC files.

What always holds:

1.  Each capture has its line once: from the index beside its file, or, where
    that is missing or does not fit, from the file itself.
2.  What grows with the files is in files beside the output, not in memory.
"""

from __future__ import annotations

import bisect
import contextlib
import heapq
import itertools
import json
import logging
import os
from typing import TYPE_CHECKING

from frontier.cdx.lines import line_of
from frontier.cdx.methods import GET, paired
from frontier.cdx.sorting import BATCH, Captures, canonical, need_of
from frontier.files import FILE_MODE, creating
from frontier.wacz import layout
from frontier.wacz.layout import page_of
from frontier.wacz.listed import Unusable, listed
from frontier.warc.reader import records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from typing import BinaryIO, Self

    from frontier.cdx.sorting import Need

logger = logging.getLogger(__name__)

MERGED = 200
"""Indexes that are read at the same time."""
_PIECE = 1 << 16
"""Bytes that are read of each at once."""
# No value has these bytes: quotes in JSON strings are escaped.
_DIGEST = b'"digest": "'
_REVISIT = b'"mime": "warc/revisit"'
_MASK = (1 << 22) - 1
_CANONICAL = len("sha256:") + 64


class Indexing:
    """Takes WARC files one after the other; belongs to one thread."""

    def __init__(
        self,
        scratch: Callable[[str], Path],
        seeds: frozenset[str],
        mode: int = FILE_MODE,
    ) -> None:
        """Begin with none; *scratch* says where a file of a name may be made."""
        self._opener = creating(mode)
        self.pages = 0
        """How many pages there are."""
        self.read = 0
        """How many files were read because their index could not be used."""
        self._seeds = seeds
        self._scratch = scratch
        self._made: list[Path] = []
        self._stack = contextlib.ExitStack()
        self._listings: list[Path] = []
        self._captures = Captures(scratch("db"), mode)
        self._stack.callback(self._captures.close)
        self._needed = bytearray(_MASK + 1)
        self._pages = self.temporary("pages")
        self._pages.write(json.dumps(layout.PAGES_HEADER).encode() + b"\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        for path in self._made:
            path.unlink(missing_ok=True)

    def temporary(self, name: str) -> BinaryIO:
        """An empty file that is closed and deleted in the end."""
        path = self._path(name)
        return self._stack.enter_context(open(path, "wb+", opener=self._opener))

    def add(self, path: Path, descriptor: int) -> None:
        """Take in the captures of the WARC file *path*, open as *descriptor*.

        Raises:
            BadWarc: It has no index that fits, and is cut or damaged.
            OSError: Something cannot be read or written.
        """
        mark, pages = self._pages.tell(), self.pages
        bare = self._path(f"{len(self._made)}")
        try:
            with open(bare, "wb", opener=self._opener) as file:
                for offset, need, page in listed(path, descriptor, self._seeds, file):
                    if need is not None:
                        self._refer(path.name, offset, need)
                    self._put(page)
        except Unusable as error:
            logger.info("%s is read: %s", path.name, error)
        else:
            self._listings.append(bare)
            return
        bare.unlink()
        self._pages.seek(mark)
        self._pages.truncate()
        self.pages = pages
        self._captures.forget(path.name)
        self.read += 1
        for found, how in paired(records(str(path), _blocks(descriptor))):
            line = line_of(found, path.name, how)
            if line is not None:
                self._captures.add(line)
                if found.kind == "revisit":
                    need = need_of(found, line.key)
                    self._refer(path.name, found.offset, need)
                if how is GET:  # the answer to a form is not a page
                    self._put(page_of(found, self._seeds))

    def lines(self) -> Iterator[bytes]:
        """The lines of all captures, in order; afterwards `needs` can tell."""
        runs = self._runs()
        if self.read:
            lines = itertools.chain.from_iterable(runs)
            both = heapq.merge(lines, self._captures.sorted())
            runs = iter(lambda: list(itertools.islice(both, BATCH)), [])
        if self._captures.revisits:
            runs = map(self._hold, runs)
        return itertools.chain.from_iterable(runs)

    def needs(self) -> Iterator[Need]:
        """What revisits refer to that is in none of the files."""
        return (need for _, _, need in self._captures.unresolved())

    def page_lines(self) -> BinaryIO:
        """The list of pages, from its begin."""
        self._pages.seek(0)
        return self._pages

    def _path(self, name: str) -> Path:
        path = self._scratch(name)
        self._made.append(path)
        return path

    def _put(self, page: bytes | None) -> None:
        if page is not None:
            self._pages.write(page)
            self.pages += 1

    def _refer(self, file: str, offset: int, need: Need) -> None:
        self._captures.refer(file, offset, need)
        self._needed[hash(need.digest) & _MASK] = 1

    def _hold(self, lines: list[bytes]) -> list[bytes]:
        """Note which payloads *lines* have that a revisit may need."""
        needed = self._needed
        for raw in lines:
            at = raw.find(_DIGEST) + len(_DIGEST)
            digest = raw[at : raw.find(b'"', at)]
            if len(digest) != _CANONICAL or not digest.islower():
                digest = canonical(digest.decode("utf-8", "replace"))
            if needed[hash(digest) & _MASK] and _REVISIT not in raw:
                key = raw[: raw.find(b" ")].decode()
                self._captures.hold(canonical(digest.decode()), key)
        return lines

    def _runs(self) -> Iterator[list[bytes]]:
        """The lines of the indexes, in order, many at a time."""
        paths = self._listings
        while len(paths) > MERGED:
            path = self._path(f"{len(self._made)}")
            with open(path, "wb", opener=self._opener) as file:
                for lines in _merged(paths[:MERGED]):
                    file.writelines(lines)
            for each in paths[:MERGED]:
                each.unlink()
            paths = [*paths[MERGED:], path]
        return _merged(paths)


def _merged(paths: Sequence[Path]) -> Iterator[list[bytes]]:
    """The lines of sorted files, in order, many at a time.

    To sort what is sorted in parts is much faster than to compare line by line.
    """
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(path.open("rb")) for path in paths]
        held = [(file, file.readlines(_PIECE)) for file in files]
        while held := [(file, lines) for file, lines in held if lines]:
            last = min(lines[-1] for _, lines in held)
            ready: list[bytes] = []
            for file, lines in held:
                at = bisect.bisect_right(lines, last)
                ready += lines[:at]
                lines[:at] = file.readlines(_PIECE) if at == len(lines) else ()
            ready.sort()
            yield ready


def _blocks(descriptor: int) -> Iterator[bytes]:
    at = 0
    while block := os.pread(descriptor, layout.BLOCK, at):
        at += len(block)
        yield block
