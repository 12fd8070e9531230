"""``crawl``: pages per second of a whole crawl, at several distances to Redis."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.crawling import WATCHED
from benchmarks.harness import Figures, Report, alternate, environment
from benchmarks.plots import Panel, lines
from benchmarks.proxy import delayed
from benchmarks.server import ServerTime, stop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from benchmarks.harness import Options
    from benchmarks.server import Server

DISTANCES = {"": 0.0, "_1ms": 1.0, "_2_5ms": 2.5}
"""Suffix to milliseconds."""
TIMEOUT = 300
ONE_PAGE = "frontier_one_page"
"""What starting and ending a crawl costs the server: not counted for its pages."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    rounds: int
    pages: int
    near_pages: int
    """For scrapy-redis beside its server."""
    far_pages: int
    """For scrapy-redis far from it, where it makes six pages per second."""


FULL, QUICK = Sizes(3, 3_000, 1_000, 300), Sizes(1, 400, 128, 84)
PAGE_BYTES = 20_000


def run(server: Server, options: Options) -> Report:
    """Crawl with every competitor by turns."""
    sizes = QUICK if options.quick else FULL
    figures = Figures()
    with _far(server) as urls, served_site(PAGE_BYTES) as site:
        competitors: dict[str, Callable[[], Mapping[str, float]]] = {
            "scrapy": lambda: _crawl(server, "scrapy", site, sizes.pages, "")
        }
        if options.quick and options.plot is None:  # to end within 45 seconds
            del urls["_1ms"]
        for distance, url in urls.items():
            few = sizes.far_pages if distance else sizes.near_pages
            for name, pages in (("frontier", sizes.pages), ("scrapy_redis", few)):
                competitors[name + distance] = partial(
                    _crawl, server, name, site, pages, url
                )
        competitors["frontier_archive"] = partial(
            _crawl, server, "frontier", site, sizes.pages, urls[""], archive=True
        )
        competitors[ONE_PAGE] = partial(_start_and_end, server, site)
        competitors[WATCHED] = partial(
            _crawl, server, WATCHED, site, sizes.pages, urls["_2_5ms"]
        )
        for name, metrics in alternate(sizes.rounds, competitors):
            figures.add(name, metrics)
    if options.plot is not None:
        _draw(options.plot, figures)
    about = environment(server.info())
    about |= {"rounds": sizes.rounds, "pages": sizes.pages, "bytes": PAGE_BYTES}
    return Report("crawl", about, figures.results(), _ratios(figures))


def _draw(path: Path, figures: Figures) -> None:
    """Draw pages per second, and CPU time, by the distance to the store."""
    known = figures.results()
    far = [one for one in DISTANCES if f"frontier{one}" in known]

    def curves(metric: str) -> dict[str, list[tuple[float, float]]]:
        alone = [(DISTANCES[one], known["scrapy"][metric]) for one in far]
        return {
            "frontier": [(DISTANCES[d], known[f"frontier{d}"][metric]) for d in far],
            "Scrapy alone, in memory": alone,
            "scrapy-redis": [
                (DISTANCES[d], known[f"scrapy_redis{d}"][metric]) for d in far
            ],
        }

    pace = Panel("pages/s", curves("pages_per_s"), logarithmic=True)
    effort = Panel("CPU ms of the node per page", curves("node_ms_per_page"))
    lines(path, "ms to the store", pace, effort)


def _ratios(figures: Figures) -> dict[str, float]:
    pace = "pages_per_s"
    ratios = {}
    known = figures.results()
    for distance in (one for one in DISTANCES if f"frontier{one}" in known):
        suffix = distance or "_0ms"
        ratios[f"vs_scrapy{suffix}"] = figures.ratio(
            (f"frontier{distance}", pace), ("scrapy", pace)
        )
        ratios[f"vs_scrapy_redis{suffix}"] = figures.ratio(
            (f"frontier{distance}", pace), (f"scrapy_redis{distance}", pace)
        )
    ratios["archive_on_over_off"] = figures.ratio(
        ("frontier_archive", pace), ("frontier", pace)
    )
    ratios["cpu_per_page_vs_scrapy"] = figures.ratio(
        ("frontier", "node_ms_per_page"), ("scrapy", "node_ms_per_page")
    )
    whole, start = (figures.value(one, "server_us") for one in ("frontier", ONE_PAGE))
    pages = figures.value("frontier", "pages")
    ratios["server_us_per_page"] = (whole - start) / (pages - 1)
    stalls = {
        "reactor_stall_ms_max": (WATCHED, "frontier_stall_ms_max"),
        "reactor_stall_ms_with_scrapy": ("frontier_2_5ms", "stall_ms_max"),
        "reactor_stall_ms_scrapy_alone": ("scrapy", "stall_ms_max"),
    }
    ratios |= {name: figures.value(*where) for name, where in stalls.items()}
    return ratios


def _crawl(
    server: Server, name: str, site: str, pages: int, url: str, *, archive: bool = False
) -> dict[str, float]:
    server.empty()
    spent = ServerTime(server)
    spent.start()
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        words = ["-m", "benchmarks.crawling", name, site, str(pages), url]
        words += [directory] if archive else []
        done = subprocess.run(
            [sys.executable, *words],
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=True,
        )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    if found["pages"] != pages:
        raise AssertionError(f"{name} fetched {found['pages']} of {pages}")
    if url:
        found["server_us"] = spent.commands()
    return found


def _start_and_end(server: Server, site: str) -> dict[str, float]:
    found = _crawl(server, "frontier", site, 1, server.url)
    return {"server_us": found["server_us"]}


@contextmanager
def _far(server: Server) -> Iterator[dict[str, str]]:
    with delayed(server, 0.001) as near, delayed(server, 0.0025) as far:
        yield {"": server.url, "_1ms": near, "_2_5ms": far}


@contextmanager
def served_site(size: int) -> Iterator[str]:
    """Serve pages of *size* bytes from a process of its own, at the URL given."""
    with served("benchmarks.crawling", "site", str(size)) as port:
        yield f"http://127.0.0.1:{port}"


@contextmanager
def served(*words: str) -> Iterator[int]:
    """Run a module that serves a site, at the port given."""
    process = subprocess.Popen(
        [sys.executable, "-m", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path.cwd(),
    )
    try:
        if process.stdout is None:
            raise RuntimeError("the site has no output")
        yield int(process.stdout.readline())
    finally:
        stop(process)
