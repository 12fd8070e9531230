"""``postcrawl``: deduplication after the crawl, against the loops that it cannot beat.

The collection is made from a seed: two files of each of two crawls, of which the second
repeats half of what the first has. ``bare_loop`` reads it with FastWARC and takes the
SHA-256 of each response's payload, and does nothing else; ``warcio`` does so with
warcio. ``read`` inflates and hashes, once each, the records that ``apply`` has to
compare. Those run in one thread, and count CPU time. ``plan_*`` has rows that no file
has, under a limit of memory, each in a process of its own.
"""

from __future__ import annotations

import hashlib
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from functools import partial
from json import dumps, loads
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from fastwarc.warc import ArchiveIterator, WarcRecordType
from isal import isal_zlib
from warcio.archiveiterator import ArchiveIterator as Warcio

from benchmarks.harness import Figures, Report, alternate, environment
from frontier.dedupe.revisit_policy import Policy
from frontier.model import Exchange
from frontier.postcrawl import manifest
from frontier.postcrawl.apply import apply
from frontier.postcrawl.engines import MEMORY, duckdb_engine
from frontier.postcrawl.many_files import Work, manifests
from frontier.postcrawl.plan import Choice, Planner, copies_of
from frontier.warc.file_rotation import WarcConfig, WarcWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from benchmarks.harness import Options
    from benchmarks.server import Server

CRAWLS = 2
PER_CRAWL = 2
"""Files of a crawl."""
WHOLE, QUICK = 10_500, 500
"""Captures of a crawl: 500 MB of files, and 24 MB."""
ROWS = 100_000, 1_000_000
"""Rows of a manifest that is planned in little memory; without ``--quick`` also ten
times as many."""
PACED = 1_000_000
"""Rows of one that is planned in as much as ``frontier warc plan`` has by default."""
SMALL, SMALL_QUICK = "256MB", "64MB"
"""Memory of those plans: about what 1,000,000 rows take. With ``--quick`` as little as
DuckDB plans these in; 100,000 take 25 MB of it."""
_GZIP = 31
_FILES = 16
"""Files of which the rows are said to be."""


def run(server: Server, options: Options) -> Report:
    """Measure all; the server is not used."""
    rounds = 3 if options.quick else 5
    figures = Figures()
    rows = ROWS if options.quick else (*ROWS, ROWS[-1] * 10)
    small = SMALL_QUICK if options.quick else SMALL
    with tempfile.TemporaryDirectory(prefix="frontier-bench-") as name:
        root = Path(name)
        warcs = _collection(root / "before", QUICK if options.quick else WHOLE)
        size = sum(path.stat().st_size for path in warcs)
        for competitor, metrics in alternate(rounds, _reading(warcs)):
            figures.add(competitor, metrics)
        for competitor, metrics in alternate(rounds, _applying(warcs, root)):
            figures.add(competitor, metrics)
        lost = _lost(warcs, sorted((root / "after").glob("*.warc.gz")))
        many = warcs if not options.quick else _again(warcs, root / "again")
        for competitor, metrics in alternate(rounds, _with_workers(many)):
            figures.add(competitor, metrics)
        for count in rows:
            figures.add(f"plan_{count}", _planned(count, small))
        figures.add("plan", _planned(PACED, MEMORY))
    pace, cpu = "mb_per_cpu_s", "cpu_s"
    peaks = [figures.value(f"plan_{count}", "peak_rss_mib") for count in rows[-2:]]
    ratios = {
        "manifest_vs_bare_loop": figures.ratio(("manifest", pace), ("bare_loop", pace)),
        "warcio_vs_bare_loop": figures.ratio(("warcio", pace), ("bare_loop", pace)),
        "apply_cpu_vs_read": figures.ratio(("apply", cpu), ("read", cpu)),
        "plan_rows_per_s": figures.value("plan", "rows_per_s"),
        "plan_memory_growth_10x": round(peaks[1] / peaks[0], 3),
        "workers_2_vs_1": figures.ratio(
            ("workers_2", "mb_per_s"), ("workers_1", "mb_per_s")
        ),
        "payloads_lost": float(lost),
    }
    about = environment(server.info()) | {"bytes": size, "plan_memory": small}
    notes = ["warcsum (C) is on no registry: its figure is not measured here"]
    return Report("postcrawl", about, figures.results(), ratios, notes)


