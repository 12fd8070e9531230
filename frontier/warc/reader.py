"""The records of a WARC file, from a stream of its bytes, in bounded memory.

What always holds:

1.  At most `HEAD_LIMIT` bytes of a record are kept, and `REQUEST_LIMIT` of a request,
    however long it is and whatever length it states.
2.  A file must consist of whole gzip members with one WARC record each, or of whole
    records without compression. Any other is refused, with the offset of the fault.
3.  A record is whole for `members` if its gzip member is: it inflates to its end, its
    checksum and size are right, and its content begins like a WARC record. No stated
    length is believed.
4.  Behind a record may be other line ends than the two that it should have: none, one,
    bare line feeds, up to `GAP` bytes of them. They belong to nothing. What is not one
    of them, and is no record either, is damage: the length that the record states, or
    what is behind it, is wrong.

The payload of an HTTP response is its entity body (WARC 1.1, section 5.9): without
the transfer coding, which some tools leave in the block, with the content coding.
"""

from __future__ import annotations

import re
import sys
from io import BytesIO
from typing import IO, TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, cast

from isal import isal_zlib

from frontier.dedupe.digest import digester
from frontier.errors import BadWarc
from frontier.warc.zstd import FRAME, BadFrame, frames_of, is_zstd

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from io import FileIO


_END = b"\r\n\r\n"
_LINE_ENDS = b"\r\n"
_WARC = b"WARC/"
GAP = 64
"""Most bytes of line ends behind a record."""


def plain_records(
    name: str,
    blocks: Iterable[bytes],
    rest: Rest | None = None,
    kept: int = 0,
    start: int = 0,
    *,
    is_lenient: bool = False,
) -> Iterator[Found]:
    """Yield the records of the file *name*, given its bytes from *start* on.

    Their lengths are without the line ends behind each, as other indexers have it of
    files that are not compressed. For *rest* and *kept* see `records`. With
    *is_lenient*, heads are read as `LENIENT` does.

    Raises:
        BadWarc: It is cut off, is not a WARC file, or is gzip.
    """
    source = Source(name, blocks, start)
    while True:
        offset = source.offset
        if is_lenient:
            begin = _mended(source.take_head(HEAD_LIMIT))
        else:
            begin = source.take_until(_END, HEAD_LIMIT)
        if not begin:
            return
        headers, size = _plain_head(name, offset, begin)
        limit = REQUEST_LIMIT if headers.get("warc-type") == "request" else HEAD_LIMIT
        block = source.take(min(size, max(kept, limit)))
        if left := size - len(block):
            found = Found(offset, 0, headers, block)
            source.skip(left, rest(found) if rest else lambda _: None)
        length = source.offset - offset
        ends = source.take_line_ends()
        is_usual = ends == _END
        behind = source.peek(len(_WARC))
        if is_lenient:
            behind = behind.upper()
        if not (is_usual or (len(ends) <= GAP and behind in {_WARC, b""})):
            reason = f"a record that says {size} bytes, and does not end there,"
            raise BadWarc(name, offset, reason)
        yield Found(offset, length, headers, block)


def _plain_head(name: str, offset: int, begin: bytes) -> tuple[Head, int]:
    """The headers that *begin* is, and the size of the block after them.

    Raises:
        BadWarc: It is no head of a WARC record.
    """
    if begin.startswith(GZIP):
        raise BadWarc(name, offset, "gzip, which a .warc is not,")
    if not begin.startswith(_WARC):
        is_small = begin[: len(_WARC)].upper() == _WARC
        reason = _SMALL if is_small else "no WARC record"
        raise BadWarc(name, offset, _ARC if _is_arc(begin) else reason)
    _require_crlf(name, offset, begin)
    if not begin.endswith(_END) or begin.count(b"\n") > MAX_HEADERS:
        raise BadWarc(name, offset, "a record with endless headers")
    headers = Head(begin[: -len(_END)])
    said = headers.get("content-length")
    if not (said.isascii() and said.isdigit() and len(said) < 16):
        raise BadWarc(name, offset, f"Content-Length {said[:40]!r}")
    return headers, int(said)


