"""The records of a WARC file, pulled from a stream of its bytes, in bounded memory.

    for found in records_of(name, blocks):
        found.headers, found.block, found.read(), ...

What always holds:

1.  At most `HEAD_LIMIT` bytes of a record are kept, and `REQUEST_LIMIT` of a request,
    however long it is and whatever length it states. Whoever wants more of it must read
    that before the next record: the reader does not go back.
2.  Each record has a gzip member, or one or more zstd frames, of its own, or no record
    is compressed. Any other file is refused, with the offset of the fault; see
    `frontier.warc.containers` for those.
3.  A record whose length is a lie is never taken for whole: its `Found.fault` says so
    when its end is read, and the reader raises it.
4.  A record may be followed by other line ends than the two that it should have: none,
    one, bare line feeds, up to `GAP` bytes of them. They belong to no record. Anything
    else that is not a record is damage: the length that the record states is wrong, or
    what follows it is.

The payload of an HTTP response is its entity body (WARC 1.1, section 5.9): without
the transfer coding, which some tools leave in the block, but with the content coding.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import IO, Any, TypeAlias, cast

from isal import isal_zlib
from typing_extensions import override

from frontier.errors import BadWarc
from frontier.warc.zstd import FRAME, Frames, frames_of, is_zstd

GAP = 64
"""Most bytes of line ends after a record."""
HEAD_LIMIT = 256 * 1024
"""Most bytes of a record's head, and most that are kept of the start of its block."""
REQUEST_LIMIT = 1 << 22
"""Most bytes kept of a request's block: a form is filed by what was sent."""
BLOCK = 1 << 20
"""Bytes that are read, and inflated, at a time."""
_FIRST = 1 << 16
"""Bytes of the first read."""
PIECE = 1 << 15
"""Compressed bytes that are handed to zlib at a time."""
MAX_HEADERS = 10_000
"""Most header lines of a record or of its HTTP message."""
GZIP = b"\x1f\x8b"
"""What a gzip member begins with."""

_WARC = b"WARC/"
_END = b"\r\n\r\n"
_LINE_ENDS = b"\r\n"
_EMPTY = re.compile(rb"\n\r?\n")
_HEAD_END = re.compile(_END)
LINE_END = re.compile(rb"\n")
_BARE = re.compile(rb"(?<!\r)\n")
_FOLD = re.compile(rb"\r\n[ \t]+")
_AROUND = " \t\n\r\x0b\x0c"
_gzip_member = partial(isal_zlib.decompressobj, 31)  # expects gzip framing
_ZlibError = cast("type[Exception]", isal_zlib.error)


class Head:
    """Headers, parsed when one is asked for: in most records none ever is."""

    __slots__ = ("_values", "size", "top")

    def __init__(self, top: bytes = b"", size: int = 0) -> None:
        """*top* is a first line, and a header on each further one."""
        self.top = top
        self.size = size
        """The size of the record's block, in bytes."""
        self._values: dict[str, str] | None = None

    def get(self, name: str, default: str = "") -> str:
        """The value of the first header with the lower-case *name*."""
        values = self._values
        if values is None:
            values = self._values = {}
            lines = self._lines().decode("utf-8", "replace").split("\r\n")
            for line in lines[:0:-1]:  # backwards: the first of a name wins
                key, colon, value = line.partition(":")
                if colon and key.isascii():  # the Kelvin sign's lower case is a "k"
                    values[key.rstrip().lower()] = value
        return values.get(name, default).strip(_AROUND)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """All headers in their order, decoded as Latin-1."""
        for line in self._lines().decode("latin-1").split("\r\n")[1:]:
            name, colon, value = line.partition(":")
            if colon:
                yield name.strip(), value.strip()

    def _lines(self) -> bytes:
        """`top`, with each header on a single line."""
        if b"\r\n " not in self.top and b"\r\n\t" not in self.top:
            return self.top
        return _FOLD.sub(b" ", self.top)


