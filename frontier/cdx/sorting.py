"""Captures on disk while an index is made, so that memory stays flat.

A private SQLite file. It sorts the lines by their bytes, and finds what a revisit
refers to.
"""

from __future__ import annotations

import re
import sqlite3
from typing import TYPE_CHECKING, NamedTuple

from frontier.cdx.lines import digits, sort_key
from frontier.dedupe.digest import parse
from frontier.files import FILE_MODE, creating

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from frontier.cdx.lines import Line
    from frontier.warc.reader import Found

BATCH = 1_000
"""Rows that are put into the file at once."""
CACHE_KB = 16_384
"""Memory that the file may take, in kB."""
_USUAL = re.compile("sha256:[0-9a-f]{64}")
_SCHEMA = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
CREATE TABLE capture (line BLOB);
CREATE TABLE held (digest BLOB, key TEXT);
CREATE TABLE revisit (file TEXT, at INTEGER, digest BLOB, key TEXT, time TEXT);
CREATE TABLE fact (file TEXT, at INTEGER, size INTEGER, time TEXT, url TEXT,
                   digest BLOB);
CREATE TABLE claim (file TEXT, at INTEGER, size INTEGER, time TEXT, url TEXT,
                    digest BLOB);
"""


class Need(NamedTuple):
    """What a revisit refers to."""

    digest: bytes
    """See `canonical`."""
    key: str
    """Of the original's URL."""
    time: str
    """14 digits of the original's date; empty where the revisit has none."""


def need_of(found: Found, key: str) -> Need:
    """What the revisit *found*, of the URL with *key*, refers to."""
    headers = found.headers
    own, target, date, digest = (
        headers.get(f"warc-{name}", "")
        for name in (
            "target-uri",
            "refers-to-target-uri",
            "refers-to-date",
            "payload-digest",
        )
    )
    return need(digest, key, own.strip("<>"), target.strip("<>"), date)


def need(digest: str, key: str, own: str, target: str, date: str) -> Need:
    """What a revisit of the URL *own* with *key* refers to.

    One that does not say whose payload it has, has that of its own URL.
    """
    if target and target != own:
        key = sort_key(target)
    return Need(canonical(digest), key, digits(date))


class Captures:
    """The captures of a set of WARC files."""

    def __init__(self, path: Path, mode: int = FILE_MODE) -> None:
        """Begin with none; what is at *path* is overwritten."""
        path.unlink(missing_ok=True)
        with open(path, "xb", opener=creating(mode)):
            pass  # SQLite itself would ask the umask alone
        self._path = path
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute(f"PRAGMA cache_size = -{CACHE_KB}")
        self._db.executescript(_SCHEMA)
        self._db.execute("BEGIN")
        self._held: list[tuple[bytes, str]] = []
        self._referred: list[tuple[str, int, bytes, str, str]] = []
        self._lines: list[tuple[bytes]] = []

    def add(self, line: Line) -> None:
        """Add a line, for `sorted`."""
        self._lines.append((line.encode(),))
        if len(self._lines) == BATCH:
            self._flush()

    def sorted(self) -> Iterator[bytes]:
        """The lines, in order."""
        self._flush()
        for (line,) in self._db.execute("SELECT line FROM capture ORDER BY line"):
            yield line

    def refer(self, file: str, offset: int, need: Need) -> None:
        """Add the revisit at *offset* of *file*, for `unresolved`."""
        self._referred.append((file, offset, *need))
        if len(self._referred) == BATCH:
            self._flush()

    def mark(self) -> dict[str, int]:
        """What was added so far, for `back_to`."""
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

    def hold(self, digest: bytes, key: str) -> None:
        """Note that a payload is stored under the URL with *key*."""
        self._held.append((digest, key))
        if len(self._held) == BATCH:
            self._flush()

    def fact(self, line: Line) -> None:
        """Note what a record says, for `differences`."""
        self._db.execute("INSERT INTO fact VALUES (?, ?, ?, ?, ?, ?)", _place(line))

    def claim(self, line: Line) -> None:
        """Note what an index says, for `differences`."""
        self._db.execute("INSERT INTO claim VALUES (?, ?, ?, ?, ?, ?)", _place(line))

    def differences(self, limit: int) -> Iterator[str]:
        """What the index says and no record does, and what it leaves out."""
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
            "SELECT file, at, digest, key, time FROM revisit WHERE digest = x'' OR "
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

    def close(self) -> None:
        """Drop it."""
        self._db.close()
        self._path.unlink(missing_ok=True)


def _place(line: Line) -> tuple[object, ...]:
    digest = canonical(line.digest)
    return (line.filename, line.offset, line.length, line.timestamp, line.url, digest)


def canonical(digest: str) -> bytes:
    """Return a digest in one spelling; empty if it is none."""
    if _USUAL.fullmatch(digest):
        return digest.encode()
    try:
        found = parse(digest)
    except ValueError:
        return b""
    return f"{found.algorithm}:{found.value.hex()}".encode()
