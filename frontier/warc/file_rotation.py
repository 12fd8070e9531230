"""WARC files: append, rotate, close.

What always holds:

1.  Files are written as `frontier.append_file` says.
2.  A file begins with a warcinfo record, which is on disk before anything
    follows it. The records of one exchange are neighbours in one file.
3.  After an `OSError` nothing is appended before `WarcWriter.rollback` has worked.
4.  The line of a capture, for the index beside its file, is kept or rolled back with
    its records. The index is written after the file's last byte is on disk and before
    it gets its final name. Lines wait on disk: those of a file of 1 GB may take 100 MB.

Nothing here is thread-safe: a writer belongs to one thread at a time.
"""

from __future__ import annotations

import io
import os
import re
import tempfile
from contextlib import suppress
from dataclasses import field
from typing import IO, TYPE_CHECKING, NamedTuple

from isal import isal_zlib

from frontier.append_file import AppendFile
from frontier.cdx.lines import capture_from
from frontier.dedupe.digest import labelled
from frontier.files import (
    FILE_MODE,
    make_directory,
    sync_directory,
)
from frontier.model import Exchange, Original, Outlinks, Stored, frozen
from frontier.warc import records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from frontier.warc.cdxj_sidecar import Listing
    from frontier.warc.records import Record

COMPRESSION_LEVEL = 2
"""ISA-L's level: files as large as those of zlib's level 6, made six times as fast."""
_GZIP = 31  # gzip framing with the largest window; writes mtime 0
_WRITE_SIZE = 1 << 20
UNSAFE = re.compile(r"^[.-]|[^A-Za-z0-9._-]")
"""What no name of a file has."""
_NAME_LIMIT = 100
_NAME_DIGITS = 17  # to the millisecond


class Tally(NamedTuple):
    """What a writer has put into its files, without what was rolled back."""

    records: int = 0
    bytes: int = 0
    """Compressed, warcinfo records included."""


@frozen
class WarcConfig:
    """Where the WARC files of one node go, and what is in them."""

    directory: Path
    crawl_id: str
    node_id: str
    max_bytes: int = 1_000_000_000
    """A file of this size is closed."""
    max_seconds: float = 0
    """A file is closed this long after it was begun; 0 for never."""
    warcinfo: Mapping[str, str] = field(default_factory=dict)
    """What the first record of each file says about the crawl."""
    rules: str = ""
    """The canonicalization rules as JSON, which become a record in each file."""
    block_digest: bool = True
    metadata: bool = False
    """Whether each exchange gets a record of how it was found."""
    mode: int = FILE_MODE
    listing: Listing | None = None
    """Writes an index beside each file."""


class Series:
    """Makes the files of one node, whose names have serial numbers and *suffix*."""

    def __init__(
        self, config: WarcConfig, clock: Callable[[], float], suffix: str
    ) -> None:
        self._config = config
        self._clock = clock
        self._suffix = suffix
        self._serial = 0

    def begin(self) -> AppendFile:
        """The next file, empty.

        Raises:
            OSError: The directory cannot be written to.
        """
        config = self._config
        while True:
            name = file_name(
                config.crawl_id, self._clock(), self._serial, config.node_id
            )
            self._serial += 1
            with suppress(FileExistsError):  # the next serial is free, or a later one
                return AppendFile(config.directory, name + self._suffix, config.mode)