class Source:
    """Bytes that come in *blocks*, taken as they are asked for."""

    def __init__(self, name: str, blocks: Iterable[bytes], start: int = 0) -> None:
        self.name = name
        """The file's name, for errors."""
        self.offset = start
        """The offset of the next byte."""
        self._blocks = filter(None, blocks)  # an empty one is not the end
        self._buffer = b""
        self._at = 0

    def _more(self) -> bytes:
        """The next block; empty at the end."""
        return next(self._blocks, b"")

    def peek(self, size: int) -> bytes:
        """The next *size* bytes, or as many as there are; they are not taken."""
        self._have(size)
        return self._buffer[self._at : self._at + size]

    def take(self, size: int) -> bytes:
        """The next *size* bytes, or as many as there are."""
        self._have(size)
        return self.some(size)

    def some(self, size: int) -> bytes:
        """Up to *size* of the next bytes, those that are buffered; none at the end."""
        if self._at == len(self._buffer):
            self._have(1)
        taken = self._buffer[self._at : self._at + size]
        self._at += len(taken)
        self.offset += len(taken)
        return taken

    def _have(self, size: int) -> int:
        """Buffer *size* bytes, or as many as there are; return how many that is."""
        have = len(self._buffer) - self._at
        if have < size:
            parts = [self._buffer[self._at :]] if have else []
            while have < size and (block := self._more()):
                parts.append(block)
                have += len(block)
            self._buffer, self._at = b"".join(parts), 0
        return have

    def rest(self) -> Iterator[bytes]:
        """All that is left, in parts."""
        return iter(lambda: self.some(BLOCK), b"")

    def take_until(self, end: re.Pattern[bytes], limit: int) -> bytes:
        """The next bytes, up to and including *end* if it comes, at most *limit*."""
        while True:
            found = end.search(self._buffer, self._at, self._at + limit)
            if found is not None:
                return self.some(found.end() - self._at)
            have = len(self._buffer) - self._at
            if have >= limit or self._have(have + 1) == have:
                return self.some(min(have, limit))

    def take_line_ends(self) -> bytes:
        """The line ends that come next: all of them, but at most `GAP` + 1 bytes."""
        ahead = self.peek(GAP + 1)
        return self.take(len(ahead) - len(ahead.lstrip(_LINE_ENDS)))


class Found:
    """One record: where it is, its headers, and its block, which is read once."""

    __slots__ = (
        "_at",
        "_end",
        "_source",
        "block",
        "digest",
        "fault",
        "headers",
        "kind",
        "length",
        "missing",
        "offset",
    )

    def __init__(
        self,
        offset: int,
        headers: Head,
        source: Source,
        end: Callable[[Found], None] | None = None,
    ) -> None:
        """The record at *offset* with *headers*, whose block is next in *source*.

        *end* is called once the block was read, or as much as there is of it.
        """
        self.offset = offset
        self.length = 0
        """Its length in the file, in bytes; known once its end was read."""
        self.headers = headers
        """WARC headers."""
        self.kind = headers.get("warc-type").lower()
        """WARC-Type, in lower case."""
        limit = REQUEST_LIMIT if self.kind == "request" else HEAD_LIMIT
        self.block = source.take(min(headers.size, limit))
        """The start of the record's block."""
        self.digest = ""
        """The payload's digest, if whoever read the payload has computed it."""
        self.fault: BadWarc | None = None
        """What is wrong with its length; known once its end was read."""
        self._at = 0
        self.missing = headers.size - len(self.block)
        """Bytes of the block that were not read; after `finish`, those it lacks."""
        self._source = source
        self._end = end

    @property
    def is_http(self) -> bool:
        """Whether the block is an HTTP message, by its type or its first bytes.

        If its head is too long for other readers, the type is not that of HTTP: see
        `frontier.warc.records.MAX_HEAD`.
        """
        mime = self.headers.get("content-type").partition(";")[0].strip().lower()
        if mime not in {"", "application/octet-stream"}:
            return mime == "application/http"
        return self.kind in {"response", "revisit"} and self.block.startswith(b"HTTP/")

    def read(self, size: int = sys.maxsize) -> bytes:
        """Up to *size* of the next bytes of the block, from its start on."""
        if self._at < len(self.block):
            part = self.block[self._at : self._at + size]
            self._at += len(part)
            return part
        if not self.missing:
            return b""
        part = self._source.some(min(size, self.missing))
        self.missing -= len(part)
        return part

    def rest(self) -> Iterator[bytes]:
        """What follows `block`, in parts."""
        self._at = len(self.block)
        return iter(lambda: self.read(BLOCK), b"")

    def finish(self) -> None:
        """Read the rest of the record, so that its length and its fault are known.

        Raises:
            BadWarc: The file is cut off or damaged there.
        """
        self._at = len(self.block)
        while self.missing and self.read(BLOCK):
            pass
        if self._end is not None:
            end, self._end = self._end, None
            end(self)

    def require_whole(self) -> None:
        """Read the rest of the record.

        Raises:
            BadWarc: As `finish`; or its length is a lie.
        """
        self.finish()
        if self.fault is not None:
            raise self.fault


