"""``archive``: how fast a collection's index is filled, committed to and searched.

The import is of one CDXJ file with lines as py-wacz writes them: read, checked,
and put into the index with its counts. The commit is of a crawl with as many
digests. ``naive`` does what Browsertrix's indexer does for each line, one small
pipeline after the other from one client; ``hsetnx`` is a commit that sends one
command per digest. The server is private, on a unix socket.
"""

from __future__ import annotations

import hashlib
import json
import resource
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.harness import Figures, Report, alternate, environment
from frontier.collection.commit import commit
from frontier.collection.import_ import Import
from frontier.collection.sources import Source
from frontier.store.client import BlockingStore
from frontier.store.keys import CollectionKeys

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from benchmarks.harness import Options
    from benchmarks.server import Server

KEYS = CollectionKeys("")
NAIVE_LINES = 10_000
"""Lines that the naive import reads; more would take too long."""
CRAWL = "bench-1"


def run(server: Server, options: Options) -> Report:
    """Measure every competitor."""
    lines = 50_000 if options.quick else 1_000_000
    store = BlockingStore.from_settings({"REDIS_URL": server.url})
    with tempfile.TemporaryDirectory() as name:
        small = _cdxj(Path(name) / "small.cdxj", lines // 10)
        large = _cdxj(Path(name) / "large.cdxj", lines)
        _import(server, store, small, lines // 10)  # warm, and the first of two sizes
        before = _peak_kb()
        _import(server, store, large, lines)
        grown = _peak_kb() - before
        competitors: dict[str, Callable[[], Mapping[str, float]]] = {
            "import": lambda: _import(server, store, large, lines),
            "import_naive": lambda: _naive(server, large),
            "commit": lambda: _commit(server, store, lines),
            "commit_hsetnx": lambda: _commit_hsetnx(server, lines),
        }
        figures = Figures()
        for competitor, metrics in alternate(3, competitors):
            figures.add(competitor, metrics)
    server.empty()
    store.close()
    pace = "per_second"
    ratios = {
        "import_lines_per_second": figures.value("import", pace),
        "commit_digests_per_second": figures.value("commit", pace),
        "import_vs_naive": figures.ratio(("import", pace), ("import_naive", pace)),
        "commit_vs_hsetnx": figures.ratio(("commit", pace), ("commit_hsetnx", pace)),
        "import_peak_kb_grown_by_10x_input": float(grown),
    }
    about = environment(server.info()) | {"lines": lines}
    return Report("archive", about, figures.results(), ratios)


def _import(
    server: Server, store: BlockingStore, path: Path, lines: int
) -> dict[str, float]:
    server.empty()
    cpu, start = time.process_time(), time.perf_counter()
    done = Import(store, KEYS).run([Source(path.name, str(path), CRAWL)])
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    assert done.originals == lines
    return {"per_second": lines / seconds, "client_us": cpu / lines * 1e6}


def _naive(server: Server, path: Path) -> dict[str, float]:
    server.empty()
    cpu, start = time.process_time(), time.perf_counter()
    with path.open() as file:
        for _, text in zip(range(NAIVE_LINES), file, strict=False):
            head, _, facts = text.partition(" {")
            found = json.loads("{" + facts)
            digest = found["digest"].rpartition(":")[2]
            server.client.hsetnx("alldupes", digest, CRAWL)
            pipeline = server.client.pipeline(transaction=False)
            value = f"0 {head.split(' ')[1]} {found['url']} {found['length']}"
            pipeline.hsetnx(f"h:{CRAWL}", digest, value)
            pipeline.hincrby(f"h:{CRAWL}:counts", "totalUrls", 1)
            pipeline.hincrby("allcounts", "totalUrls", 1)
            pipeline.execute()
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    return {"per_second": NAIVE_LINES / seconds, "client_us": cpu / NAIVE_LINES * 1e6}


def _commit(server: Server, store: BlockingStore, digests: int) -> dict[str, float]:
    _put_crawl(server, digests)
    cpu, start = time.process_time(), time.perf_counter()
    done = commit(store, KEYS, CRAWL)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    assert done.added == digests
    return {"per_second": digests / seconds, "client_us": cpu / digests * 1e6}


def _commit_hsetnx(server: Server, digests: int) -> dict[str, float]:
    _put_crawl(server, digests)
    cpu, start = time.process_time(), time.perf_counter()
    cursor: Any = 0
    while True:
        cursor, found = server.client.hscan(f"h:{CRAWL}", cursor, count=1000)
        pipeline = server.client.pipeline(transaction=False)
        for digest in found:
            pipeline.hsetnx("alldupes", digest, CRAWL)
        pipeline.execute()
        if not cursor:
            break
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    return {"per_second": digests / seconds, "client_us": cpu / digests * 1e6}


def _put_crawl(server: Server, digests: int) -> None:
    server.empty()
    server.client.sadd("uncommittedcrawls", CRAWL)
    for first in range(0, digests, 1_000):
        server.client.hset(
            f"h:{CRAWL}",
            mapping={
                _digest(n): f"0 20260102030405678 https://site.example/page/{n} 12345"
                for n in range(first, min(first + 1_000, digests))
            },
        )


def _cdxj(path: Path, lines: int) -> Path:
    with path.open("w") as file:
        for number in range(lines):
            facts = {
                "url": f"https://site.example/page/{number}",
                "mime": "text/html",
                "status": "200",
                "digest": f"sha256:{_digest(number)}",
                "length": "12345",
                "offset": str(number * 12345),
                "filename": "rec-20260102030405-bench.warc.gz",
            }
            key = f"example,site)/page/{number}"
            file.write(f"{key} 20260102030405 {json.dumps(facts)}\n")
    return path


def _digest(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


def _peak_kb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
