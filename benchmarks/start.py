"""``start``: what a node takes to get its first page, and to end after its last.

A crawl of one page, by plain Scrapy and by a node with its defaults, archive and
watchdog included, at 1,024 partitions and at 64: each the command that users type, in
a process of its own. Then ``frontier crawl status`` of that crawl.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.crawl import served_site
from benchmarks.harness import Figures, Report, alternate, environment
from benchmarks.server import ServerTime

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.harness import Options
    from benchmarks.server import Server

SPIDER = Path(__file__).with_name("first_page_spider.py")
ROUNDS, QUICK_ROUNDS = 11, 3
PAGE_BYTES = 20_000
PARTITIONS, FEW = 1_024, 64
SETTINGS = {
    "LOG_LEVEL": "WARNING",
    "TELNETCONSOLE_ENABLED": False,  # it imports what no crawl needs
    "REMOTE_CONTROL_ENABLED": False,
}


def run(server: Server, options: Options) -> Report:
    """Crawl one page with each by turns."""
    figures = Figures()
    rounds = QUICK_ROUNDS if options.quick else ROUNDS
    with served_site(PAGE_BYTES) as site, _bytecode():
        competitors = {
            "scrapy": partial(_scrapy, site),
            "frontier": partial(_frontier, server, site, PARTITIONS),
            "frontier_64": partial(_frontier, server, site, FEW),
        }
        _frontier(server, site, FEW)  # compiles what is imported
        for name, metrics in alternate(rounds, competitors):
            figures.add(name, metrics)
    about = environment(server.info()) | {"rounds": rounds, "bytes": PAGE_BYTES}
    ratios = {
        name: figures.value("frontier", name)
        for name in ("start_cpu_s", "status_cpu_s", "exit_s", "one_page_store_ms")
    }
    ratios |= {
        "start_cpu_vs_scrapy": figures.ratio(
            ("frontier", "start_cpu_s"), ("scrapy", "start_cpu_s")
        ),
        "start_cpu_s_scrapy": figures.value("scrapy", "start_cpu_s"),
        "exit_s_scrapy": figures.value("scrapy", "exit_s"),
        "one_page_store_ms_64": figures.value("frontier_64", "one_page_store_ms"),
    }
    return Report("start", about, figures.results(), ratios)


@contextmanager
def _bytecode() -> Iterator[None]:
    """Let processes keep bytecode while this lasts, as those of a user do.

    An environment may forbid it, and a work tree begins without any.
    """
    before = dict(os.environ)
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = directory
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)


def _scrapy(site: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        return _crawl(site, Path(directory), {})


def _frontier(server: Server, site: str, partitions: int) -> dict[str, float]:
    server.empty()
    store = ServerTime(server)
    store.start()
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        settings = {
            "ADDONS": json.dumps({"frontier.addon.Addon": 100}),
            "REDIS_URL": server.url,
            "FRONTIER_CRAWL_ID": "start",
            "FRONTIER_PARTITIONS": partitions,
        }
        found = _crawl(site, Path(directory), settings)
        found["one_page_store_ms"] = store.cpu() / 1000
        status = ["-m", "frontier", "crawl", "status", "--crawl", "start"]
        status += ["--redis-url", server.url]
        found["status_cpu_s"] = _cpu_of(status, Path(directory))
    return found


def _crawl(site: str, home: Path, settings: dict[str, object]) -> dict[str, float]:
    """Crawl the first page of *site* in the directory *home*."""
    notes = home / "notes.json"
    words = ["-m", "scrapy", "runspider", str(SPIDER)]
    words += ["-a", f"url={site}/0.html", "-a", f"notes={notes}"]
    words += [f"-s{name}={value}" for name, value in (SETTINGS | settings).items()]
    _cpu_of(words, home)
    ended = time.monotonic()
    found = json.loads(notes.read_text("utf-8"))
    return {"start_cpu_s": found["cpu"], "exit_s": ended - found["at"]}


def _cpu_of(words: Sequence[str], home: Path) -> float:
    """CPU seconds of a Python with *words*, and of processes that it waited for."""
    here = os.pathsep.join(filter(None, [str(Path.cwd()), os.getenv("PYTHONPATH")]))
    process = subprocess.Popen(
        [sys.executable, *words],
        cwd=home,
        env={**os.environ, "PYTHONPATH": here},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise AssertionError(f"{' '.join(words)} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime
