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
from typing import NamedTuple

from frontier.cdx.lines import Capture, sort_key
from frontier.dedupe.digest import in_hex
from frontier.files import FILE_MODE, creating
from frontier.warc.records import digits

BATCH = 1_000
"""Rows that are put into the file at once."""
CACHE_KB = 16_384
"""Memory that SQLite may take for its cache, in kB."""
_SCHEMA = """
PRAGMA journal_mode = OFF;
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
        self._db.execute("BEGIN")
        self._held: list[tuple[str, str]] = []
        self._referred: list[tuple[str, int, str, str, str]] = []
        self._lines: list[tuple[bytes]] = []

    def add(self, capture: Capture) -> None:
        """Add a capture: its line, and the payload that it holds or refers to."""
        key, digest = capture.surt, in_hex(capture.digest)
        self._lines.append((capture._replace(key=key).plain().encode(),))
        if capture.kind != "revisit":
            self._held.append((digest, key))
        else:
            # A revisit that names no original has one of its own URL.
            if capture.refers_to and capture.refers_to != capture.url:
                key = sort_key(capture.refers_to)
            need = Need(digest, key, digits(capture.refers_date)[:14])
            self._referred.append((capture.filename, capture.offset, *need))
        if len(self._lines) == BATCH:
            self._flush()

    def sorted(self) -> Iterator[bytes]:
        """The lines, in order."""
        self._flush()
        for (line,) in self._db.execute("SELECT line FROM capture ORDER BY line"):
            yield line

    def mark(self) -> dict[str, int]:
        """A mark of what was added so far, for `back_to`."""
        self._flush()
        marks = {}
        for table in ("capture", "held", "revisit"):
            query = f"SELECT coalesce(max(rowid), 0) FROM {table}"  # noqa: S608
            (marks[table],) = self._db.execute(query).fetchone()
        return marks

    def back_to(self, mark: dict[str, int]) -> None:
        """Drop what was added after *mark*."""
        self._flush()
        for table, last in mark.items():
            delete = f"DELETE FROM {table} WHERE rowid > ?"  # noqa: S608
            self._db.execute(delete, (last,))

    def hold(self, digest: str, key: str) -> None:
        """Note that a payload is stored under the URL with *key*."""
        self._held.append((digest, key))
        if len(self._held) >= BATCH:
            self._flush()

    def note(self, table: str, line: Capture) -> None:
        """Note what a record (``fact``) or an index (``claim``) says of a capture."""
        file, at, digest = line.filename, line.offset, in_hex(line.digest)
        into = f"INSERT INTO {table} VALUES (?, ?, ?, ?, ?, ?)"  # noqa: S608
        row = (file, at, line.length, line.timestamp, line.url, digest)
        self._db.execute(into, row)

    def differences(self, limit: int) -> Iterator[str]:
        """What the index says but no record does, and what the index leaves out."""
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

    def _flush(self) -> None:
        self._db.executemany("INSERT INTO capture VALUES (?)", self._lines)
        self._lines.clear()
        self._db.executemany("INSERT INTO held VALUES (?, ?)", self._held)
        self._held.clear()
        into = "INSERT INTO revisit VALUES (?, ?, ?, ?, ?)"
        self._db.executemany(into, self._referred)
        self._referred.clear()


@contextlib.contextmanager
def captures_at(path: Path, mode: int = FILE_MODE) -> Iterator[Captures]:
    """No captures yet, in a file at *path*, which is deleted at the end.

    Raises:
        OSError: The file cannot be written.
    """
    path.unlink(missing_ok=True)
    with open(path, "xb", opener=creating(mode)):
        pass  # SQLite itself would go by the umask alone
    try:
        database = sqlite3.connect(path, isolation_level=None)
        with contextlib.closing(database):
            yield Captures(database)
    except sqlite3.OperationalError as error:
        raise OSError(errno.EIO, str(error), str(path)) from error
    finally:
        path.unlink(missing_ok=True)
