"""The proof that a deduplication has lost nothing, from the files alone.

What always holds:

1.  Nothing is taken from a plan or an earlier manifest: both sides are read whole.
2.  A file of BEFORE that is not in AFTER, or has other records there, is a fault.

Each record of BEFORE is there in AFTER byte for byte, or with other headers around the
same block (as `frontier.postcrawl.restore` makes it). Or it is a response that is a
revisit now: of the same URL and date, with the same HTTP head, and with an original in
AFTER, or in files that are given for that, named by URL and second, whose stored body
is the one that was there.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from frontier.postcrawl.engines import duckdb_engine

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

QUERY = """
WITH before AS (
  SELECT records_before.*, name FROM records_before JOIN names USING (file)
  WHERE side = 'before'
), after AS (
  SELECT records_after.*, name FROM records_after JOIN names USING (file)
  WHERE side = 'after'
),
pairs AS (
  SELECT b.name, b.record_offset AS offset_before, a.record_offset AS offset_after,
    b.type AS type_before, a.type AS type_after, b.url, b.date,
    b.payload_length, b.body_digest, a.refers_to_url, a.refers_to_date,
    coalesce(b.whole_digest = a.whole_digest, FALSE) AS is_same,
    coalesce(a.type = 'revisit' AND b.type = 'response' AND a.url = b.url
      AND a.date = b.date AND a.head_digest = b.head_digest, FALSE) AS is_revisit,
    coalesce(a.type = b.type AND a.record_id = b.record_id AND a.url = b.url
      AND a.date = b.date AND a.head_digest = b.head_digest
      AND a.body_digest = b.body_digest, FALSE) AS is_block
  FROM before b FULL JOIN after a ON b.name = a.name AND b.seq = a.seq
), originals AS (
  SELECT url, left(date, 19) AS second,
    min(body_digest) AS body_digest, max(body_digest) AS other
  FROM captures WHERE type IN ('response', 'resource') GROUP BY url, left(date, 19)
)
SELECT pairs.name, pairs.offset_before, pairs.offset_after, CASE
    WHEN type_before IS NULL THEN 'a record that was not there before'
    WHEN type_after IS NULL THEN 'the record is gone'
    WHEN is_block THEN NULL
    WHEN NOT is_same AND NOT is_revisit THEN 'the record is another'
    WHEN NOT is_same AND pairs.body_digest IS NULL THEN 'its payload could not be read'
    WHEN NOT is_same AND originals.url IS NULL THEN 'a revisit of nothing'
    WHEN NOT is_same AND NOT coalesce(originals.body_digest = pairs.body_digest
      OR originals.other = pairs.body_digest, FALSE) THEN 'a revisit of another payload'
    WHEN type_after = 'revisit' AND NOT is_same
      AND originals.body_digest <> originals.other THEN 'a revisit of one of several'
    WHEN type_before = 'revisit' AND originals.url IS NULL AND was.url IS NOT NULL
      THEN 'a revisit has lost its original'
    END AS fault,
  NOT is_same AND is_revisit AS is_new_revisit, is_block AND NOT is_same AS is_anew,
  pairs.payload_length
FROM pairs
LEFT JOIN originals ON pairs.refers_to_url = originals.url
  AND left(pairs.refers_to_date, 19) = originals.second
LEFT JOIN (SELECT DISTINCT url, left(date, 19) AS second FROM before
    WHERE type IN ('response', 'resource')) was
  ON pairs.refers_to_url = was.url AND left(pairs.refers_to_date, 19) = was.second
"""
"""Records are matched by their place in their file: none is left out or added."""
_NAMES = pa.schema([(name, pa.string()) for name in ("side", "file", "name")])
NAMED = 100
"""Faults that are named; all are counted."""


@dataclass(slots=True)
class Verified:
    """What was compared, and what is wrong."""

    records: int = 0
    identical: int = 0
    anew: int = 0
    """Of the same id, URL, date and block, with other headers around it."""
    revisits: int = 0
    """Responses that are revisits now, and resolve to the bytes that they had."""
    payload_bytes: int = 0
    """Of those."""
    faults: int = 0
    named: list[str] = field(default_factory=list)

    def facts(self) -> dict[str, Any]:
        """All of it, as JSON has it."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Side:
    """The files of BEFORE or of AFTER."""

    root: Path
    """What was given: a file, or the directory that they are below."""
    paths: Sequence[Path]

    def below(self, path: Path) -> str:
        """The name of *path* below the root."""
        where = os.fspath(path.absolute())
        below = where.removeprefix(os.fspath(self.root.absolute())).lstrip("/")
        return below if below and below != where.lstrip("/") else path.name


def names_of(before: Side, after: Side) -> pa.Table:
    """Which file of one side is which of the other: those of one *name*.

    It is the name without directories, since what was given may be more or less of a
    path; with them, if a side has several of that name.
    """
    sides = {"before": before, "after": after}
    counts = [Counter(path.name for path in side.paths) for side in sides.values()]
    found = [
        {
            "side": name,
            "file": os.fspath(path.absolute()),
            "name": path.name
            if max(count[path.name] for count in counts) < 2
            else side.below(path),
        }
        for name, side in sides.items()
        for path in side.paths
    ]
    return pa.Table.from_pylist(found, _NAMES)


def compare(
    before: Sequence[Path],
    after: Sequence[Path],
    originals: Sequence[Path],
    names: pa.Table,
    scratch: Path,
) -> Verified:
    """Compare the manifests *before* with those *after*, which have all digests.

    Revisits may be of captures in *originals*, too, which are compared with nothing.
    *names* is that of `names_of`.
    """
    done = Verified()
    with duckdb_engine(scratch) as engine:
        engine.view("records_before", before)
        engine.view("records_after", after)
        engine.table("names", names)
        engine.view("captures", [*after, *originals])
        for row in engine.rows(QUERY):
            _note(done, *row)
    return done


def _note(
    done: Verified,
    name: str | None,
    before: int | None,
    after: int | None,
    fault: str | None,
    is_revisit: bool,
    is_anew: bool,
    size: int | None,
) -> None:
    done.records += before is not None
    if fault:
        done.faults += 1
        if len(done.named) < NAMED:
            where = (
                f"byte {before:,}" if before is not None else f"byte {after:,} after"
            )
            done.named.append(f"{name} at {where}: {fault}")
    elif is_revisit:
        done.revisits += 1
        done.payload_bytes += size or 0
    elif is_anew:
        done.anew += 1
    else:
        done.identical += 1
