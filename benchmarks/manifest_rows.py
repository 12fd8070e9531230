"""Plans of manifests for which there are no files, and what a petabyte would take.

``python -m benchmarks.manifest_rows ROWS MEMORY`` makes one and prints its figures.

What always holds:

1.  A plan runs in a process of its own, whose peak memory is reported.
2.  Nothing is begun that the disk has no room for: `ROOM` bytes for each row. The most
    that was taken is reported, and nothing is left behind.
3.  Rows depend only on their number and count, except for the ids of records.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from json import dumps, loads
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from frontier.dedupe.revisit_policy import Policy
from frontier.postcrawl import manifest
from frontier.postcrawl.engines import duckdb_engine
from frontier.postcrawl.plan import PLAN, make_plan

LEAST_FILES = 16
PER_FILE = 100_000
"""Rows of a file, if there are more than `LEAST_FILES`: 3 GB of captures."""
ROOM = 400
"""Bytes of disk for each row: half as much again as was measured."""
LOOK = 2.0
"""Seconds between two looks at the disk: a directory of 2,000 files takes CPU time."""
EACH = 60.0
"""Seconds between two lines that report progress."""
CAPTURE = 30_000
"""Bytes of a capture in a ``.warc.gz`` file, on average."""
PETABYTE = 10**15
ROWS_OF_PETABYTE = PETABYTE / CAPTURE


def planned(
    count: int, memory: str, say: Callable[[str], None] = lambda _: None
) -> dict[str, float]:
    """Pace, peaks and sizes of a plan of *count* rows under a limit of *memory*.

    Raises:
        OSError: The disk has no room.
    """
    with tempfile.TemporaryDirectory(prefix="frontier-rows-") as name:
        directory = Path(name)
        require_room(directory, count)
        write_rows(directory, count, say)
        manifests = _taken(directory)
        facts, most = _watched(directory, memory, say)
        plan = _taken(directory / PLAN)
    return {
        "rows_per_s": count / facts["seconds"],
        "us_per_row": facts["cpu"] / count * 1e6,
        "peak_rss_mib": facts["peak_rss_mib"],
        "copies": facts["copies"],
        "manifest_bytes_per_row": manifests / count,
        "disk_bytes_per_row": (most - manifests) / count,
        "plan_bytes_per_copy": plan / max(facts["copies"], 1),
    }


def require_room(directory: Path, count: int) -> None:
    """Make sure that a plan of *count* rows fits on the disk.

    Raises:
        OSError: It does not fit.
    """
    free, need = shutil.disk_usage(directory).free, count * ROOM
    if free < need:
        raise OSError(
            f"{count:,} rows take up to {need / 1e9:,.0f} GB in {directory.parent}, "
            f"which has {free / 1e9:,.0f}; TMPDIR names another directory"
        )


def _watched(
    directory: Path, memory: str, say: Callable[[str], None]
) -> tuple[dict[str, float], int]:
    """What the plan's process reports, and the most bytes that *directory* had."""
    words = [sys.executable, "-m", "benchmarks.manifest_rows", "--plan"]
    words += [os.fspath(directory), memory]
    start = told = time.monotonic()
    most = 0
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        while process.poll() is None:
            taken, now = _taken(directory), time.monotonic()
            most = max(most, taken)
            if now - told >= EACH:
                told = now
                say(f"planning for {now - start:,.0f} s: {taken / 1e9:,.1f} GB of disk")
            with suppress(subprocess.TimeoutExpired):
                process.wait(LOOK)
        said = process.stdout.read() if process.stdout else b""
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, words)
    facts: dict[str, float] = loads(said)
    return facts, most


def _taken(directory: Path) -> int:
    """Bytes of disk of all files below *directory*."""
    taken = 0
    for top, _, names in os.walk(directory):
        for name in names:
            try:
                taken += os.stat(os.path.join(top, name)).st_blocks * 512  # noqa: PTH116, PTH118
            except FileNotFoundError:
                continue  # it was a temporary file of a sort
    return taken


