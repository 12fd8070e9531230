"""Proves from the files alone that a deduplication has lost nothing.

What always holds:

1.  Nothing is taken from a plan or an earlier manifest: both sides are read in full.
2.  A file of BEFORE that is not in AFTER, or has other records there, is a fault.

Each record of BEFORE is in AFTER byte for byte, or with other headers around the same
block (as `frontier.postcrawl.restore` makes it), or is a response that is a revisit
now. Such a revisit has the same URL, date and HTTP head, and names by URL and second an
original with the stored body that the response had; the original is in AFTER, or in
files that are given for that. Or it is a revisit that is a response now (as
`frontier.postcrawl.restore` makes it): with the same URL, date and HTTP head, and a
payload of the digest that the revisit states.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from frontier.postcrawl.engines import duckdb_engine, query, texts
from frontier.postcrawl.files import below_shared
from frontier.postcrawl.manifest import stored_manifest
from frontier.warc.remote_files import path_of

NAMED = 100
"""Faults that are named; all are counted."""
SUMS = """
SELECT count(offset_before), count_if(is_sound AND became = 'identical'),
  count_if(is_sound AND became = 'anew'), count_if(is_sound AND became = 'revisits'),
  coalesce(sum(CASE WHEN is_sound AND became = 'revisits' THEN payload_length END), 0),
  count_if(is_sound AND became = 'restored'), count(fault)
FROM (SELECT *, fault IS NULL AS is_sound FROM verified) AS each_one
"""
FAULTS = f"""
SELECT name || ' at byte ' || coalesce(format('{{:,}}', offset_before),
    format('{{:,}} after', offset_after)) || ': ' || fault
FROM verified WHERE fault IS NOT NULL
ORDER BY name, offset_before, offset_after LIMIT {NAMED}
"""  # noqa: S608 - ours
"""A record that was not there before has no *offset_before*."""


@dataclass(slots=True)
class Verified:
    """What was compared, and what is wrong."""

    records: int
    identical: int
    anew: int
    """Records of the same id, URL, date and block, but with other headers around it."""
    revisits: int
    """Responses that are revisits now, and resolve to the bytes that they had."""
    payload_bytes: int
    """The payload bytes of those revisits."""
    restored: int
    """Revisits that are responses now, with the payload that they stated."""
    faults: int
    named: list[str] = field(default_factory=list)


def compare(
    before: Sequence[Path],
    after: Sequence[Path],
    originals: Sequence[Path],
    at: Path,
    roots: tuple[Path, Path],
) -> Verified:
    """Compare the manifests *before* with those *after*, which have all digests.

    Revisits may also be of captures in *originals*, which are compared with nothing.
    Files of the two sides are matched by their names below *roots*, which were given,
    or below the directory that all files of a side share (as in `outs_of`): whichever
    gives more names that both sides have. *at* is where sorting is done on disk.
    """
    with duckdb_engine(at) as engine:
        sides = [
            [m.file for m in map(stored_manifest, places) if m]
            for places in (before, after)
        ]
        first, second = map(_names, sides, roots)
        both = [(one, other) for other in second for one in first]
        names = max(both, key=lambda pair: len(set(pair[0]) & set(pair[1])))
        tables = zip(("before", "after"), (before, after), sides, names, strict=True)
        for side, places, files, of in tables:
            engine.table(f"names_{side}", texts(file=files, name=of))
            engine.view(f"records_{side}", places)
        engine.view("captures", [*after, *originals])
        engine.keep("verified", query("verify"))
        (sums,) = engine.rows(SUMS)
        done = Verified(*sums)
        done.named = [text for (text,) in engine.rows(FAULTS)]
    return done


def _names(files: Sequence[str], root: Path) -> tuple[list[str], list[str]]:
    """The names of *files* below *root*, and below the directory that they share."""
    top = os.fspath(root.absolute()).rstrip("/") + "/"
    shared = below_shared([path_of(file) for file in files])
    return [file.removeprefix(top) for file in files], list(map(str, shared))
