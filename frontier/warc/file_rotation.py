"""WARC files: append, rotate, close.

What always holds:

1.  Files are written as `frontier.append_file` has it.
2.  A file begins with a warcinfo record, which is on disk before anything
    follows it. The records of one exchange are neighbours in one file.
3.  After an `OSError` nothing is appended before `WarcWriter.rollback` has worked.
4.  `WarcWriter.before_closing` is called for each file when its last byte is on
    disk and before it gets its final name, again if that name fails; then, once,
    `WarcWriter.on_closed`. What they raise is logged and changes nothing.

Nothing here is thread-safe: a writer belongs to one thread at a time.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from isal import isal_zlib

from frontier.append_file import AppendFile
from frontier.dedupe.digest import labelled
from frontier.files import (
    FILE_MODE,
    make_directory,
    sync_directory,
)
from frontier.model import Stored
from frontier.warc import records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from frontier.model import Exchange, Original, Outlinks
    from frontier.warc.records import Record

logger = logging.getLogger(__name__)

COMPRESSION_LEVEL = 2
"""Of ISA-L: files as large as zlib's at level 6 makes them, six times as fast."""
_GZIP = 31  # gzip framing with the largest window; writes mtime 0
_WRITE_SIZE = 1 << 20
_UNSAFE = re.compile(r"^[.-]|[^A-Za-z0-9._-]")
_NAME_LIMIT = 100
_NAME_DIGITS = 17  # to the millisecond


@dataclass(slots=True)
class Tally:
    """What a writer has put into its files, without what was rolled back."""

    bytes: int = 0
    """Compressed, warcinfo records included."""
    records: int = 0


@dataclass(frozen=True, slots=True)
class WarcConfig:
    """Where the WARC files of one node go, and what is in them."""

    directory: Path
    crawl_id: str
    node_id: str
    max_bytes: int = 1_000_000_000
    """A file that has them is closed."""
    max_seconds: float = 0
    """So long after its beginning a file is closed; 0 for never."""
    warcinfo: Mapping[str, str] = field(default_factory=dict)
    """What the first record of each file says of the crawl."""
    rules: str = ""
    """The rules of canonicalization, as JSON: a record of each file."""
    block_digest: bool = True
    metadata: bool = False
    """Whether each exchange gets a record of how it was found."""
    mode: int = FILE_MODE


