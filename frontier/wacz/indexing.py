"""The index, the pages and the needs of a set of WARC files.

What always holds:

1.  Each capture has one line: from the index beside its file or, if that is missing
    or does not fit, from the file itself.
2.  What grows with the files is in files beside the output, not in memory. Of an index
    beside a file at most `LISTING_LIMIT` bytes are in memory.
3.  An index is used only if it accounts for every byte of its file: between its
    captures are whole gzip members with records that no index lists. So the index of
    another file, or one that is older than its file or lacks a capture, is not used.
4.  If its index is used, no record of a file is read. So an index without the notes
    for the list of pages and for revisits (`frontier.cdx.lines`) is not used.

If an index is used, two faults are not found here: a damaged body, and a line that
disagrees with its record. `frontier.wacz.check` finds both.
"""

from __future__ import annotations

import bisect
import contextlib
import heapq
import itertools
import json
import logging
import os
import re
import struct
from json.encoder import encode_basestring_ascii as _json
from typing import TYPE_CHECKING, NamedTuple, cast

from isal import isal_zlib

from frontier.cdx.lines import (
    GET,
    HTML,
    INDEXED,
    LINE_LIMIT,
    REVISIT,
    line_of,
    paired,
    parse,
)
from frontier.cdx.sorting import BATCH, Captures, canonical, need, need_of
from frontier.errors import BadWarc, FrontierError
from frontier.files import FILE_MODE, creating, open_input
from frontier.wacz import layout
from frontier.wacz.layout import line, page_of
from frontier.warc.cdxj_sidecar import beside_of
from frontier.warc.reader import GZIP, records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from typing import BinaryIO, Self

    from frontier.cdx.sorting import Need


LISTING_LIMIT = 96 << 20
"""Largest index that is used, in bytes: some 200,000 captures. Of those less than as
much is kept."""
_MAGIC = len(GZIP)
_WBITS = 31  # gzip framing
_ZlibError = cast("type[Exception]", isal_zlib.error)
_WINDOW = 1 << 18
"""Bytes that are read further than needed: many captures are small."""
_GAP = 1 << 16
"""Bytes between captures that are read at once."""
_TEXT = 1 << 10
"""What one makes, mostly, in bytes."""
_SMALL = 1 << 13
"""Compressed bytes of a request record that are inflated at once; they make at most
some 8 MB."""
_REQUEST = b"WARC/1.1\r\nWARC-Type: request\r\n"
_NOTED = re.compile(
    rb'(?:, "(?:refers-to|refers-to-date|date|title)": '
    rb'"(?:[^"\\]++|\\.)*+")++\}\n\Z'
)


