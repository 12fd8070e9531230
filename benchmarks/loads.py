"""``loads``: what a page costs a node, Scrapy and scrapy-redis, by its kind.

It is CPU time instead of clock time, as all share the machine: that of the process that
crawls, and separately that of the store. Competitors take turns within a load, so that
other work on the machine affects all of them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.crawl import TIMEOUT, served
from benchmarks.harness import Figures, Report, alternate, environment
from benchmarks.loading import LOADS

if TYPE_CHECKING:
    from benchmarks.harness import Options
    from benchmarks.server import Server


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    rounds: int
    pages: int


FULL, QUICK = Sizes(7, 1_000), Sizes(3, 264)
CRAWLERS = ("scrapy", "frontier", "scrapy_redis")
PEERS = ("scrapy", "scrapy_redis")
NODE = "node_ms_per_page"


def run(server: Server, options: Options) -> Report:
    """Crawl each load with every competitor by turns."""
    sizes = QUICK if options.quick else FULL
    figures = Figures()
    with served("benchmarks.loading", "site") as port:
        competitors = {
            f"{load}_{name}": partial(_crawl, server, name, load, port, sizes.pages)
            for load in LOADS
            for name in CRAWLERS
        }
        for name, metrics in alternate(sizes.rounds, competitors):
            figures.add(name, metrics)
    about = environment(server.info())
    about |= {"rounds": sizes.rounds, "pages": sizes.pages}
    ratios = {
        f"{load}_vs_{peer}": figures.ratio(
            (f"{load}_frontier", NODE), (f"{load}_{peer}", NODE)
        )
        for load in LOADS
        for peer in PEERS
    }
    return Report("loads", about, figures.results(), ratios)


def _crawl(
    server: Server, name: str, load: str, port: int, pages: int
) -> dict[str, float]:
    server.empty()
    words = ["-m", "benchmarks.loading", name, load, str(port), str(pages)]
    done = subprocess.run(
        [sys.executable, *words, *([] if name == "scrapy" else [server.url])],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    if found["pages"] != pages:
        raise AssertionError(f"{name} fetched {found['pages']} pages of {load}")
    return found
