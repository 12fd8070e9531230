"""How much of a collection is there more than once: by type, host, year and size.

It is told from manifests alone, and from all that have been made: of a sample, copies
are found only within it, and their share is a lower bound. It asks no policy: whatever
has the payload of an earlier capture counts as a copy, also what `frontier warc plan`
leaves out.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from frontier.errors import NoManifest
from frontier.postcrawl.engines import duckdb_engine
from frontier.postcrawl.manifest import SUFFIX

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from frontier.postcrawl.engines import Engine

KINDS = ("mime", "host", "year", "size")
MOST = 20
"""Names of a kind that are told, those with most bytes in copies."""
QUERY = f"""
WITH ranked AS (
  SELECT coalesce(nullif(mime, ''), '(none)') AS mime,
    coalesce(nullif(lower(regexp_extract(url, '^[a-zA-Z][^:/]*://(?:[^/?#@]*@)?([^/?#]*)',
      1)), ''), '(none)') AS host,
    coalesce(nullif(substr(date, 1, 4), ''), '(none)') AS year,
    CASE WHEN payload_length < 1000 THEN '< 1 kB'
      WHEN payload_length < 10000 THEN '1 to 10 kB'
      WHEN payload_length < 100000 THEN '10 to 100 kB'
      WHEN payload_length < 1000000 THEN '100 kB to 1 MB'
      WHEN payload_length < 10000000 THEN '1 to 10 MB'
      ELSE '10 MB and more' END AS size,
    payload_length AS bytes,
    CASE WHEN payload_length > 0 AND row_number() OVER (
      PARTITION BY payload_digest, payload_length
      ORDER BY coalesce(captured_us, 0), file, record_offset) > 1
      THEN 1 ELSE 0 END AS is_copy
  FROM manifest
  WHERE type IN ('response', 'resource') AND payload_digest IS NOT NULL
), grouped AS (
  SELECT CASE WHEN grouping(mime) = 0 THEN 'mime' WHEN grouping(host) = 0 THEN 'host'
      WHEN grouping(year) = 0 THEN 'year' WHEN grouping(size) = 0 THEN 'size'
      ELSE 'all' END AS kind,
    coalesce(mime, host, year, size, '') AS name,
    count(*) AS captures, CAST(sum(is_copy) AS BIGINT) AS copies,
    CAST(sum(bytes) AS BIGINT) AS payload_bytes,
    CAST(sum(is_copy * bytes) AS BIGINT) AS copied_bytes
  FROM ranked GROUP BY GROUPING SETS ((mime), (host), (year), (size), ())
), placed AS (
  SELECT *, row_number() OVER (
      PARTITION BY kind ORDER BY copied_bytes DESC, payload_bytes DESC, name) AS place,
    count(*) OVER (PARTITION BY kind) AS names
  FROM grouped
)
SELECT kind, names, name, captures, copies, payload_bytes, copied_bytes
FROM placed WHERE place <= {MOST} ORDER BY kind, place
"""  # noqa: S608 - no word of it is given
"""Standard SQL, for every engine."""


@dataclass(frozen=True, slots=True)
class Share:
    """Captures of one name, and which of them have the payload of an earlier one."""

    captures: int = 0
    copies: int = 0
    payload_bytes: int = 0
    copied_bytes: int = 0


@dataclass(slots=True)
class Duplication:
    """What is there more than once."""

    files: int
    """That have a manifest."""
    total: Share = Share()
    by: dict[str, dict[str, Share]] = field(default_factory=dict)
    """Of each of `KINDS`, its names; the first has most bytes in copies."""
    names: dict[str, int] = field(default_factory=dict)
    """How many names each kind has."""

    def facts(self) -> dict[str, Any]:
        """All of it, as JSON has it."""
        return asdict(self)


def duplication(
    directory: Path,
    scratch: Path,
    engine: Callable[[Path], AbstractContextManager[Engine]] = duckdb_engine,
) -> Duplication:
    """What the manifests in *directory* say; *engine* may sort in *scratch*.

    Raises:
        NoManifest: There is none.
    """
    places = sorted(directory.glob(f"*{SUFFIX}"))
    if not places:
        raise NoManifest(str(directory))
    found = Duplication(len(places), by={kind: {} for kind in KINDS})
    with engine(scratch) as opened:
        opened.view("manifest", places)
        for kind, names, name, *numbers in opened.rows(QUERY):
            if kind == "all":
                found.total = Share(*(number or 0 for number in numbers))
            else:
                found.names[kind] = names
                found.by[kind][name] = Share(*numbers)
    return found