class Source:
    """The bytes of the file *name*, taken as they are asked for."""

    def __init__(self, name: str, blocks: Iterable[bytes], start: int = 0) -> None:
        self._name = name
        self._blocks = iter(blocks)
        self._ahead = b""
        self.offset = start

    def skip_any(self, byte: bytes) -> None:
        """Go on behind each *byte* that comes next."""
        while True:
            self._ahead = self._ahead or next(self._blocks, b"")
            rest = self._ahead.lstrip(byte)
            self.offset += len(self._ahead) - len(rest)
            self._ahead, is_more = rest, not rest and bool(self._ahead)
            if not is_more:
                return

    def take_line_ends(self) -> bytes:
        """The line ends that come next: all, or more than `GAP` bytes of them."""
        taken = b""
        while len(taken) <= GAP:
            ahead = self._ahead or next(self._blocks, b"")
            self._ahead = ahead.lstrip(_LINE_ENDS)
            taken += ahead[: len(ahead) - len(self._ahead)]
            if self._ahead or not ahead:
                break
        self.offset += len(taken)
        return taken

    def peek(self, size: int) -> bytes:
        """The next *size* bytes, or what there is of them; they are not taken."""
        while len(self._ahead) < size and (block := next(self._blocks, b"")):
            self._ahead += block
        return self._ahead[:size]

    def take_until(self, end: bytes, limit: int) -> bytes:
        """What comes up to *end*, or *limit* bytes."""
        taken = self._ahead
        while end not in taken and len(taken) < limit:
            block = next(self._blocks, b"")
            if not block:
                break
            taken += block
        at = taken.find(end)
        return self._split(taken, at + len(end) if at >= 0 else limit)

    def take_head(self, limit: int) -> bytes:
        """What comes up to an empty line, and that, or *limit* bytes."""
        taken = self._ahead
        while (end := _EMPTY.search(taken)) is None and len(taken) < limit:
            block = next(self._blocks, b"")
            if not block:
                break
            taken += block
        return self._split(taken, end.end() if end else limit)

    def _split(self, taken: bytes, size: int) -> bytes:
        """The first *size* bytes of *taken*; the others come again."""
        size = min(len(taken), size)
        self._ahead = taken[size:]
        self.offset += size
        return taken[:size]

    def take(self, size: int) -> bytes:
        """The next *size* bytes.

        Raises:
            BadWarc: There are fewer.
        """
        taken = bytearray()
        self.skip(size, taken.extend)
        return bytes(taken)

    def skip(self, size: int, rest: Callable[[bytes], object]) -> None:
        """Give the next *size* bytes to *rest*, in parts.

        Raises:
            BadWarc: There are fewer.
        """
        while size:
            block = self._ahead or next(self._blocks, b"")
            if not block:
                raise BadWarc(self._name, self.offset, "the last record is cut off")
            part, self._ahead = block[:size], block[size:]
            rest(part)
            size -= len(part)
            self.offset += len(part)


HEAD_LIMIT = 256 * 1024
"""Bytes kept of a record: its headers, HTTP headers and the begin of its body."""
REQUEST_LIMIT = 1 << 22
"""Bytes kept of a request: a form is filed by what was sent."""
BLOCK = 1 << 20
"""Bytes that are read, and inflated, at a time."""
_FIRST = 1 << 16
"""Bytes that are read at first."""
PIECE = 1 << 14
"""Compressed bytes that are handed to zlib at a time."""
MAX_HEADERS = 10_000
"""Most header lines of a record or of its HTTP message."""

_KIND = re.compile(rb"WARC/[^\r\n]*\r\nWARC-Type: ([^\r\n]*)\r\n")
_REQUEST = re.compile(rb"WARC/[^\r\n]*\r\nWARC-Type: request\r\n")
_EMPTY = re.compile(rb"\n\r?\n")
_BARE = re.compile(rb"(?<!\r)\n")
_FOLD = re.compile(rb"\r\n[ \t]+")
_AROUND = " \t\n\r\x0b\x0c"
GZIP = b"\x1f\x8b"
"""What a gzip member begins with."""
_GZIP = 31  # zlib: expect gzip framing
_ZlibError = cast("type[Exception]", isal_zlib.error)


