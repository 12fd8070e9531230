"""Closing the files of writers that died.

A repaired file ends with a whole exchange. A response at the end without its request
is cut off, too: it was never acked, and readers would take it for the answer to a GET.
A document that no server sent has no request, and stays.

An ``.open`` file whose writer lives is locked (`frontier.warc.file_rotation`) and left
alone, so a node may repair the files of others at any time. Files with names unlike
ours are left alone, too: other tools use the suffix with other locks.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from frontier.append_file import close_left
from frontier.cdx.lines import INDEXED
from frontier.errors import BadWarc
from frontier.files import OPEN
from frontier.model import frozen
from frontier.warc.file_rotation import named_in
from frontier.warc.reader import Found, records_in
from frontier.warc.records import MADE_BY

if TYPE_CHECKING:
    from collections.abc import Callable
    from io import FileIO
    from pathlib import Path


logger = logging.getLogger(__name__)


@frozen
class Repaired:
    """What became of one ``.open`` file."""

    file: str
    """Its name without ``.open``."""
    records: int
    """How many whole records it has, the warcinfo record included."""
    cut_bytes: int
    """How many bytes after the last whole record were cut off."""
    removed: bool
    """Whether it had no whole record and was deleted."""


def repair(
    directory: Path,
    ready: Callable[[Path], None] | None = None,
    refused: Callable[[Path, str], None] | None = None,
) -> list[Repaired]:
    """Close every ``.open`` file in *directory* that has lost its writer.

    Each is cut back to its last whole record. *ready* is called with the ``.open`` path
    of each file that was cut, before it gets its final name, while it is locked;
    what it raises is logged. For *refused* see `frontier.append_file.close_left`.

    Raises:
        OSError: A file or the directory cannot be read or changed.
    """
    counts: dict[Path, int] = {}

    def whole(path: Path, file: FileIO) -> int:
        counts[path.with_name(path.name.removesuffix(OPEN))], end = _kept(file)
        return end

    def closing(path: Path) -> None:
        try:
            if ready is not None:
                ready(path)
        except (OSError, BadWarc) as error:
            logger.error(  # noqa: TRY400 - the operator acts on the reason alone
                "%s is whole, but has no index: %s", path, error
            )

    left = named_in(directory, f".warc.gz{OPEN}")
    repaired = []
    for path, _, cut in close_left(left, whole, closing, refused):
        records = counts[path]
        if records:
            logger.warning(
                "%s was left open; closed with %d records, %d bytes cut off",
                path,
                records,
                cut,
            )
        else:
            logger.warning("%s had no whole record (%d bytes); removed", path, cut)
        repaired.append(Repaired(path.name, records, cut, removed=not records))
    return repaired


def _kept(file: FileIO) -> tuple[int, int]:
    """How many whole records *file* begins with, and where they end.

    A response that is the last of them does not count: its request is missing.
    """
    count = kept = before = 0
    last: Found | None = None
    with suppress(BadWarc):
        for last in records_in(file, str(file.name)):
            count, before, kept = count + 1, kept, last.offset + last.length
    if last is None or last.kind not in INDEXED or last.headers.get(MADE_BY.lower()):
        return count, kept
    return count - 1, before
