"""``python -m tests.house``: how large the house is, for whoever changes it.

It forbids nothing. The path of a link is that of a real crawl: the modules of
`frontier` in which anything is called, in any thread of the node, from
`Scheduler.enqueue_request` until its request is acked. What happens beside it in that
time, as heartbeats do, is counted, too.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "frontier"
LONG = 40
"""Lines of a function that is not long yet."""
CEILING = 120.0
"""Seconds after which the crawl is not waited for."""

CRAWL = """
import asyncio, gc, json, os, sys, threading

followed = os.path.join(os.getcwd(), "frontier") + os.sep
site_of_tests = os.path.join(followed, "testing") + os.sep
files, follows = set(), False


def note(frame, event, _):
    if follows and event == "call":
        name = frame.f_code.co_filename
        if name.startswith(followed) and not name.startswith(site_of_tests):
            files.add(name.removeprefix(followed))


threading.setprofile(note)
sys.setprofile(note)

import scrapy
from scrapy.crawler import AsyncCrawlerProcess

from frontier.node.acks import Acks
from frontier.testing.server import SiteServer
from frontier.testing.site import Site

directory = sys.argv[1]


async def until(condition):
    while not condition():
        await asyncio.sleep(0.002)


class One(scrapy.Spider):
    name = "one"

    async def start(self):
        global follows
        yield scrapy.Request(site.seeds[0] + "?start")
        (acks,) = (one for one in gc.get_objects() if isinstance(one, Acks))
        await until(lambda: acks.acked == 1)
        follows = True
        self.crawler.engine.crawl(scrapy.Request(site.seeds[0] + "?link"))
        await until(lambda: acks.acked == 2)
        follows = False

    def parse(self, response):
        return {"url": response.url}


with SiteServer(Site(urls=130), log=directory + "/log") as site:
    process = AsyncCrawlerProcess({
        "ADDONS": {"frontier.addon.Addon": 0},
        "FRONTIER_STORE_DIR": directory + "/s",
        "FRONTIER_WARC_DIR": directory + "/w",
        "LOG_LEVEL": "ERROR",
        "TELNETCONSOLE_ENABLED": False,
    })
    process.crawl(One)
    process.start()
print(json.dumps(sorted(files)))
"""


@dataclass(frozen=True, slots=True)
class Measure:
    """One line of the table."""

    name: str
    now: str
    aim: str


def sources() -> list[Path]:
    """The Python files of the package."""
    return sorted(PACKAGE.rglob("*.py"))


@cache
def tree(path: Path) -> ast.Module:
    """What *path* says."""
    return ast.parse(path.read_text("utf-8"))


def lines(path: Path) -> int:
    """How many lines *path* has."""
    return len(path.read_text("utf-8").splitlines())


def functions() -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function of the package."""
    for path in sources():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node


def long_functions() -> int:
    """How many functions have more than `LONG` lines, docstring and all."""
    return sum((f.end_lineno or 0) - f.lineno + 1 > LONG for f in functions())


def most_parameters() -> int:
    """The most parameters of a constructor, without ``self``."""
    return max(
        len(f.args.posonlyargs) + len(f.args.args) + len(f.args.kwonlyargs) - 1
        for f in functions()
        if f.name == "__init__"
    )


def name_of(path: Path) -> str:
    """The module that *path* is."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(
        ".__init__"
    )


def imports() -> dict[str, set[str]]:
    """What each module imports of the package, for types and in functions, too."""
    names = {name_of(path) for path in sources()}
    graph: dict[str, set[str]] = {}
    for path in sources():
        found = graph.setdefault(name_of(path), set())
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    longer = f"{node.module}.{alias.name}"
                    found.add(longer if longer in names else node.module)
        found &= names
        found.discard(name_of(path))
    return graph


def circles(graph: dict[str, set[str]]) -> list[frozenset[str]]:
    """The largest sets of modules of which each leads to all others."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        left = [start]
        while left:
            for name in graph[left.pop()] - seen:
                seen.add(name)
                left.append(name)
        return seen

    leads = {name: reached(name) for name in graph}
    found = {
        frozenset({name, *(other for other in leads[name] if name in leads[other])})
        for name in graph
        if name in leads[name]
    }
    return sorted(found, key=sorted)


def path_of_a_link() -> list[str]:
    """The files of the package that one link passes from its enqueuing to its ack.

    Raises:
        subprocess.SubprocessError: The crawl failed, or did not end.
    """
    with tempfile.TemporaryDirectory(prefix="house-") as directory:
        done = subprocess.run(
            [sys.executable, "-c", CRAWL, directory],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=True,
            capture_output=True,
            text=True,
            timeout=CEILING,
        )
    found: list[str] = json.loads(done.stdout.splitlines()[-1])
    return found


def surviving() -> str:
    """The part of the last sample of mutants that survived, excused or not."""
    file = ROOT / "tests" / "mutants" / "last.json"
    if not file.exists():
        return "not measured"
    last = json.loads(file.read_text("utf-8"))
    left = last["survived"] + last["excused"]
    said = f"{left / max(1, last['tried']):.0%} of {last['tried']}"
    return f"{said}, {last['survived']} not excused"


def measures() -> list[Measure]:
    """The table."""
    loose = {path.name for path in PACKAGE.glob("*.py")} - {"__init__.py"}
    lua = {path.name: lines(path) for path in (PACKAGE / "store" / "lua").glob("*.lua")}
    longest = max(lua, key=lambda name: lua[name])
    python = sum(map(lines, sources()))
    return [
        Measure("modules in frontier/", str(len(sources())), "≤ 140"),
        Measure("loose at the root", str(len(loose)), "≤ 12"),
        Measure("lines of Python in frontier/", f"{python:,}", "< 34,223"),
        Measure("import circles, also of types", str(len(circles(imports()))), "0"),
        Measure(
            "files that one link passes from enqueue to ack",
            str(len(path_of_a_link())),
            "≤ 30",
        ),
        Measure("longest Lua script", f"{lua[longest]} ({longest})", "60"),
        Measure(f"functions over {LONG} lines", str(long_functions()), "≤ 10"),
        Measure("most parameters of a constructor", str(most_parameters()), "≤ 7"),
        Measure("mutants of the sample that survive", surviving(), "≤ 10 %, excused"),
    ]


def main() -> int:
    """Print the table."""
    rows = [Measure("measure", "now", "aim"), *measures()]
    wide = [max(len(getattr(row, name)) for row in rows) for name in ("name", "now")]
    for row in rows:
        print(f"{row.name:<{wide[0]}}  {row.now:>{wide[1]}}  {row.aim}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