class Head:
    """Headers, taken apart when one is asked for: of most records none ever is."""

    __slots__ = ("_values", "top")

    def __init__(self, top: bytes = b"") -> None:
        """Of *top*: a first line, and a header on each further one."""
        self.top = top
        self._values: dict[str, str] | None = None

    def get(self, name: str, default: str = "") -> str:
        """The value of the first header with the lower-case *name*."""
        values = self._values
        if values is None:
            values = self._values = self._parsed()
        return values.get(name, default)

    def _parsed(self) -> dict[str, str]:
        text = self._lines().decode("utf-8", "replace")
        lines = text.split("\r\n")
        del lines[0]
        lines.reverse()  # the first of a name is the one that stays
        is_ascii = text.isascii()
        return {
            said.lower(): value.strip(_AROUND)
            for said, colon, value in [line.partition(":") for line in lines]
            if colon and (is_ascii or said.isascii())
        }

    def pairs(self) -> Iterator[tuple[str, str]]:
        """All headers in their order, in Latin-1."""
        for line in self._lines().decode("latin-1").split("\r\n")[1:]:
            name, colon, value = line.partition(":")
            if colon:
                yield name.strip(), value.strip()

    def _lines(self) -> bytes:
        """`top`, in which no header goes on in the next line."""
        if b"\r\n " not in self.top and b"\r\n\t" not in self.top:
            return self.top
        return _FOLD.sub(b" ", self.top)


class Found(NamedTuple):
    """One record, and where it is."""

    offset: int
    length: int
    """Of the gzip member, in bytes."""
    headers: Head
    """WARC headers."""
    block: bytes
    """The begin of the record's block."""

    @property
    def kind(self) -> str:
        """WARC-Type."""
        return self.headers.get("warc-type", "")

    @property
    def is_http(self) -> bool:
        """Whether the block is an HTTP message, as its type or its begin says.

        A head that is too long for other readers has no type of HTTP: see
        `frontier.warc.records.MAX_HEAD`.
        """
        mime = self.headers.get("content-type").partition(";")[0].strip().lower()
        if mime != "application/octet-stream":
            return mime == "application/http"
        return self.kind in {"response", "revisit"} and self.block.startswith(b"HTTP/")


Rest: TypeAlias = "Callable[[Found], Callable[[bytes], object]]"
"""Called with a record of which not all is kept, before its end, and without a length;
what it returns gets the rest of the block, in parts."""


Begin: TypeAlias = "Callable[[str, int, bytes], tuple[Found, int]]"
"""How records of a format begin: takes a file's name, the record's offset, and its
first bytes without compression; returns it as far as they go, without a length, and the
size of its head. Raises `BadWarc`."""


class Inflate(Protocol):
    """Unpacks one member, as the objects of `zlib` do."""

    eof: bool
    unused_data: bytes
    unconsumed_tail: bytes

    def decompress(self, data: bytes, size: int, /) -> bytes:
        """Return up to *size* bytes."""


def gzip_member() -> Inflate:
    """Unpacks one gzip member."""
    return cast("Inflate", isal_zlib.decompressobj(_GZIP))


