"""Completion, and man pages in real formatters."""

import os
import shutil
import subprocess

import pytest

from tests.docs.console import ROOT
from tests.harness.commands import printed

MAN = sorted((ROOT / "share" / "man" / "man1").glob("*.1"))
HEAVY = (
    *("scrapy", "twisted", "lxml", "tldextract", "redis"),
    *("starlette", "uvicorn", "jinja2", "prometheus_client", "duckdb", "pyarrow"),
)
WORDS = {
    "frontier cra": ["plain,crawl"],
    "frontier crawl sta": ["plain,status"],
    "frontier crawl run --limit-": [
        f"plain,--limit-{what}" for what in ("pages", "time", "bytes")
    ],
}


def needs(tool):
    """Skip where *tool* is missing, but not where all of them have to be there."""
    if shutil.which(tool) is None and os.environ.get("TEST_SERVERS") != "all":
        pytest.skip(f"{tool} is not installed")


@pytest.mark.parametrize("line", WORDS)
def test_a_completion_imports_nothing_heavy(line, tmp_path):
    code = (
        "import atexit, sys\n"
        f"loaded = lambda: [name for name in {HEAVY} if name in sys.modules]\n"
        "atexit.register(lambda: print('loaded:', *loaded()))\n"
        "from frontier.cli import main\n"
        "sys.argv[0] = 'frontier'\n"
        "main()\n"
    )
    env = os.environ | {
        "COMP_WORDS": line,
        "COMP_CWORD": str(line.count(" ")),
        "_FRONTIER_COMPLETE": "bash_complete",
        "PYTHONPATH": str(ROOT),
    }

    said = printed(code, cwd=tmp_path, env=env)
    assert said.splitlines() == [*WORDS[line], "loaded:"]


@pytest.mark.parametrize(
    "command",
    [
        ["mandoc", "-Tlint", "-Wall"],
        ["groff", "-ww", "-man", "-Kutf8", "-Tutf8", "-z"],
        ["man", "--warnings", "-l"],
    ],
    ids=lambda command: command[0],
)
def test_no_formatter_complains_about_a_man_page(command):
    needs(command[0])
    assert len(MAN) > 10
    complaints = {}
    for page in MAN:
        done = subprocess.run(
            [*command, str(page)], capture_output=True, text=True, check=False
        )
        said = done.stderr + (done.stdout if "-Tlint" in command else "")
        if said or done.returncode:
            complaints[page.name] = said
    assert complaints == {}
