"""The tutorial, the guides and the examples: each command is run as it is shown."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.console import ROOT, Page

pytestmark = pytest.mark.docs


@pytest.fixture(scope="session")
def wheels(tmp_path_factory):
    """A directory with a wheel of the package as it is here."""
    directory = tmp_path_factory.mktemp("wheels")
    pip = [sys.executable, "-m", "pip", "--quiet", "wheel", "--no-deps"]
    subprocess.run(
        [*pip, "--no-build-isolation", "--wheel-dir", str(directory), str(ROOT)],
        check=True,
    )
    return directory


def test_tutorial_commands_work_with_a_new_wheel(tmp_path, wheels):
    """pip has the package from the wheel, and all else in the versions of CI."""
    environment = {
        "PIP_FIND_LINKS": f"{wheels} {os.environ.get('PIP_FIND_LINKS', '')}",
        "PIP_CONSTRAINT": str(ROOT / ".ci" / "locks" / "dev.txt"),
    }

    page = Page.read(ROOT / "docs" / "tutorial.md")
    ran = page.run(
        tmp_path, commands=Path(sys.base_prefix) / "bin", environment=environment
    )

    assert ran == len(page.commands) > 20


TRIAL = "Try it"
"""The section of a guide that is run."""
GUIDES = [
    path
    for path in sorted((ROOT / "docs").glob("*.md"))
    if f"\n## {TRIAL}\n" in path.read_text("utf-8")
]
EXAMPLES = sorted((ROOT / "examples").glob("*/README.md"))
TUTORIAL = ROOT / "docs" / "tutorial.md"


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)
def test_guide_commands_print_what_it_shows(guide, tmp_path):
    page = Page.read(guide, TRIAL)

    assert page.run(tmp_path) == len(page.commands) - len(page.not_run) > 3


def test_index_counts_the_commands_that_are_not_run():
    pages = [Page.read(path) for path in (TUTORIAL, *EXAMPLES)]
    pages += [Page.read(path, TRIAL) for path in GUIDES]
    not_run = sum(len(page.not_run) for page in pages)
    said = " ".join((ROOT / "docs" / "index.md").read_text("utf-8").split())

    assert f"the section *Try it*, but {not_run}. What they do not run is" in said


@pytest.mark.parametrize(
    "readme",
    EXAMPLES,
    ids=lambda readme: readme.parent.name,
)
def test_example_commands_print_what_it_shows(readme, tmp_path):
    here = tmp_path / "example"
    shutil.copytree(readme.parent, here)

    page = Page.read(readme)
    assert page.run(here) == len(page.commands) - len(page.not_run) > 5
