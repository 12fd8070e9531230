"""The index, the pages and the needs of a set of WARC files.

What always holds:

1.  Each capture has its line once: from the index beside its file, or, where
    that is missing or does not fit, from the file itself.
2.  What grows with the files is in files beside the output, not in memory.
"""

from __future__ import annotations

import contextlib
import heapq
import json
import logging
import os
import re
from typing import TYPE_CHECKING

from frontier.archive.listing import beside_of
from frontier.cdx.lines import line_of
from frontier.cdx.reader import records
from frontier.cdx.sorting import Captures, canonical, need_of
from frontier.wacz import layout
from frontier.wacz.listed import Unusable, listed
from frontier.wacz.pages import page_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import BinaryIO, Self

    from frontier.cdx.sorting import Need

logger = logging.getLogger(__name__)

MERGED = 200
"""Indexes that are read at the same time."""
# No value has these bytes: quotes in JSON strings are escaped.
_DIGEST = b'"digest": "'
_NAME = b'"filename": "'
_REVISIT = b'"mime": "warc/revisit"'
_NOTED = re.compile(
    rb'(?:, "(?:refers-to|refers-to-date|date|title)": '
    rb'"(?:[^"\\]++|\\.)*+")++\}\n'
)
_USUAL = re.compile(rb"sha256:[0-9a-f]{64}")
_MASK = (1 << 22) - 1


class Indexing:
    """Takes WARC files one after the other; belongs to one thread."""

    def __init__(self, scratch: Callable[[str], Path], seeds: frozenset[str]) -> None:
        """Begin with none; *scratch* says where a file of a name may be made."""
        self.pages = 0
        """How many pages there are."""
        self.read = 0
        """How many files were read because their index could not be used."""
        self._seeds = seeds
        self._scratch = scratch
        self._made: list[Path] = []
        self._stack = contextlib.ExitStack()
        self._listings: list[Path] = []
        self._captures = Captures(scratch("db"))
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
        """An empty file that is deleted in the end."""
        path = self._scratch(name)
        file = self._stack.enter_context(path.open("wb+"))
        self._made.append(path)
        return file

    def add(self, path: Path, descriptor: int) -> None:
        """Take in the captures of the WARC file *path*, open as *descriptor*.

        Raises:
            BadWarc: It has no index that fits, and is cut or damaged.
            OSError: Something cannot be read or written.
        """
        mark, pages = self._pages.tell(), self.pages
        try:
            for offset, need, page in listed(path, descriptor, self._seeds):
                if need is not None:
                    self._refer(path.name, offset, need)
                self._put(page)
        except Unusable as error:
            logger.info("%s is read: %s", path.name, error)
        else:
            self._listings.append(beside_of(path))
            return
        self._pages.seek(mark)
        self._pages.truncate()
        self.pages = pages
        self._captures.forget(path.name)
        self.read += 1
        for found in records(str(path), _blocks(descriptor)):
            line = line_of(found, path.name)
            if line is not None:
                self._captures.add(line)
                if found.kind == "revisit":
                    need = need_of(found, line.key)
                    self._refer(path.name, found.offset, need)
                self._put(page_of(found, self._seeds))

    def lines(self) -> Iterator[bytes]:
        """The lines of all captures, in order; afterwards `needs` can tell."""
        paths = self._listings
        while len(paths) > MERGED:
            with self.temporary(f"merge{len(paths)}") as file:
                file.writelines(self._merged(paths[:MERGED]))
            paths = [*paths[MERGED:], self._made[-1]]
        merged = heapq.merge(self._merged(paths), self._captures.sorted())
        for raw in merged:
            at = raw.find(_DIGEST) + len(_DIGEST)
            digest = raw[at : raw.find(b'"', at)]
            if self._is_needed(digest) and at >= len(_DIGEST) and _REVISIT not in raw:
                key = raw[: raw.find(b" ")].decode()
                self._captures.hold(canonical(digest.decode()), key)
            yield _bare(raw)

    def needs(self) -> Iterator[Need]:
        """What revisits refer to that is in none of the files."""
        return (need for _, _, need in self._captures.unresolved())

    def page_lines(self) -> BinaryIO:
        """The list of pages, from its begin."""
        self._pages.seek(0)
        return self._pages

    def _put(self, page: bytes | None) -> None:
        if page is not None:
            self._pages.write(page)
            self.pages += 1

    def _merged(self, paths: list[Path]) -> Iterator[bytes]:
        with contextlib.ExitStack() as stack:
            files = [stack.enter_context(path.open("rb")) for path in paths]
            yield from files[0] if len(files) == 1 else heapq.merge(*files)

    def _refer(self, file: str, offset: int, need: Need) -> None:
        self._captures.refer(file, offset, need)
        self._needed[hash(need.digest) & _MASK] = 1

    def _is_needed(self, digest: bytes) -> bool:
        """Whether a revisit may need it; spares most others the way to the disk."""
        if not _USUAL.fullmatch(digest):
            digest = canonical(digest.decode("utf-8", "replace"))
        return self._needed[hash(digest) & _MASK] == 1


def _bare(raw: bytes) -> bytes:
    """A line without its notes, which are not for an index that others read."""
    at = raw.find(_NAME) + len(_NAME)
    end = raw.find(b'"', at) + 1
    if at < len(_NAME) or not _NOTED.fullmatch(raw, end):
        return raw
    return raw[:end] + b"}\n"


def _blocks(descriptor: int) -> Iterator[bytes]:
    at = 0
    while block := os.pread(descriptor, layout.BLOCK, at):
        at += len(block)
        yield block
