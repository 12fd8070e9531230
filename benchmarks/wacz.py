"""``wacz``: how fast a WACZ is made, against a copy of the same WARC files.

``copy`` reads the files, writes them and forces them to disk, and does nothing
else. ``frontier`` also hashes them, reads back what it wrote, and makes the
index and the pages, from the indexes beside the files. ``read`` does the same of
files that have no index beside them, and inflates them; ``strict`` has the
result checked as ``frontier wacz check`` does, record by record.
"""

from __future__ import annotations

import hashlib
import os
import random
import resource
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness import Figures, Report, alternate, environment
from frontier.model import Exchange, Original
from frontier.wacz import layout
from frontier.wacz.create import Options as Wacz
from frontier.wacz.create import create
from frontier.warc.cdxj_sidecar import Listing
from frontier.warc.file_rotation import WarcConfig, WarcWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from benchmarks.harness import Options
    from benchmarks.server import Server


def run(server: Server, options: Options) -> Report:
    """Measure all; the server is not used."""
    with tempfile.TemporaryDirectory() as name:
        warcs = _warcs(Path(name), 800 if options.quick else 10_000)
        bare = _bare(Path(name) / "bare", warcs[:1])
        out = Path(name) / "out.wacz"
        size, part = (sum(p.stat().st_size for p in each) for each in (warcs, bare))
        strict = Wacz(strict=True)
        competitors: dict[str, Callable[[], Mapping[str, float]]] = {
            "frontier": lambda: _pace(out, lambda: create(out, warcs), size),
            "copy": lambda: _pace(out, lambda: _copy(out, warcs), size),
            "read": lambda: _pace(out, lambda: create(out, bare), part),
            "strict": lambda: _pace(out, lambda: create(out, warcs[:1], strict), part),
        }
        figures = Figures()
        for competitor, metrics in alternate(2 if options.quick else 5, competitors):
            figures.add(competitor, metrics)
    pace = "mb_per_s"
    ratios = {
        f"{each}_vs_copy": figures.ratio((each, pace), ("copy", pace))
        for each in ("frontier", "read", "strict")
    }
    about = environment(server.info()) | {"bytes": size, "captures_kb": PER_CAPTURE}
    return Report("wacz", about, figures.results(), ratios)


PER_CAPTURE = "45 % images of 25 kB, 40 % pages of 30 kB (9 kB packed), 15 % revisits"
FILES = 4


def _warcs(directory: Path, count: int) -> list[Path]:
    """Four files with as many captures each, and their indexes."""
    rng = random.Random(1)
    words = [f"{rng.randrange(36**5):x}" for _ in range(4_000)]
    writer = WarcWriter(WarcConfig(directory, "bench", "node", 10**12), time.time)
    for number in range(count):
        url = f"http://host.example/{number}"
        kind = rng.random()
        if kind < 0.45:
            mime, body = b"image/png", rng.randbytes(25_000)
        else:
            text = " ".join(rng.choices(words, k=4_300))
            mime = b"text/html"
            body = f"<html><title>Page {number}</title><p>{text}".encode()
        head = b"HTTP/1.1 200 OK\r\nContent-Type: " + mime + b"\r\n\r\n"
        asked = b"GET / HTTP/1.1\r\n\r\n"
        exchange = Exchange(url, 1.8e9 + number, asked, b"", head, body, 200)
        old = Original(url, "2026-01-02T03:04:05.678901Z", "before", 10_000)
        digest = hashlib.sha256(body).hexdigest()
        writer.append(exchange, digest, old if kind > 0.85 else None)
        if (number + 1) % (count // FILES) == 0:
            writer.close()
    warcs = sorted(directory.glob("*.warc.gz"))
    for path in warcs:
        Listing().write(path)
    return warcs


def _bare(directory: Path, warcs: list[Path]) -> list[Path]:
    """The same files without their indexes."""
    directory.mkdir()
    for path in warcs:
        (directory / path.name).hardlink_to(path)
    return sorted(directory.iterdir())


def _pace(out: Path, make: Callable[[], object], size: int) -> dict[str, float]:
    out.unlink(missing_ok=True)  # all begin without one: to free it takes time too
    os.sync()  # what the one before has left is not this one's to write
    cpu, start = _processor(), time.perf_counter()
    make()
    seconds, cpu = time.perf_counter() - start, _processor() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    pace = {"mb_per_s": size / seconds / 1e6, "cpu_s_per_gb": cpu / size * 1e9}
    return pace | {"peak_rss_mib": peak}


def _processor() -> float:
    """Seconds of CPU time, those of processes that have ended included."""
    return sum(os.times()[:4])


def _copy(out: Path, warcs: list[Path]) -> None:
    with out.open("wb") as to:
        for path in warcs:
            with path.open("rb") as stream:
                for block in layout.blocks(stream.read):
                    to.write(block)
        os.fsync(to.fileno())