class Unusable(FrontierError):
    """An index does not fit its file. Read the file."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class Listed(NamedTuple):
    """A page, a revisit, or a revisit of a page."""

    offset: int
    need: Need | None
    """What it refers to; ``None`` if it is no revisit."""
    page: bytes | None
    """Its line in the list of pages; ``None`` if it is not a page."""


def listed(
    path: Path, descriptor: int, seeds: frozenset[str], bare: BinaryIO
) -> Iterator[Listed]:
    """Yield the pages and revisits of the WARC file *path*, open as *descriptor*.

    They come in the order of the file. If it ends without an error, the index
    beside the file is whole and sorted, and its lines are in *bare*, without notes.

    Raises:
        Unusable: There is no index, or it is not of this file.
        OSError: Something cannot be read or written.
    """
    beside = beside_of(path)
    index = _Index(path, beside, seeds)
    index.read(bare)
    end = start = stop = 0  # of what was looked at; from where to where *window* is
    window = b""
    for offset, length in sorted(index.lengths.items()):
        gap = offset - end
        if gap < 0:
            raise Unusable(beside, f"two captures share byte {offset}")
        if gap <= _GAP:
            if offset + _MAGIC > stop:
                start, window = end, os.pread(descriptor, gap + _MAGIC + _WINDOW, end)
                stop = start + len(window)
            magic = window[offset - start : offset - start + _MAGIC]
            if gap and not _is_request(between := window[end - start : offset - start]):
                _look_between(beside, end, iter([between]))
        else:
            _look_between(beside, end, _part(descriptor, end, gap))
            magic = os.pread(descriptor, _MAGIC, offset)
        if magic != GZIP:
            raise Unusable(beside, f"no record begins at byte {offset}")
        end = offset + length
        if offset in index.pages or offset in index.needs:
            yield Listed(offset, index.needs.get(offset), index.pages.get(offset))
    rest = os.fstat(descriptor).st_size - end
    if rest < 0:
        raise Unusable(beside, "the file is shorter than its index says")
    _look_between(beside, end, _part(descriptor, end, rest))


class _Index:
    """What an index says, by the offsets of the captures.

    Not as an object each: Python's collector of cycles would look through all of
    them again and again, which takes longer than all else.
    """

    def __init__(self, path: Path, beside: Path, seeds: frozenset[str]) -> None:
        self.lengths: dict[int, int] = {}
        self.pages: dict[int, bytes] = {}
        """Lines in the list of pages, of what is noted."""
        self.needs: dict[int, Need] = {}
        self._name = path.name
        self._beside = beside
        self._seeds = seeds

    def read(self, bare: BinaryIO) -> None:
        """Read all lines; write them to *bare*, without notes."""
        last = b""
        with self._open() as file:
            while raw := file.readline(LINE_LIMIT):
                if raw < last:
                    raise Unusable(self._beside, f"is not sorted at {raw[:200]!r}")
                last = raw
                self._take(raw)
                bare.write(_NOTED.sub(b"}\n", raw))

    def _open(self) -> BinaryIO:
        try:
            file = open_input(self._beside)
        except FileNotFoundError:
            raise Unusable(self._beside, "is not there") from None
        if os.fstat(file.fileno()).st_size > LISTING_LIMIT:
            file.close()
            raise Unusable(self._beside, "is too large")
        return file

    def _take(self, raw: bytes) -> None:
        try:
            read = parse(raw)
        except ValueError as error:
            raise Unusable(self._beside, f"{error}: {raw[:200]!r}") from None
        if read.filename != self._name:
            raise Unusable(self._beside, f"is of {read.filename[:200]!r}")
        offset, noted = read.offset, read.notes
        is_page = (
            read.status in {"200", ""}  # a resource record has none
            and read.mime.lower() in HTML
            and not read.asked.method
        )
        if read.mime == REVISIT:
            if not noted.original:
                raise Unusable(self._beside, f"lacks an original: {raw[:200]!r}")
            to = (noted.original, noted.original_date)
            self.needs[offset] = need(read.digest, read.key, read.url, *to)
            is_page = bool(noted.date)
        elif is_page and not noted.date:
            raise Unusable(self._beside, f"lacks the title of a page: {raw[:200]!r}")
        if is_page:
            self._page(offset, read.url, noted.date, _json(noted.title))
        self._put(offset, read.length)

    def _page(self, offset: int, url: str, date: str, title: str) -> None:
        self.pages[offset] = line(url, date, title, url in self._seeds)

    def _put(self, offset: int, length: int) -> None:
        if offset in self.lengths:
            raise Unusable(self._beside, f"two captures share byte {offset}")
        self.lengths[offset] = length


def _is_request(data: bytes) -> bool:
    """Whether *data* is one request record, as our writer makes them.

    A member ends with its CRC-32 and size: if *data* ends with those of the first
    member in it, it has no second.
    """
    if len(data) > _SMALL:
        return False
    try:
        text = isal_zlib.decompress(data, _WBITS, _TEXT)
    except _ZlibError:
        return False
    end = struct.pack("<II", isal_zlib.crc32(text), len(text))
    return text.startswith(_REQUEST) and data.endswith(end)


def _look_between(beside: Path, start: int, blocks: Iterator[bytes]) -> None:
    """Make sure that there are whole records which an index does not list."""
    try:
        for found in records(str(beside), blocks):
            if found.kind in INDEXED:
                at = start + found.offset
                raise Unusable(beside, f"leaves out the record at byte {at}")
    except BadWarc as error:
        at = start + error.offset
        raise Unusable(beside, f"{error.reason} at byte {at}") from None


def _part(descriptor: int, start: int, size: int) -> Iterator[bytes]:
    stop = start + size
    for at in range(start, stop, 1 << 20):
        yield os.pread(descriptor, min(1 << 20, stop - at), at)


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
