"""Responses as they were stored, read back from the WARC files of this machine.

Also: which URLs of a crawl have their response in WARC files at all.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from frontier.dedupe.digest import digest_of, parse
from frontier.errors import BadWarc
from frontier.files import OPEN, open_input
from frontier.warc.file_rotation import safe_name
from frontier.warc.reader import http_head, parts_of, pulled_from, records_in
from frontier.warc.records import NOT_MODIFIED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from frontier.dedupe.url_history import LastCapture
    from frontier.warc.reader import Found


_NAME = re.compile(
    r"(?P<crawl>.+)-[0-9]{17}-[0-9]{5,}-(?P<node>.+)\.warc\.gz(?:\.open)?"
)
_EXCHANGED = frozenset({"request", "response", "revisit"})
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
    first, held = None, ""
    with open_input(path) as file, suppress(BadWarc):
        for found in records_in(file, str(path)):
            if found.kind not in _EXCHANGED:
                continue
            is_request = found.kind == "request"
            first = is_request if first is None else first  # in older files
            url = _asked(found) if is_request else _answered(found)
            if is_request == first:
                held = url
            elif url and url == held:
                yield url


def _asked(request: Found) -> str:
    """The URL of a GET; empty for all else."""
    is_get = request.block.startswith(b"GET ")
    return request.headers.get("warc-target-uri") if is_get else ""


def _answered(found: Found) -> str:
    """The URL of an answer that ends something."""
    line = _STATUS.match(found.block)
    status = int(line[1]) if line else 0
    if found.headers.get("warc-profile") == NOT_MODIFIED:
        status = 304  # that block is empty
    url = found.headers.get("warc-target-uri")
    return url if status and status not in PASSING else ""


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
        with open_input(path) as file:
            found = next(pulled_from(file, str(path), past.offset))
            size = int(found.headers.get("content-length"))
            if found.kind != "response" or size - len(found.block) > LIMIT:
                return None
            block = b"".join(parts_of(found))
            found.finish()
    except (OSError, StopIteration, BadWarc):
        return None
    status, http_headers, start = http_head(block)
    body = block[start:]
    if found.fault is not None or not status or not _is_of(past.digest, body):
        return None
    return Kept(int(status), tuple(http_headers.pairs()), body)


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
