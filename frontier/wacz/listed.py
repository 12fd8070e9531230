"""The captures of a WARC file from the index beside it, without inflating it.

What always holds:

1.  An index is used only if it accounts for every byte of its file: what is
    between its captures are whole gzip members with records that no index lists.
    So one that is of another file, older than its file, or lacks a capture, is
    not used.
2.  Bodies are not inflated, but for the begin of pages, and for revisits.
3.  Memory is bounded by `LISTING_LIMIT`, whatever the file's size.

What is not seen here is a damaged body, and a line that says something else of
its record than the record does; `frontier.wacz.check` sees both.
"""

from __future__ import annotations

import os
import re
import zlib
from typing import TYPE_CHECKING, NamedTuple, cast

from isal import isal_zlib

from frontier.archive.listing import beside_of
from frontier.cdx.lines import INDEXED, LINE_LIMIT, REVISIT, parse
from frontier.cdx.reader import HEAD_LIMIT, Found, Head, http, records
from frontier.errors import BadWarc, FrontierError
from frontier.wacz.pages import HTML, title_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LISTING_LIMIT = 64 << 20
"""Largest index that is used, in bytes: some 200,000 captures."""
GZIP = b"\x1f\x8b"
_WBITS = 31  # gzip framing
_ZlibError = cast("type[Exception]", isal_zlib.error)
_NEAR = 1 << 11
"""Compressed bytes of a page that are read at first: a title is near the begin."""
_GAP = 1 << 16
"""Bytes between captures that are inflated at once."""
_REQUEST = b"WARC/1.1\r\nWARC-Type: request\r\n"
# As `frontier.archive.listing` writes it; any other line is parsed as JSON.
_USUAL = re.compile(
    rb'([^ ]+) ([0-9]{14}) \{"url": "[^"\\]+", "mime": "([^"\\]*)", '
    rb'"status": "([0-9]*)", "digest": "[^"\\]*", "length": "([0-9]{1,15})", '
    rb'"offset": "([0-9]{1,15})", "filename": "([^"\\]*)"\}\n'
)


class Unusable(FrontierError):
    """An index does not fit its file. Read the file."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class Listed(NamedTuple):
    """A page or a revisit, with the begin of its record."""

    key: str
    found: Found


class _Place(NamedTuple):
    offset: int
    length: int
    key: str
    """Of captures whose record has to be looked at; else empty."""
    revisit: bool


def listed(path: Path, descriptor: int) -> Iterator[Listed]:
    """Yield the pages and revisits of the WARC file *path*, open as *descriptor*.

    They come in the order of the file. If it ends without an error, the index
    beside the file is whole, and sorted.

    Raises:
        Unusable: There is no index, or it is not of this file.
        OSError: Something cannot be read.
    """
    beside = beside_of(path)
    places = _places(path, beside)
    end = 0
    for place in places:
        if place.offset < end:
            raise Unusable(beside, f"two captures share byte {place.offset}")
        wanted = place.length if place.revisit else _NEAR
        near = min(place.length, wanted, HEAD_LIMIT) if place.key else len(GZIP)
        gap = place.offset - end
        data = os.pread(descriptor, near, place.offset)
        if gap:
            _look_between(beside, descriptor, end, gap)
        if not data.startswith(GZIP) or len(data) < near:
            raise Unusable(beside, f"no record begins at byte {place.offset}")
        if place.key:
            yield Listed(place.key, _found(beside, descriptor, place, data))
        end = place.offset + place.length
    rest = os.fstat(descriptor).st_size - end
    if rest < 0:
        raise Unusable(beside, "the file is shorter than its index says")
    _look_between(beside, descriptor, end, rest)


def _places(path: Path, beside: Path) -> list[_Place]:
    try:
        file = beside.open("rb")
    except FileNotFoundError:
        raise Unusable(beside, "is not there") from None
    places, last, name = [], b"", path.name.encode()
    with file:
        if os.fstat(file.fileno()).st_size > LISTING_LIMIT:
            raise Unusable(beside, "is too large")
        while raw := file.readline(LINE_LIMIT):
            if raw < last:
                raise Unusable(beside, f"is not sorted at {raw[:200]!r}")
            last = raw
            if usual := _USUAL.fullmatch(raw):
                key, _, mime, status, length, offset, filename = usual.groups()
            else:
                try:
                    line = parse(raw)
                except ValueError as error:
                    raise Unusable(beside, f"{error}: {raw[:200]!r}") from None
                key, mime, status = line.key.encode(), line.mime.encode(), b""
                status, filename = line.status.encode(), line.filename.encode()
                length, offset = str(line.length).encode(), str(line.offset).encode()
            if filename != name:
                raise Unusable(beside, f"is of {filename[:200]!r}")
            revisit = mime == REVISIT.encode()
            needed = revisit or (status == b"200" and mime in _PAGES)
            places.append(
                _Place(
                    int(offset), int(length), key.decode() if needed else "", revisit
                )
            )
    places.sort()
    return places


_PAGES = frozenset(mime.encode() for mime in HTML)


def _look_between(beside: Path, descriptor: int, start: int, size: int) -> None:
    """Make sure that there are whole records which an index does not list."""
    if not size:
        return
    if size <= _GAP:
        data = os.pread(descriptor, size, start)
        # Most often it is one request, as our writer makes them.
        inflate = zlib.decompressobj(_WBITS)
        try:
            text = inflate.decompress(data, 4 * _GAP)
        except zlib.error:
            text = b""
        if text.startswith(_REQUEST) and inflate.eof and not inflate.unused_data:
            return
        blocks: Iterator[bytes] = iter([data])
    else:
        ends = range(start, start + size, 1 << 20)
        stop = start + size
        blocks = (os.pread(descriptor, min(1 << 20, stop - at), at) for at in ends)
    try:
        for found in records(str(beside), blocks):
            if found.kind in INDEXED:
                at = start + found.offset
                raise Unusable(beside, f"leaves out the record at byte {at}")
    except BadWarc as error:
        at = start + error.offset
        raise Unusable(beside, f"{error.reason} at byte {at}") from None


def _found(beside: Path, descriptor: int, place: _Place, data: bytes) -> Found:
    """The record at *place*, of which *data* is the begin.

    Of a page so much is inflated that its title is there.
    """
    inflate = isal_zlib.decompressobj(_WBITS)
    text, known = b"", len(data)
    while True:
        try:
            text += inflate.decompress(data, HEAD_LIMIT - len(text))
        except _ZlibError as error:
            reason = f"no gzip member at byte {place.offset} ({error})"
            raise Unusable(beside, reason) from None
        found = _begin(beside, place, text)
        if (
            place.revisit
            or known == place.length
            or inflate.eof
            or len(text) >= HEAD_LIMIT
            or title_of(*http(found.block)[1:])
        ):
            return found
        data = inflate.unconsumed_tail + os.pread(
            descriptor, min(3 * known, place.length - known), place.offset + known
        )
        known = min(4 * known, place.length)


def _begin(beside: Path, place: _Place, text: bytes) -> Found:
    top, gap, block = text.partition(b"\r\n\r\n")
    headers = Head(top if gap and top.startswith(b"WARC/") else b"")
    if headers.get("warc-type") not in INDEXED:
        raise Unusable(beside, f"another record is at byte {place.offset}")
    said = headers.get("content-length", "")
    size = int(said) if said.isascii() and said.isdigit() and len(said) < 16 else 0
    return Found(place.offset, place.length, headers, block[:size])
