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
from frontier.wacz.pages import HTML, line, page_of, title_of

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
    """A page or a revisit."""

    found: Found
    key: str
    page: bytes | None
    """Its line in the list of pages."""


class _Place(NamedTuple):
    offset: int
    length: int
    key: str
    """Of captures whose record has to be looked at; else empty."""
    revisit: bool


def listed(path: Path, descriptor: int, seeds: frozenset[str]) -> Iterator[Listed]:
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
        offset, length, key, revisit = place
        gap = offset - end
        if gap < 0:
            raise Unusable(beside, f"two captures share byte {offset}")
        near = len(GZIP)
        if key:
            near = min(length, HEAD_LIMIT if revisit else _NEAR)
        if gap <= _GAP:
            data = os.pread(descriptor, gap + near, end)
            between, data = data[:gap], data[gap:]
            if between and not _is_request(between):
                _look_between(beside, end, iter([between]))
        else:
            _look_between(beside, end, _blocks(descriptor, end, gap))
            data = os.pread(descriptor, near, offset)
        if not data.startswith(GZIP) or len(data) < near:
            raise Unusable(beside, f"no record begins at byte {offset}")
        if revisit:
            found = _begin(beside, place, _inflate(beside, place, data))
            yield Listed(found, key, page_of(found, seeds))
        elif key:
            found, title = _page(beside, descriptor, place, data)
            yield Listed(found, key, line(found, title, seeds))
        end = offset + length
    rest = os.fstat(descriptor).st_size - end
    if rest < 0:
        raise Unusable(beside, "the file is shorter than its index says")
    _look_between(beside, end, _blocks(descriptor, end, rest))


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
                    read = parse(raw)
                except ValueError as error:
                    raise Unusable(beside, f"{error}: {raw[:200]!r}") from None
                key, mime, status = read.key.encode(), read.mime.encode(), b""
                status, filename = read.status.encode(), read.filename.encode()
                length, offset = str(read.length).encode(), str(read.offset).encode()
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


def _is_request(data: bytes) -> bool:
    """Whether *data* is one request record, as our writer makes them."""
    inflate = zlib.decompressobj(_WBITS)
    try:
        text = inflate.decompress(data, 4 * _GAP)
    except zlib.error:
        return False
    whole = inflate.eof and not inflate.unused_data
    return whole and text.startswith(_REQUEST)


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


def _page(
    beside: Path, descriptor: int, place: _Place, data: bytes
) -> tuple[Found, str]:
    """The page at *place*, of which *data* is the begin, and its title.

    So much is inflated that the title is there.
    """
    inflate = isal_zlib.decompressobj(_WBITS)
    text, known = b"", len(data)
    while True:
        try:
            text += inflate.decompress(data, HEAD_LIMIT - len(text))
        except _ZlibError as error:
            raise _no_member(beside, place, error) from None
        found = _begin(beside, place, text)
        title = title_of(*http(found.block)[1:])
        whole = known == place.length or inflate.eof
        if title or whole or len(text) >= HEAD_LIMIT:
            return found, title
        data = inflate.unconsumed_tail + os.pread(
            descriptor, min(3 * known, place.length - known), place.offset + known
        )
        known = min(4 * known, place.length)


def _inflate(beside: Path, place: _Place, data: bytes) -> bytes:
    try:
        return zlib.decompressobj(_WBITS).decompress(data, HEAD_LIMIT)
    except zlib.error as error:
        raise _no_member(beside, place, error) from None


def _no_member(beside: Path, place: _Place, error: Exception) -> Unusable:
    return Unusable(beside, f"no gzip member at byte {place.offset} ({error})")


def _begin(beside: Path, place: _Place, text: bytes) -> Found:
    top, gap, block = text.partition(b"\r\n\r\n")
    headers = Head(top if gap and top.startswith(b"WARC/") else b"")
    if headers.get("warc-type") not in INDEXED:
        raise Unusable(beside, f"another record is at byte {place.offset}")
    said = headers.get("content-length", "")
    size = int(said) if said.isascii() and said.isdigit() and len(said) < 16 else 0
    return Found(place.offset, place.length, headers, block[:size])
