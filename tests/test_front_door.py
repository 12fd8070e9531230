"""`import frontier` gives the public names, sorted, and imports none before its use."""

import sys
from importlib import metadata

import pytest

import frontier
from tests.harness.commands import printed


def test_no_other_name_is_public():
    others = {"TYPE_CHECKING", "Any", "annotations", "import_module", "metadata"}
    code = "import frontier; print(*(n for n in vars(frontier) if n[0] != '_'))"

    assert set(printed(code).split()) - others == set()
    assert set(frontier.__all__) <= set(dir(frontier))


@pytest.mark.parametrize("name", sorted(set(frontier.__all__) - {"__version__"}))
def test_each_public_class_is_the_one_of_its_module(name):
    there = getattr(frontier, name)

    assert getattr(sys.modules[there.__module__], name) is there
    assert there.__doc__


def test_the_version_is_that_of_the_distribution():
    assert frontier.__version__ == metadata.version("frontier-crawl")


def test_import_frontier_imports_no_submodule():
    code = (
        "import sys, frontier;"
        "print(sorted(name for name in sys.modules if name.startswith('frontier.')))"
    )

    assert printed(code) == "[]\n"
