"""A part of the suite on each version of Scrapy, in an environment of its own."""

import os
import re
import subprocess
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.harness.commands import output_of

pytestmark = pytest.mark.compat
ROOT = Path(__file__).parents[2]
VERSIONS = ["2.16.0", "2.17.0", "2.18.0", "2.19.0"]
"""The last of each series."""
TESTS = [
    "tests/download/test_handler.py",
    "tests/requests/test_stored_request.py",
    "tests/integration/test_cookies.py",
    "tests/integration/test_kill.py",
    "tests/integration/test_plain_spider.py",
    "tests/integration/test_start_requests.py",
]
"""What goes through all that `frontier/scrapy_internals.py` adapts."""
MORE = [
    "tests/download/test_cookies.py",
    "tests/requests/test_discovery.py",
    "tests/test_scheduler.py",
    "tests/integration/test_discovery.py",
    "tests/integration/test_kill.py",
    "tests/integration/test_local.py",
    "tests/integration/test_odd.py",
    "tests/integration/test_spider_classes.py",
    "tests/integration/test_wire.py",
]
"""What is tried on the oldest and the newest as well."""
READERS = ("cdxj-indexer", "fastwarc", "wacz", "warcio")
"""Commands that tests call beside the Python that runs them."""


def environment(version):
    """The Python of an environment with Scrapy *version*; its other packages are ours.

    It is made once, below ``.compat``.
    """
    place = ROOT / ".compat" / f"python-{version}"  # scrapy-... has its suite
    python = place / "bin" / "python"
    made = place / "made"
    if not made.exists():
        venv.create(place, clear=True, with_pip=True)
        pip = [python, "-m", "pip", "-qq", "--disable-pip-version-check", "install"]
        subprocess.run([*pip, f"scrapy=={version}"], check=True)
        (packages,) = place.glob("lib/python*/site-packages")
        ours = sysconfig.get_path("purelib")
        # Behind its own: of what both have, the environment's is found.
        (packages / "zz_ours.pth").write_text(
            f"{ROOT}\nimport site; site.addsitedir({ours!r})\n"
        )
        ours = Path(sysconfig.get_path("scripts"))
        for reader in READERS:
            (place / "bin" / reader).symlink_to(ours / reader)
        made.touch()
    return python


QUIET = (
    *("-W", "ignore:scrapy.http.FormRequest is deprecated"),  # what only 2.16 says
    *("-p", "no:twisted"),  # it runs a reactor where a test wants a loop of its own
)


@pytest.mark.parametrize("version", VERSIONS)
def test_short_suite_passes_on_each_scrapy_version(version):
    run(version, TESTS)


@pytest.mark.parametrize("version", [VERSIONS[0], VERSIONS[-1]])
def test_long_suite_passes_on_oldest_and_newest_scrapy(version):
    run(version, MORE)


def run(version, tests):
    """Run *tests* on Scrapy *version*; all of them pass."""
    python = environment(version)
    words = [python, "-c", "import scrapy; print(scrapy.__version__)"]
    assert output_of(words, cwd=ROOT).strip() == version

    variables = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    said = output_of(
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *QUIET, *tests],
        cwd=ROOT,
        env=variables,
    )

    summary = said.splitlines()[-1]
    passed = re.search(r"(\d+) passed", summary)
    assert passed is not None, summary
    assert int(passed[1]) > len(tests)
    assert "failed" not in summary