class WarcWriter:
    """Appends exchanges to a series of WARC files of one node.

    Files are called ``<crawl>-<YYYYMMDDhhmmssmmm>-<serial>-<node>.warc.gz``.
    *clock* gives seconds since the Unix epoch, for names, ages and
    the dates of warcinfo records.
    """

    def __init__(
        self,
        config: WarcConfig,
        clock: Callable[[], float],
        closed: Callable[[Path], None] = lambda _: None,
    ) -> None:
        """*closed* is called with the path of each file after it was closed."""
        self.config = config
        self.tally = Tally()
        self._closed = closed
        self._begun = 0.0
        self._clock = clock
        self._series = Series(config, clock, ".warc.gz")
        self.files = 0
        """Files that were begun."""
        self._file: AppendFile | None = None
        self._warcinfo_id = ""
        self._warcinfo_end = 0
        self._lines: IO[bytes] = io.BytesIO()
        """The lines of the open file's index, in a file without a name."""
        self._kept = (self.tally, 0)
        """The tally, and the size of `_lines`, that `rollback` goes back to."""

    def append(
        self, exchange: Exchange, digest_hex: str, original: Original | None = None
    ) -> Stored:
        """Write *exchange*, as a revisit of *original* if there is one.

        It is on disk after the next `sync`, and not before.

        Raises:
            OSError: Call `rollback`, then try again.
            ValueError: *original* is given and the payload is empty.
        """
        if self._file is not None and self._is_full(self._file):
            self.close()
        file = self._file or self._open()
        config, offset = self.config, file.size
        response, *others = records.capture(
            exchange,
            digest_hex,
            self._warcinfo_id,
            config.crawl_id,
            original,
            block_digest=config.block_digest,
            metadata=config.metadata,
        )
        length = self._write(file, response)
        for each in others:
            self._write(file, each)
        stored = Stored(
            file=file.name,
            offset=offset,
            length=length,
            record_id=response.record_id,
            date=records.warc_date(exchange.started),
            payload_digest=labelled(digest_hex),
            original=original,
            url=records.target_uri(exchange.url),
        )
        if config.listing is not None:
            self._lines.write(config.listing.line(capture_from(exchange, stored)))
        return stored

    def append_outlinks(self, found: Outlinks, page: Stored) -> None:
        """Write the links of *page*, which was appended before.

        The file is not rotated for it, so that `rollback` undoes all outlinks that
        were written since the last `sync`.

        Raises:
            OSError: Call `rollback`, then try again.
        """
        if self._file is not None and self._file.published:
            self.close()
        file = self._file or self._open()
        about = records.outlinks(
            found, page, self._warcinfo_id, block_digest=self.config.block_digest
        )
        self._write(file, about)

    def flush(self) -> None:
        """Hand everything to the operating system; `rollback` keeps it from now on."""
        self._keep(AppendFile.flush)

    def sync(self) -> None:
        """Wait until everything is on disk."""
        self._keep(AppendFile.sync)

    def _keep(self, settle: Callable[[AppendFile], None]) -> None:
        if self._file is not None:
            size = self._lines.seek(0, os.SEEK_END)  # first, or records lack their line
            settle(self._file)
            self._kept = (self.tally, size)

    def rollback(self) -> None:
        """Undo what was appended since the last `flush` or `sync`.

        Raises:
            OSError: Call it again before anything else.
        """
        self.tally, size = self._kept
        if self._file is not None:
            self._file.rollback()
            self._lines.seek(size)
            self._lines.truncate()

    def keeps(self, stored: Stored) -> bool:
        """Whether `rollback` would keep the record that *stored* is about."""
        file = self._file
        if file is None or stored.file != file.name:
            return True
        return stored.offset + stored.length <= file.kept

    def close(self) -> None:
        """Put everything on disk and close the file; `append` opens another."""
        if self._file is None:
            return
        self._lines.flush()
        self._file.publish(self._list)
        path, self._file = self._file.final, None
        self._lines.close()
        self._lines, self._kept = io.BytesIO(), (self.tally, 0)
        self._closed(path)

    def _list(self, path: Path) -> None:
        """Write the index of the file, whose last byte is on disk now."""
        self._kept = self.tally, self._lines.seek(0, os.SEEK_END)
        if self.config.listing is not None:
            self._lines.seek(0)
            self.config.listing.write(path, self._lines)

    def seconds_left(self) -> float | None:
        """How long the file may stay open; ``None`` without a file or a limit."""
        if self._file is None or not self.config.max_seconds:
            return None
        return max(0.0, self._begun + self.config.max_seconds - self._clock())

    def abandon(self) -> None:
        """Leave the file as it is, for `repair`."""
        if self._file is not None:
            self._file.abandon()
            self._file = None

    def _is_full(self, file: AppendFile) -> bool:
        """Whether the next exchange goes into another file.

        A file with only its warcinfo record, after a rollback, is never full.
        """
        full = file.size >= self.config.max_bytes or self.seconds_left() == 0
        return (full and file.size > self._warcinfo_end) or file.published

    def _open(self) -> AppendFile:
        make_directory(self.config.directory, self.config.mode)
        file = self._series.begin()
        try:
            moment = records.warc_date(self._clock())
            info = records.warcinfo(file.name, moment, self.config.warcinfo)
            self._write(file, info)
            if self.config.rules:
                self._write(
                    file, records.rules(info.record_id, moment, self.config.rules)
                )
            file.sync()
            sync_directory(self.config.directory)
            if self.config.listing is not None:
                self._lines = tempfile.TemporaryFile(dir=self.config.directory)  # noqa: SIM115
        except BaseException:
            file.discard()
            raise
        self._kept = (self.tally, 0)
        self._warcinfo_id = info.record_id
        self._warcinfo_end = file.size
        self._begun = self._clock()
        self._file = file
        self.files += 1
        return file

    def _write(self, file: AppendFile, record: Record) -> int:
        start = file.size
        for block in compress(record):  # one gzip member
            file.append(block)
        length = file.size - start
        self.tally = Tally(self.tally.records + 1, self.tally.bytes + length)
        return length


