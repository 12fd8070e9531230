"""The captures of a WARC file from the index beside it, without inflating it.

What always holds:

1.  An index is used only if it accounts for every byte of its file: what is
    between its captures are whole gzip members with records that no index lists.
    So one that is of another file, older than its file, or lacks a capture, is
    not used.
2.  What is noted in an index (`frontier.cdx.cdxj_fields`) is not read from the records.
    Where nothing is, or what cannot be, the begin of pages and of revisits is.
3.  Memory is bounded by `LISTING_LIMIT`, whatever the file's size.

What is not seen here is a damaged body, and a line that says something else of
its record than the record does; `frontier.wacz.check` sees both.
"""

from __future__ import annotations

import os
import re
import struct
import zlib
from json.encoder import encode_basestring_ascii as _json
from typing import TYPE_CHECKING, NamedTuple, cast

from isal import isal_zlib

from frontier.cdx.cdxj_fields import HTML, PRECISE, TITLE_LIMIT, title_of
from frontier.cdx.lines import INDEXED, LINE_LIMIT, MOMENT, REVISIT, parse
from frontier.cdx.sorting import need, need_of
from frontier.errors import BadWarc, FrontierError
from frontier.files import open_input
from frontier.wacz.layout import line, page_of
from frontier.warc.cdxj_sidecar import beside_of
from frontier.warc.reader import HEAD_LIMIT, Found, Head, records

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
_NEAR = 1 << 10
"""Compressed bytes of a page that are read at first: a title is near the begin."""
_FURTHER = 1 << 13
"""Those that are read if it is not there; four times as many each time."""
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
_RESPONSE = b"WARC/1.1\r\nWARC-Type: response\r\n"
_DATE = b"\r\nWARC-Date: "
# As `frontier.warc.cdxj_sidecar` writes it; any other line is parsed as JSON.
_WHEN = PRECISE.encode()
_USUAL = re.compile(
    rb'([^ ]+) ([0-9]{14}) \{"url": "([!#-\[\]-~]+)", "mime": "([^"\\]*)", '
    rb'"status": "([0-9]*)", "digest": "([^"\\]*)", "length": "([0-9]{1,15})", '
    rb'"offset": "([0-9]{1,15})", "filename": "([^"\\]*)"'
    rb'(?:, "refers-to": "([!#-\[\]-~]+)", "refers-to-date": "(%b)")?'
    rb'(?:, "date": "(%b)", "title": '
    rb'("(?:[ !#-\[\]-~]++|\\["\\]|\\u(?!d[89a-f])[0-9a-f]{4})*+"))?\}\n'
    % (_WHEN, _WHEN)
)
_NOTED = re.compile(
    rb'(?:, "(?:refers-to|refers-to-date|date|title)": '
    rb'"(?:[^"\\]++|\\.)*+")++\}\n\Z'
)
_MARKS = b"-:T.Z"
_PAGES = frozenset(mime.encode() for mime in HTML)
_REVISIT = REVISIT.encode()


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
    """Its line in the list of pages; ``None`` if it is no page."""


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
    pages, needs, unread = index.pages, index.needs, index.unread
    end = start = stop = 0  # of what was looked at; from where to where *window* is
    window = b""
    for offset, length in sorted(index.lengths.items()):
        gap = offset - end
        if gap < 0:
            raise Unusable(beside, f"two captures share byte {offset}")
        near, key = _MAGIC, unread.get(offset)
        if key is not None:
            near = min(length, HEAD_LIMIT if key else _NEAR)
        if gap <= _GAP:
            if offset + near > stop:
                start, window = end, os.pread(descriptor, gap + near + _WINDOW, end)
                stop = start + len(window)
            data = window[offset - start : offset - start + near]
            if gap and not _is_request(between := window[end - start : offset - start]):
                _look_between(beside, end, iter([between]))
        else:
            _look_between(beside, end, _blocks(descriptor, end, gap))
            data = os.pread(descriptor, near, offset)
        if len(data) < near or not data.startswith(GZIP):
            raise Unusable(beside, f"no record begins at byte {offset}")
        end = offset + length
        if key:
            found = _begin(beside, offset, _inflate(beside, offset, data), length)
            yield Listed(offset, need_of(found, key), page_of(found, seeds))
        elif key is not None:
            url, date, title = _page(beside, descriptor, offset, length, data)
            yield Listed(offset, None, line(url, date, _json(title), url in seeds))
        elif offset in pages or offset in needs:
            yield Listed(offset, needs.get(offset), pages.get(offset))
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
        self.unread: dict[int, str] = {}
        """Records that have to be read: of a revisit its key, of a page nothing."""
        self._name = path.name
        self._beside = beside
        self._seeds = seeds

    def read(self, bare: BinaryIO) -> None:
        """Read all lines; write them to *bare*, without notes."""
        last, name = b"", self._name.encode()
        with self._open() as file:
            while raw := file.readline(LINE_LIMIT):
                if raw < last:
                    raise Unusable(self._beside, f"is not sorted at {raw[:200]!r}")
                last = raw
                usual = _USUAL.fullmatch(raw)
                if usual is not None and usual[9] == name and self._usual(usual):
                    bare.write(raw[: usual.end(9) + 1] + b"}\n")
                else:
                    self._other(raw)
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

    def _usual(self, found: re.Match[bytes]) -> bool:
        """Take a line in; return ``False`` if it has notes that are odd."""
        key, time, url, mime, status, digest, length, at, _, *noted = found.groups()
        original, original_date, date, title = noted
        offset = int(at)
        if mime == _REVISIT:
            if original is None:
                self.unread[offset] = key.decode()
            else:
                words = (digest, key, url, original, original_date)
                self.needs[offset] = need(*(word.decode() for word in words))
        elif status != b"200" or mime not in _PAGES:
            date = None
        elif date is None:
            self.unread[offset] = ""
        if date is not None and offset not in self.unread:
            if len(title) > TITLE_LIMIT or date.translate(None, _MARKS)[:14] != time:
                return False
            self._page(offset, url.decode(), date.decode(), title.decode())
        self._put(offset, int(length))
        return True

    def _other(self, raw: bytes) -> None:
        """Take any line in."""
        try:
            read = parse(raw)
        except ValueError as error:
            raise Unusable(self._beside, f"{error}: {raw[:200]!r}") from None
        if read.filename != self._name:
            raise Unusable(self._beside, f"is of {read.filename[:200]!r}")
        offset, noted, is_page = read.offset, read.notes, bool(read.notes.date)
        if read.mime == REVISIT:
            if noted.original:
                to = (noted.original, noted.original_date)
                self.needs[offset] = need(read.digest, read.key, read.url, *to)
            else:
                self.unread[offset] = read.key
        elif (
            read.status not in {"200", ""}  # a resource record has none
            or read.mime.lower() not in HTML
            or read.asked.method
        ):
            is_page = False
        elif not is_page:
            self.unread[offset] = ""
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


