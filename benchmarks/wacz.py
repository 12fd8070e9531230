"""``wacz``: how fast a WACZ is made, against a copy of the same WARC files.

``copy`` reads the files, writes them and forces them to disk, and does nothing
else. ``frontier`` also hashes, inflates and indexes them, and checks the result.
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
from frontier.archive.writer import WarcWriter
from frontier.model import Exchange
from frontier.wacz import layout
from frontier.wacz.create import create

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from benchmarks.harness import Options
    from benchmarks.server import Server


def run(server: Server, options: Options) -> Report:
    """Measure both; the server is not used."""
    with tempfile.TemporaryDirectory() as name:
        warcs = _warcs(Path(name), 1_000 if options.quick else 20_000)
        out = Path(name) / "out.wacz"
        size = sum(path.stat().st_size for path in warcs)
        competitors: dict[str, Callable[[], Mapping[str, float]]] = {
            "frontier": lambda: _pace(lambda: create(out, warcs), size),
            "copy": lambda: _pace(lambda: _copy(out, warcs), size),
        }
        figures = Figures()
        for competitor, metrics in alternate(3, competitors):
            figures.add(competitor, metrics)
    pace = "mb_per_s"
    ratios = {"vs_copy": figures.ratio(("frontier", pace), ("copy", pace))}
    about = environment(server.info()) | {"bytes": size}
    return Report("wacz", about, figures.results(), ratios)


def _warcs(directory: Path, count: int) -> list[Path]:
    rng = random.Random(1)
    writer = WarcWriter(directory, "bench", "node", 10**12, {}, time.time)
    for number in range(count):
        body = rng.randbytes(20_000)
        head = b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\n"
        url = f"http://host.example/{number}"
        asked = b"GET / HTTP/1.1\r\n\r\n"
        exchange = Exchange(url, 1.8e9 + number, asked, b"", head, body, 200)
        writer.append(exchange, hashlib.sha256(body).hexdigest())
    writer.close()
    return sorted(directory.glob("*.warc.gz"))


def _pace(make: Callable[[], object], size: int) -> dict[str, float]:
    start = time.perf_counter()
    make()
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"mb_per_s": size / seconds / 1e6, "peak_rss_mib": peak}


def _copy(out: Path, warcs: list[Path]) -> None:
    with out.open("wb") as to:
        for path in warcs:
            with path.open("rb") as stream:
                for block in layout.blocks(stream.read):
                    to.write(block)
        os.fsync(to.fileno())