def compress(record: Record) -> Iterator[bytes]:
    """*record* as one gzip member, in blocks of bounded size.

    One member per record is what WARC 1.1 (annex D.2) recommends, so that a
    reader can start at any record.
    """
    if sum(map(len, record.parts)) <= _WRITE_SIZE:  # at once, which is quicker
        whole = b"".join(map(bytes, record.parts))
        yield isal_zlib.compress(whole, COMPRESSION_LEVEL, _GZIP)
        return
    compressor = isal_zlib.compressobj(COMPRESSION_LEVEL, isal_zlib.DEFLATED, _GZIP)
    for part in record.parts:
        for start in range(0, len(part), _WRITE_SIZE):
            yield compressor.compress(part[start : start + _WRITE_SIZE])
    yield compressor.flush()


def file_name(crawl_id: str, seconds: float, serial: int, node_id: str) -> str:
    """Return the start of a file's name; it is a plain name whatever the ids are."""
    digits = records.digits(records.warc_date(seconds))[:_NAME_DIGITS]
    return f"{safe_name(crawl_id)}-{digits}-{serial:05}-{safe_name(node_id)}"


def named_in(directory: Path, ending: str, crawl_id: str = "") -> list[Path]:
    """The files in *directory* with *ending* and otherwise a name as nodes give it.

    With *crawl_id* only those of that crawl.
    """
    named = names_of(crawl_id, re.escape(ending))
    return [p for p in sorted(directory.glob(f"*{ending}")) if named.fullmatch(p.name)]


def names_of(crawl_id: str = "", ending: str = ".*") -> re.Pattern[str]:
    """The names that nodes give files; *ending* is a regular expression."""
    crawl = re.escape(safe_name(crawl_id)) if crawl_id else ".+"
    return re.compile(rf"{crawl}-[0-9]{{17}}-[0-9]{{5,}}-.+{ending}")


def safe_name(text: str) -> str:
    """Return *text* with all but ``A-Z a-z 0-9 . _ -`` replaced by ``_``.

    A dot or hyphen at the start is replaced too, so that no name is hidden or
    reads like an option, and the name is cut to 100 characters.
    """
    return UNSAFE.sub("_", text)[:_NAME_LIMIT] or "_"