def whole(found: Iterable[Found]) -> Iterator[Found]:
    """Those of *found* that are whole. Each is read to its end; `block` is kept."""
    for each in found:
        each.finish()
        if each.fault is None:
            yield each


Begin: TypeAlias = "Callable[[Source], Head | None]"
"""Takes the head of a record, in some format, from a source, and returns it as the head
of a WARC record; ``None`` at the end. Raises `BadWarc`."""


def warc_head(source: Source) -> Head | None:
    """The head of the WARC record that begins there."""
    offset = source.offset
    begin = source.take_until(_HEAD_END, HEAD_LIMIT)
    if begin and not begin.startswith(_WARC):
        raise BadWarc(source.name, offset, _no_record(begin))
    return _parsed(source.name, offset, begin) if begin else None


def lenient_head(source: Source) -> Head | None:
    """As `warc_head`, but lines may end with a bare line feed, or ``warc/`` be small.

    Its headers may differ from the file's bytes: they have to be rewritten.
    """
    offset = source.offset
    begin = source.take_until(_EMPTY, HEAD_LIMIT)
    if begin and begin[: len(_WARC)].upper() != _WARC:
        raise BadWarc(source.name, offset, _no_record(begin))
    begin = _BARE.sub(b"\r\n", begin[: len(_WARC)].upper() + begin[len(_WARC) :])
    return _parsed(source.name, offset, begin) if begin else None


def _no_record(begin: bytes) -> str:
    if begin.startswith(b"filedesc:"):
        return "an ARC file (frontier warc convert makes it WARC)"
    if begin.startswith(GZIP):
        return "gzip, which a .warc is not,"
    if begin.startswith(b"PK"):
        return "a zip file (unzip a WACZ: its WARC files are in archive/)"
    if begin[: len(_WARC)].upper() == _WARC:
        return "WARC/ in small letters (try frontier warc convert)"
    return "no WARC record"


def _parsed(name: str, offset: int, begin: bytes) -> Head:
    end = begin.find(b"\n")
    if end > 0 and begin[end - 1 : end] != b"\r":
        # The end of another head would be taken for the end of this one.
        reason = "header lines without CRLF (try frontier warc convert)"
        raise BadWarc(name, offset, reason)
    if not begin.endswith(_END) or begin.count(b"\n") > MAX_HEADERS:
        raise BadWarc(name, offset, "a record with endless headers")
    headers = Head(begin[: -len(_END)])
    said = headers.get("content-length")
    if not (said.isascii() and said.isdigit() and len(said) < 16):
        raise BadWarc(name, offset, f"Content-Length {said[:40]!r}")
    headers.size = int(said)
    return headers