def write_rows(
    directory: Path, count: int, say: Callable[[str], None] = lambda _: None
) -> None:
    """Write manifests of *count* captures of which four of ten are copies.

    They are like those of a collection of several crawls: URLs of 60 characters, 40,000
    hosts, payloads most of which occur once and some very often.
    """
    files = max(LEAST_FILES, count // PER_FILE)
    each = count // files
    told = time.monotonic()
    for number in range(files):
        if time.monotonic() - told >= EACH:
            told = time.monotonic()
            say(f"{number * each:,} of {count:,} rows are written")
        path = directory / f"{number:06}.warc.gz"
        path.write_bytes(b"%d" % number)  # the file of a manifest has to exist
        made = manifest.manifest_of(path, manifest.Options())
        made.records, first = each, number * each
        place = manifest.place_of(path, directory)
        with (
            duckdb.connect(config={"memory_limit": "1GB", "threads": 2}) as engine,
            pq.ParquetWriter(place, manifest.SCHEMA, compression="zstd") as writer,
        ):
            text = ROWS_QUERY.format(count=count)
            found = engine.sql(text, params=[os.fspath(path), first, first + each])
            for batch in found.to_arrow_reader(100_000):
                writer.write_table(_whole(batch))
            about = dumps(asdict(made)).encode()
            writer.add_key_value_metadata({manifest._KEY: about})


ROWS_QUERY = """
WITH drawn AS (
  SELECT i, CASE WHEN hash(i) % 10 < 4 THEN hash(i * 7) % CAST({count} * 0.05 AS BIGINT)
    ELSE i + {count} END AS payload
  FROM range(?2, ?3) t(i)
)
SELECT *, CAST('0x' || substr(payload_digest, 8, 15) AS BIGINT) AS payload_key,
  CAST(captured_us // 1000000 * 4294967296 + hash(url) % 4294967296 AS BIGINT)
    AS name_key
FROM (
SELECT ?1 AS file, i - ?2 AS seq, (i - ?2) * 9000 AS record_offset,
  9000 AS record_length, 'response' AS type,
  '<urn:uuid:' || CAST(uuid() AS VARCHAR) || '>' AS record_id,
  'https://www.' || (hash(i * 3) % 40000) || '.example/section/article-' || i || '.html'
    AS url,
  strftime(make_timestamp(1700000000000000 + i * 100000), '%Y-%m-%dT%H:%M:%SZ') AS date,
  (1700000000000000 + i * 100000) // 1000000 * 1000000 AS captured_us,
  CASE WHEN payload % 3 = 0 THEN 'image/jpeg' ELSE 'text/html' END AS mime,
  200 AS status, 'GET' AS method, 20000 + payload % 1000 AS payload_length,
  'sha256:' || sha256(CAST(payload AS VARCHAR)) AS payload_digest,
  'sha256:' || sha256(CAST(payload AS VARCHAR)) AS body_digest
FROM drawn)
"""


def _whole(batch: pa.RecordBatch) -> pa.Table:
    """*batch* with the columns of a manifest; those that it lacks are null."""
    columns = [
        batch.column(field.name).cast(field.type)
        if field.name in batch.schema.names
        else pa.nulls(len(batch), field.type)
        for field in manifest.SCHEMA
    ]
    return pa.Table.from_arrays(columns, schema=manifest.SCHEMA)


def petabyte(figures: dict[str, float]) -> dict[str, float]:
    """What a petabyte takes, by what was measured.

    *figures* are those of `planned`, and ``manifest`` and ``apply``: MB per second of
    CPU time.
    """
    rows, hours = ROWS_OF_PETABYTE, 3600.0
    return {
        "petabyte_rows": rows,
        "petabyte_manifest_core_hours": PETABYTE / 1e6 / figures["manifest"] / hours,
        "petabyte_manifests_tb": rows * figures["manifest_bytes_per_row"] / 1e12,
        "petabyte_plan_core_hours": rows * figures["us_per_row"] / 1e6 / hours,
        "petabyte_plan_disk_tb": rows * figures["disk_bytes_per_row"] / 1e12,
        "petabyte_apply_core_hours": PETABYTE / 1e6 / figures["apply"] / hours,
    }


def _plan(directory: Path, memory: str) -> None:
    """Plan, and print what it took: in a process that does nothing else."""
    engine = partial(duckdb_engine, memory=memory)
    cpu, start = time.process_time(), time.perf_counter()
    plan = make_plan(directory, Policy(), engine)
    facts = {
        "seconds": time.perf_counter() - start,
        "cpu": time.process_time() - cpu,
        "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "copies": float(plan.copies),
    }
    sys.stdout.write(dumps(facts) + "\n")


def say(line: str) -> None:
    """Report progress."""
    sys.stderr.write(line + "\n")


if __name__ == "__main__":
    if sys.argv[1] == "--plan":
        _plan(Path(sys.argv[2]), sys.argv[3])
    else:
        sys.stdout.write(dumps(planned(int(sys.argv[1]), sys.argv[2], say)) + "\n")
