"""The captures of a WARC file from the index beside it, without inflating it.

What always holds:

1.  An index is used only if it accounts for every byte of its file: what is
    between its captures are whole gzip members with records that no index lists.
    So one that is of another file, older than its file, or lacks a capture, is
    not used.
2.  Nothing of the records themselves is read: where an index does not note what the
    list of pages and the needs of revisits take (`frontier.cdx.cdxj_fields`), it is
    not used either.
3.  Memory is bounded by `LISTING_LIMIT`, whatever the file's size.

What is not seen here is a damaged body, and a line that says something else of
its record than the record does; `frontier.wacz.check` sees both.
"""

from __future__ import annotations

import os
import re
import struct
from json.encoder import encode_basestring_ascii as _json
from typing import TYPE_CHECKING, NamedTuple, cast

from isal import isal_zlib

from frontier.cdx.cdxj_fields import HTML
from frontier.cdx.lines import INDEXED, LINE_LIMIT, REVISIT, parse
from frontier.cdx.sorting import need
from frontier.errors import BadWarc, FrontierError
from frontier.files import open_input
from frontier.wacz.layout import line
from frontier.warc.cdxj_sidecar import beside_of
from frontier.warc.reader import records

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO

    from frontier.cdx.sorting import Need

LISTING_LIMIT = 96 << 20
"""Largest index that is used, in bytes: some 200,000 captures. Of those less than as
much is kept."""
GZIP = b"\x1f\x8b"
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
            _look_between(beside, end, _blocks(descriptor, end, gap))
            magic = os.pread(descriptor, _MAGIC, offset)
        if magic != GZIP:
            raise Unusable(beside, f"no record begins at byte {offset}")
        end = offset + length
        if offset in index.pages or offset in index.needs:
            yield Listed(offset, index.needs.get(offset), index.pages.get(offset))
    rest = os.fstat(descriptor).st_size - end
    if rest < 0:
        raise Unusable(beside, "the file is shorter than its index says")
    _look_between(beside, end, _blocks(descriptor, end, rest))


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


def _blocks(descriptor: int, start: int, size: int) -> Iterator[bytes]:
    stop = start + size
    for at in range(start, stop, 1 << 20):
        yield os.pread(descriptor, min(1 << 20, stop - at), at)
