"""Captures on disk while an index is made, so that memory stays flat.

A private SQLite file: sorted by the bytes of the lines, and asked for what a
revisit refers to.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from frontier.digest import parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from frontier.cdx.lines import Line
    from frontier.cdx.reader import Found

CACHE_KB = 16_384
"""Memory that the file may take, in kB."""
_SCHEMA = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
CREATE TABLE capture (line BLOB, digest BLOB);
CREATE TABLE revisit (file TEXT, at INTEGER, digest BLOB, url TEXT, date TEXT,
                      container TEXT);
CREATE TABLE fact (file TEXT, at INTEGER, size INTEGER, time TEXT, url TEXT,
                   digest BLOB);
CREATE TABLE claim (file TEXT, at INTEGER, size INTEGER, time TEXT, url TEXT,
                    digest BLOB);
"""


class Captures:
    """The captures of a set of WARC files."""

    def __init__(self, path: Path) -> None:
        """Begin with none; what is at *path* is overwritten."""
        path.unlink(missing_ok=True)
        self._path = path
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute(f"PRAGMA cache_size = -{CACHE_KB}")
        self._db.executescript(_SCHEMA)
        self._db.execute("BEGIN")

    def add(self, line: Line, found: Found) -> None:
        """Add a capture."""
        digest = canonical(line.digest)
        whole = found.kind != "revisit"
        self._db.execute(
            "INSERT INTO capture VALUES (?, ?)",
            (line.encode(), digest if whole else None),
        )
        self._db.execute("INSERT INTO fact VALUES (?, ?, ?, ?, ?, ?)", _place(line))
        if not whole:
            h = found.headers
            facts = (
                h.get("warc-refers-to-target-uri", ""),
                h.get("warc-refers-to-date", ""),
                h.get("warc-refers-to-container", ""),
            )
            row = (line.filename, line.offset, digest, *facts)
            self._db.execute("INSERT INTO revisit VALUES (?, ?, ?, ?, ?, ?)", row)

    def sorted(self) -> Iterator[bytes]:
        """The lines, in order."""
        for (line,) in self._db.execute("SELECT line FROM capture ORDER BY line"):
            yield line

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

    def know(self, digests: Iterable[bytes]) -> None:
        """Have *digests* count as stored, in `unresolved`."""
        rows = ((digest,) for digest in digests)
        self._db.executemany("INSERT INTO capture VALUES (x'', ?)", rows)

    def unresolved(self) -> Iterator[tuple[str, int, bytes, str]]:
        """File, offset, digest and container of revisits whose original is not here."""
        self._db.execute("CREATE INDEX IF NOT EXISTS by_digest ON capture (digest)")
        yield from self._db.execute(
            "SELECT file, at, digest, container FROM revisit WHERE digest = x'' OR "
            "NOT EXISTS (SELECT 1 FROM capture WHERE capture.digest = revisit.digest)"
        )

    def close(self) -> None:
        """Drop it."""
        self._db.close()
        self._path.unlink(missing_ok=True)


def _place(line: Line) -> tuple[object, ...]:
    digest = canonical(line.digest)
    return (line.filename, line.offset, line.length, line.timestamp, line.url, digest)


def canonical(digest: str) -> bytes:
    """Return a digest without its spelling; empty if it is none."""
    try:
        found = parse(digest)
    except ValueError:
        return b""
    return found.algorithm.encode() + b":" + found.value