def _reading(warcs: Sequence[Path]) -> dict[str, Callable[[], dict[str, float]]]:
    def ours() -> None:
        with tempfile.TemporaryDirectory() as name:
            for path in warcs:
                manifest.make(path, Path(name), manifest.Options())

    def bare() -> None:
        for _ in _payloads(warcs):
            pass

    size = sum(path.stat().st_size for path in warcs)
    steps = {"manifest": ours, "bare_loop": bare, "warcio": lambda: _warcio(warcs)}
    return {
        name: lambda step=step: _paced(step, size)  # type: ignore[misc]
        for name, step in steps.items()
    }


def _paced(step: Callable[[], object], size: int) -> dict[str, float]:
    """Pace and CPU time of *step*, for which *size* bytes are read."""
    os.sync()  # what was written before is not this one's to write
    cpu, start = time.process_time(), time.perf_counter()
    step()
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    return {
        "mb_per_s": size / seconds / 1e6,
        "mb_per_cpu_s": size / cpu / 1e6,
        "cpu_s": cpu,
    }


def _payloads(warcs: Sequence[Path]) -> Iterator[tuple[str, str, str]]:
    """URL, date and SHA-256 of each response, as FastWARC reads them."""
    for path in warcs:
        with path.open("rb") as file:
            for record in ArchiveIterator(file, record_types=WarcRecordType.response):
                digest = hashlib.sha256(record.reader.read()).hexdigest()
                headers = record.headers
                yield headers["WARC-Target-URI"], headers["WARC-Date"], digest


def _warcio(warcs: Sequence[Path]) -> None:
    for path in warcs:
        with path.open("rb") as file:
            for record in Warcio(file):
                if record.rec_type == "response":
                    hashlib.sha256(record.content_stream().read()).hexdigest()


def _applying(
    warcs: Sequence[Path], root: Path
) -> dict[str, Callable[[], dict[str, float]]]:
    """``apply`` writes to ``after``, where its last files stay."""
    manifests_of, out = root / "manifests", root / "after"
    manifests_of.mkdir()
    for path in warcs:
        manifest.make(path, manifests_of, manifest.Options())
    Planner(manifests_of).make(Policy(), Choice())
    compared: dict[str, set[int]] = {os.fspath(path): set() for path in warcs}
    for path in warcs:
        for copy in copies_of(manifests_of, os.fspath(path)):
            compared[copy.file].add(copy.record_offset)
            compared[copy.original_file].add(copy.original_offset)
    size = sum(path.stat().st_size for path in warcs)

    def ours() -> None:
        for path in warcs:
            apply(path, manifests_of, out / path.name)

    def fresh() -> dict[str, float]:
        for path in [*out.glob("*"), *manifests_of.glob("*.done.json")]:
            path.unlink()
        return _paced(ours, size)

    return {
        "apply": fresh,
        "read": lambda: _paced(lambda: _hash_records(compared), size),
    }


def _hash_records(offsets: Mapping[str, set[int]]) -> None:
    for path, places in offsets.items():
        with Path(path).open("rb") as file:
            for offset in sorted(places):
                file.seek(offset)
                inflate, digest = isal_zlib.decompressobj(_GZIP), hashlib.sha256()
                while not inflate.eof and (data := file.read(1 << 16)):
                    digest.update(inflate.decompress(data))
                digest.hexdigest()


def _lost(before: Sequence[Path], after: Sequence[Path]) -> int:
    """How many captures of *before* have not their payload in *after*.

    As FastWARC reads both, and as replay finds originals: by URL and date.
    """
    there = {(url, date): digest for url, date, digest in _payloads(after)}
    for path in after:
        with path.open("rb") as file:
            for record in ArchiveIterator(file, record_types=WarcRecordType.revisit):
                named = record.headers
                at = named["WARC-Target-URI"], named["WARC-Date"]
                to = (
                    named["WARC-Refers-To-Target-URI"],
                    named["WARC-Refers-To-Date"],
                )
                there.setdefault(at, there.get(to, ""))
    return sum(there.get((url, at)) != digest for url, at, digest in _payloads(before))


def _again(warcs: Sequence[Path], directory: Path) -> list[Path]:
    """The same files under more names: to start a process takes half a second."""
    directory.mkdir()
    for number in range(8):
        for path in warcs:
            (directory / f"{number}-{path.name}").hardlink_to(path)
    return sorted(directory.iterdir())