class Members(Source):
    """The content of a file's gzip members, or zstd frames, one after the other.

    All bytes taken are of one member, until `next` goes to the next one.
    """

    def __init__(
        self,
        name: str,
        blocks: Iterable[bytes],
        start: int = 0,
        frames: Frames | None = None,
        check: Callable[[int, int], None] | None = None,
    ) -> None:
        """*check* is called with how many bytes came out so far, and how many went in.

        *frames* say how it is packed, if it is not gzip.
        """
        super().__init__(name, _pieces(blocks), start)
        self.member = start
        """Where the member is in the file."""
        self.size = 0
        """Bytes of the file that were read of the member."""
        self.given = 0
        """Bytes that came out of the member."""
        self.wanted = 0
        """Bytes that a record in zstd frames has, or its head may have: if a frame has
        fewer, the next one is read as part of the same member."""
        self.frames = frames
        self._new = _gzip_member if frames is None else frames.member
        self._errors = _ZlibError if frames is None else frames.error
        self._check = check
        self._inflate: Any = None
        self._data = b""
        self._begin = b""
        self._is_full = False
        self._total = 0

    def next(self) -> bool:
        """Go to the next member, after what was read; ``False`` if there is none.

        Empty ones are skipped.

        Raises:
            BadWarc: What is there is not a member.
        """
        while True:
            self.member += self.size
            self.size = self.given = self.wanted = 0
            self._data = self._data or next(self._blocks, b"")
            if not self._data:
                return False
            self._begin = self._data[: len(GZIP)]
            self._inflate = self._new()
            self._buffer, self._at = self._inflated(), 0
            self.offset = self.member
            if self._buffer:
                return True

    @override
    def _more(self) -> bytes:
        """The next bytes of the member.

        Raises:
            BadWarc: It is cut off or damaged.
        """
        while not (part := self._inflated()):
            if self.frames is None or self.given >= self.wanted:
                return b""
            self._inflate = self._new()
        return part

    def end(self) -> bytes:
        """Read the member to its end; return what was left, at most `GAP` + 1 bytes."""
        left = self._buffer[self._at : self._at + GAP + 1]
        self._at = len(self._buffer)
        while part := self._more():
            left += part[: GAP + 1 - len(left)]
        return left

    def _inflated(self) -> bytes:
        inflate, out = self._inflate, b""
        while not inflate.eof:
            data = self._data or next(self._blocks, b"")
            if not data and not self._is_full:
                raise BadWarc(self.name, self.member, self._no_end())
            try:
                out = inflate.decompress(data, BLOCK)
            except self._errors as error:
                kind = "gzip member" if self.frames is None else "zstd frame"
                is_none = not self.given  # of its content
                reason = f"{'not a' if is_none else 'a damaged'} {kind} ({error})"
                raise BadWarc(self.name, self.member, reason) from None
            is_end = inflate.eof
            size = len(out)
            self._is_full = size == BLOCK and not is_end  # more is held back
            self._data = left = (
                inflate.unused_data
                if is_end
                else b""  # zstd keeps it
                if self.frames
                else inflate.unconsumed_tail
            )
            self.size += len(data) - len(left)
            self.given += size
            if self._check is not None:
                self._total += size
                self._check(self._total, self.member + self.size + len(left))
            if out:
                break
        return out

    def _no_end(self) -> str:
        if GZIP.startswith(self._begin) or FRAME.startswith(self._begin):
            return "the last record is cut off"
        return "what is behind the last record is not one, it begins"


