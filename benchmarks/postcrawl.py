"""``postcrawl``: deduplication after the crawl, against the loops that it cannot beat.

The collection is made from a random seed: two crawls of two files each, of which the
second repeats half of what the first has. ``bare_loop`` reads it with FastWARC, takes
the SHA-256 of each response's payload, and does nothing else; ``warcio`` does the same
with warcio. ``read`` inflates and hashes, once each, the records that ``apply`` has to
compare. These run in one thread, and CPU time counts. ``plan_*`` plans rows without
files (`benchmarks.manifest_rows`), under a limit of memory, each in a process of its
own. With ``--full`` there is also a plan of 10^8 rows, and what a petabyte takes is
computed.
"""

from __future__ import annotations

import hashlib
import os
import random
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from fastwarc.warc import ArchiveIterator, WarcRecordType
from isal import isal_zlib
from warcio.archiveiterator import ArchiveIterator as Warcio

from benchmarks.harness import Figures, Report, alternate, environment
from benchmarks.manifest_rows import petabyte, planned, say
from frontier.dedupe.revisit_policy import Policy
from frontier.model import Exchange
from frontier.postcrawl import manifest
from frontier.postcrawl.actions import actions_of
from frontier.postcrawl.engines import MEMORY
from frontier.postcrawl.many_files import Work, manifests
from frontier.postcrawl.plan import PLAN, applying, make_plan
from frontier.postcrawl.rewriting import perform
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
ROWS = 100_000, 1_000_000, 10_000_000
"""Rows of the plans in little memory; with ``--quick`` only the first two."""
MOST_ROWS = 100_000_000
"""With ``--full``; in as much memory as ``frontier warc plan`` has by default."""
PACED = 1_000_000
"""Rows of a plan in as much memory as ``frontier warc plan`` has by default."""
SMALL, SMALL_QUICK = "256MB", "128MB"
"""Memory of the plans in little memory. 1,000,000 rows take 250 MB at once, so that
even with ``--quick`` the larger plan is made on disk; 100,000 take 25 MB."""
_GZIP = 31


def run(server: Server, options: Options) -> Report:
    """Measure all; the server is not used."""
    rounds = 3 if options.quick else 5
    figures = Figures()
    rows = ROWS[:2] if options.quick else ROWS
    small = SMALL_QUICK if options.quick else SMALL
    tell = _silent if options.quick else say
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
            figures.add(f"plan_{count}", planned(count, small, tell))
        figures.add("plan", planned(PACED, MEMORY))
        if options.full:
            figures.add(f"plan_{MOST_ROWS}", planned(MOST_ROWS, MEMORY, tell))
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
    if options.full:
        seen = dict(figures.results()[f"plan_{MOST_ROWS}"])
        seen |= {name: figures.value(name, pace) for name in ("manifest", "apply")}
        ratios |= petabyte(seen)
    about = environment(server.info()) | {"bytes": size, "plan_memory": small}
    notes = ["warcsum (C) is on no registry: its figure is not measured here"]
    return Report("postcrawl", about, figures.results(), ratios, notes)


def _silent(line: str) -> None:
    """Report no progress: nobody waits for a quick run."""


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
    os.sync()  # writing out what was written before is not to count
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
    make_plan(manifests_of, Policy())
    compared: dict[str, set[int]] = {os.fspath(path): set() for path in warcs}
    for path in warcs:
        for copy in actions_of(manifests_of / PLAN, os.fspath(path)):
            compared[copy.file].add(copy.record_offset)
            compared[copy.original_file].add(copy.original_offset)
    size = sum(path.stat().st_size for path in warcs)

    def ours() -> None:
        for path in warcs:
            perform(applying(manifests_of), path, out / path.name)

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
    """How many captures of *before* lack their payload in *after*.

    FastWARC reads both, and originals are found as in replay: by URL and date.
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
    """The same files under more names: starting a process takes half a second."""
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
            work = Work(workers)
            start = time.perf_counter()
            for _ in manifests(warcs, Path(name), work, manifest.Options()):
                pass
            return {"mb_per_s": size / (time.perf_counter() - start) / 1e6}

    return {"workers_1": lambda: pace(1), "workers_2": lambda: pace(2)}


def _collection(directory: Path, per_crawl: int) -> list[Path]:
    """Two crawls with revisits off, the second a year later: half is unchanged."""
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
    """An image, or a page of 30 kB that compresses to 9."""
    if rng.random() < 0.55:
        return "image/png", rng.randbytes(int(rng.triangular(2_000, 100_000, 20_000)))
    text = " ".join(rng.choices(words, k=4_300))
    return "text/html", f"<html><title>Page</title><p>{text}".encode()
