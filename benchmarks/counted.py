"""What the benchmark `instructions` counts, in a process that valgrind runs.

``python -m benchmarks.counted FOLDER SERVER PORT [PART COUNT]`` imports everything
once, and runs each part in a fork of its own, with a number of units and with twice as
many: both do the same before, so that the difference is due to the units.
The forks are named in ``FOLDER/forks.json``. With a *PART*, only that is run, in this
process.

Nothing here waits for a time to pass. URLs go out in batches of a fixed size, and pages
are fetched one after the other.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import random
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from scrapy.crawler import CrawlerProcess
from typing_extensions import override

from benchmarks.crawling import Watch, settings_of
from benchmarks.links import requests, urls
from benchmarks.loading import LOADS, LoadSpider
from benchmarks.path import seen_path
from benchmarks.server import Server
from benchmarks.warc import made_exchanges, write_warc
from frontier.postcrawl import manifest

URLS, EXCHANGES, ROWS, PAGES = 1_000, 20, 20, 8
CRAWL = "counted"
NOTHING = "nothing"
"""What each part takes without its units."""
TIERS = {"FRONTIER_SEEN_TIERS": "recent,set"}
QUIET = {
    "CONCURRENT_REQUESTS": 1,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
    "TWISTED_DNS_RESOLVER": "benchmarks.loading.Resolver",
    "FRONTIER_CRAWL_ID": CRAWL,
    "FRONTIER_PARTITIONS": 64,
    "FRONTIER_LEASE_TTL": 600,
}
"""Settings of a crawl that is counted: no node is taken for dead meanwhile."""


class Parts:
    """The parts by name; each is called with how many of the prepared units to do."""

    def __init__(self, folder: Path, url: str, port: int) -> None:
        self._server = Server(Path(url.removeprefix("unix://")))
        self._port = port
        self._pages = urls(2 * URLS)
        self._exchanges = made_exchanges(2 * EXCHANGES)
        self._warcs = {}
        for count in (ROWS, 2 * ROWS):
            written = folder / f"warcs-{count}"
            written.mkdir(exist_ok=True)
            write_warc(self._exchanges[:count], written, block_digest=True)
            (self._warcs[count],) = written.glob("*.warc.gz")

    def all(self) -> dict[str, tuple[int, Callable[[int], Any]]]:
        """For each part, the number of units, and the function that does them."""
        found: dict[str, tuple[int, Callable[[int], Any]]] = {
            NOTHING: (0, lambda _: None),
            "new URL, seen test alone": (URLS, lambda n: self._push(n, queues=False)),
            "new URL, with queue": (URLS, lambda n: self._push(n, queues=True)),
            "seen URL, recent tier": (URLS, self._push_again),
            "seen URL, shared tiers": (
                URLS,
                lambda n: self._push_again(n, forget=True),
            ),
            "archived exchange": (EXCHANGES, self._archive),
            "manifest row": (ROWS, self._manifest),
            "start and end of a node": (0, lambda _: self._crawl("tiny", 1)),
        }
        for load in LOADS:
            found[f"page, {load}"] = (PAGES, partial(self._crawl, load))
        return found

    def _push(self, count: int, *, queues: bool) -> None:
        asyncio.run(self._pushed(count, queues=queues))

    def _push_again(self, count: int, *, forget: bool = False) -> None:
        asyncio.run(self._pushed(2 * URLS, count, queues=False, forget=forget))

    async def _pushed(
        self, count: int, again: int = 0, *, queues: bool, forget: bool = False
    ) -> None:
        self._server.empty()
        async with seen_path(self._server.url, TIERS, queues=queues) as path:
            first, second = (
                [one for page in requests(self._pages, path.spider) for one in page]
                for _ in range(2)
            )
            await path.push(first[:count])
            if forget:
                path.forget_recent()
            await path.push(second[:again])

    def _archive(self, count: int) -> None:
        with tempfile.TemporaryDirectory() as name:
            write_warc(self._exchanges[:count], Path(name), block_digest=True)

    def _manifest(self, count: int) -> None:
        with tempfile.TemporaryDirectory() as name:
            manifest.make(self._warcs[count], Path(name), manifest.Options())

    def _crawl(self, load: str, pages: int) -> None:
        self._server.empty()
        with tempfile.TemporaryDirectory() as name:
            os.chdir(name)
            settings = settings_of("frontier", self._server.url) | QUIET
            process = CrawlerProcess(settings)
            crawler = process.create_crawler(LoadSpider)
            LoadSpider.watch = watch = Unwatched(crawler, pages)
            process.crawl(crawler, load=load, port=self._port)
            process.start()
        if watch.count != pages:
            raise AssertionError(f"{watch.count} pages of {load} came, not {pages}")


class Unwatched(Watch):
    """Ends the crawl after the last page, and looks at no clock meanwhile."""

    @override
    async def _look(self) -> None:
        """Measure no stall."""


def forked(part: Callable[[int], Any], count: int) -> int:
    """Run *part* with *count* units in a process of its own; return its id."""
    if process := os.fork():
        _, status = os.waitpid(process, 0)
        if status:
            raise AssertionError(f"a part ended with {status}")
        return process
    random.seed(5)
    failed = 1
    try:
        part(count)
        failed = 0
    finally:
        os._exit(failed)  # skips the interpreter's shutdown


def main(words: list[str]) -> None:
    """Do what *words* say."""
    folder, url, port, *chosen = words
    logging.disable(logging.INFO)
    parts = Parts(Path(folder), url, int(port)).all()
    if chosen:
        parts[chosen[0]][1](int(chosen[1]))
        return
    gc.collect()
    gc.freeze()  # later garbage collections skip what was imported
    forks = {
        name: (units, [forked(part, units), forked(part, 2 * units) if units else 0])
        for name, (units, part) in parts.items()
    }
    (Path(folder) / "forks.json").write_text(json.dumps(forks))


if __name__ == "__main__":
    main(sys.argv[1:])
