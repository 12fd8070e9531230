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
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from frontier.append_file import close_left, lock_left
from frontier.cdx.lines import INDEXED
from frontier.errors import BadWarc
from frontier.files import OPEN, sync_directory
from frontier.warc.file_rotation import safe_name
from frontier.warc.reader import records_in
from frontier.warc.records import MADE_BY

if TYPE_CHECKING:
    from collections.abc import Callable
    from io import FileIO
    from pathlib import Path

    from frontier.warc.reader import Found

logger = logging.getLogger(__name__)

_NAME = re.compile(r".+-[0-9]{17}-[0-9]{5,}-(?P<node>.+)\.warc\.gz\.open")


@dataclass(frozen=True, slots=True)
class Repaired:
    """What became of one ``.open`` file."""

    file: str
    """Its name without ``.open``."""
    records: int
    """How many whole records it has, the warcinfo record included."""
    kept_bytes: int
    cut_bytes: int
    """How many bytes after the last whole record were cut off."""
    removed: bool
    """Whether it had no whole record and was deleted."""


def repair(
    directory: Path,
    node_id: str | None,
    ready: Callable[[Path], None] | None = None,
    refused: Callable[[Path, str], None] | None = None,
) -> list[Repaired]:
    """Close every ``.open`` file in *directory* that has lost its writer.

    Each is cut back to its last whole record. Only the files of *node_id* are
    looked at, or all if it is ``None``. *ready* is called with the ``.open`` path
    of each file that was cut, before it gets its final name, while it is locked;
    what it raises is logged. What has such a name and is not a regular file, a link
    included, or whose final name is taken, is left alone: *refused* is called, or the
    log names it.

    Raises:
        OSError: A file or the directory cannot be read or changed.
    """
    if not directory.is_dir():
        return []
    node_id = None if node_id is None else safe_name(node_id)
    repaired = []
    for path in sorted(directory.glob(f"*{OPEN}")):
        named = _NAME.fullmatch(path.name)
        if named and node_id in {None, named["node"]}:
            outcome = _repair_file(path, ready, refused or log_refusal)
            if outcome is not None:
                repaired.append(outcome)
    if repaired:
        sync_directory(directory)
    return repaired


def log_refusal(path: Path, reason: str) -> None:
    """Say that a file is not repaired, and why."""
    logger.error("%s was not repaired: %s", path, reason)


def _repair_file(
    path: Path,
    ready: Callable[[Path], None] | None,
    refused: Callable[[Path, str], None],
) -> Repaired | None:
    def closing(path: Path) -> None:
        try:
            if ready is not None:
                ready(path)
        except (OSError, BadWarc) as error:
            logger.error(  # noqa: TRY400 - the operator acts on the reason alone
                "%s is whole, but has no index: %s", path, error
            )

    file = lock_left(path, refused)
    if file is None:
        return None
    with file:
        records, kept = _kept(file)
        cut = os.fstat(file.fileno()).st_size - kept
        close_left(path, file, kept, closing)
    if records == 0:
        logger.warning("%s had no whole record (%d bytes); removed", path, cut)
    else:
        logger.warning(
            "%s was left open; closed with %d records, %d bytes cut off",
            path,
            records,
            cut,
        )
    name = path.name.removesuffix(OPEN)
    return Repaired(name, records, kept, cut, removed=records == 0)


def _kept(file: FileIO) -> tuple[int, int]:
    """How many whole records *file* begins with, and where they end.

    Without a response that is the last of them: its request is missing.
    """
    count = kept = before = 0
    last: Found | None = None
    with suppress(BadWarc):
        for last in records_in(file, str(file.name)):
            count, before, kept = count + 1, kept, last.offset + last.length
    if last is None or last.kind not in INDEXED or last.headers.get(MADE_BY.lower()):
        return count, kept
    return count - 1, before
