"""Captures that a collection's index has, as originals of copies in other files.

What always holds:

1.  The index says only where to look. A capture is an original if a file that was given
    has it, of the URL, the second and the payload digest; what is in none is told, and
    makes no copy. Before a copy loses its payload both are read, as ever.
2.  What the index has stays what it is: crawls refer to it.
3.  The index is only read, and of it only what committed crawls have.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from frontier.dedupe.digest import spelled
from frontier.files import OPEN
from frontier.postcrawl.manifest import to_second
from frontier.postcrawl.payload import parsed
from frontier.warc.records import escaped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from frontier.dedupe.digest_index import Index
    from frontier.postcrawl.engines import Engine

SCHEMA = pa.schema(
    [("payload_digest", pa.string()), ("url", pa.string()), ("second", pa.string())]
)
"""What the index has of the payloads of a plan; *second* is of the original's date."""
INDEXED = "indexed.parquet"
CAPTURES = "indexed-captures.parquet"
DIGESTS = """
SELECT DISTINCT payload_digest, CASE WHEN agrees THEN claimed_digest END AS claimed
FROM manifest
WHERE type = 'response' AND payload_length > 0 AND payload_digest IS NOT NULL
ORDER BY payload_digest, claimed
"""
"""By what a record claims, too, if it is right: the index may be of that algorithm."""
ELSEWHERE = """
SELECT elsewhere.* FROM elsewhere
JOIN (SELECT DISTINCT url, second FROM indexed) named
  ON elsewhere.url = named.url AND left(elsewhere.date, 19) || 'Z' = named.second
LEFT JOIN (SELECT DISTINCT file FROM manifest) given ON elsewhere.file = given.file
WHERE type IN ('response', 'resource') AND payload_digest IS NOT NULL
  AND given.file IS NULL
ORDER BY elsewhere.file, record_offset
"""
"""All captures of the URL and second of an original: another payload that they have
makes the name one of two, and no copy may refer to it."""
UNREACHABLE = """
SELECT DISTINCT indexed.url, indexed.second FROM indexed LEFT JOIN manifest
  ON manifest.url = indexed.url AND left(manifest.date, 19) || 'Z' = indexed.second
  AND manifest.payload_digest = indexed.payload_digest
  AND type IN ('response', 'resource')
WHERE manifest.url IS NULL ORDER BY 1, 2
"""
NAMED = 20
"""Originals that are named when none of the files has them; all are counted."""
_CHUNK = 1_000
"""Digests per round trip."""


@dataclass(slots=True)
class Known:
    """What *index* has, and where the records may be; `find` fills in the rest."""

    index: Index
    originals: Sequence[Path]
    """Manifests of files that are not to be rewritten."""
    count: int = 0
    """Payloads of the plan that the index has."""
    unreachable: int = 0
    """Originals of theirs that are in no file."""
    fact: str = ""
    """Follows from what the index has."""

    def find(
        self,
        engine: Engine,
        places: Sequence[Path],
        directory: Path,
        mode: int,
        say: Callable[[str], None],
    ) -> None:
        """Ask the index, and have what the files have of it in the view ``manifest``.

        That is of the manifests at *places* now. ``indexed`` is what the index has.
        Both stand in *directory*. *say* is told what is in no file.

        Raises:
            StoreUnavailable: The index does not answer.
            OSError: One cannot be written.
        """
        found = directory / INDEXED
        with creating_whole(found, mode) as scratch:
            self._ask(engine.rows(DIGESTS), scratch)
        engine.view("indexed", [found])
        if self.originals:
            engine.view("elsewhere", self.originals)
            captures = directory / CAPTURES
            with creating_whole(captures, mode) as scratch:
                engine.write(ELSEWHERE, scratch)
            engine.view("manifest", [*places, captures])
        for url, second in engine.rows(UNREACHABLE):
            self.unreachable += 1
            if self.unreachable <= NAMED:
                say(f"the original that the index has is in no file: {url} of {second}")

    def _ask(self, digests: Iterator[tuple[Any, ...]], place: Path) -> None:
        """Write what the index has of *digests*, as `SCHEMA`, to *place*."""
        fact = hashlib.sha256()
        with pq.ParquetWriter(place, SCHEMA) as writer:
            while some := list(islice(digests, _CHUNK)):
                rows = sorted(self._rows(some))
                self.count += len(rows)
                fact.update(repr(rows).encode())
                columns = [list(column) for column in zip(*rows, strict=True)]
                if rows:
                    writer.write_table(pa.table(columns, SCHEMA))
        self.fact = fact.hexdigest()

    def _rows(self, digests: Sequence[tuple[Any, ...]]) -> set[tuple[str, str, str]]:
        keys = [
            (computed, spelled(digest))
            for computed, claimed in digests
            for text in (computed, claimed)
            if (digest := parsed(text or ""))
        ]
        found = self.index.lookup([key for _, key in keys])
        return {
            (computed, escaped(found[key].url), to_second(found[key].date))
            for computed, key in keys
            if key in found
        }


@contextmanager
def creating_whole(place: Path, mode: int) -> Iterator[Path]:
    """A name to write to, of what is called *place* when it is on disk."""
    scratch = place.with_name(place.name + OPEN)
    try:
        yield scratch
        with scratch.open("rb") as file:
            now = os.fstat(file.fileno()).st_mode
            os.fchmod(file.fileno(), now & mode)  # engines know no mode
            os.fsync(file.fileno())
        scratch.replace(place)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