def _with_workers(
    warcs: Sequence[Path],
) -> dict[str, Callable[[], dict[str, float]]]:
    size = sum(path.stat().st_size for path in warcs)

    def pace(workers: int) -> dict[str, float]:
        with tempfile.TemporaryDirectory() as name:
            work = Work(Path(name), workers)
            start = time.perf_counter()
            for _ in manifests(warcs, work, manifest.Options()):
                pass
            return {"mb_per_s": size / (time.perf_counter() - start) / 1e6}

    return {"workers_1": lambda: pace(1), "workers_2": lambda: pace(2)}


def _planned(count: int, memory: str) -> dict[str, float]:
    """Pace and peak of a plan of *count* rows, in a process of its own."""
    with tempfile.TemporaryDirectory() as name:
        write_rows(Path(name), count)
        words = [sys.executable, "-m", "benchmarks.postcrawl", name, memory]
        done = subprocess.run(words, check=True, stdout=subprocess.PIPE)
    facts: dict[str, float] = loads(done.stdout)
    return {
        "rows_per_s": count / facts["seconds"],
        "us_per_row": facts["cpu"] / count * 1e6,
        "peak_rss_mib": facts["peak_rss_mib"],
        "copies": facts["copies"],
    }


def write_rows(directory: Path, count: int) -> None:
    """Write manifests of *count* captures of which four of ten are copies.

    As of a collection of several crawls: URLs of 60 characters, 40,000 hosts, payloads
    of which most are there once and some very often.
    """
    each = count // _FILES
    for number in range(_FILES):
        path = directory / f"{number:04}.warc.gz"
        path.write_bytes(b"%d" % number)  # what a manifest is of has to be there
        made = manifest.manifest_of(path, manifest.Options())
        made.records, first = each, number * each
        place = manifest.place_of(path, directory)
        with (
            duckdb.connect(config={"memory_limit": "1GB", "threads": 2}) as engine,
            pq.ParquetWriter(place, manifest.SCHEMA, **manifest.PARQUET) as writer,
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
    """*batch* with the columns of a manifest; those that it has not are null."""
    columns = [
        batch.column(field.name).cast(field.type)
        if field.name in batch.schema.names
        else pa.nulls(len(batch), field.type)
        for field in manifest.SCHEMA
    ]
    return pa.Table.from_arrays(columns, schema=manifest.SCHEMA)


def _collection(directory: Path, per_crawl: int) -> list[Path]:
    """Two crawls with revisits off, the second a year later: half is as it was."""
    rng = random.Random(16)
    words = [f"{rng.randrange(36**5):x}" for _ in range(4_000)]
    earlier: list[tuple[str, bytes]] = []
    number = 0
    writer = WarcWriter(
        WarcConfig(directory, "bench", "node", 10**12), lambda: 1.7e9 + number
    )
    for crawl in range(CRAWLS):
        bodies = []
        for number in range(per_crawl):
            if crawl and rng.random() < 0.5:
                mime, body = earlier[number]
            else:
                mime, body = _payload(rng, words)
            bodies.append((mime, body))
            head = f"HTTP/1.1 200 OK\r\nContent-Type: {mime}\r\nServer: a\r\n\r\n"
            url = f"http://host-{number % 50}.example/section/{number}"
            exchange = Exchange(
                url,
                1.6e9 + crawl * 3e7 + number,
                f"GET /section/{number} HTTP/1.1\r\nHost: a\r\n\r\n".encode(),
                b"",
                head.encode(),
                body,
                200,
            )
            writer.append(exchange, hashlib.sha256(body).hexdigest())
            if (number + 1) % (per_crawl // PER_CRAWL) == 0:
                writer.close()
        earlier = bodies
    return sorted(directory.glob("*.warc.gz"))


def _payload(rng: random.Random, words: Sequence[str]) -> tuple[str, bytes]:
    """An image, or a page of 30 kB that is packed in 9."""
    if rng.random() < 0.55:
        return "image/png", rng.randbytes(int(rng.triangular(2_000, 100_000, 20_000)))
    text = " ".join(rng.choices(words, k=4_300))
    return "text/html", f"<html><title>Page</title><p>{text}".encode()


def _plan(directory: Path, memory: str) -> None:
    """Plan, and print what it took: in a process that does nothing else."""
    engine = partial(duckdb_engine, memory=memory)
    cpu, start = time.process_time(), time.perf_counter()
    plan = Planner(directory, engine=engine).make(Policy(), Choice())
    facts = {
        "seconds": time.perf_counter() - start,
        "cpu": time.process_time() - cpu,
        "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "copies": float(plan.copies),
    }
    sys.stdout.write(dumps(facts) + "\n")


if __name__ == "__main__":
    _plan(Path(sys.argv[1]), sys.argv[2])
