"""``endurance``: the memory of a node over a million requests.

``node`` drives scheduler, node and archive without Scrapy's engine and network;
``crawl`` is Scrapy with a download handler that makes pages up, and takes four times
as long for a request: it makes a tenth of them. Both archive every page and meet a
new host every hundred pages. Memory is what the process has resident: buffers of
the allocator and pages that are shared count as well.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.harness import Report, environment, rounded
from benchmarks.plots import Panel, lines

if TYPE_CHECKING:
    from benchmarks.harness import Options
    from benchmarks.server import Server

MB = 1_000_000
STEPS = 20
"""How often memory is looked at."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    node: int
    crawl: int


FULL, QUICK = Sizes(1_000_000, 100_000), Sizes(6_000, 1_000)


def run(server: Server, options: Options) -> Report:
    """Measure both, one after the other."""
    sizes = QUICK if options.quick else FULL
    results: dict[str, dict[str, float]] = {}
    ratios: dict[str, float] = {}
    curves: dict[str, list[tuple[float, float]]] = {}
    for name, requests in (("node", sizes.node), ("crawl", sizes.crawl)):
        found = _work(server, name, requests, show=not options.quick)
        memory = {count: size / MB for count, size, _ in found}
        for step, (count, size) in enumerate(memory.items(), 1):
            row = results.setdefault(f"{100 * step // STEPS}%", {})
            row |= {f"{name}_requests": float(count), f"{name}_mb": rounded(size)}
        ratios[f"{name}_requests_per_s"] = rounded(requests / found[-1][2])
        first, last = memory[requests // 10], memory[requests]
        ratios[f"{name}_mb"] = rounded(last)
        ratios[f"{name}_grown_percent_after_a_tenth"] = rounded(
            100 * (last / first - 1)
        )
        curves[name] = list(memory.items())
    if options.plot is not None:
        named = {"node, scheduler and archive": curves["node"]}
        named["the same under Scrapy"] = curves["crawl"]
        lines(options.plot, "requests", Panel("MB resident", named))
    about = environment(server.info())
    about |= {"requests_node": sizes.node, "requests_crawl": sizes.crawl}
    return Report("endurance", about, results, ratios)


def _work(
    server: Server, name: str, requests: int, *, show: bool
) -> list[tuple[int, int, float]]:
    """Requests, bytes in memory and seconds, at each step."""
    server.empty()
    every = requests // STEPS
    found = []
    with tempfile.TemporaryDirectory(prefix="bench-") as warcs:
        words = ["-m", "benchmarks.enduring", name, server.url]
        process = subprocess.Popen(
            [sys.executable, *words, str(requests), str(every), warcs],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            for line in process.stdout or ():
                said = json.loads(line)
                found.append((said["requests"], said["rss"], said["seconds"]))
                if show:
                    sys.stderr.write(f"{name} {line}")
        finally:
            process.terminate() if process.poll() is None else None
            code = process.wait()
    if code or len(found) != STEPS:
        raise AssertionError(f"{name} ended with {code} after {found[-1:]}")
    return found
