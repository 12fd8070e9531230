"""Responses as they were stored, read back from the WARC files of this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frontier.dedupe.digest import digest_of, parse
from frontier.errors import BadWarc
from frontier.files import OPEN, open_input
from frontier.model import frozen
from frontier.warc.reader import http_head, parts_of, pulled_from

if TYPE_CHECKING:
    from pathlib import Path

    from frontier.dedupe.url_history import LastCapture


LIMIT = 1 << 28
"""Largest body that is read back, in bytes."""


@frozen
class Kept:
    """A stored response."""

    status: int
    headers: tuple[tuple[str, str], ...]
    """Decoded as Latin-1, in their order."""
    body: bytes


def is_here(directory: Path, past: LastCapture) -> bool:
    """Whether the file that has the original of *past* is in *directory*."""
    return _path(directory, past) is not None


def read_back(directory: Path, past: LastCapture) -> Kept | None:
    """The original of *past*; ``None`` if it cannot be read, or has another digest."""
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
            found.require_whole()
    except (OSError, StopIteration, BadWarc):
        return None
    status, http_headers, start = http_head(block)
    body = block[start:]
    if not status or not _is_of(past.digest, body):
        return None
    return Kept(int(status), tuple(http_headers.pairs()), body)


def _is_of(digest: str, body: bytes) -> bool:
    """Whether *digest*, which is from the store, is that of *body*."""
    try:
        return digest_of(body, parse(digest).algorithm) == digest
    except (ValueError, ImportError):
        return False  # of a kind that we do not compute, or cannot compute here


def _path(directory: Path, past: LastCapture) -> Path | None:
    for name in (past.file, f"{past.file}{OPEN}"):
        path = directory / name
        if path.is_file():
            return path
    return None