def _pieces(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Cut *blocks* up: at each member's end, zlib copies what it has not read."""
    for block in blocks:
        for start in range(0, len(block), PIECE):
            yield block[start : start + PIECE]


def of_members(
    members: Members,
    begin: Begin = warc_head,
    wrong: Callable[[BadWarc], None] | None = None,
) -> Iterator[Found]:
    """Yield the records of a file, each from a member of its own.

    *wrong* gets what is wrong with a record, and the next ones follow; else it is
    raised.

    Raises:
        BadWarc: The file is cut off, is not packed so, or has a record without headers.
    """
    name = members.name

    def end(found: Found) -> None:
        behind = members.end()
        found.length = members.size
        lies = found.missing or len(behind) > GAP or behind.strip(_LINE_ENDS)
        if not lies:
            return
        said = found.headers.size
        has = max(0, members.given - members.wanted + said)
        reason = f"a record that says {said} bytes, and has {has}"
        if not found.missing and behind.lstrip(_LINE_ENDS).startswith(_WARC):
            reason = "records share a gzip member (try frontier warc convert)"
        found.fault = BadWarc(name, found.offset, reason)

    while members.next():
        offset = members.member
        fault: BadWarc | None = None
        is_record = _WARC.startswith(members.peek(len(_WARC)).upper())
        members.wanted = HEAD_LIMIT * is_record
        try:
            headers = begin(members)
            if headers is None:
                raise BadWarc(name, offset, "no WARC record")  # noqa: TRY301
        except BadWarc as error:
            members.wanted = 0
            members.end()
            fault = error
        else:
            members.wanted = members.offset - offset + headers.size + len(_END)
            found = Found(offset, headers, members, end)
            yield found
            found.finish()
            fault = found.fault
        if fault is not None:
            if wrong is None:
                raise fault
            wrong(fault)


def by_length(
    source: Source, begin: Begin = warc_head, *, is_strict: bool = True
) -> Iterator[Found]:
    """Yield the records in *source*, one after the other, each as long as it says.

    Their lengths do not include the line ends after each, as in other indexers for
    files that are not compressed. If not *is_strict*, as for ARC, a record ends where
    its length says, whatever follows it.

    Raises:
        BadWarc: It is cut off, is not a WARC file, or is gzip.
    """

    def end(found: Found) -> None:
        if found.missing:
            raise BadWarc(source.name, source.offset, "the last record is cut off")
        found.length = source.offset - found.offset
        ends = source.take_line_ends()
        behind = source.peek(len(_WARC)).upper()
        is_usual = ends == _END or not is_strict
        if not is_usual and (len(ends) > GAP or behind not in {_WARC, b""}):
            said = found.headers.size
            reason = f"a record that says {said} bytes, and does not end there,"
            found.fault = BadWarc(source.name, found.offset, reason)

    while True:
        if not is_strict:
            while source.take_line_ends():
                pass
        offset = source.offset
        headers = begin(source)
        if headers is None:
            return
        found = Found(offset, headers, source, end)
        yield found
        found.require_whole()


def records_of(name: str, blocks: Iterable[bytes]) -> Iterator[Found]:
    """The whole records of the file *name*: gzip if the name says so, else plain.

    Raises:
        BadWarc: See `of_members` and `by_length`.
    """
    if name.endswith(".gz"):
        return whole(of_members(Members(name, blocks)))
    return whole(by_length(Source(name, blocks)))


def members_of(
    file: IO[bytes],
    name: str,
    offset: int = 0,
    check: Callable[[int, int], None] | None = None,
) -> Members | None:
    """The members of *file* from *offset* on; ``None`` if it is not compressed.

    For *check* see `Members`. Its content says how *file* is packed, not its name.

    Raises:
        BadWarc: Its dictionary is damaged or too large.
        ConfigurationError: The package for zstd is not installed.
        OSError: It cannot be read.
    """
    blocks = blocks_of(file, offset)
    first = next(blocks, b"")
    if first.startswith(GZIP):
        return Members(name, chain([first], blocks), offset, None, check)
    file.seek(0)
    if not is_zstd(file.read(len(FRAME))):
        return None
    frames = frames_of(file, name)
    at = max(offset, frames.start)
    return Members(name, blocks_of(file, at), at, frames, check)


def pulled_from(
    file: IO[bytes],
    name: str,
    offset: int = 0,
    check: Callable[[int, int], None] | None = None,
) -> Iterator[Found]:
    """The records of *file*, compressed or not, from *offset* on, with blocks to read.

    *file* may be read at other places between them. For *check* see `Members`.

    Raises:
        BadWarc: It is cut off, or not a WARC file; records before that were yielded.
        OSError: It cannot be read.
    """
    members = members_of(file, name, offset, check)
    if members is None:
        return by_length(Source(name, blocks_of(file, offset), offset))
    return of_members(members)


def records_in(file: IO[bytes], name: str, offset: int = 0) -> Iterator[Found]:
    """The whole records of *file*; see `pulled_from`."""
    return whole(pulled_from(file, name, offset))


def blocks_of(
    file: IO[bytes], at: int = 0, length: int | None = None
) -> Iterator[bytes]:
    """The bytes of *file* from *at* on; it may be read at other places meanwhile.

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
    """The line ends at byte *at* of *file*, as `by_length` finds them there."""
    return Source("", blocks_of(file, at, GAP + 1)).take_line_ends()


def http_head(block: bytes) -> tuple[str, Head, int]:
    """Status and headers of an HTTP response, and where its body begins.

    If *block* does not have a whole head, status and headers are empty, and the offset
    is 0.
    """
    start = _head_size(block)
    head = block[:start].rstrip(_LINE_ENDS)
    words = head.split(b"\n", 1)[0].split(None, 2)
    if len(words) < 2:
        return "", Head(), 0
    if head.count(b"\n") > head.count(b"\r\n"):
        head = _BARE.sub(b"\r\n", head)
    return words[1].decode() if words[1].isdigit() else "", Head(head), start


def _head_size(block: bytes) -> int:
    """How long the head of the HTTP response in *block* is; 0 if it is not whole there.

    Some tools end lines with a line feed alone.
    """
    if not block.startswith(b"HTTP/"):
        return 0
    at = block.find(b"\n\r\n")
    bare = block.find(b"\n\n", 0, at + 1 if at >= 0 else len(block))
    return bare + 2 if bare >= 0 else at + 3 if at >= 0 else 0


_PART = 1 << 18
_LINE_LIMIT = 1 << 14
_CHUNKED = re.compile(
    rb"^transfer-encoding[ \t]*:[^\r\n]*\bchunked\b", re.IGNORECASE | re.MULTILINE
)
_SIZE = re.compile(rb"[ \t]*([0-9a-fA-F]{1,15})[ \t]*(?:;[^\n]*)?\r?\n")


Told: TypeAlias = "Callable[[bytes], object]"


def ignored(_: bytes) -> None:
    """Do nothing with it."""


def parts_of(block: Found | IO[bytes]) -> Iterator[bytes]:
    """All of *block*, in parts."""
    return iter(lambda: block.read(_PART), b"")


def payload_of(found: Found, chunks: Told = ignored) -> Iterator[bytes]:
    """The payload of *found*, in parts: its block, or the body of its HTTP message.

    For *chunks* see `body_of`.

    Raises:
        BadWarc: The file is cut off or damaged there, or the record's length is a lie.
        ValueError: It is HTTP, and its head or its chunks are wrong.
    """
    if found.is_http:
        yield from body_of(found.block, found.rest(), chunks)
    else:
        yield from parts_of(found)
    found.require_whole()


def body_of(
    block: bytes,
    rest: Iterable[bytes] = (),
    chunks: Told = ignored,
    start: tuple[int, bool] | None = None,
) -> Iterator[bytes]:
    """The entity body of the HTTP response in *block* and *rest*, which follows it.

    It is without its transfer coding. Where it has one, *chunks* gets the body as it is
    stored, part by part. *start* is the result of `body_start`, if that was called.

    Raises:
        ValueError: It is not an HTTP response, or its chunks are wrong.
    """
    begin, is_chunked = start or body_start(block)
    parts: Iterator[Any] = chain([memoryview(block)[begin:]], rest)
    return unchunked(Source("", telling(parts, chunks))) if is_chunked else parts


def telling(parts: Iterable[bytes], told: Told) -> Iterator[bytes]:
    """Yield *parts*, each after *told* got it."""
    for part in parts:
        told(part)
        yield part


def unchunked(source: Source) -> Iterator[bytes]:
    """The body in the rest of *source*, de-chunked.

    Raises:
        ValueError: Its chunks are wrong.
    """
    line = source.take_until(LINE_END, _LINE_LIMIT)
    if not _SIZE.match(line):
        # De-chunked already, by a tool that left the header as it was.
        if line:
            yield line
        yield from source.rest()
        return
    while True:
        if not line.endswith(b"\n"):
            raise ValueError("chunks that are cut off, or no chunks")
        found = _SIZE.fullmatch(line)
        if not found:
            raise ValueError("a chunk without a size")
        left = int(found[1], 16)
        if not left:
            break
        while left:
            part = source.some(left)
            if not part:
                raise ValueError("a chunk that is cut off")
            left -= len(part)
            yield part
        if source.take(len(_LINE_ENDS)) != _LINE_ENDS:
            raise ValueError("a chunk without an end")
        line = source.take_until(LINE_END, _LINE_LIMIT)
    for _ in source.rest():
        pass


def body_start(block: bytes) -> tuple[int, bool]:
    """Where the body begins in the HTTP response *block*, and whether it is chunked.

    Raises:
        ValueError: It is not an HTTP response, or its head has no end.
    """
    start = _head_size(block)
    if not start:
        raise ValueError("no HTTP response, or an HTTP head without an end")
    head = block[:start]
    is_chunked = b"chunked" in head.lower() and _CHUNKED.search(head) is not None
    return start, is_chunked
