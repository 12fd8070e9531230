"""A log of every attempt to fetch, in the format of Heritrix's ``crawl.log``.

A WARC file has only requests that were answered. If a name does not resolve, a server
refuses, or robots.txt forbids it, only this log says so. A line has the twelve columns
of Heritrix 3's ``UriProcessingFormatter``::

    time  status  size  URL  hops  via  mime  #thread  begin+ms  digest  seed  notes

What always holds:

1.  A file is called ``<name>.crawl.log.open`` until its last byte is on disk, and is
    locked by its writer. A file without that suffix never changes again.
2.  The operating system has an attempt's line before the attempt is reported as done:
    a kill loses no line. Lines are forced to disk when the file is closed, so a power
    cut may take the last ones; it takes no records.
3.  While the disk takes no lines, the archive waits, as it does for records.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from frontier.append_file import AppendFile, close_left
from frontier.dedupe.digest import labelled
from frontier.files import OPEN
from frontier.model import Attempt, Exchange, Found, Stored, frozen
from frontier.warc.births import NOTE, URL
from frontier.warc.file_rotation import Series, WarcConfig, named_in
from frontier.warc.records import digits, escaped, target_uri, warc_date
from frontier.warc.selection import mime_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from io import FileIO
    from pathlib import Path


logger = logging.getLogger(__name__)

SUFFIX = ".crawl.log"
MAX_BYTES = 100_000_000
"""The size of a file after which the next is begun: some 400,000 lines."""
_BLOCK = 1 << 16
_TRUNCATED = {"length": "lenTrunc", "time": "timeTrunc"}
"""Heritrix's annotation, by the reason in WARC-Truncated."""
_NO_HEAD = {"time": -4}
"""Heritrix's status where no HTTP head came, by that reason; for others, -3: the
connection broke."""


@frozen
class Entry:
    """What a line says, in the order of its columns; `found` also has the seed."""

    ended: float
    """When it was over, in seconds since the Unix epoch."""
    status: int
    """HTTP's, or one of Heritrix's ``FetchStatusCodes``, which are below 0."""
    size: int
    """The size of the body, in bytes; -1 if none came."""
    url: str
    found: Found | None
    mime: str
    started: float
    """When it was sent, in seconds since the Unix epoch; 0 if nothing was sent."""
    digest: str
    notes: tuple[str, ...]

    def encode(self) -> bytes:
        """The line, with its line feed."""
        found = self.found
        began = "-"
        if self.started:
            duration_ms = max(0, round((self.ended - self.started) * 1000))
            began = f"{digits(warc_date(self.started))[:17]}+{duration_ms}"
        size = str(self.size) if self.size >= 0 else "-"
        hops, via, seed = (
            (found.hops, found.via, found.seed or self.url) if found else ("", "", "")
        )
        words = [
            f"{warc_date(self.ended)[:23]}Z",
            f"{self.status:>5}",
            f"{size:>10}",
            *map(_word, map(target_uri, (self.url, hops or "", via))),
            _word(self.mime),
            "#001",
            began,
            *map(_word, (self.digest, target_uri(seed))),
            _word(",".join(self.notes)),
        ]
        return f"{' '.join(words)}\n".encode("ascii", "replace")


def entry_of(given: Exchange | Attempt, stored: Stored | None) -> Entry:
    """The entry for *given*; *stored* is where it is, if it is in a WARC file."""
    if isinstance(given, Attempt):
        x = given
        facts = x.ended, x.status, x.size, x.url, x.found, x.mime, x.started
        return Entry(*facts, "", x.notes)
    notes = [*given.notes]
    if stored is not None and stored.original is not None:
        is_304 = given.unmodified is not None
        notes.append(f"warcRevisit:{'notModified' if is_304 else 'digest'}")
    if given.truncated:
        notes.append(_TRUNCATED.get(given.truncated, f"{given.truncated}Trunc"))
    return Entry(
        given.started + max(0, given.fetch_ms) / 1000,
        given.status or _NO_HEAD.get(given.truncated or "", -3),
        len(given.response_body),
        given.url,
        given.found,
        mime_of(given.response_head) or "unknown",
        given.started,
        labelled(stored.payload_digest.rpartition(":")[2]) if stored else "",
        tuple(notes),
    )


class CrawlLog:
    """Appends lines to a series of files of one node; belongs to one thread.

    Files are called ``<crawl>-<YYYYMMDDhhmmssmmm>-<serial>-<node>.crawl.log``, and
    begin with a line about the mark with which the crawl was *born*, if it has one.
    *closed* is called with the path of each once it is closed.
    """

    def __init__(
        self,
        config: WarcConfig,
        clock: Callable[[], float],
        closed: Callable[[Path], None] = lambda _: None,
        *,
        born: str = "",
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._born = born
        self._directory = config.directory
        self._clock = clock
        self._closed = closed
        self._max_bytes = max_bytes
        self._series = Series(config, clock, SUFFIX)
        self._file: AppendFile | None = None

    def write(self, entries: Sequence[Entry]) -> None:
        """Append *entries*: all of them or, after an `OSError`, none."""
        if not entries:
            return
        file = self._file
        if file is not None and (file.published or file.size >= self._max_bytes):
            self._finish()  # first: if it failed after them, they would come twice
        self._file = file = self._file or self._series.begin()
        lines = [entry.encode() for entry in entries]
        try:
            file.append(b"".join([*([] if file.size else self._head()), *lines]))
            file.flush()
        except OSError:
            file.rollback()
            raise

    def close(self) -> None:
        """Close the file; if it cannot be closed, it is left to `repair_logs`."""
        try:
            self._finish()
        except OSError as error:
            logger.error(  # noqa: TRY400 - the operator acts on the reason alone
                "a crawl log in %s is left open, for the next start to close: %s",
                self._directory,
                error,
            )
            if self._file is not None:
                self._file.abandon()
                self._file = None

    def _head(self) -> list[bytes]:
        """The line before the first attempt, which is not about a fetch."""
        if not self._born:
            return []
        note = f"{NOTE}{self._born}"
        return [Entry(self._clock(), 0, -1, URL, None, "", 0, "", (note,)).encode()]

    def _finish(self) -> None:
        if self._file is not None:
            self._file.publish()
            final, self._file = self._file.final, None
            self._closed(final)


def repair_logs(
    directory: Path, refused: Callable[[Path, str], None] | None = None
) -> list[Path]:
    """Close the logs in *directory* whose writer died, each after its last whole line.

    Those of live nodes are locked, and left alone. For *refused* see
    `frontier.append_file.close_left`.

    Raises:
        OSError: A file or the directory cannot be read or changed.
    """
    left = named_in(directory, f"{SUFFIX}{OPEN}")
    closed = close_left(left, lambda _, file: _whole(file), refused=refused)
    return [each.path for each in closed if each.kept]


def logs_of(directory: Path, crawl_id: str) -> list[Path]:
    """The closed logs in *directory*; with *crawl_id* only those of that crawl."""
    return named_in(directory, SUFFIX, crawl_id)


def _whole(file: FileIO) -> int:
    """The offset at which the last whole line of *file* ends."""
    end = file.seek(0, os.SEEK_END)
    while end > 0:
        begin = max(0, end - _BLOCK)
        file.seek(begin)
        at = (file.read(end - begin) or b"").rfind(b"\n")
        if at >= 0:
            return begin + at + 1
        end = begin
    return 0


def _word(text: str) -> str:
    """*text* as a column: without blanks; ``-`` if it is empty."""
    return escaped(text) if text else "-"