class WarcWriter:
    """Appends exchanges to a series of WARC files of one node.

    Files are called ``<crawl>-<YYYYMMDDhhmmssmmm>-<serial>-<node>.warc.gz``.
    *clock* gives seconds since the Unix epoch, for names, ages and
    the dates of warcinfo records.
    """

    def __init__(self, config: WarcConfig, clock: Callable[[], float]) -> None:
        self.config = config
        self.before_closing: list[Callable[[Path], None]] = []
        """Called with the ``.open`` path of each file whose last byte is on disk."""
        self.on_closed: list[Callable[[Path], None]] = []
        """Called with the path of each file after it was closed, in this thread."""
        self.tally = Tally()
        self._begun = 0.0
        self._clock = clock
        self._serial = 0
        self.files = 0
        """That were begun."""
        self._file: AppendFile | None = None
        self._warcinfo_id = ""
        self._warcinfo_end = 0
        self._kept_tally = Tally()

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
        response, *request = records.capture(
            exchange,
            digest_hex,
            self._warcinfo_id,
            self.config.crawl_id,
            original,
            block_digest=self.config.block_digest,
        )
        offset = file.size
        length = self._write(file, response)
        for each in request:
            self._write(file, each)
        if self.config.metadata:
            self._write_metadata(file, exchange, response.record_id, digest_hex)
        return Stored(
            file=file.name,
            offset=offset,
            length=length,
            record_id=response.record_id,
            date=records.warc_date(exchange.started),
            payload_digest=labelled(digest_hex),
            original=original,
            url=records.target_uri(exchange.url),
        )

    def _write_metadata(
        self, file: AppendFile, exchange: Exchange, response: str, digest_hex: str
    ) -> None:
        """Write how *exchange*, whose record has the id *response*, was found."""
        about = records.metadata(
            exchange,
            response,
            digest_hex,
            self._warcinfo_id,
            block_digest=self.config.block_digest,
        )
        if about is not None:
            self._write(file, about)

    def append_outlinks(self, found: Outlinks, page: Stored) -> None:
        """Write the links of *page*, which was appended before.

        The file is never changed for it, so that `rollback` undoes all that was
        written so since the last `sync`.

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
        """Hand everything to the operating system; `rollback` spares it now."""
        if self._file is not None:
            self._file.flush()
        self._keep()

    def sync(self) -> None:
        """Wait until everything is on disk."""
        if self._file is not None:
            self._file.sync()
        self._keep()

    def rollback(self) -> None:
        """Undo what was appended since the last `flush` or `sync`.

        Raises:
            OSError: Call it again before anything else.
        """
        if self._file is not None:
            self._file.rollback()
        self.tally = Tally(self._kept_tally.bytes, self._kept_tally.records)

    def keeps(self, stored: Stored) -> bool:
        """Whether `rollback` would spare the record that *stored* is about."""
        file = self._file
        if file is None or stored.file != file.name:
            return True
        return stored.offset + stored.length <= file.kept

    def close(self) -> None:
        """Put everything on disk and close the file; `append` opens another."""
        if self._file is not None:
            file = self._file
            file.publish(lambda path: tell(self.before_closing, path))
            self._file = None
            self._keep()
            self.announce(self.config.directory / file.name)
        self._keep()

    def seconds_left(self) -> float | None:
        """How long the file may stay open; ``None`` without a file or a limit."""
        if self._file is None or not self.config.max_seconds:
            return None
        return max(0.0, self._begun + self.config.max_seconds - self._clock())

    def announce(self, path: Path) -> None:
        """Call `on_closed` for a file that was closed, here or by `repair`."""
        tell(self.on_closed, path)

    def abandon(self) -> None:
        """Leave the file as it is, for `repair`."""
        if self._file is not None:
            self._file.abandon()
            self._file = None

    def _is_full(self, file: AppendFile) -> bool:
        """Whether the next exchange goes into another file.

        A file with a warcinfo record alone, after a rollback, is never full.
        """
        full = file.size >= self.config.max_bytes or self.seconds_left() == 0
        return (full and file.size > self._warcinfo_end) or file.published

    def _open(self) -> AppendFile:
        make_directory(self.config.directory, self.config.mode)
        file = self._create()
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
        except BaseException:
            file.discard()
            raise
        self._keep()
        self._warcinfo_id = info.record_id
        self._warcinfo_end = file.size
        self._begun = self._clock()
        self._file = file
        self.files += 1
        return file

    def _create(self) -> AppendFile:
        while True:
            name = file_name(
                self.config.crawl_id, self._clock(), self._serial, self.config.node_id
            )
            self._serial += 1
            try:
                return AppendFile(self.config.directory, name, self.config.mode)
            except FileExistsError:
                continue  # the next serial is free, or the one after it

    def _write(self, file: AppendFile, record: Record) -> int:
        start = file.size
        for block in compress(record):  # one gzip member
            file.append(block)
        length = file.size - start
        self.tally.bytes += length
        self.tally.records += 1
        return length

    def _keep(self) -> None:
        self._kept_tally = Tally(self.tally.bytes, self.tally.records)


def tell(listeners: Iterable[Callable[[Path], None]], path: Path) -> None:
    """Call *listeners* with *path*, a file whose last byte is on disk.

    What one of them raises is logged, and changes nothing.
    """
    for told in listeners:
        try:
            told(path)
        except OSError as error:
            logger.error(  # noqa: TRY400 - the operator acts on the reason alone
                "%s is whole, but what belongs to it cannot be written: %s", path, error
            )
        except Exception:
            logger.exception("%s is whole, but what belongs to it failed", path)


def compress(record: Record) -> Iterable[bytes]:
    """Return *record* as one gzip member, in blocks of bounded size.

    One member per record is what WARC 1.1 (annex D.2) recommends, so that a
    reader can start at any record.
    """
    if sum(map(len, record.parts)) > _WRITE_SIZE:
        return _in_pieces(record)
    compressor = isal_zlib.compressobj(COMPRESSION_LEVEL, isal_zlib.DEFLATED, _GZIP)
    return compressor.compress(b"".join(map(bytes, record.parts))), compressor.flush()


def _in_pieces(record: Record) -> Iterator[bytes]:
    compressor = isal_zlib.compressobj(COMPRESSION_LEVEL, isal_zlib.DEFLATED, _GZIP)
    ready: list[bytes] = []
    size = 0
    for part in record.parts:
        for start in range(0, len(part), _WRITE_SIZE):
            ready.append(compressor.compress(part[start : start + _WRITE_SIZE]))
            size += len(ready[-1])
            if size >= _WRITE_SIZE:
                yield b"".join(ready)
                ready, size = [], 0
    ready.append(compressor.flush())
    yield b"".join(ready)


def file_name(crawl_id: str, seconds: float, serial: int, node_id: str) -> str:
    """Return the name of a WARC file; it is a plain name whatever the ids are."""
    digits = re.sub(r"[^0-9]", "", records.warc_date(seconds))[:_NAME_DIGITS]
    return f"{safe_name(crawl_id)}-{digits}-{serial:05}-{safe_name(node_id)}.warc.gz"


def safe_name(text: str) -> str:
    """Return *text* with all but ``A-Z a-z 0-9 . _ -`` replaced by ``_``.

    A dot or hyphen at the start is replaced too, so that no name is hidden or
    reads like an option, and the name is cut to 100 characters.
    """
    return _UNSAFE.sub("_", text)[:_NAME_LIMIT] or "_"
