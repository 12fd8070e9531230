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

from dataclasses import asdict, dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from frontier.errors import NoManifest
from frontier.postcrawl.engines import duckdb_engine
from frontier.postcrawl.manifest import stored_manifest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

QUERY = """
WITH before AS (SELECT * FROM records_before JOIN names_before USING (file)),
after AS (SELECT * FROM records_after JOIN names_after USING (file)),
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
_NAMES = pa.schema([("file", pa.string()), ("name", pa.string())])
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


def compare(
    before: Sequence[Path],
    after: Sequence[Path],
    originals: Sequence[Path],
    scratch: Path,
    roots: tuple[str, str],
) -> Verified:
    """Compare the manifests *before* with those *after*, which have all digests.

    Revisits may be of captures in *originals*, too, which are compared with nothing. A
    file of one side is that of the other with its name, and with its directories' names
    below what was given, *roots*, where several files have it.
    """
    done = Verified()
    sides = [[_file(place) for place in side] for side in (before, after)]
    with duckdb_engine(scratch) as engine:
        for table, names in zip(
            ("names_before", "names_after"), _names(roots, *sides), strict=True
        ):
            columns = [list(names), list(names.values())]
            engine.table(table, pa.table(columns, _NAMES))
        engine.view("records_before", before)
        engine.view("records_after", after)
        engine.view("captures", [*after, *originals])
        for row in engine.rows(QUERY):
            _note(done, *row)
    return done


def _file(place: Path) -> str:
    found = stored_manifest(place)
    if found is None:
        raise NoManifest(str(place))
    return found.file


def _names(
    roots: tuple[str, str], before: Sequence[str], after: Sequence[str]
) -> list[dict[str, str]]:
    """By its path, what each file of a side is called: as little as tells all apart.

    That is below the directory that is given, or below the one that all files of a side
    share, as `frontier.postcrawl.many_files.outs_of` has it: where more names are in
    both.
    """
    first, second = (
        [_below(files, root), _below(files, _shared(files))]
        for files, root in zip((before, after), roots, strict=True)
    )
    sides = [(one, other) for other in second for one in first]
    parts = max(sides, key=lambda pair: len(_words(pair[0]) & _words(pair[1])))
    depth: dict[str, int] = {}
    for of in parts:
        alike: dict[str, list[list[str]]] = {}
        for words in of.values():
            alike.setdefault(words[-1], []).append(words)
        for name, several in alike.items():
            count = depth.get(name, 1)
            while len({tuple(words[-count:]) for words in several}) < len(several):
                count += 1
            depth[name] = count
    return [
        {file: "/".join(words[-depth[words[-1]] :]) for file, words in of.items()}
        for of in parts
    ]


def _below(files: Sequence[str], root: str) -> dict[str, list[str]]:
    """By its path, the names from *root* to each of *files*."""
    top = root.rstrip("/") + "/"
    return {file: file.removeprefix(top).split("/") for file in files}


def _shared(files: Sequence[str]) -> str:
    """The directory that all *files* are in."""
    above = zip(*(file.split("/")[:-1] for file in files), strict=False)
    return "/".join(
        words[0] for words in takewhile(lambda words: len(set(words)) == 1, above)
    )


def _words(named: dict[str, list[str]]) -> set[tuple[str, ...]]:
    return {tuple(words) for words in named.values()}


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