def records(
    name: str,
    blocks: Iterable[bytes],
    only: frozenset[str] | None = None,
    check: Callable[[int, int], None] | None = None,
    rest: Rest | None = None,
    kept: int = 0,
    wrong: Callable[[BadWarc], None] | None = None,
    member: Callable[[], Inflate] = gzip_member,
    form: Begin | None = None,
    start: int = 0,
) -> Iterator[Found]:
    """Yield the records of the file *name*, given its bytes from *start* on.

    With *only*, it ends where one of another kind begins, however large that is.
    *check* is called with what came out of the file so far and what went in; what
    it raises ends this. At least *kept* bytes of a record are kept. *rest*: see `Rest`.
    *wrong* gets what is wrong with one record, and the next ones follow. *form* is of
    files that are not WARC. Only of gzip, which is the default *member*, a record has
    to be one member.

    Raises:
        BadWarc: It is cut off, is not packed so, or has a record without headers.
    """
    form = form or WARC
    offset, size, inflated = start, 0, 0
    joins = member is not gzip_member
    inflate = member()
    parts: list[bytes] = []
    head = total = whole = 0
    limit = max(HEAD_LIMIT, kept)
    sink: _Sink | None = None
    begin = tail = b""
    for piece in _pieces(blocks):
        data, full = piece, False
        while data or full:
            begin = begin if size else data[: len(GZIP)]
            out = _inflated(inflate, data, name, offset)
            total += len(out)
            if joins and 0 < len(out) == total:
                skipped = getattr(inflate, "skipped", 0)
                offset, size = offset + skipped, size - skipped
            if check is not None:
                inflated += len(out)
                check(inflated, offset + size + len(data))
            is_end = inflate.eof
            full = len(out) == BLOCK and not is_end  # more may be held back
            if not head:
                is_request = _REQUEST.match(out) is not None
                limit = max(REQUEST_LIMIT if is_request else HEAD_LIMIT, kept)
            if head < limit:
                part = out if head + len(out) <= limit else out[: limit - head]
                parts.append(part)
                head += len(part)
            if only is not None and _is_of_another_kind(b"".join(parts), only):
                return
            if total > head:
                tail = _tail(tail, parts, out, total - head)
            if total > head and rest is not None:
                if sink is None:
                    sink = _Sink(name, offset, b"".join(parts), rest, form)
                sink.feed(out[len(out) - (total - head) :] if sink.is_new else out)
            left = inflate.unused_data if is_end else inflate.unconsumed_tail
            size += len(data) - len(left)
            data = left
            if is_end:
                if total < whole:
                    inflate = member()
                    continue
                begun = parts[0] if len(parts) == 1 else b"".join(parts)
                if joins and not whole and (whole := _size(begun, form)) > total:
                    inflate = member()
                    continue
                try:
                    yield _found(name, offset, size, begun, tail, total, form)
                except BadWarc as error:
                    if wrong is None:
                        raise
                    wrong(error)
                offset, size, head, total, whole = offset + size, 0, 0, 0, 0
                inflate, parts, sink, tail = member(), [], None, b""
    if total or (size and _is_begun(inflate)):
        raise BadWarc(name, offset, _no_end(begin))


def _tail(tail: bytes, parts: list[bytes], out: bytes, over: int) -> bytes:
    """The last bytes of a record that came *out*, of which not all is in *parts*.

    *tail* was that before, and *over* is how many bytes of the record are not kept.
    """
    before = tail or b"".join(parts)[-GAP:]
    return (before + out[-min(over, GAP) :])[-GAP:]


def _size(begun: bytes, form: Begin) -> int:
    """What the record should come to, as it has *begun*; 1 if that cannot be told."""
    try:
        found, top = form("", 0, begun)
    except BadWarc:
        return 1
    return top + int(found.headers.get("content-length")) + len(_END)


def _no_end(begin: bytes) -> str:
    if GZIP.startswith(begin) or FRAME.startswith(begin):
        return "the last record is cut off"
    return "what is behind the last record is not one, it begins"


def unpacked(
    name: str,
    blocks: Iterable[bytes],
    member: Callable[[], Inflate],
    *,
    is_one: bool = False,
) -> Iterator[bytes]:
    """Yield what is in the members of the file *name*; with *is_one* in the first.

    Raises:
        BadWarc: It is cut off or damaged.
    """
    offset = size = 0
    inflate = member()
    for piece in _pieces(blocks):
        data, full = piece, False
        while data or full:
            out = _inflated(inflate, data, name, offset)
            if out:
                yield out
            is_end = inflate.eof
            full = len(out) == BLOCK and not is_end
            left = inflate.unused_data if is_end else inflate.unconsumed_tail
            size += len(data) - len(left)
            data = left
            if is_end:
                if is_one:
                    return
                offset, size, inflate = offset + size, 0, member()
    if size and _is_begun(inflate):
        raise BadWarc(name, offset, "the last member is cut off")


def _is_begun(inflate: Inflate) -> bool:
    """Whether what was taken is more than may stand behind the last record."""
    return getattr(inflate, "is_begun", True)


def _inflated(inflate: Inflate, data: bytes, name: str, offset: int) -> bytes:
    try:
        return inflate.decompress(data, BLOCK)
    except BadFrame as error:
        raise BadWarc(name, offset, str(error)) from None
    except _ZlibError as error:
        raise BadWarc(name, offset, f"not a gzip member ({error})") from None