def _page(
    beside: Path, descriptor: int, offset: int, length: int, data: bytes
) -> tuple[str, str, str]:
    """URL, date and title of the page at *offset*, of which *data* is the begin.

    So much is inflated that the title is there.
    """
    text = _inflate(beside, offset, data)
    facts = _facts(beside, offset, text)
    known = len(data)
    if facts[2] or known == length:
        return facts
    inflate = isal_zlib.decompressobj(_WBITS)
    text, known = b"", 0
    while True:
        size = min(max(_FURTHER, 3 * known), length - known)
        data = inflate.unconsumed_tail + os.pread(descriptor, size, offset + known)
        known += size
        try:
            text += inflate.decompress(data, HEAD_LIMIT - len(text))
        except _ZlibError as error:
            raise _no_member(beside, offset, error) from None
        facts = _facts(beside, offset, text)
        whole = known == length or inflate.eof
        if facts[2] or whole or len(text) >= HEAD_LIMIT:
            return facts


def _facts(beside: Path, offset: int, text: bytes) -> tuple[str, str, str]:
    top, gap, block = text.partition(b"\r\n\r\n")
    if not top.startswith(_RESPONSE):  # as our writer has it
        found = _begin(beside, offset, text, 0)
        headers = found.headers
        url, date = headers.get("warc-target-uri"), headers.get("warc-date")
    else:
        url, date = _value(top, b"\r\nWARC-Target-URI: "), _value(top, _DATE)
    if gap and not MOMENT.fullmatch(date):
        raise Unusable(beside, f"WARC-Date {date[:40]!r} at byte {offset}")
    head, gap, body = block.partition(b"\r\n\r\n")
    return url.strip("<>"), date, title_of(Head(head), body) if gap else ""


def _value(top: bytes, begin: bytes) -> str:
    at = top.find(begin)
    if at < 0:
        return Head(top).get(begin[2:-2].decode().lower())
    at += len(begin)
    end = top.find(b"\r\n", at)
    return (top[at:end] if end >= 0 else top[at:]).decode("utf-8", "replace")


def _inflate(beside: Path, offset: int, data: bytes) -> bytes:
    try:
        return zlib.decompressobj(_WBITS).decompress(data, HEAD_LIMIT)
    except zlib.error as error:
        raise _no_member(beside, offset, error) from None


def _no_member(beside: Path, offset: int, error: Exception) -> Unusable:
    return Unusable(beside, f"no gzip member at byte {offset} ({error})")


def _begin(beside: Path, offset: int, text: bytes, length: int) -> Found:
    top, gap, block = text.partition(b"\r\n\r\n")
    headers = Head(top if gap and top.startswith(b"WARC/") else b"")
    if headers.get("warc-type") not in INDEXED:
        raise Unusable(beside, f"another record is at byte {offset}")
    said = headers.get("content-length", "")
    size = int(said) if said.isascii() and said.isdigit() and len(said) < 16 else 0
    return Found(offset, length, headers, block[:size])
