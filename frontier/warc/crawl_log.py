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

from typing import TYPE_CHECKING

from frontier.append_file import AppendFile, close_left
from frontier.files import OPEN
from frontier.model import Attempt, Exchange, Stored
from frontier.warc.births import NOTE, URL
from frontier.warc.file_rotation import Series, WarcConfig, named_in
from frontier.warc.records import digits, escaped, target_uri, warc_date
from frontier.warc.selection import mime_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from io import FileIO
    from pathlib import Path


SUFFIX = ".crawl.log"
MAX_BYTES = 100_000_000
"""The size of a file after which the next is begun: some 400,000 lines."""
_TRUNCATED = {"length": "lenTrunc", "time": "timeTrunc"}
"""Heritrix's annotation, by the reason in WARC-Truncated."""
_NO_HEAD = {"time": -4}
"""Heritrix's status where no HTTP head came, by that reason; for others, -3: the
connection broke."""


def line_of(given: Exchange | Attempt, stored: Stored | None = None) -> bytes:
    """The line about *given*, with its line feed.

    *stored* is where it is, if it is in a WARC file.
    """
    digest = stored.payload_digest if stored else ""
    x = given if isinstance(given, Attempt) else _attempt_of(given, stored)
    began = "-"
    if x.started:
        duration_ms = max(0, round((x.ended - x.started) * 1000))
        began = f"{digits(warc_date(x.started))[:17]}+{duration_ms}"
    hops, via, seed = "", "", ""
    if x.found:
        hops, via, seed = x.found.hops or "", x.found.via, x.found.seed
        if not seed and x.found.hops is not None:
            seed = x.url
    words = [
        f"{warc_date(x.ended)[:23]}Z",
        f"{x.status:>5}",
        f"{x.size if x.size >= 0 else '-':>10}",
        *map(_word, map(target_uri, (x.url, hops, via))),
        _word(x.mime),
        "#001",
        began,
        *map(_word, (digest, target_uri(seed), ",".join(x.notes))),
    ]
    return f"{' '.join(words)}\n".encode("ascii", "replace")


def _attempt_of(exchange: Exchange, stored: Stored | None) -> Attempt:
    notes = [*exchange.notes]
    if stored is not None and stored.original is not None:
        is_304 = exchange.unmodified is not None
        notes.append(f"warcRevisit:{'notModified' if is_304 else 'digest'}")
    reason = exchange.truncated
    if reason:
        notes.append(_TRUNCATED.get(reason, f"{reason}Trunc"))
    return Attempt(
        exchange.url,
        exchange.status or _NO_HEAD.get(reason or "", -3),
        exchange.started,
        exchange.started + max(0, exchange.fetch_ms) / 1000,
        exchange.found,
        len(exchange.response_body),
        mime_of(exchange.response_head) or "unknown",
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
    ) -> None:
        self._born = born
        self._clock = clock
        self._closed = closed
        self._series = Series(config, clock, SUFFIX)
        self._file: AppendFile | None = None

    def write(self, lines: Sequence[bytes]) -> None:
        """Append *lines*: all of them or, after an `OSError`, none."""
        if not lines:
            return
        file = self._file
        if file is not None and (file.published or file.size >= MAX_BYTES):
            self.close()  # first: if it failed after them, they would come twice
        self._file = file = self._file or self._series.begin()
        try:
            if self._born and not file.size:  # a line that is not about a fetch
                note = f"{NOTE}{self._born}"
                file.append(line_of(Attempt(URL, 0, 0, self._clock(), notes=(note,))))
            file.append(b"".join(lines))
            file.flush()
        except OSError:
            file.rollback()
            raise

    def close(self) -> None:
        """Put everything on disk and close the file; `write` opens another."""
        if self._file is not None:
            self._file.publish()
            final, self._file = self._file.final, None
            self._closed(final)

    def abandon(self) -> None:
        """Leave the file as it is, for `repair_logs`."""
        if self._file is not None:
            self._file.abandon()
            self._file = None


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
    with open(file.fileno(), "rb", closefd=False) as lines:
        return sum(len(line) for line in lines if line.endswith(b"\n"))


def _word(text: str) -> str:
    """*text* as a column: without blanks; ``-`` if it is empty."""
    return escaped(text) if text else "-"