class _Sink:
    """Gives what is not kept of a record's block to who asked for it."""

    def __init__(
        self, name: str, offset: int, start: bytes, rest: Rest, form: Begin
    ) -> None:
        self.is_new = True
        self._take: Callable[[bytes], object] = lambda _: None
        self._left = 0
        try:
            found, _ = form(name, offset, start)
        except BadWarc:
            return  # as its end will be told
        self._left = int(found.headers.get("content-length")) - len(found.block)
        if self._left > 0:
            self._take = rest(found)

    def feed(self, part: bytes) -> None:
        self.is_new = False
        if self._left > 0:
            self._take(part if len(part) <= self._left else part[: self._left])
            self._left -= len(part)


def _is_of_another_kind(head: bytes | bytearray, only: frozenset[str]) -> bool:
    kind = _KIND.match(head)
    return kind is not None and kind[1].decode("latin-1") not in only


def _pieces(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Cut *blocks* up: at each member's end, zlib copies what it has not read."""
    for block in blocks:
        for start in range(0, len(block), PIECE):
            yield block[start : start + PIECE]


def _begun(name: str, offset: int, start: bytes) -> tuple[Found, int]:
    if not start.startswith(_WARC):
        reason = "a gzip member that is not a WARC record"
        if start[: len(_WARC)].upper() == _WARC:
            reason = _SMALL
        elif _is_arc(start):
            reason = _ARC
        raise BadWarc(name, offset, reason)
    _require_crlf(name, offset, start)
    end = start.find(_END)
    top = start[: max(0, end)]
    if end < 0 or top.count(b"\n") > MAX_HEADERS:
        raise BadWarc(name, offset, "a record with endless headers")
    headers = Head(top)
    said = headers.get("content-length", "")
    if not (said.isascii() and said.isdigit() and len(said) < 16):
        raise BadWarc(name, offset, f"Content-Length {said[:40]!r}")
    end += len(_END)
    return Found(offset, 0, headers, start[end : end + int(said)]), end


_ARC = "an ARC file (frontier warc convert makes it WARC)"
_SMALL = "WARC/ in small letters (try frontier warc convert)"


def _is_arc(begin: bytes) -> bool:
    return begin.startswith(b"filedesc:")


def _require_crlf(name: str, offset: int, begin: bytes) -> None:
    """Refuse a head whose end would be taken for that of another.

    Raises:
        BadWarc: The first line of the record that has *begun* ends with a bare LF.
    """
    end = begin.find(b"\n")
    if end > 0 and begin[end - 1 : end] != b"\r":
        reason = "header lines without CRLF (try frontier warc convert)"
        raise BadWarc(name, offset, reason)


WARC: Begin = _begun


def has_head(start: bytes) -> bool:
    """Whether *start* has an empty line."""
    return _EMPTY.search(start) is not None


def _mended(head: bytes) -> bytes:
    """*head* as other readers want it: ``WARC/`` in capitals, and each line with CRLF.

    What is no head of a WARC record is left as it is.
    """
    start = head[: len(_WARC)].upper()
    return _BARE.sub(b"\r\n", start + head[len(_WARC) :]) if start == _WARC else head


def _begun_leniently(name: str, offset: int, start: bytes) -> tuple[Found, int]:
    end = _EMPTY.search(start)
    size = end.end() if end else len(start)
    head = _mended(start[:size])
    found, top = _begun(name, offset, head + start[size:])
    return found, top - len(head) + size


LENIENT: Begin = _begun_leniently
"""As `WARC`; lines may end with a line feed alone, and ``warc/`` be in small letters.

The headers that it gives are not the bytes of the file, which are to be written again.
"""


def _found(
    name: str,
    offset: int,
    length: int,
    start: bytes,
    tail: bytes,
    total: int,
    form: Begin,
) -> Found:
    """The record of *total* bytes that begins with *start* and ends with *tail*."""
    found, top = form(name, offset, start)
    size = int(found.headers.get("content-length"))
    behind = total - top - size
    ends = (tail or start)[-behind:] if 0 < behind <= GAP else b""
    if len(ends) != behind or ends.strip(_LINE_ENDS):
        has = max(0, total - top - len(_END))
        reason = f"a record that says {size} bytes, and has {has}"
        if start[top + size :].lstrip(_LINE_ENDS).startswith(_WARC):
            reason = "records share a gzip member (try frontier warc convert)"
        raise BadWarc(name, offset, reason)
    return Found(offset, length, found.headers, found.block)


def records_in(
    file: IO[bytes],
    name: str,
    offset: int = 0,
    check: Callable[[int, int], None] | None = None,
) -> Iterator[Found]:
    """Yield the records of *file*, compressed or not, from *offset* on.

    Between two of them *file* may be read elsewhere. For *check* see `records`.

    Raises:
        BadWarc: It is cut off, or is no WARC file; what is before that was given.
        OSError: It cannot be read.
    """
    file.seek(0)
    begin = file.read(len(FRAME))
    if is_zstd(begin):
        frames = frames_of(file, name)
        at = max(offset, frames.start)
        blocks = blocks_of(file, at)
        yield from records(name, blocks, None, check, member=frames.member, start=at)
    elif begin.startswith(GZIP):
        yield from records(name, blocks_of(file, offset), check=check, start=offset)
    else:
        yield from plain_records(name, blocks_of(file, offset), start=offset)


def blocks_of(
    file: IO[bytes], at: int = 0, length: int | None = None
) -> Iterator[bytes]:
    """The bytes of *file* from *at* on, which may be read elsewhere meanwhile.

    At most *length* bytes, if that is given. Few at first: mostly one record is wanted.
    """
    end = sys.maxsize if length is None else at + length
    size = _FIRST
    while at < end:
        file.seek(at)
        block = file.read(min(size, end - at))
        if not block:
            return
        at += len(block)
        size = min(2 * size, BLOCK)
        yield block


def line_ends_at(file: IO[bytes], at: int) -> bytes:
    """The line ends at byte *at* of *file*, as `plain_records` finds them there."""
    return Source("", blocks_of(file, at, GAP + 1)).take_line_ends()


def block_of(file: IO[bytes], found: Found) -> Readable:
    """All of the block of *found*, of which `Found.block` is the begin.

    The offset of *found* is that in *file*.
    """
    if int(found.headers.get("content-length")) == len(found.block):
        return BytesIO(found.block)
    return _WholeBlock(file, found)


class _WholeBlock:
    """A block that is read again, to its end."""

    def __init__(self, file: IO[bytes], found: Found) -> None:
        self._parts = whole_record(file, found.offset, found.length)
        self._left = int(found.headers.get("content-length"))
        head = b""
        while _END not in head and (part := next(self._parts, b"")):
            head += part
        self._ahead = head.partition(_END)[2]

    def read(self, size: int = -1) -> bytes:
        self._ahead = self._ahead or next(self._parts, b"")
        part = self._ahead[: self._left if size < 0 else min(size, self._left)]
        self._ahead = self._ahead[len(part) :]
        self._left -= len(part)
        return part


def whole_record(
    file: IO[bytes], offset: int, length: int | None = None
) -> Generator[bytes, None, None]:
    """Yield the record at *offset*, headers first, without the file's compression.

    It takes *length* bytes of the file; of a gzip file nobody has to know it. Of a
    file that is not compressed it comes without the two line ends behind it.

    Raises:
        ValueError: There is no gzip member, or no zstd frame.
        BadWarc: The file's zstd dictionary cannot be used.
        ConfigurationError: It is zstd, and the package for that is not installed.
        OSError: The file cannot be read.
    """
    file.seek(0)
    begin = file.read(len(FRAME))
    if is_zstd(begin):
        yield from _whole_frames(file, offset, length)
        return
    packed = begin.startswith(GZIP)
    file.seek(offset)
    inflate = isal_zlib.decompressobj(_GZIP)
    left = sys.maxsize if length is None else length
    while left > 0 and not inflate.eof and (data := file.read(min(BLOCK, left))):
        left -= len(data)
        while data:
            try:
                yield inflate.decompress(data, BLOCK) if packed else data
            except _ZlibError as error:
                raise ValueError(f"no gzip member: {error}") from None
            data = inflate.unconsumed_tail if packed else b""


def _whole_frames(file: IO[bytes], offset: int, length: int | None) -> Iterator[bytes]:
    member = frames_of(file, "").member
    blocks = blocks_of(file, offset, length)
    try:
        yield from unpacked("", blocks, member, is_one=length is None)
    except BadWarc as error:
        raise ValueError(error.reason) from None


def http(block: bytes) -> tuple[str, Head, bytes]:
    """Return status, headers and begin of the body of an HTTP response.

    The status is empty, and the headers are, if *block* is no whole head.
    """
    status, head, start = http_head(block)
    return status, head, block[start:] if start else b""


def http_head(block: bytes) -> tuple[str, Head, int]:
    """As `http`, with the place where the body begins: 0 if *block* is no whole head.

    The body is not copied.
    """
    end = block.find(_END)
    if end < 0 or not block.startswith(b"HTTP/"):
        return "", Head(), 0
    top = block[:end]
    words = top.split(b"\r\n", 1)[0].split(b" ", 2)
    if len(words) < 2:
        return "", Head(), 0
    status = words[1].decode() if words[1].isdigit() else ""
    return status, Head(top), end + len(_END)


_WHOLE = b"WARC/1."
_BLOCK_SIZE = 1 << 16
_START = 64
"""Bytes of a record that are looked at."""
_BEGIN = re.compile(rb"WARC/[^\r\n]*\r\nWARC-Type: ([a-z]+)\r\n")


def members(stream: IO[bytes] | FileIO) -> Iterator[tuple[int, bytes]]:
    """Yield the offset at which each whole record of *stream* ends, and its kind.

    It stops at the first byte that does not belong to a whole record.
    """
    end = 0
    rest = b""
    while True:
        member = _Member()
        size, rest = member.consume(stream, rest)
        if not member.whole:
            return
        end += size
        yield end, member.kind


class _Member:
    """One gzip member, inflated block by block and thrown away."""

    def __init__(self) -> None:
        self._inflate = isal_zlib.decompressobj(_GZIP)
        self._start = b""

    @property
    def whole(self) -> bool:
        """Whether the member ended as it should, and is a WARC record."""
        return self._inflate.eof and self._start.startswith(_WHOLE)

    @property
    def kind(self) -> bytes:
        """The value of WARC-Type, where our writer puts it."""
        found = _BEGIN.match(self._start)
        return found[1] if found else b""

    def consume(self, stream: IO[bytes] | FileIO, block: bytes) -> tuple[int, bytes]:
        """Read the member; return its size and the bytes read beyond it."""
        size = 0
        while not self._inflate.eof:
            block = block or stream.read(_BLOCK_SIZE) or b""
            if not block:
                break
            try:
                data = self._inflate.decompress(block, _BLOCK_SIZE)
            except _ZlibError:
                break
            self._start += data[: _START - len(self._start)]
            beyond = self._inflate.unconsumed_tail or self._inflate.unused_data
            size += len(block) - len(beyond)
            block = beyond
        return size, block


_PART = 1 << 18
_HEAD_LIMIT = 1 << 20
_LINE_LIMIT = 1 << 14
_CHUNKED = re.compile(
    rb"^transfer-encoding[ \t]*:[^\r\n]*\bchunked\b", re.IGNORECASE | re.MULTILINE
)
_SIZE = re.compile(rb"[ \t]*([0-9a-fA-F]{1,15})[ \t]*(?:;[^\n]*)?\r?\n")


class Readable(Protocol):
    """Where the block comes from."""

    def read(self, size: int = -1) -> bytes:
        """Return up to *size* bytes; none at the end."""


def payload_digest(block: Readable, algorithm: str, *, http: bool) -> str:
    """The digest of the payload in *block*, as an index spells it.

    With *http* the block is an HTTP response, else it is the payload.

    Raises:
        ImportError: The package that *algorithm* needs is not installed.
        ValueError: It is not an HTTP response, or its chunks are wrong.
    """
    computed = digester(algorithm)
    for part in body_of(block) if http else iter(lambda: block.read(_PART), b""):
        computed.update(part)
    return computed.spelled()


def body_of(block: Readable) -> Iterator[bytes]:
    """The entity body of the HTTP response in *block*, without its transfer coding.

    Raises:
        ValueError: It is not an HTTP response, or its chunks are wrong.
    """
    source = _Block(block)
    head = source.head()
    if not _is_chunked(head):
        while part := source.take(_PART):
            yield part
        return
    chunks = Chunks()
    while part := source.take(_PART):
        yield from chunks.feed(part)
    yield from chunks.end()


class Chunks:
    """Takes the transfer coding off a body that comes in parts."""

    def __init__(self) -> None:
        self._ahead = b""
        """A line that has no end yet."""
        self._left = 0
        """Bytes that the chunk still has."""
        self._line = self._first
        self._has_none = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield what *data* has of the body.

        Raises:
            ValueError: The chunks are wrong.
        """
        data, at = self._ahead + data, 0
        self._ahead = b""
        while at < len(data):
            if self._left:
                part = data[at : at + self._left]
                self._left -= len(part)
                at += len(part)
                yield part
                continue
            end = data.find(b"\n", at, at + _LINE_LIMIT) + 1
            if not end and len(data) - at < _LINE_LIMIT and self._line != self._over:
                self._ahead = data[at:]
                return
            at += self._line(data[at : end or at + _LINE_LIMIT])

    def end(self) -> Iterator[bytes]:
        """Yield what is left of the body, which has come to its end.

        Raises:
            ValueError: The chunks have not.
        """
        if self._has_none or self._line == self._over:
            return
        if self._line == self._first:
            yield self._ahead
        elif self._left:
            raise ValueError("a chunk that is cut off")
        else:
            raise ValueError("chunks that are cut off, or no chunks")

    def _first(self, line: bytes) -> int:
        if not _SIZE.match(line):
            # De-chunked already, by a tool that left the header as it was.
            self._has_none = True
            self._left = sys.maxsize
            return 0
        return self._size(line)

    def _size(self, line: bytes) -> int:
        if not line.endswith(b"\n"):
            raise ValueError("chunks that are cut off, or no chunks")
        found = _SIZE.fullmatch(line)
        if not found:
            raise ValueError("a chunk without a size")
        self._left = int(found[1], 16)
        self._line = self._behind if self._left else self._over
        return len(line)

    def _behind(self, line: bytes) -> int:
        if line != b"\r\n":
            raise ValueError("a chunk without an end")
        self._line = self._size
        return len(line)

    def _over(self, line: bytes) -> int:
        return len(line)


def body_start(block: bytes) -> tuple[int, bool]:
    """Where the body begins in the HTTP response *block*, and whether it has chunks.

    Raises:
        ValueError: It is not an HTTP response, or its head has no end.
    """
    if not block.startswith(b"HTTP/"):
        raise ValueError("no HTTP response")
    end = _end_of_head(block)
    if end is None:
        raise ValueError("an HTTP head without an end")
    return end[1], _is_chunked(block[: end[0]])


def _end_of_head(block: bytes) -> tuple[int, int] | None:
    """Where the first empty line of *block* begins and ends, with the line end before.

    Some tools end lines with a line feed alone.
    """
    at = block.find(b"\n\r\n")
    bare = block.find(b"\n\n", 0, at + 1 if at >= 0 else len(block))
    if at < 0 and bare < 0:
        return None
    begin, size = (at, 3) if bare < 0 else (bare, 2)
    return begin - (block[begin - 1 : begin] == b"\r"), begin + size


def _is_chunked(head: bytes) -> bool:
    return b"chunked" in head.lower() and _CHUNKED.search(head) is not None


def stored_body(file: IO[bytes], found: Found) -> Iterator[bytes] | None:
    """The body of the HTTP message *found* as it is stored, with its chunks.

    ``None`` if there are none, so that `body_of` gives the same.
    """
    end = _end_of_head(found.block)
    if end is None or not _is_chunked(found.block[: end[0]]):
        return None
    block = block_of(file, found)
    left = end[1]
    while left:
        left -= len(block.read(left))
    return iter(lambda: block.read(_PART), b"")


class _Block:
    def __init__(self, block: Readable) -> None:
        self._block = block
        self._ahead = b""

    def head(self) -> bytes:
        """What comes up to the empty line, and not that."""
        if not self.peek(5).startswith(b"HTTP/"):
            raise ValueError("no HTTP response")
        at = None
        size = _LINE_LIMIT
        while at is None:
            at = _end_of_head(self.peek(size))
            if at is None and (size >= _HEAD_LIMIT or len(self._ahead) < size):
                raise ValueError("an HTTP head without an end")
            size *= 4
        head, self._ahead = self._ahead[: at[0]], self._ahead[at[1] :]
        return head

    def peek(self, size: int) -> bytes:
        while len(self._ahead) < size:
            more = self._block.read(max(_PART, size - len(self._ahead)))
            if not more:
                break
            self._ahead += more
        return self._ahead[:size]

    def take(self, size: int) -> bytes:
        taken = self._ahead[:size] or self._block.read(size)
        self._ahead = self._ahead[size:]
        return taken
