"""Whether ``index.idx`` leads a reader to the lines of a compressed index.

A replay tool does not inflate the whole of ``index.cdx.gz``. It reads the
``.idx`` (a line for each gzip member: key, offset, length), finds the member
that may have a URL, and inflates that alone. So an index that is whole, but
whose ``.idx`` is wrong, is one in which captures are not found. What is asked
here is what the reader of wabac.js needs; pywb, which unpacks the index when a
WACZ is added to it, reads it without.
"""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from typing import IO, TYPE_CHECKING, NamedTuple

from frontier.cdx.lines import LINE_LIMIT
from frontier.wacz import layout

if TYPE_CHECKING:
    import zipfile
    from collections.abc import Iterator

BLOCK_LIMIT = 64 << 20
"""Largest gzip member of an index that is read, in bytes; ours have some 50 kB."""
FORMAT = "cdxj-gzip-1.0"
_PIECE = 1 << 20
_NUMBER = re.compile(r"[0-9]{1,15}")


class _Entry(NamedTuple):
    key: bytes
    """The first line of its member begins with this."""
    filename: str
    offset: int
    length: int
    digest: str


def wrong_blocks(archive: zipfile.ZipFile) -> Iterator[str]:
    """Yield what is wrong with each ``.idx`` of *archive*, and what none leads to."""
    names = [n for n in archive.namelist() if n.startswith(layout.INDEXES)]
    missing = {n for n in names if n.endswith((".cdx.gz", ".cdxj.gz"))}
    for name in names:
        if not name.endswith(".idx"):
            continue
        try:
            for member in _members(archive, name):
                missing.discard(member)
        except (ValueError, KeyError) as error:
            yield f"{name}: {error.args[0]}"
            return
    for name in sorted(missing):
        yield f"{name}: no .idx leads to its lines"


def _members(archive: zipfile.ZipFile, name: str) -> Iterator[str]:
    """Compare an index with the member that its lines lead to; yield that.

    Raises:
        ValueError: It leads elsewhere.
    """
    open_name, stream, at = "", None, 0
    last = b""
    for number, entry in _entries(archive, name):
        where = f"line {number}"
        if entry.key < last:
            raise ValueError(f"{where}: is not sorted")
        last = entry.key
        member = layout.INDEXES + entry.filename
        if member != open_name:
            if stream is not None:
                raise ValueError(f"{where}: is of a second file {member[:200]!r}")
            if member not in archive.NameToInfo:
                raise ValueError(f"{where}: there is no {member[:200]!r}")
            open_name, stream = member, archive.open(member)
        if entry.offset != at or stream is None:
            raise ValueError(f"{where}: offset {entry.offset}, but {at} is next")
        if not 0 < entry.length <= BLOCK_LIMIT:
            raise ValueError(f"{where}: length {entry.length}")
        _compare(stream, entry, where)
        at += entry.length
    if stream is None:
        raise ValueError("has no lines")
    if stream.read(1):
        raise ValueError(f"{open_name} goes on after the last of its members")
    yield open_name


def _entries(archive: zipfile.ZipFile, name: str) -> Iterator[tuple[int, _Entry]]:
    default = ""
    with archive.open(name) as lines:
        number = 0
        while raw := lines.readline(LINE_LIMIT):
            number += 1
            try:
                if number == 1 and raw.startswith(b"!meta"):
                    meta = _json(raw)[1]
                    default = str(meta.get("filename", ""))
                    if meta.get("format") != FORMAT:
                        raise ValueError(f"its format is not {FORMAT!r}")  # noqa: TRY301
                    continue
                entry = _entry(raw, default)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"line {number}: {error}") from None
            yield number, entry


def _json(raw: bytes) -> tuple[bytes, dict[str, object]]:
    key, brace, rest = raw.partition(b" {")
    facts = json.loads(brace + rest)
    if not isinstance(facts, dict):
        raise ValueError("no JSON object")  # noqa: TRY004 - a wrong value, read
    return key, facts


def _entry(raw: bytes, default: str) -> _Entry:
    columns = raw.rstrip(b"\n").split(b"\t")
    if len(columns) >= 4:  # as the Internet Archive and pywb write them
        key = columns[0]
        filename, offset, length = (c.decode() for c in columns[1:4])
        digest = ""
    else:
        key, facts = _json(raw)
        filename = str(facts.get("filename") or default)
        offset, length = str(facts.get("offset")), str(facts.get("length"))
        digest = str(facts.get("digest") or "")
    if not _NUMBER.fullmatch(offset) or not _NUMBER.fullmatch(length):
        raise ValueError(f"offset {offset[:40]!r}, length {length[:40]!r}")
    return _Entry(key, filename, int(offset), int(length), digest)


def _compare(stream: IO[bytes], entry: _Entry, where: str) -> None:
    data = stream.read(entry.length)
    if len(data) < entry.length:
        raise ValueError(f"{where}: its file ends at byte {entry.offset + len(data)}")
    inflate = zlib.decompressobj(31)
    try:
        begin = text = inflate.decompress(data, _PIECE)
        while inflate.unconsumed_tail and text:
            text = inflate.decompress(inflate.unconsumed_tail, _PIECE)
    except zlib.error:
        raise ValueError(f"{where}: no gzip member is there") from None
    if not inflate.eof or inflate.unused_data:
        raise ValueError(f"{where}: not one gzip member is there")
    first = begin.split(b"\n", 1)[0]
    if not first.startswith(entry.key + b" ") or not entry.key:
        raise ValueError(f"{where}: its member begins with {first[:100]!r}")
    if entry.digest:
        digest = hashlib.sha256(data).hexdigest()
        if entry.digest != f"sha256:{digest}":
            raise ValueError(f"{where}: the digest is another")
