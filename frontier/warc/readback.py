"""Responses as they were stored, read back from the WARC files of this machine.

Also: which URLs of a crawl have their response in WARC files at all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastwarc.warc import ArchiveIterator, WarcRecordType

from frontier.dedupe.digest import digest_of, parse
from frontier.files import open_input
from frontier.warc.file_rotation import OPEN, safe_name
from frontier.warc.records import NOT_MODIFIED, OCTETS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from frontier.dedupe.url_history import LastCapture


_NAME = re.compile(
    r"(?P<crawl>.+)-[0-9]{17}-[0-9]{5,}-(?P<node>.+)\.warc\.gz(?:\.open)?"
)
_STATUS = re.compile(rb"HTTP/[0-9](?:\.[0-9])? ([0-9]{3})(?![0-9])")
PASSING = frozenset({408, 429, 500, 502, 503, 504, 522, 524})
"""Statuses after which Scrapy asks again: such a response ends nothing."""


def stored_urls(
    directory: Path, crawl_id: str, without_nodes: Collection[str]
) -> Iterator[str]:
    """The URLs whose GET was answered in the crawl's files in *directory*.

    Not those of *without_nodes*, and with all but printable ASCII escaped. A file
    is read as far as its records are whole.

    Raises:
        OSError: A file cannot be read.
    """
    skipped = {safe_name(node) for node in without_nodes}
    for path in sorted(directory.glob("*.warc.gz*")):
        named = _NAME.fullmatch(path.name)
        ours = named and named["crawl"] == safe_name(crawl_id)
        if named and ours and named["node"] not in skipped:
            yield from _stored(path)


def _stored(path: Path) -> Iterator[str]:
    kinds = WarcRecordType.request | WarcRecordType.response | WarcRecordType.revisit
    first, held = None, ""
    with open_input(path) as stream:
        for record in ArchiveIterator(stream, record_types=kinds, parse_http=True):
            is_request = record.record_type == WarcRecordType.request
            first = is_request if first is None else first  # in older files
            url = _asked(record) if is_request else _answered(record)
            if is_request == first:
                held = url
            elif url and url == held:
                yield url


def _asked(request: Any) -> str:
    """The URL of a GET; empty for all else."""
    if request.http_headers:
        is_get = (request.http_headers.status_line or "").startswith("GET ")
    else:
        is_get = _begins(request).startswith(b"GET ")
    return (request.headers.get("WARC-Target-URI") or "") if is_get else ""


def _answered(record: Any) -> str:
    """The URL of an answer that ends something."""
    if record.http_headers:
        status = record.http_headers.status_code
    else:
        line = _STATUS.match(_begins(record))
        status = line and int(line[1])
    if record.headers.get("WARC-Profile") == NOT_MODIFIED:
        status = 304  # that block is empty
    url = record.headers.get("WARC-Target-URI") or ""
    return url if status and status not in PASSING else ""


def _begins(record: Any) -> bytes:
    """How the block of *record* begins, whose head is longer than others read.

    Its type says nothing, so it was not parsed; see `frontier.warc.records.MAX_HEAD`.
    """
    is_octets = record.headers.get("Content-Type") == OCTETS
    return bytes(record.reader.read(64)) if is_octets else b""


LIMIT = 1 << 28
"""Largest body that is read back, in bytes."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A stored response."""

    status: int
    headers: tuple[tuple[str, str], ...]
    """In Latin-1, in their order."""
    body: bytes


def is_here(directory: Path, past: LastCapture) -> bool:
    """Whether the file that has the original of *past* is in *directory*."""
    return _path(directory, past) is not None


def read_back(directory: Path, past: LastCapture) -> Kept | None:
    """The original of *past*; ``None`` if it cannot be read, or is another."""
    path = _path(directory, past)
    if path is None:
        return None
    try:
        with open_input(path) as stream:
            stream.seek(past.offset)
            record = next(
                iter(ArchiveIterator(stream, record_types=WarcRecordType.response))
            )
            body = record.reader.read(LIMIT + 1)
            http = record.http_headers
            headers = tuple((str(name), str(value)) for name, value in http)
            status = int(http.status_code or 0)
    except (OSError, ValueError, TypeError, RuntimeError, AttributeError):
        return None
    except StopIteration:
        return None
    if len(body) > LIMIT or not _is_of(past.digest, body):
        return None
    return Kept(status, headers, body)


def _is_of(digest: str, body: bytes) -> bool:
    """Whether *digest*, which stood in the store, is that of *body*."""
    try:
        return digest_of(body, parse(digest).algorithm) == digest
    except (ValueError, ImportError):
        return False  # one that we do not compute, or not here


def _path(directory: Path, past: LastCapture) -> Path | None:
    for name in (past.file, f"{past.file}{OPEN}"):
        path = directory / name
        if path.is_file():
            return path
    return None
