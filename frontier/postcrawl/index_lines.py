"""The CDXJ index of a file that is written again, without reading what was copied.

What always holds:

1.  The lines are those that come of reading the file, byte for byte. They follow from
    the rows of the old file's manifest, and from the records that are new.
2.  Where a line does not follow from a row, `noted` says so when the manifest is made
    (`Manifest.indexed`), and the file is read as any other.

A manifest has read each record to its end, so that it knows the title of a page and
how a form was sent. To read them once more would take ``apply`` longer than all that it
compares.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow.parquet as pq

from frontier.cdx.lines import (
    GET,
    INDEXED,
    MOMENT,
    TITLE_REACH,
    Asked,
    Capture,
    capture_of,
    listed,
)
from frontier.warc.reader import HEAD_LIMIT, Found, Head
from frontier.warc.records import dated as spelled_out
from frontier.warc.records import escaped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from frontier.model import Body
    from frontier.warc.records import Record

CLAIM = 200
"""Characters of a claimed digest that a manifest has."""
_REACH = HEAD_LIMIT - TITLE_REACH
"""Bytes of the heads of a record, in front of all in which a title is looked for."""


class Noted(NamedTuple):
    """What a manifest has for the index alone; see `frontier.postcrawl.manifest`."""

    index_type: str | None = None
    title: str | None = None
    request_body: str | None = None


class Row(NamedTuple):
    """What a line follows from, by the names of a manifest's columns."""

    record_offset: int
    record_length: int
    type: str
    url: str
    date: str
    mime: str
    status: int | None
    method: str
    claimed_digest: str | None
    refers_to_url: str | None
    refers_to_date: str | None
    index_type: str | None
    title: str | None
    request_body: str | None


def noted(
    found: Found, how: Asked, http: tuple[str, Head, int], mime: str, status: int | None
) -> Noted | None:
    """What is to be noted of *found*, whose row has *mime* and *status*.

    *http* is its `frontier.warc.reader.http_head`. ``None`` if its line does not follow
    from its row.
    """
    get = found.headers.get
    _, _, start = http
    capture = capture_of(found, "", how)
    said, declared, title = capture.status, capture.mime, capture.title
    if found.kind == "resource":
        start = 0
    is_close = start + len(found.headers.top) <= _REACH
    if not is_close or len(get("warc-payload-digest")) > CLAIM:
        return None
    if said != ("" if status is None else str(status)):
        return None
    named = get("warc-target-uri"), get("warc-refers-to-target-uri")
    if any(escaped(url) != url for url in named):
        return None
    if named[0] and not MOMENT.fullmatch(get("warc-date")):
        return None  # whoever reads the record tells
    if dated(get("warc-refers-to-date")) != get("warc-refers-to-date"):
        return None
    body = how.body if how.method else None
    if not (_is_text(title) and _is_text(body)):
        return None
    declared = declared.partition(";")[0].strip()
    is_known = found.kind == "revisit" or declared == mime
    return Noted(None if is_known else declared, title, body)


def dated(date: str) -> str:
    """A WARC-Date as it should be spelled: some tools write its 14 digits alone."""
    is_digits = len(date) == 14 and date.isdecimal()
    return spelled_out(date) if is_digits else date


def _is_text(text: str | None) -> bool:
    """Whether *text* can be in a manifest: some charsets make halves of characters."""
    if text is None or text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Lines:
    """The lines of the file that is written as *name*."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._made: list[bytes] = []
        self._replaced: set[int] = set()

    def replaced(self, old: int, record: Record, offset: int, length: int) -> None:
        """Note *record*, the answer to a GET, in place of what was at *old*.

        Raises:
            BadWarc: Its date is invalid.
        """
        self._replaced.add(old)
        head, *block, _ = record.parts
        found = Found(offset, length, Head(bytes(head)[:-4]), _begin(block))
        line = listed(found, self._name)
        if line is not None:
            self._made.append(line.encode())

    def of(self, manifest: Path, moved: Callable[[int], int]) -> Iterator[bytes]:
        """All lines, given where the record at an offset of the old file is now."""
        yield from self._made
        with pq.ParquetFile(manifest) as file:
            for batch in file.iter_batches(columns=list(Row._fields)):
                columns = (batch.column(name).to_pylist() for name in Row._fields)
                for row in map(Row._make, zip(*columns, strict=True)):
                    if row.type in INDEXED and row.record_offset not in self._replaced:
                        yield from self._line(row, moved(row.record_offset))

    def _line(self, row: Row, offset: int) -> Iterator[bytes]:
        how = GET if row.method == "GET" else Asked(row.method, row.request_body)
        capture = Capture(
            row.url,
            row.date,
            row.type,
            row.mime if row.index_type is None else row.index_type,
            "" if row.status is None else str(row.status),
            row.claimed_digest or "",
            row.record_length,
            offset,
            self._name,
            row.title,
            row.refers_to_url or "",
            row.refers_to_date or "",
            how,
        )
        if row.url and len(capture.timestamp) == 14:
            yield capture.encode()


def _begin(parts: list[Body]) -> bytes:
    """The begin of a block, as far as it is looked at."""
    return b"".join(part[:HEAD_LIMIT] for part in parts)[:HEAD_LIMIT]
