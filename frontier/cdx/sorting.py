"""Captures on disk while an index is made, so that memory stays flat.

They are in a private SQLite file, which sorts the lines by their bytes, and finds what
a revisit refers to.
"""

from __future__ import annotations

import contextlib
import errno
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import NamedTuple

from frontier.cdx.lines import Capture, sort_key
from frontier.dedupe.digest import in_hex
from frontier.warc.records import digits

BATCH = 1_000
"""Rows that are put into the file at once."""
CACHE_KB = 16_384
"""Memory that SQLite may take for its cache, in kB."""
_SCHEMA = """
PRAGMA journal_mode = MEMORY;
PRAGMA synchronous = OFF;
CREATE TABLE capture (line BLOB);
CREATE TABLE held (digest TEXT, key TEXT);
CREATE TABLE revisit (file TEXT, at INTEGER, digest TEXT, key TEXT, time TEXT);
CREATE TABLE fact (file TEXT, at INTEGER, size INTEGER, time TEXT, url TEXT,
                   digest TEXT);
CREATE TABLE claim (file TEXT, at INTEGER, size INTEGER, time TEXT, url TEXT,
                    digest TEXT);
"""


class Need(NamedTuple):
    """What a revisit refers to."""

    digest: str
    """See `frontier.dedupe.digest.in_hex`."""
    key: str
    """The key of the original's URL."""
    time: str
    """14 digits of the original's date; empty if the revisit has none."""


class Captures:
    """The captures of a set of WARC files."""

    def __init__(self, database: sqlite3.Connection) -> None:
        """Begin with no captures in *database*, which is empty; see `captures_at`."""
        self._db = database
        self._db.execute(f"PRAGMA cache_size = -{CACHE_KB}")
        self._db.executescript(_SCHEMA)
        self._rows: dict[str, list[tuple[object, ...]]] = {}

    def add(self, capture: Capture) -> None:
        """Add a capture: its line, and the payload that it holds or refers to."""
        key, digest = capture.surt, in_hex(capture.digest)
        # Without the notes, which other tools' lines do not have.
        plain = capture._replace(key=key, title=None, refers_to="", refers_date="")
        self._put("capture", plain.encode())
        if capture.kind != "revisit":
            self._put("held", digest, key)
            return
        # A revisit that names no original has one of its own URL.
        if capture.refers_to and capture.refers_to != capture.url:
            key = sort_key(capture.refers_to)
        time = digits(capture.refers_date)[:14]
        self._put("revisit", capture.filename, capture.offset, digest, key, time)

    def sorted(self) -> Iterator[bytes]:
        """The lines, in order."""
        self._flush()
        for (line,) in self._db.execute("SELECT line FROM capture ORDER BY line"):
            yield line

    def keep(self) -> None:
        """Keep what was added so far, whatever `undo` drops."""
        self._flush()
        self._db.commit()

    def undo(self) -> None:
        """Drop what was added since the last `keep`."""
        self._rows.clear()
        self._db.rollback()

    def hold(self, digest: str, key: str) -> None:
        """Note that a payload is stored under the URL with *key*."""
        self._put("held", digest, key)

    def note(self, table: str, line: Capture) -> None:
        """Note what a record (``fact``) or an index (``claim``) says of a capture."""
        place = line.filename, line.offset, line.length
        self._put(table, *place, line.timestamp, line.url, in_hex(line.digest))

    def differences(self, limit: int) -> Iterator[str]:
        """What the index says but no record does, and what the index leaves out."""
        self._flush()
        for one, other, text in (
            ("claim", "fact", "the index has no record of its own at"),
            ("fact", "claim", "the index leaves out the record at"),
        ):
            rows = self._db.execute(
                f"SELECT * FROM {one} EXCEPT SELECT * FROM {other} LIMIT ?",  # noqa: S608
                (limit,),
            )
            for file, offset, _, _, url, _ in rows:
                yield f"{text} byte {offset} of {file[:200]}: {url[:200]}"

    def unresolved(self) -> Iterator[tuple[str, int, Need]]:
        """File, offset and need of revisits whose original is not held."""
        self._flush()
        self._db.execute("CREATE INDEX IF NOT EXISTS by_digest ON held (digest, key)")
        rows = self._db.execute(
            "SELECT file, at, digest, key, time FROM revisit WHERE digest = '' OR "
            "NOT EXISTS (SELECT 1 FROM held WHERE held.digest = revisit.digest "
            "AND held.key = revisit.key)"
        )
        for file, at, *need in rows:
            yield file, at, Need(*need)

    def _put(self, table: str, *row: object) -> None:
        rows = self._rows.setdefault(table, [])
        rows.append(row)
        if len(rows) == BATCH:
            self._flush()

    def _flush(self) -> None:
        for table, rows in self._rows.items():
            marks = ", ".join("?" * len(rows[0]))
            into = f"INSERT INTO {table} VALUES ({marks})"  # noqa: S608
            self._db.executemany(into, rows)
        self._rows.clear()


@contextlib.contextmanager
def captures_at(directory: Path | None) -> Iterator[Captures]:
    """No captures yet, in a file without a name, on the disk of *directory*.

    Raises:
        OSError: The file cannot be written.
    """
    try:
        with NamedTemporaryFile(dir=directory) as file:  # SQLite opens it by its name
            database = sqlite3.connect(file.name)
            captures = Captures(database)
        with contextlib.closing(database):
            yield captures
    except sqlite3.OperationalError as error:
        raise OSError(errno.EIO, str(error), str(directory)) from error
