"""Which captures are copies of an earlier one: a query over all manifests.

What always holds:

1.  A copy has an original that is no copy itself, of the same payload and of the same
    stored bytes: with the original's body behind its own head it is what it was.
2.  A capture that a revisit refers to already stays what it is.
3.  No original is named by a URL and a second at which another payload was captured,
    too, or by its copy's own: replay finds originals by these alone.
4.  What a manifest could not read, what was cut short, and what does not have the
    payload digest that it claims, is neither copy nor original.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import duckdb

from frontier.errors import NoManifest, StaleManifest
from frontier.files import FILE_MODE
from frontier.postcrawl.manifest import (
    OPEN,
    SUFFIX,
    publish,
    require_current,
    stored_manifest,
)
from frontier.warc.containers import BY_OFFSET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from frontier.postcrawl.manifest import Manifest

QUERY = """
WITH referred AS (
  SELECT DISTINCT refers_to_url, refers_to_date FROM manifest
  WHERE type = 'revisit' AND refers_to_url IS NOT NULL
), captures AS (
  SELECT *, floor(captured_us / 1000000) AS captured_s FROM manifest
  WHERE type IN ('response', 'resource') AND payload_digest IS NOT NULL
), told AS (
  SELECT *, min(payload_digest) OVER same_name <> max(payload_digest) OVER same_name
    AS is_ambiguous
  FROM captures WINDOW same_name AS (PARTITION BY url, captured_s)
), eligible AS (
  SELECT told.*, referred.refers_to_url IS NOT NULL AS is_referred
  FROM told LEFT JOIN referred
    ON told.url = referred.refers_to_url AND told.date = referred.refers_to_date
  WHERE type = 'response' AND method = 'GET' AND fault IS NULL AND truncated IS NULL
    AND captured_us IS NOT NULL AND (agrees IS NULL OR agrees)
    AND payload_length >= {least} AND status IN ({statuses})
), ranked AS (
  SELECT *,
    row_number() OVER same AS copy,
    first_value(file) OVER same AS original_file,
    first_value(record_offset) OVER same AS original_offset,
    first_value(record_id) OVER same AS original_id,
    first_value(url) OVER same AS original_url,
    first_value(date) OVER same AS original_date,
    first_value(captured_s) OVER same AS original_s,
    first_value(is_ambiguous) OVER same AS original_is_ambiguous
  FROM eligible WINDOW same AS (
    PARTITION BY payload_digest, payload_length, body_digest
    ORDER BY is_referred DESC, is_ambiguous, captured_us, file, record_offset
    ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
)
SELECT file, record_offset, record_length, record_id, url, date, payload_length,
  payload_digest, copy, original_file, original_offset, original_id, original_url,
  original_date
FROM ranked
WHERE copy > 1 AND NOT is_referred AND NOT original_is_ambiguous
  AND NOT (url = original_url AND captured_s = original_s)
ORDER BY file, record_offset
"""
"""Standard SQL, for every engine. Of equal payloads the earliest is the original; of
those to which a revisit refers, one of them."""
PLAN = "plan.parquet"
SUMMARY = "plan.json"


@dataclass(frozen=True, slots=True)
class Policy:
    """Which captures may become revisits; as of a crawl."""

    statuses: tuple[int, ...] = (200,)
    min_bytes: int = 1
    """Of the payload; never 0, as all empty payloads are the same."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A capture that is to become a revisit."""

    file: str
    record_offset: int
    record_length: int
    record_id: str
    url: str
    date: str
    payload_length: int
    payload_digest: str
    copy: int
    """The place among the captures of the payload; the original has 1."""
    original_file: str
    original_offset: int
    original_id: str
    original_url: str
    original_date: str


@dataclass(slots=True)
class Plan:
    """What a plan comes to."""

    files: int = 0
    records: int = 0
    copies: int = 0
    payload_bytes: int = 0
    copied_bytes: int = 0
    """Of payloads that become revisits."""
    faults: list[str] = field(default_factory=list)
    """Of files that cannot be read to their end: they are left as they are."""
    unread: int = 0
    """Records whose payload could not be read."""
    wrong: int = 0
    """Records that do not have the payload digest that they claim."""


class Planner:
    """Makes the plan of the manifests in *directory*; sorts on disk above *memory*."""

    def __init__(
        self, directory: Path, mode: int = FILE_MODE, memory: str = "1GB"
    ) -> None:
        self._directory = directory
        self._mode = mode
        self._memory = memory

    def make(self, policy: Policy, say: Callable[[str], None] = lambda _: None) -> Plan:
        """Write the plan, and what it comes to.

        Raises:
            NoManifest: There is none.
            StaleManifest: The file of one has changed.
            OSError: It cannot be written, or a file not be read.
        """
        plan, places = Plan(), sorted(self._directory.glob(f"*{SUFFIX}"))
        whole = []
        for place in places:
            found = stored_manifest(place)
            if found is None:
                raise NoManifest(str(place))
            require_current(found)
            plan.files += 1
            plan.records += found.records
            plan.payload_bytes += found.payload_bytes
            faults = left_because(found)
            for fault in faults:
                plan.faults.append(fault)
                say(f"left as it is: {fault}")
            if not faults:
                whole.append(place)
        if not places:
            raise NoManifest(str(self._directory))
        if whole:
            self._query(whole, policy, plan)
        summary = json.dumps(asdict(plan), indent=2).encode()
        publish(self._directory / SUMMARY, summary, self._mode)
        return plan

    def _query(self, places: Sequence[Path], policy: Policy, plan: Plan) -> None:
        scratch = self._directory / (PLAN + OPEN)
        with duckdb.connect(
            config={
                "memory_limit": self._memory,
                "temp_directory": os.fspath(self._directory),
                "preserve_insertion_order": "true",
            }
        ) as engine:
            engine.read_parquet([os.fspath(p) for p in places]).create_view("manifest")
            text = QUERY.format(
                least=int(policy.min_bytes),
                statuses=", ".join(str(int(status)) for status in policy.statuses),
            )
            engine.sql(text).write_parquet(os.fspath(scratch), compression="zstd")
            engine.read_parquet(os.fspath(scratch)).create_view("plan")
            counts = "SELECT count(*), coalesce(sum(payload_length), 0) FROM plan"
            ((plan.copies, plan.copied_bytes),) = engine.sql(counts).fetchall()
            odd = (
                "SELECT count(fault), count(*) FILTER (WHERE NOT agrees) FROM manifest"
            )
            ((plan.unread, plan.wrong),) = engine.sql(odd).fetchall()
        with scratch.open("rb") as file:
            now = os.fstat(file.fileno()).st_mode
            os.fchmod(file.fileno(), now & self._mode)  # DuckDB knows no mode
            os.fsync(file.fileno())
        scratch.replace(self._directory / PLAN)


def left_because(manifest: Manifest) -> list[str]:
    """Why the file of *manifest* is left as it is; nothing if it is not."""
    if manifest.container not in BY_OFFSET:
        reason = "records share a gzip member (try warcio recompress OLD NEW)"
        return [*manifest.faults, f"{manifest.file}: {reason}"]
    return manifest.faults


def files_of(directory: Path) -> list[str]:
    """The files of which manifests in *directory* know all records.

    Raises:
        NoManifest: There are none, or no plan.
        StaleManifest: A file has changed since.
    """
    if not (directory / SUMMARY).exists():
        raise NoManifest(str(directory / SUMMARY))
    found = []
    for place in sorted(directory.glob(f"*{SUFFIX}")):
        manifest = stored_manifest(place)
        if manifest is None:
            raise StaleManifest(str(place))
        if not left_because(manifest):
            found.append(manifest.file)
    return found


def copies_of(directory: Path, file: str) -> Iterator[Copy]:
    """What the plan in *directory* makes revisits of in *file*, in its order."""
    if not (directory / PLAN).exists():
        return
    with duckdb.connect() as engine:
        engine.read_parquet(os.fspath(directory / PLAN)).create_view("plan")
        found = engine.execute(
            "SELECT * FROM plan WHERE file = ? ORDER BY record_offset", [file]
        )
        while some := found.fetchmany(10_000):
            for row in some:
                yield Copy(*row)


def summary_of(directory: Path) -> dict[str, Any]:
    """What the plan in *directory* comes to."""
    facts: dict[str, Any] = json.loads((directory / SUMMARY).read_bytes())
    return facts
