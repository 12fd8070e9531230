"""Proves from the files alone that a deduplication has lost nothing.

What always holds:

1.  Nothing is taken from a plan or an earlier manifest: both sides are read in full.
2.  A record of BEFORE that is nowhere in AFTER is a fault. So is a further record in a
    file of AFTER that has records of BEFORE. That a file has moved is none.
3.  If BEFORE has a record several times, as in copies of a file, AFTER must, too.

Each record of BEFORE is in AFTER byte for byte, or with other headers around the same
block (as `frontier.postcrawl.restore` makes it), or is a response that is a revisit
now. Such a revisit has the same URL, date and HTTP head, and names by URL and second an
original with the stored body that the response had; the original is in AFTER, or in
files that are given for that. Or it is a revisit that is a response now (as
`frontier.postcrawl.restore` makes it): with the same URL, date and HTTP head, and a
payload of the digest that the revisit states.
"""

from __future__ import annotations

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
  count_if(is_sound AND became = 'restored'), count_if(became = 'further'), count(fault)
FROM (SELECT *, fault IS NULL AS is_sound FROM verified) AS each_one
"""
FAULTS = f"""
SELECT name || ' at byte ' || coalesce(format('{{:,}}', offset_before),
    format('{{:,}} after', offset_after)) || ': ' || fault
FROM verified WHERE fault IS NOT NULL
ORDER BY name, offset_before, offset_after LIMIT {NAMED}
"""  # noqa: S608 - ours
"""A record that was not there before has no *offset_before*."""
KEYS = ("name, seq, record", "record", "capture", "name, seq")
"""What records are matched by, one after the other: the same record at its place, then
anywhere, then the same capture under another id, as revisits have. What is left is
matched by its place alone."""
NONE = """
SELECT name, seq, name AS name_after, seq AS seq_after FROM before LIMIT 0
"""
SIDE = """
SELECT * EXCLUDE (cdxj), concat_ws(' ', record_id, url, date) AS record,
  concat_ws(' ', url, date, head_digest) AS capture
FROM records JOIN names USING (file)
"""


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
    further: int
    """Records of files of AFTER that have none of BEFORE."""
    faults: int
    named: list[str] = field(default_factory=list)


def compare(
    before: Sequence[Path],
    after: Sequence[Path],
    originals: Sequence[Path],
    at: Path,
) -> Verified:
    """Compare the manifests *before* with those *after*, which have all digests.

    Revisits may also be of captures in *originals*, which are compared with nothing.
    Files are named below the directory that all files of a side share. *at* is where
    sorting is done on disk.
    """
    with duckdb_engine(at) as engine:
        for side, places in (("before", before), ("after", after)):
            files = [m.file for m in map(stored_manifest, places) if m]
            names = map(str, below_shared([path_of(file) for file in files]))
            engine.table("names", texts(file=files, name=names))
            engine.view("records", places)
            engine.keep(side, SIDE)
        engine.view("captures", [*after, *originals])
        engine.keep("matched", NONE)
        for key in KEYS:
            engine.keep("matched", query("match").replace("$key", key))
        engine.keep("verified", query("verify"))
        (sums,) = engine.rows(SUMS)
        done = Verified(*sums)
        done.named = [text for (text,) in engine.rows(FAULTS)]
    return done
