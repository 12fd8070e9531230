"""A response as it was stored, read back from the WARC files of this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastwarc.warc import ArchiveIterator, WarcRecordType

from frontier.dedupe.digest import digest_of, parse
from frontier.files.input_files import open_input
from frontier.warc.file_rotation import OPEN

if TYPE_CHECKING:
    from pathlib import Path

    from frontier.dedupe.url_history import Past

LIMIT = 1 << 28
"""Largest body that is read back, in bytes."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A stored response."""

    status: int
    headers: tuple[tuple[str, str], ...]
    """In Latin-1, in their order."""
    body: bytes


def is_here(directory: Path, past: Past) -> bool:
    """Whether the file that has the original of *past* is in *directory*."""
    return _path(directory, past) is not None


def read_back(directory: Path, past: Past) -> Kept | None:
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


def _path(directory: Path, past: Past) -> Path | None:
    for name in (past.file, f"{past.file}{OPEN}"):
        path = directory / name
        if path.is_file():
            return path
    return None
